"""Forms of edits and diffs beyond find and replace: inserted lines, whole files, renames, copies, modes, depth."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from console.config.patches import load_patch
from console.domain.patch import DiskState, Edit, EditKind, Patch
from console.errors import FormatError
from console.operations import patches
from console.operations.desk import Desk
from console.patching.plan import plan
from console.patching.versions import Facts
from tests.local import desk as desk
from tests.patching.cases import diff, planned, switched
from tests.wheels import commit_all, git

LINE = st.sampled_from(["a", "b", "  a", "log(a)", "", "é"])


def insert(kind: EditKind, find: str, text: str, count: int = 1) -> Patch:
    return Patch("p", edits=(Edit("m.py", find, text, count=count, kind=kind),))


@settings(max_examples=400, deadline=None)
@given(
    st.lists(LINE, min_size=1, max_size=10),
    st.sampled_from(["a", "log", "a\nb", "é"]),
    st.lists(LINE, min_size=1, max_size=2).map("\n".join).filter(bool),
    st.sampled_from([EditKind.INSERT_BEFORE, EditKind.INSERT_AFTER]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.integers(1, 2),
)
def test_inserted_lines_go_in_whole_and_out_again(
    rows: list[str], find: str, text: str, kind: EditKind, eol: str, final: bool, count: int
) -> None:
    data = (eol.join(rows) + (eol if final else "")).encode()
    assume(data)
    result = planned(insert(kind, find, text, count), {"m.py": data}, "p")
    if result.state is not DiskState.OFF:
        assert not result.can_on or result.state is not DiskState.CONFLICT
        return
    after = switched({"m.py": data}, result, on=True)
    eol = eol if eol.encode() in data else "\n"
    assert len(after["m.py"]) == len(data) + count * len((text.replace("\n", eol) + eol).encode())
    again = planned(insert(kind, find, text, count), after, "p", ours=True)
    assert again.state is DiskState.ON and again.changes(on=True) == ()
    if again.can_off:
        assert switched(after, again, on=False)["m.py"] == data


def test_lines_go_below_the_whole_anchor_line_not_into_it() -> None:
    data = b"def f():\r\n    run(1)  # here\r\n    return 2\r\n"
    result = planned(insert(EditKind.INSERT_AFTER, "run(1)", "    log(1)"), {"m.py": data}, "p")
    after = switched({"m.py": data}, result, on=True)["m.py"]
    assert after == b"def f():\r\n    run(1)  # here\r\n    log(1)\r\n    return 2\r\n"
    first = planned(insert(EditKind.INSERT_BEFORE, "def f", "X = 1\nY = 2"), {"m.py": data}, "p")
    assert switched({"m.py": data}, first, on=True)["m.py"] == b"X = 1\r\nY = 2\r\n" + data


def test_a_block_in_a_named_def_is_found_at_another_depth() -> None:
    before = b"class A:\n    def f(self):\n        if x:\n            go(1)\n            go(2)\n"
    deeper = b"class A:\n    def f(self):\n        with y:\n            if x:\n                go(1)\n                go(2)\n"
    patch = Patch(
        "p", edits=(Edit("m.py", "        if x:\n            go(1)", "        if x and z:\n            go(3)", "A.f"),)
    )
    assert planned(patch, {"m.py": before}, "p").state is DiskState.OFF
    result = planned(patch, {"m.py": deeper}, "p")
    assert result.state is DiskState.OFF and "indented by +4" in result.reason
    after = switched({"m.py": deeper}, result, on=True)
    assert after["m.py"] == deeper.replace(b"if x:", b"if x and z:").replace(b"go(1)", b"go(3)")
    back = planned(patch, after, "p")
    assert back.state is DiskState.ON
    assert switched(after, back, on=False)["m.py"] == deeper
    anywhere = Patch("p", edits=(Edit("m.py", patch.edits[0].find, patch.edits[0].replace),))
    assert planned(anywhere, {"m.py": deeper}, "p").state is DiskState.CONFLICT


def test_whole_files_are_made_and_removed_by_edits() -> None:
    patch = Patch(
        "p",
        edits=(Edit("p/new/x.py", "", "x = 1\n", kind=EditKind.CREATE), Edit("old.py", "", "", kind=EditKind.DELETE)),
    )
    files = {"old.py": b"old\n"}
    result = planned(patch, files, "p")
    assert result.state is DiskState.OFF
    after = switched(files, result, on=True)
    assert after == {"new/x.py": b"x = 1\n"}
    on = planned(patch, after, "p")
    assert on.state is DiskState.ON and not on.can_off  # what old.py held, only the host's journal knows
    other = planned(patch, {"new/x.py": b"theirs\n", "old.py": b"old\n"}, "p")
    assert other.state is DiskState.CONFLICT and "other contents" in other.reason


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('find = "x"\nreplace = "y"\ninsert_after = "z"', "has replace and insert_after"),
        ('find = "x"\ncreate = "y"', "edit[1].find: has no meaning beside create"),
        ("delete = true\ncount = 2", "edit[1].count: has no meaning beside delete"),
        ('create = ""', "create"),
        ('find = "x"\ninsert_before = ""', "insert_before"),
    ],
)
def test_edits_that_say_two_things_are_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "p.toml").write_text(f'[[edit]]\nfile = "a.py"\n{text}\n')
    with pytest.raises(FormatError) as caught:
        load_patch(tmp_path / "p.toml")
    assert told.replace(":", "") in caught.value.one_line().replace(":", ""), caught.value.one_line()


RENAMES = {
    "rename": ("similarity index 100%\nrename from eng/a.py\nrename to eng/sub/b.py\n", ""),
    "rename with a hunk": (
        "similarity index 60%\nrename from eng/a.py\nrename to eng/sub/b.py\n--- a/eng/a.py\n+++ b/eng/sub/b.py\n",
        "@@ -1,3 +1,3 @@\n a = 1\n-b = 1\n+b = 2\n c = 1\n",
    ),
    "copy": ("similarity index 100%\ncopy from eng/a.py\ncopy to eng/sub/b.py\n", ""),
    "mode": ("old mode 100644\nnew mode 100755\n", ""),
    "mode and hunk": (
        "old mode 100644\nnew mode 100755\n--- a/eng/a.py\n+++ b/eng/a.py\n",
        "@@ -1,3 +1,3 @@\n a = 1\n-b = 1\n+b = 2\n c = 1\n",
    ),
    "rename that becomes executable": (
        "old mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from eng/a.py\nrename to eng/sub/b.py\n",
        "",
    ),
}


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts and ".tokwatt" not in path.parts
    }


@pytest.mark.parametrize("name", list(RENAMES))
async def test_renames_copies_and_modes_end_as_git_makes_them(desk: Desk, tmp_path: Path, name: str) -> None:
    head, body = RENAMES[name]
    new = "eng/a.py" if "rename to" not in head and "copy to" not in head else "eng/sub/b.py"
    (tmp_path / "p.diff").write_text(f"diff --git a/eng/a.py b/{new}\n{head}{body}")
    by_git, by_us = tmp_path / "git", tmp_path / "us"
    for folder in (by_git, by_us):
        (folder / "eng/sub").mkdir(parents=True)
        (folder / "eng/__init__.py").touch()
        (folder / "eng/a.py").write_text("a = 1\nb = 1\nc = 1\n")
        (folder / "eng/a.py").chmod(0o644)
        (folder / "eng/sub/other.py").write_text("x = 1\n")
        commit_all(folder)
    before = tree(by_us)
    git(by_git, "apply", str(tmp_path / "p.diff"))
    desk.package_dirs = (str(by_us / "eng"),)
    receipt = await patches.apply(desk, str(tmp_path / "p.diff"))
    assert tree(by_us) == tree(by_git) != before, receipt
    assert (await patches.statuses(desk, [str(tmp_path / "p.diff")]))[0].disk is DiskState.ON
    await patches.revert(desk, str(tmp_path / "p.diff"))
    assert tree(by_us) == before
    assert git(by_us, "status", "--short") == ""
    git(by_us, "apply", str(tmp_path / "p.diff"))  # somebody else's hand: off by its own definition
    await patches.revert(desk, str(tmp_path / "p.diff"))
    assert git(by_us, "status", "--short") == ""
    await patches.undo(desk)
    assert tree(by_us) == tree(by_git)


async def test_a_file_that_an_edit_removed_comes_back_with_its_mode(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "eng").mkdir()
    (tmp_path / "eng/__init__.py").touch()
    script = tmp_path / "eng/run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o750)
    (tmp_path / "p.toml").write_text('[[edit]]\nfile = "run.sh"\ndelete = true\n')
    desk.package_dirs = (str(tmp_path / "eng"),)
    await patches.apply(desk, str(tmp_path / "p.toml"))
    assert os.listdir(tmp_path / "eng") == ["__init__.py"]
    await patches.revert(desk, str(tmp_path / "p.toml"))
    assert (script.read_text(), script.stat().st_mode & 0o777) == ("#!/bin/sh\n", 0o750)


def test_a_mode_that_cannot_be_read_is_no_state() -> None:
    patch = diff(b"diff --git a/m.py b/m.py\nold mode 100644\nnew mode 100755\n")
    result = planned(patch, {"m.py": b"x\n"}, "p")
    assert result.state is DiskState.CONFLICT and "mode cannot be read" in result.reason
    known = plan(patch, {"m.py": b"x\n"}, Facts("p"), modes={"m.py": 0o640})
    assert known.changes(on=True)[0].mode == 0o750


def test_a_rename_onto_a_file_that_is_there_refuses() -> None:
    patch = diff(b"diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n")
    result = planned(patch, {"a.py": b"a\n", "b.py": b"b\n"}, "p")
    assert result.state is DiskState.CONFLICT and "both there" in result.reason
    assert result.changes(on=True) == ()
