"""The right answers of the field cases of kind d."""

from __future__ import annotations

import ast
import hashlib

import pytest

from console.domain.patch import Applies, DiskState
from console.patching import overlaps
from console.patching.mapping import candidates
from console.patching.versions import Facts, fit
from tests.patching.cases import diff, edits, parts, planned, switched

BASE_SHA = "ec7a8929c4275e68a28f4afb42fe58df3f6b072f484154898f323602f4e0a5d3"


@pytest.fixture(scope="module")
def base() -> bytes:
    data = parts("D02.txt")["site-packages/vllm/v1/attention/base.py"]
    assert hashlib.sha256(data).hexdigest() == BASE_SHA
    return data


def test_d01_sed_lines_as_edits_with_counts() -> None:
    data = parts("D01.txt")["site-packages/vllm/platforms/cuda_checks.py"]
    file = "platforms/cuda_checks.py"
    files = {file: data}
    first = edits(("is_device_capability(120)", "is_device_capability_family(120)"), file=f"vllm/{file}", count=2)
    second = edits(("arch in [89, 120]", "arch == 89 or arch // 10 == 12"), file=file)
    third = edits(("enable_sm120_only", "enable_sm120_family"), file=file)
    assert planned(third, files).state is DiskState.CONFLICT
    assert planned(third, files).changes(on=True) == ()
    after = files
    for patch in (first, second):
        result = planned(patch, after)
        assert result.state is DiskState.OFF
        after = switched(after, result, on=True)
    assert b"MAX = 120" in after[file] and after[file].count(b"_family(120)") == 2
    ast.parse(after[file])
    assert planned(first, after).state is DiskState.ON
    assert planned(first, after).changes(on=True) == ()
    for patch in (first, second):  # off in the same order: they are disjoint
        after = switched(after, planned(patch, after), on=False)
    assert after == files


def test_d01_a_count_that_does_not_hold_is_a_conflict() -> None:
    data = parts("D01.txt")["site-packages/vllm/platforms/cuda_checks.py"]
    result = planned(edits(("is_device_capability(120)", "f(120)")), {"m.py": data})
    assert result.state is DiskState.CONFLICT
    assert "lines 2 and 8" in result.reason


def test_d02_an_offset_is_fine_and_only_the_meant_lines_change(base: bytes) -> None:
    files = {"v1/attention/base.py": base}
    patch = diff(parts("D02.txt")["offset.diff"])
    result = planned(patch, files)
    assert result.state is DiskState.OFF
    assert "line 22 (offset -6)" in result.reason
    after = switched(files, result, on=True)
    changed = [
        n
        for n, (a, b) in enumerate(zip(base.split(b"\n"), after["v1/attention/base.py"].split(b"\n"), strict=True), 1)
        if a != b
    ]
    assert changed == [24]
    again = planned(patch, after)
    assert again.state is DiskState.ON
    assert switched(after, again, on=False) == files


def test_d02_fuzz_is_seen_told_and_never_silent(base: bytes) -> None:
    files = {"v1/attention/base.py": base}
    patch = diff(parts("D02.txt")["fuzz.diff"])
    result = planned(patch, files)
    assert (result.state, result.needs_fuzz) == (DiskState.CONFLICT, True)
    assert "fuzz 1" in result.reason and "# choose a split count" in result.reason
    after = switched(files, result, on=True)
    assert after["v1/attention/base.py"] == base.replace(b"batch > 64", b"batch > 128")
    again = planned(patch, after)
    assert again.state is DiskState.ON
    assert switched(after, again, on=False) == files


def test_d02_one_hunk_that_fails_refuses_all_and_shows_the_nearest(base: bytes) -> None:
    result = planned(diff(parts("D02.txt")["partial_fail.diff"]), {"v1/attention/base.py": base})
    assert result.state is DiskState.CONFLICT
    assert result.changes(on=True) == () and not result.can_on
    assert "hunk at line 12" in result.reason and "line 18 is 'out = torch.empty_like(q)'" in result.reason


