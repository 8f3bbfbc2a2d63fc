"""Editing a file of the host in one's own editor: what stays as it was, and when nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from console.domain.source import Place
from console.errors import AlreadySoError, DriftError, ReadOnlyError, RefusedError, UsageError
from console.operations import editing, patches
from console.operations.desk import Desk
from tests.local import desk, ssh_desk

__all__ = ["desk", "ssh_desk"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.delenv("VISUAL", raising=False)
    folder = tmp_path / "sglang"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    return folder


def typing(change: Callable[[bytes], bytes]) -> editing.RunEditor:
    def run(argv: Sequence[str]) -> int:
        path = Path(argv[-1])
        path.write_bytes(change(path.read_bytes()))
        return 0

    return run


def place(path: Path) -> Place:
    return Place(str(path), 1, 1, text=str(path))


@pytest.mark.parametrize(
    ("before", "typed", "after"),
    [
        (b"a = 1\n", b"a = 2\n", b"a = 2\n"),
        (b"a = 1\r\nb = 2\r\n", b"a = 1\nb = 3\n", b"a = 1\r\nb = 3\r\n"),
        (b"a = 1", b"a = 2\n", b"a = 2"),
        (b"a = 1\n", b"a = 2", b"a = 2\n"),
        (b"a = 1  # \xff\n", b"a = 2  # \xff\n", b"a = 2  # \xff\n"),
    ],
)
async def test_line_ends_final_newline_mode_and_link_stay(
    ssh_desk: Desk, package: Path, before: bytes, typed: bytes, after: bytes
) -> None:
    real, link = package / "real.txt", package / "a.txt"
    real.write_bytes(before)
    real.chmod(0o640)
    link.symlink_to("real.txt")
    ssh_desk.package_dirs = (str(package),)
    edited = await editing.edit(ssh_desk, place(link), typing(lambda _: typed))
    assert real.read_bytes() == after
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert edited.change.before == before
    receipt = await patches.undo(ssh_desk)
    assert receipt.verb == "edit"
    assert real.read_bytes() == before


async def test_drift_refuses_and_keeps_the_copy(desk: Desk, package: Path) -> None:
    file = package / "a.py"
    file.write_text("a = 1\n")

    def change(data: bytes) -> bytes:
        file.write_text("a = 3  # somebody else\n")
        return b"a = 2\n"

    with pytest.raises(DriftError) as caught:
        await editing.edit(desk, place(file), typing(change))
    kept = Path(caught.value.hint.rpartition("your copy is ")[2])
    assert kept.read_bytes() == b"a = 2\n"
    assert file.read_text() == "a = 3  # somebody else\n"


async def test_what_does_not_compile_is_kept_and_not_written(desk: Desk, package: Path) -> None:
    file = package / "a.py"
    file.write_text("a = 1\n")
    with pytest.raises(RefusedError, match="would not compile") as caught:
        await editing.edit(desk, place(file), typing(lambda _: b"a = (\n"))
    assert Path(caught.value.hint.rpartition("your copy is ")[2]).read_bytes() == b"a = (\n"
    assert file.read_text() == "a = 1\n"


async def test_no_change_an_editor_that_fails_binary_and_readonly_write_nothing(desk: Desk, package: Path) -> None:
    file = package / "a.py"
    file.write_text("a = 1\n")
    stamp = file.stat().st_mtime_ns
    with pytest.raises(AlreadySoError):
        await editing.edit(desk, place(file), typing(lambda data: data))
    with pytest.raises(UsageError, match="status 1"):
        await editing.edit(desk, place(file), lambda argv: 1)
    (package / "b").write_bytes(b"\0")
    with pytest.raises(UsageError, match="no text"):
        await editing.edit(desk, place(package / "b"), typing(lambda data: data))
    desk.readonly = True
    with pytest.raises(ReadOnlyError):
        await editing.edit(desk, place(file), typing(lambda _: b"a = 2\n"))
    assert file.stat().st_mtime_ns == stamp


async def test_an_edit_becomes_a_patch(desk: Desk, package: Path) -> None:
    (package / "a.py").write_text("a = 1\n")
    desk.package_dirs = (str(package),)
    edited = await editing.edit(desk, place(package / "a.py"), typing(lambda _: b"a = 2\n"))
    path = await editing.capture_edit(desk, edited, "mine")
    (status,) = await patches.statuses(desk, [str(path)])
    assert status.disk.value == "on"


@pytest.mark.parametrize(
    ("editor", "words"), [("vi", ["vi", "+7"]), ("code --wait", ["code", "--wait"]), ("nano -l", ["nano", "-l", "+7"])]
)
def test_the_line_goes_to_editors_that_know_how(
    editor: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / editor.split()[0]
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VISUAL", editor)
    assert editing.editor_argv(Path("/f"), 7) == [*words, "/f"]
