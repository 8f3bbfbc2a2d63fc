"""Conflicts from three sides: expected, there, wanted."""

from __future__ import annotations

from console.domain.patch import DiskState
from console.patching.conflicts import nearest_block, rendered, three_way
from tests.patching.cases import diff, edits, parts, planned

BASE = parts("D02.txt")["site-packages/vllm/v1/attention/base.py"]
FILES = {"v1/attention/base.py": BASE}


def test_d02_a_failing_hunk_shows_its_nearest_text() -> None:
    result = planned(diff(parts("D02.txt")["partial_fail.diff"]), FILES)
    (found,) = three_way(result)
    assert (found.file, found.line) == ("v1/attention/base.py", 15)
    assert "    out = torch.empty(q.shape)" in found.expected
    assert "    out = torch.empty_like(q)" in found.there
    lines = rendered((found,))
    assert lines[0].startswith("!!! v1/attention/base.py: hunk at line 12 not found")
    assert "?     out = torch.empty(q.shape)" in lines and "!     out = torch.empty_like(q)" in lines
    assert "--- is there, line 15" in lines
    assert [line for line in lines if line.startswith("+")]


def test_fuzz_shows_the_context_that_differs() -> None:
    (found,) = three_way(planned(diff(parts("D02.txt")["fuzz.diff"]), FILES))
    assert "only with fuzz 1" in found.why
    assert "# choose a split count" in found.expected and "# choose a split count" not in found.there
    assert "    if batch > 64:" in found.there and "    if batch > 128:" in found.wants


def test_an_edit_whose_text_changed_shows_the_line_that_is_most_like_it() -> None:
    result = planned(edits(("    if batch >= 64:", "    if batch >= 128:"), file="v1/attention/base.py"), FILES)
    (found,) = three_way(result)
    assert found.there == ("    if batch > 64:",) and found.line == 11
    assert rendered((found,))[1:] == (
        "--- expected",
        "?     if batch >= 64:",
        "--- is there, line 11",
        "!     if batch > 64:",
        "--- wants",
        "+     if batch >= 128:",
    )


def test_what_is_nowhere_says_so_and_what_fits_has_no_sides() -> None:
    result = planned(edits(("zzz_qqq", "y"), file="v1/attention/base.py"), FILES)
    assert "--- nothing like it is there" in rendered(three_way(result))
    fits = planned(edits(("    if batch > 64:", "    if batch > 65:"), file="v1/attention/base.py"), FILES)
    assert fits.state is DiskState.OFF and three_way(fits) == ()


def test_escapes_in_a_file_are_made_safe() -> None:
    result = planned(edits(("alpha beta gamma", "x")), {"m.py": b"alpha beta \x1b[31mgamma!\n"}, "p")
    assert "\x1b" not in "".join(rendered(three_way(result)))


def test_lines_put_in_between_upstream_are_taken_in() -> None:
    there = ["def f():", "    one()", "    new()", "    two()", "    three()", "def g():"]
    assert nearest_block(there, ["    one()", "    two()", "    three()"]) == (1, 5)