@pytest.mark.parametrize("name", ["p1_git.diff", "p1_site.diff", "abs.diff", "noprefix.diff"])
def test_d04_four_path_styles_mean_the_same_file(base: bytes, name: str) -> None:
    files = {"srt/layers/base.py": base}
    result = planned(diff(parts("D04.txt")[name]), files, "sglang")
    assert (result.state, result.files) == (DiskState.OFF, ("srt/layers/base.py",))
    assert any("is srt/layers/base.py here" in note for note in result.notes)
    assert switched(files, result, on=True)["srt/layers/base.py"] == base.replace(b"> 64", b"> 128")


def test_d04_a_bare_name_is_asked_about_never_guessed(base: bytes) -> None:
    patch = diff(parts("D04.txt")["svn_style.diff"])
    found = {"base.py": ["srt/layers/base.py", "srt/models/base.py"]}
    result = planned(patch, {"base.py": base, "srt/layers/base.py": base}, "sglang", found=found)
    assert result.state is DiskState.CONFLICT
    assert "srt/layers/base.py, srt/models/base.py" in result.reason
    assert result.changes(on=True) == ()


@pytest.mark.parametrize("path", ["a/../../etc/passwd", "../x.py"])
def test_d04_a_path_that_leaves_the_tree_is_invalid(path: str) -> None:
    text = f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n".encode()
    result = planned(diff(text), {}, "sglang")
    assert result.state is DiskState.INVALID
    assert "x.diff:1" in result.reason and "leaves the tree" in result.reason


def test_d04_an_absolute_path_is_taken_only_by_its_suffix_in_the_package() -> None:
    assert "srt/a.py" in candidates("/usr/local/lib/python3.12/dist-packages/sglang/srt/a.py", "sglang")
    text = b"--- /etc/hosts\n+++ /etc/hosts\n@@ -1 +1 @@\n-a\n+b\n"
    result = planned(diff(text), {}, "sglang")
    assert result.state is DiskState.CONFLICT and result.changes(on=True) == ()


def test_d06_two_matches_refuse_with_both_places_and_a_way_out() -> None:
    data = parts("D06.txt")["site-packages/vllm/v1/attention/base.py"]
    find = "    out = torch.empty_like(q)\n    return out, splits"
    replace = find.replace("empty", "zeros")
    files = {"v1/attention/base.py": data}
    result = planned(edits((find, replace), file="vllm/v1/attention/base.py"), files)
    assert result.state is DiskState.CONFLICT
    assert "twice" in result.reason and "lines 18 and 24" in result.reason and "count = 2" in result.reason
    assert result.changes(on=True) == ()
    both = planned(edits((find, replace), file="vllm/v1/attention/base.py", count=2), files)
    assert both.state is DiskState.OFF
    one = planned(edits((find, replace), file="v1/attention/base.py", within="forward_decode"), files)
    assert one.state is DiskState.OFF
    assert switched(files, one, on=True)["v1/attention/base.py"].index(b"zeros") > data.index(b"forward_decode")


def test_d06_overlapping_matches_are_two() -> None:
    assert planned(edits(("aa", "b")), {"m.py": b"aaa\n"}).state is DiskState.CONFLICT


def test_d08_a_development_version_excludes_nothing() -> None:
    found = fit(Applies(version=">=0.5.7,<0.5.13"), Facts("sglang", "0.3.1.dev217+g2acebda10"))
    assert found.outside == "" and "not reliable" in found.unknown[0]


def test_d09_a_hunk_that_disagrees_with_its_header_is_invalid(base: bytes) -> None:
    result = planned(diff(parts("D09.txt")["broken.diff"], "broken.diff"), {"v1/attention/base.py": base})
    assert result.state is DiskState.INVALID
    assert "broken.diff:4: hunk at line 4: header and body disagree" in result.reason


