"""Unified diffs: exact against difflib, git and their own inverse."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.domain import diff as diffs
from console.domain.diff import counts, shown, unified, unified_bytes

LINES = st.lists(
    st.sampled_from([b"a", b"b", b"", b"c\r", b"-- x", b"+++ y", b"@@ -1 +1 @@", b"\xff\x00", b" d"]), max_size=30
)
CONTENT = st.builds(lambda lines, end: b"\n".join(lines) + end, LINES, st.sampled_from([b"", b"\n"]))


def _applied(before: bytes, patch: bytes) -> bytes:
    """A strict reader of unified diffs: every context and removed line must be there."""
    source = before.split(b"\n")
    source = [line + b"\n" for line in source[:-1]] + ([source[-1]] if source[-1] else [])
    out: list[bytes] = []
    at = 0
    lines = patch.split(b"\n")[2:-1]
    for number, line in enumerate(lines):
        if line.startswith(b"\\"):
            continue
        if line.startswith(b"@@ -"):
            old = line.split(b" ")[1][1:].split(b",")
            start, length = int(old[0]), int(old[1]) if len(old) > 1 else 1
            begin = start if length == 0 else start - 1
            out += source[at:begin]
            at = begin
            continue
        bare = number + 1 < len(lines) and lines[number + 1].startswith(b"\\")
        text = line[1:] + (b"" if bare else b"\n")
        if line[:1] in b" -":
            assert source[at] == text
            at += 1
        if line[:1] in b" +":
            out.append(text)
    return b"".join(out + source[at:])


@given(CONTENT, CONTENT, st.integers(0, 4))
@settings(max_examples=300)
def test_applying_a_diff_gives_the_other_side(before: bytes, after: bytes, context: int) -> None:
    patch = unified_bytes(before, after, "f", context)
    assert (patch == b"") == (before == after)
    if patch:
        assert _applied(before, patch) == after
        added, removed = counts(before, after)
        assert added + removed > 0


@given(CONTENT, CONTENT)
@settings(max_examples=100)
def test_too_big_a_middle_is_one_change_that_still_applies(before: bytes, after: bytes) -> None:
    limit, diffs.EFFORT_LIMIT = diffs.EFFORT_LIMIT, 0
    try:
        patch = unified_bytes(before, after, "f")
    finally:
        diffs.EFFORT_LIMIT = limit
    assert before == after or _applied(before, patch) == after


def test_headers_and_hunks_are_those_of_difflib() -> None:
    before = "".join(f"line {n}\n" for n in range(60))
    after = before.replace("line 7\n", "seven\n").replace("line 12\n", "").replace("line 40\n", "line 40\nmore\n")
    theirs = "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/x.py", "b/x.py"))
    assert unified_bytes(before.encode(), after.encode(), "x.py").decode() == theirs
    assert counts(before.encode(), after.encode()) == (2, 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"a\nc"),
        (b"a\r\nb\r\n", b"a\r\nB\r\n"),
        (b"", b"new\n"),
        (b"x\n", b""),
    ],
)
def test_git_applies_what_we_write(tmp_path: Path, before: bytes, after: bytes) -> None:
    git = shutil.which("git")
    assert git is not None
    (tmp_path / "f").write_bytes(before)
    patch = unified_bytes(before, after, "f")
    subprocess.run([git, "apply", "--whitespace=nowarn", "-"], input=patch, cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_bytes() == after


def test_created_and_removed_files_are_against_dev_null() -> None:
    assert unified_bytes(None, b"a\n", "f").split(b"\n")[:3] == [b"--- /dev/null", b"+++ b/f", b"@@ -0,0 +1 @@"]
    assert unified_bytes(b"a\n", None, "f").split(b"\n")[:3] == [b"--- a/f", b"+++ /dev/null", b"@@ -1 +0,0 @@"]


def test_what_cannot_be_seen_is_shown() -> None:
    lines = unified(b"a\r\n\x1b[31m[red]\n", b"a\n\x1b[31m[red]", "f")
    assert "-a␍" in lines
    assert "+␛[31m[red]" in lines
    assert lines[-1] == "\\ No newline at end of file"
    assert all(line.isprintable() for line in lines)
    assert shown(b"-x\r\n+x\n") == ("-x␍", "+x")
