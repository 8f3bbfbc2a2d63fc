"""Whether a server still answers with text: fixed prompts, greedy, judged against the base's own repeats.

Kernels that add in another order may change a word; a broken one gives what FP4 kernels on the wrong architecture
gave: one token repeated to the end, exclamation marks, nothing, or bytes that are no text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PROMPTS = (
    "The capital of France is",
    "Count from one to ten: one, two, three,",
    "Write one sentence about the sea.",
    "def fibonacci(n):\n    ",
    "Translate into German: good morning.\n",
    "The three states of water are",
)
TOKENS = 48
REPEATS = 2
"""Times that the base is asked each prompt: what differs between them is its own noise."""

FIRST_WORDS = 3
"""An answer agrees with another when it begins with the same words: later ones may part for good reasons."""

LONG_ENOUGH = 24
"""Characters from which repetition is judged."""

_RUN = re.compile(r"(.{1,12}?)\1{5,}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Told:
    """What the answer check says of an arm."""

    garbage: tuple[str, ...] = ()
    """A sentence for each answer that is none."""
    agreement: float | None = None
    """Share of prompts that it begins to answer as the base does."""
    base_agreement: float | None = None
    """The same of the base with itself."""
    blocked: str = ""
    """Why it must not be kept; empty when nothing speaks against it."""


def fault(answer: str) -> str:
    """Return what is wrong with an answer as text; empty when nothing is."""
    text = answer.strip()
    if not text:
        return "empty"
    odd = sum(1 for sign in text if sign == "\ufffd" or (not sign.isprintable() and sign not in "\n\r\t"))
    if odd > len(text) / 10:
        return f"{100 * odd / len(text):.0f} % of it is no text"
    if len(text) < LONG_ENOUGH:
        return ""
    if not any(sign.isalnum() for sign in text):
        return f"no letter and no digit in {text[:12]!r}…"
    longest = max((len(found[0]) for found in _RUN.finditer(text)), default=0)
    if longest > 0.6 * len(text):
        return f"one piece over and over: {text[:16]!r}…"
    words = text.split()
    if len(words) >= 12 and len({word.casefold() for word in words}) <= max(2, len(words) // 10):
        return f"{len(set(words))} different words in {len(words)}: {text[:24]!r}…"
    if len(zlib.compress(text.encode())) < 0.12 * len(text.encode()):
        return f"almost nothing but repetition: {text[:24]!r}…"
    return ""


def judge(base: Sequence[Sequence[str]], arm: Sequence[str], prompts: Sequence[str] = PROMPTS) -> Told:
    """Return what an arm's answers are worth beside the base's.

    Args:
        base: For each prompt the base's repeats.
        arm: For each prompt the arm's answer.
        prompts: What was asked.
    """
    faults = [(prompt, fault(answer)) for prompt, answer in zip(prompts, arm, strict=True)]
    garbage = tuple(f"{prompt.strip()[:28]!r}: {why}" for prompt, why in faults if why)
    usual = max((sum(bool(fault(repeats[at])) for repeats in base) for at in range(_fewest(base))), default=0)
    mine = _share([any(_begins(other, answer) for other in repeats) for repeats, answer in zip(base, arm, strict=True)])
    own = _share([_begins(repeats[0], repeats[-1]) for repeats in base if len(repeats) > 1])
    blocked = ""
    if len(garbage) > usual:
        blocked = f"{len(garbage)} of {len(arm)} answers are garbage ({usual} of the base's), as that to {garbage[0]}"
    elif mine is not None and own is not None and mine < own / 2 and (own - mine) * len(arm) >= 3:
        blocked = f"only {mine:.0%} of the answers begin as the base's, which agree with themselves in {own:.0%}"
    return Told(garbage, mine, own, blocked)


def plain(told: Told) -> Mapping[str, object]:
    """Return it as JSON."""
    return {
        "garbage": list(told.garbage),
        "agreement": told.agreement,
        "base_agreement": told.base_agreement,
        "blocked": told.blocked,
    }


def _begins(one: str, other: str) -> bool:
    return one.split()[:FIRST_WORDS] == other.split()[:FIRST_WORDS]


def _share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


def _fewest(base: Sequence[Sequence[str]]) -> int:
    return min((len(repeats) for repeats in base), default=0)
