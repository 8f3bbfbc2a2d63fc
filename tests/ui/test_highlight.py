"""Colours of a big file, part by part, are those of the whole one."""

from __future__ import annotations

import pytest

from console.operations import source
from console.source import symbols
from console.ui.highlight import BLOCK_LINES, parse
from tests.ui.fakes import document

TEXT = (
    b'"""Doc.\n\nof several lines"""\n'
    + b"".join(
        b"class C%d:\n    def m(self) -> int:\n        '''Some.\n\n        text'''\n        return %d  # why\n\n"
        % (n, n)
        for n in range(400)
    )
    + b"def last(): return None\n"
)


def test_parts_have_the_colours_of_the_whole() -> None:
    lines = TEXT.split(b"\n")
    assert len(lines) > 5 * BLOCK_LINES
    whole, parts = parse("x.py", lines), parse("x.py", lines, whole=False)
    assert whole is not None and parts is not None
    for first in (0, BLOCK_LINES - 3, 2 * BLOCK_LINES - 1, len(lines) - 40):
        assert parts.of_lines(first, 40) == whole.of_lines(first, 40)


def test_what_is_not_known_has_none_and_odd_text_is_no_fault() -> None:
    assert parse("x.unknown", [b"x"]) is None
    for lines in ([], [b""], [b"\xff\xfe" * 5000, b"(" * 5000, b"'''" + b"[" * 40]):
        parts = parse("x.py", lines, whole=False)
        assert parts is not None
        parts.of_lines(0, 40)


def test_outline_of_a_big_file_never_builds_its_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    first = source.outline(document("/x.py", TEXT))
    monkeypatch.setattr(symbols, "_by_tree", lambda _: pytest.fail("the tree of a big file takes seconds"))
    big = document("/x.py", TEXT * (symbols.PARSE_LIMIT // len(TEXT) + 4))
    found = source.outline(big)
    assert [(one.qualified, one.first_line, one.last_line) for one in found[: len(first)]] == [
        (one.qualified, one.first_line, one.last_line) for one in first
    ]