def test_d09_a_pull_request_as_mail(base: bytes) -> None:
    text = parts("D09.txt")["with_tests.diff"]
    files = {"v1/attention/base.py": base}
    whole = planned(diff(text), files)
    assert whole.state is DiskState.CONFLICT and whole.changes(on=True) == ()
    assert "tests/kernels/test_base.py" in " ".join(whole.files) and "skip" in whole.reason
    assert len(whole.files) == 4
    patch = diff(text, skip=("tests", "docs/"))
    result = planned(patch, files)
    assert result.state is DiskState.OFF
    assert sum(note.startswith("left out: ") for note in result.notes) == 2
    after = switched(files, result, on=True)
    assert after["v1/attention/new_helper.py"] == b"def helper():\n    return 1\n"
    assert after["v1/attention/base.py"] == base.replace(b"> 64", b"> 128")
    again = planned(patch, after)
    assert again.state is DiskState.ON
    assert switched(after, again, on=False) == files


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("old mode 100644\nnew mode 100644\n", "no change to the contents"),
        ("similarity index 100%\nrename from m.py\nrename to m.py\n", "to itself"),
        ("new file mode 120000\n--- /dev/null\n+++ b/m.py\n@@ -0,0 +1 @@\n+x\n", "a link or submodule"),
        ("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n+c\n", "header and body disagree"),
        ("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n a\n", "changes nothing"),
        ("--- a/m.py\n+++ b/m.py\n@@@ -1 -1 +1 @@@\n", "combined diff"),
    ],
)
def test_diffs_that_cannot_be_switched_say_why(head: str, told: str) -> None:
    result = planned(diff(f"diff --git a/m.py b/m.py\n{head}".encode()), {"m.py": b"a\n"}, "p")
    assert result.state is DiskState.INVALID and told in result.reason, result.reason


def test_names_with_blanks_and_quotes_are_read() -> None:
    text = b'diff --git "a/a \\303\\244.py" "b/a \\303\\244.py"\n--- "a/a \\303\\244.py"\n+++ "b/a \\303\\244.py"\n@@ -1 +1 @@\n-a\n+b\n'
    assert planned(diff(text), {"a \u00e4.py": b"a\n"}, "p").state is DiskState.OFF
    text = b"diff --git a/a b.py b/a b.py\n--- a/a b.py\t\n+++ b/a b.py\t\n@@ -1 +1 @@\n-a\n+b\n"
    assert planned(diff(text), {"a b.py": b"a\n"}, "p").state is DiskState.OFF


def test_a_file_without_final_newline_and_crlf_keep_their_ends() -> None:
    for data in (b"a\r\nb\r\nc", b"a\nb\nc", b"a\r\nb\r\nc\r\n"):
        result = planned(edits(("a\nb", "a\nx\nb")), {"m.py": data})
        after = switched({"m.py": data}, result, on=True)
        eol = b"\r\n" if b"\r" in data else b"\n"
        assert after["m.py"] == data.replace(b"b", b"x" + eol + b"b")
        assert switched(after, planned(edits(("a\nb", "a\nx\nb")), after), on=False)["m.py"] == data


def test_d10_order_conflict_and_the_lower_one() -> None:
    data = parts("D10.txt")["site-packages/vllm/v1/attention/base.py"]
    file = "v1/attention/base.py"
    a = edits(("    if batch > 64:", "    if batch > 128:"), file=file, name="A")
    b = edits(("    if batch > 128:\n        return 1", "    if batch > 128:\n        return 2"), file=file, name="B")
    c = edits(("    if batch > 64:", "    if batch > 32:"), file=file, name="C")
    start = {file: data}
    assert planned(b, start).state is DiskState.CONFLICT
    with_a = switched(start, planned(a, start), on=True)
    assert planned(c, with_a).state is DiskState.CONFLICT
    planner = lambda patch, files: planned(patch, {k: v for k, v in files.items() if v is not None})  # noqa: E731
    told = overlaps.explained(planned(c, with_a), [planned(a, with_a)], with_a, planner)
    assert told.reason.startswith("conflicts with A, which is on")
    with_b = switched(with_a, planned(b, with_a), on=True)
    assert with_b[file].split(b"\n")[10:12] == [b"    if batch > 128:", b"        return 2"]
    lower = planned(a, with_b)
    assert lower.state is DiskState.ON
    assert overlaps.broken_by(lower.changes(on=False), [planned(b, with_b)], with_b, planner) == ("B",)
    upper = planned(b, with_b)
    assert overlaps.broken_by(upper.changes(on=False), [lower], with_b, planner) == ()
    assert switched(switched(with_b, upper, on=False), planned(a, with_a), on=False) == start
