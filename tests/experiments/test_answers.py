"""Garbage is told from text, and an arm is judged against the base's own noise."""

from __future__ import annotations

import pytest

from console.experiments.answers import PROMPTS, fault, judge

TEXTS = (
    " Paris. It is the largest city of the country and lies on the Seine.",
    " four, five, six, seven, eight, nine, ten.",
    "The sea was calm, and the boats came home one after the other.",
    "if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    "Guten Morgen.",
    " solid, liquid and gas: ice, water and steam.",
)
BASE = tuple((text, text) for text in TEXTS)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("!" * 48, "no letter"),
        ("!!!! !!!! !!!! !!!! !!!! !!!!", "no letter"),
        (" the the the the the the the the the the the the the", "over and over"),
        ("\ufffd\ufffd\x00\x01 a \ufffd\ufffd\ufffd", "no text"),
        ("Paris Paris. " + "0" * 60, "over and over"),
        ("a b a b b a a b a a b b a b a b a a b", "different words"),
    ],
)
def test_garbage_is_told(answer: str, said: str) -> None:
    assert said in fault(answer)


@pytest.mark.parametrize(
    "answer", [*TEXTS, "4", "日本の首都は東京です。とても大きな街です。", "1, 1, 2, 3, 5, 8, 13, 21, 34, 55"]
)
def test_text_is_text(answer: str) -> None:
    assert fault(answer) == ""


def test_the_known_failure_of_fp4_kernels_blocks() -> None:
    told = judge(BASE, ["!" * 48] * len(PROMPTS))
    assert "6 of 6 answers are garbage" in told.blocked


def test_a_word_that_parts_late_does_not_block() -> None:
    arm = [*TEXTS[:-1], " solid, liquid and vapour, as everybody knows."]
    told = judge(BASE, arm)
    assert (told.blocked, told.agreement, told.base_agreement) == ("", 1.0, 1.0)


def test_other_answers_block_where_the_base_agrees_with_itself() -> None:
    arm = [
        "Well, this is another answer.",
        "I cannot count at all, sorry.",
        *TEXTS[2:3],
        *["Nobody knows that now."] * 3,
    ]
    assert "17%" in judge(BASE, arm).blocked


def test_a_model_that_never_says_the_same_twice_blocks_nothing() -> None:
    base = [(f"one {number} is this", f"two {number} is that") for number in range(6)]
    assert judge(base, [f"three {number} is other" for number in range(6)]).blocked == ""


def test_a_base_that_talks_garbage_itself_is_the_measure() -> None:
    """A random model of a test does that: its arms must not be blamed for it."""
    base = [("!" * 48, "!" * 48)] * 6
    assert judge(base, ["!" * 48] * 6).blocked == ""
