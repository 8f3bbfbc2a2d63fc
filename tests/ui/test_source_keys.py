"""Every key of the source pane, over the real outpost on this machine."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from console.operations import source
from console.operations.desk import Desk
from console.source.documents import Folder
from tests.ui.reading import FindModal, GrepModal, PickModal, PromptModal, plant, reading


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return plant(tmp_path / "tree")


async def test_find_next_previous_case_line_wrap_and_white_space(tree: Path) -> None:
    async with reading(tree) as at:
        code = at.pane.code
        await at.open(tree / "code.py")
        await at.answer("slash", PromptModal, "needle")
        assert code.line_number == 7
        await at.press("n")
        assert code.line_number == 9
        await at.press("n", "n")
        assert code.line_number == 14  # a small pattern finds capitals, too
        await at.press("N")
        assert code.line_number == 10
        await at.press("i", "n")
        assert code.line_number == 7  # now it does not
        await at.answer("slash", PromptModal, "not there")
        await at.see("not there: not in this file")
        await at.answer("ctrl+g", PromptModal, "12")
        assert code.line_number == 12
        await at.answer("ctrl+g", PromptModal, "$")
        assert code.line_number == 18
        await at.answer("ctrl+g", PromptModal, "x")
        await at.see("x: not a line number")

        await at.open(tree / "wide.py")
        assert code.count() == 3
        await at.press("w")
        assert code.count() > 5
        assert "↪" in at.text
        await at.press("w", "W")
        assert code.count() == 3
        await at.press("down")
        assert "→       y·" not in at.text and "→" in at.text and "··␍" in at.text
        assert "∅ no newline at the end" in at.text
        assert "mixed line ends · no final newline" in at.text


async def test_outline_whole_def_history_and_marks(tree: Path) -> None:
    async with reading(tree) as at:
        code = at.pane.code
        await at.open(tree / "code.py")
        await at.answer("o", PickModal, "stop")
        assert code.line_number == 13
        assert "def stop" in at.text
        await at.press("d")
        await at.see("only def stop")
        assert code.count() == 2
        trips = at.app.desk.link.round_trips if at.app.desk else 0
        await at.press("d")
        assert code.count() == 18 and code.line_number == 13
        assert at.app.desk is not None and at.app.desk.link.round_trips == trips
        await at.press("m")
        await at.see("line 13 marked")
        await at.open(tree / "wide.py")
        await at.press("less_than_sign")
        await at.until(lambda: code.document is not None and code.document.path.endswith("code.py"))
        assert code.line_number == 13
        await at.press("greater_than_sign")
        await at.until(lambda: code.document is not None and code.document.path.endswith("wide.py"))
        await at.answer("apostrophe", PickModal, "")
        await at.until(lambda: code.document is not None and code.document.path.endswith("code.py"))
        assert code.line_number == 13
        await at.press("m")
        await at.see("line 13 not marked any more")


async def test_copying_gives_plain_text_of_line_range_and_place(tree: Path) -> None:
    (tree / "evil.py").write_bytes(b"a = '\x1b]52;c;eA==\x07\x1b[31m'\nb = '[markup] \xe2\x80\xae\x00'\n")
    async with reading(tree) as at:
        await at.open(tree / "code.py", 9)
        await at.press("y")
        assert at.app.clipboard == "        if needle:"
        await at.press("v", "down", "down")
        assert "lines 9-11 picked" in at.text
        await at.press("Y")
        assert at.app.clipboard == f"{tree}/code.py:9-11"
        await at.press("y")
        assert at.app.clipboard == "        if needle:\n            return needle\n        return None"
        await at.press("Y")
        assert at.app.clipboard == f"{tree}/code.py:11"
        await at.press("v", "escape")
        assert at.pane.code.picking is None
        (tree / "evil.py").write_bytes((tree / "evil.py").read_bytes().replace(b"\x00", b""))
        await at.open(tree / "evil.py")
        await at.press("y")
        assert at.app.clipboard.isprintable()
        assert "]52;c;" in at.app.clipboard and "\x1b" not in at.app.clipboard


async def test_definition_and_references_across_files(tree: Path) -> None:
    async with reading(tree) as at:
        await at.open(tree / "deep/below/other_runner.py", 3)
        await at.answer("t", PickModal, "Runner")
        await at.until(lambda: at.pane.here is not None and at.pane.here.path == str(tree / "code.py"))
        assert at.pane.here is not None and at.pane.here.line == 4
        await at.answer("r", PickModal, "Runner")
        await at.see("4 lines in 2 files")
        await at.until(lambda: not at.pane.hits.running)
        assert [row.word for row in at.pane.hits.rows if row.hit] == ["class", "call", "import", "call"]
        assert "in make" in at.text
        await at.press("n", "enter")
        await at.until(lambda: at.pane.views[-1] == "code" and at.pane.code.line_number == 18)
        await at.press("right_square_bracket")
        await at.until(lambda: at.pane.here is not None and at.pane.here.path.endswith("other_runner.py"))


async def test_any_file_by_letters_and_the_names_are_asked_for_once(tree: Path) -> None:
    async with reading(tree) as at:
        await at.press("F")
        await at.until(lambda: isinstance(at.app.screen, FindModal))
        await at.see("model_runner.py  deep/below/here")
        await at.press(*"mr:1", "enter")
        await at.until(lambda: at.pane.here is not None and at.pane.here.path.endswith("here/model_runner.py"))
        await at.press("F")
        await at.until(lambda: isinstance(at.app.screen, FindModal))
        await at.see("model_runner.py  deep/below/here")
        await at.press(*"zzz")
        await at.see("no file's name has these letters in order")
        await at.press("escape")
        assert at.app.desk is not None
        assert len([record for record in at.app.desk.commands if record.text.startswith("names ")]) == 1


async def test_the_tree_filter_reaches_names_that_are_not_loaded(tree: Path) -> None:
    async with reading(tree) as at:
        assert "other_runner.py" not in at.text
        await at.see("link.py → code.py")
        assert "broken → nowhere  leads nowhere" in at.text
        await at.press("slash", *"runner")
        await at.see("other_runner.py")
        assert [node.entry.name for node in at.pane.files.nodes] == [
            "deep",
            "below",
            "here",
            "model_runner.py",
            "other_runner.py",
        ]
        await at.press("escape")
        assert "other_runner.py" not in at.text
        await at.press("slash", *"here", "enter")
        await at.until(lambda: at.pane.files.is_open(str(tree / "deep/below/here")))
        await at.see("model_runner.py")
        assert at.pane.files.nodes[at.pane.files.cursor].entry.name == "here"
        await at.press("slash", *"low/other", "enter")
        await at.until(lambda: at.pane.here is not None and at.pane.here.path.endswith("other_runner.py"))


async def test_a_tree_that_comes_late_does_not_take_the_place_of_the_one_shown(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()
    page = source.page

    async def slowly(desk: Desk, path: str = "", **part: int) -> Folder:
        found = await page(desk, path, **part)
        if path == str(tree):
            await answered.wait()
        return found

    async with reading(tree) as at:
        monkeypatch.setattr(source, "page", slowly)
        late = asyncio.create_task(at.pane.load_tree())
        await at.pane.show_folder(str(tree / "deep"))
        answered.set()
        await late
        await at.see("below/")
        assert [node.entry.name for node in at.pane.files.nodes] == ["below"]


async def test_a_folder_that_is_not_there_leaves_the_tree(tree: Path) -> None:
    async with reading(tree) as at:
        await at.press("T")
        await at.until(lambda: isinstance(at.app.screen, PickModal))
        await at.press(*"/no/such/folder", "enter")
        await at.until(lambda: at.app.screen is at.app.cockpit)
        await at.see("/no/such/folder")
        assert at.pane.folder == str(tree)
        await at.see("link.py → code.py")


async def test_a_stopped_search_ends_on_the_host(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tree / "never")  # grep -r passes pipes by; one that is named is read, for ever
    async with reading(tree) as at:
        await at.press("f")
        await at.until(lambda: isinstance(at.app.screen, GrepModal))
        await at.press(*"nothing-like-this", "tab", *str(tree / "never"), "enter")
        await at.until(lambda: at.pane.hits.running and greps(tree))
        (pid,) = greps(tree)
        await at.press("S")
        await at.until(lambda: not at.pane.hits.running)
        await at.until(lambda: pid not in greps(tree))
        assert "stopped" in at.text


def greps(folder: Path) -> list[int]:
    """Return the processes that search a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if argv[:1] == [b"grep"] and any(os.fsencode(folder) in word for word in argv):
            found.append(int(entry.name))
    return found
