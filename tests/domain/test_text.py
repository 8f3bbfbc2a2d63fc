from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.text import clean, dash, strip_sequences


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b"\x1b]52;c;ZXZpbA==\x07after", "␛]52;c;ZXZpbA==␇after"),
        (b"\x9b31mred", "�31mred"),
        ("c1 \x9b".encode(), "c1 <9b>"),
        (b"nul\x00byte", "nul␀byte"),
        ("bidi \u202eevil".encode(), "bidi <U+202E>evil"),
        (b"tab\tx", "tab     x"),
        (b"line\r\n", "line"),
        (b"two\nlines", "two␊lines"),
        (b"bad \x92\xff end", "bad �� end"),
        (b"[bold]x[/oops]", "[bold]x[/oops]"),
    ],
)
def test_hostile_text_is_shown_inertly(raw: bytes, shown: str) -> None:
    assert clean(raw) == shown


def test_long_lines_are_clipped_and_counted() -> None:
    text = clean(b"x" * 10_000, limit=100)
    assert text == "x" * 100 + " … [+9900 bytes]"


@given(st.one_of(st.binary(), st.text()))
def test_nothing_that_acts_on_a_terminal_survives(raw: bytes | str) -> None:
    text = clean(raw)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in text)
    text.encode()


def test_sequences_are_stripped_for_parsers() -> None:
    assert strip_sequences("\x1b[0;36m(APIServer pid=1)\x1b[0;0m INFO") == "(APIServer pid=1) INFO"
    assert strip_sequences("\x1b]0;title\x07text") == "text"


def test_unknown_is_a_dash() -> None:
    assert dash(None) == "—"
    assert dash(float("nan")) == "—"
    assert dash(0.0) == "0"
    assert dash(1234.5, 1) == "1,234.5"
