"""The source pane over this machine: the real outpost, the real operations, a small tree of files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from console.ui.app import TokwattApp
from console.ui.modals.find import FindModal
from console.ui.modals.grep import GrepModal
from console.ui.modals.pick import PickModal
from console.ui.modals.prompt import PromptModal
from console.ui.options import Options
from console.ui.panes.source import SourcePane
from tests.ui.waiting import shown, until

CODE = '''\
import os


class Runner:
    """Runs."""

    def start(self, needle):
        """Begin."""
        if needle:
            return needle
        return None

    def stop(self):
        return self.start("Needle")


def make():
    return Runner()
'''


def plant(folder: Path) -> Path:
    """Write a tree of files and return its top folder."""
    (folder / "deep/below/here").mkdir(parents=True)
    (folder / "deep/below/here/model_runner.py").write_text("needle = 1\n")
    (folder / "deep/below/other_runner.py").write_text("from code import Runner\n\nRunner()\n")
    (folder / "code.py").write_text(CODE)
    (folder / "wide.py").write_bytes(b"x = '" + b"ab" * 200 + b"'\n\ty = 1  \r\nlast")
    (folder / "link.py").symlink_to("code.py")
    (folder / "broken").symlink_to("nowhere")
    return folder


class Reader:
    """Hands on the keys of the source pane."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot

    @property
    def app(self) -> TokwattApp:
        app: TokwattApp = self.pilot.app  # type: ignore[assignment]
        return app

    @property
    def pane(self) -> SourcePane:
        return self.app.cockpit.source

    @property
    def text(self) -> str:
        return shown(self.app)

    async def until(self, true: Any) -> None:
        await until(self.pilot, true)

    async def see(self, text: str) -> None:
        await until(self.pilot, lambda: text in self.text)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def answer(self, key: str, modal: type[Any], text: str) -> None:
        """Press a key that asks, type the answer, enter."""
        await self.press(key)
        await self.until(lambda: isinstance(self.app.screen, modal))
        await self.press(*text)
        await self.press("enter")
        await self.until(lambda: self.app.screen is self.app.cockpit)

    async def open(self, path: Path, line: int = 1) -> None:
        """Open a file as the tree does, and wait for its defs."""
        self.pane.open(str(path), line)
        await self.until(lambda: self.pane.code.document is not None and self.pane.code.document.path == str(path))
        await self.until(lambda: not str(path).endswith(".py") or self.pane.symbols_known)
        await self.until(lambda: self.pane.code.line_number == line)
        self.pane.view.focus()
        await self.until(lambda: self.pane.view.has_focus)


@asynccontextmanager
async def reading(
    folder: Path, size: tuple[int, int] = (120, 40), profile: Path | None = None
) -> AsyncIterator[Reader]:
    """Hold a cockpit on host `local` with the tree of a folder in front."""
    app = TokwattApp(Options(("local",), profile=str(profile) if profile else None))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.cockpit.furnished and app.desk is not None, seconds=60)
        reader = Reader(pilot)
        await until(pilot, lambda: app.cockpit.patches.list.asked, seconds=60)
        await reader.pane.show_folder(str(folder))
        reader.pane.view.focus()
        await until(pilot, lambda: reader.pane.view.has_focus)
        try:
            yield reader
        finally:
            if app.desk is not None:
                await app.leave()


__all__ = ["FindModal", "GrepModal", "PickModal", "PromptModal", "Reader", "plant", "reading"]
