"""Comparisons as rows: exact patches, white space, words, both views."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.comparison import Comparison, FilePair
from console.source.compare import flat, patch_text, rows, words

LINES = st.lists(st.sampled_from(["a", "b", "  b", "c c", "", "\tx", "@@ -1 +1 @@", "-- d"]), max_size=20)
CONTENT = st.builds(lambda lines, end: ("\n".join(lines) + end).encode(), LINES, st.sampled_from(["", "\n"]))


def of(before: bytes | None, after: bytes | None) -> Comparison:
    return Comparison("left", "right", (FilePair("f.py", before, after),))


@given(CONTENT, CONTENT, st.integers(0, 3), st.booleans())
def test_both_views_hold_every_changed_line_once(before: bytes, after: bytes, context: int, ignore: bool) -> None:
    paired = rows(of(before, after), context=context, ignore_space=ignore)
    for view in (paired, flat(paired)):
        left = [row.left for row in view if row.left and row.kind in ("same", "changed", "removed")]
        assert left == sorted(set(left))
    assert sum(row.kind == "hunk" for row in paired) == sum(row.kind == "hunk" for row in flat(paired))


def test_each_hunk_alone_is_a_patch_that_git_takes(tmp_path: Path) -> None:
    before = "".join(f"line {number}\n" for number in range(40)).encode()
    after = before.replace(b"line 3\n", b"LINE 3\n").replace(b"line 30\n", b"@@ -1 +1 @@\nline 30\n")
    whole = of(before, after)
    assert [row.hunk for row in rows(whole) if row.kind == "hunk"] == [0, 1]
    for hunk, wanted in enumerate((b"LINE 3", b"@@ -1 +1 @@")):
        (tmp_path / "f.py").write_bytes(before)
        patch = patch_text(whole, file=0, hunk=hunk)
        subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
        done = (tmp_path / "f.py").read_bytes()
        assert wanted in done
        assert done not in (before, after)


def test_white_space_can_be_left_out_but_never_of_a_patch() -> None:
    one = of(b"if x:\n    y\nz\n", b"if x:\n        y\nz \n")
    assert [row.kind for row in rows(one, ignore_space=True)] == ["file", "note"]
    assert b"-    y\n" in patch_text(one)


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("return _is_sm90", "return _is_sm90 or _is_sm120", ((), ((15, 28),))),
        ("x = 1", "x = 2", (((4, 5),), ((4, 5),))),
        ("abc", "(!)", ((), ())),
    ],
)
def test_words_that_differ(before: str, after: str, parts: object) -> None:
    assert words(before, after) == parts


def test_binary_missing_and_lost_files_say_so() -> None:
    pairs = (
        FilePair("b", b"\0a", b"\0b"),
        FilePair("new", None, b"x"),
        FilePair("lost", None, None, "no longer to be had"),
    )
    shown = rows(Comparison("l", "r", pairs))
    assert [row.before for row in shown if row.kind == "note"] == ["binary: 2 bytes → 2 bytes", "no longer to be had"]
    assert "∅ no newline at the end" in shown[-3].after
    assert patch_text(Comparison("l", "r", pairs)).startswith(b"--- /dev/null\n+++ b/new\n")
