"""Source pane: the tree, one file, hits of a search, the diff to HEAD; `esc` goes one back."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from console.domain.source import GrepHit, Symbol
from console.domain.text import clean
from console.errors import ConsoleError, UsageError
from console.operations.catalogue import verbs_of
from console.ui.modals.prompt import PromptModal
from console.ui.widgets.code import CodeView
from console.ui.widgets.diff import DiffView, counts
from console.ui.widgets.frame import Framed
from console.ui.widgets.hits import HitsView
from console.ui.widgets.lines import Lines
from console.ui.widgets.tree import TreeView
from console.ui.worker import launch, owner

HITS_MOST = 20_000

COLOURED_MOST_BYTES = 2_000_000
OUTLINED_MOST_BYTES = 1_000_000
"""Parsers hold the interpreter's lock: of a bigger file they would freeze the screen for seconds."""


def pattern_of(text: str) -> re.Pattern[str]:
    """Return a pattern, caseless unless it has a capital letter.

    Raises:
        UsageError: It is not a regular expression.
    """
    try:
        return re.compile(text, 0 if any(map(str.isupper, text)) else re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"{text}: not a regular expression", str(error), "write \\[ for a bracket") from None


class SourcePane(Vertical, Framed):
    """The engine's code on the host."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(",".join(verb.keys), verb.id, verb.title, show=False) for verb in verbs_of("source")),
        Binding("n", "step(1)", show=False),
        Binding("N", "step(-1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="source")
        self.views = ["tree"]
        self._symbols: tuple[str, tuple[Symbol, ...]] = ("", ())
        self._place = ""

    def compose(self) -> ComposeResult:
        """Lay the views over each other; one is shown."""
        yield TreeView()
        yield CodeView()
        yield HitsView()
        yield DiffView("source-diff", "the working tree is as HEAD says")

    def on_mount(self) -> None:
        """Show the tree."""
        self._turn()

    @property
    def files(self) -> TreeView:
        """The tree."""
        return self.query_one(TreeView)

    @property
    def code(self) -> CodeView:
        """The open file."""
        return self.query_one(CodeView)

    @property
    def view(self) -> Lines:
        """What is shown."""
        return self.query_one(f"#{self.views[-1]}", Lines)

    def focus(self, scroll_visible: bool = True, **_: object) -> Widget:  # type: ignore[override]
        """Focus what is shown."""
        return self.view.focus(scroll_visible)

    def _turn(self, to: str = "") -> None:
        if to:
            self.views = [view for view in self.views if view != to] + [to]
        had = self.has_focus_within
        for view in self.query(Lines):
            view.display = view.id == self.views[-1]
        if had:
            self.view.focus()
        self.name_it()

    def name_it(self) -> None:
        """Put what is shown into the top line."""
        view, right = self.views[-1], ""
        title = "Source"
        if view == "tree":
            package = owner(self).snapshot.package
            title = f"Source  {clean(package.folder)}" if package else title
        elif view == "code" and self.code.document:
            title = f"Source  {clean(self._short(self.code.document.path))}"
            right = self._right()
        elif view == "hits":
            hits = self.query_one(HitsView)
            title = f"Source  grep {clean(hits.pattern)}"
            right = f"{hits.hits:,} lines in {hits.files:,} files{' …' if hits.running else ''}"
        elif view == "source-diff":
            added, removed = counts(self.query_one(DiffView).text)
            title, right = "Source  working tree against HEAD", f"+{added} −{removed}"
        self.entitle("1", title, right)

    @property
    def symbols_known(self) -> bool:
        """Whether defs and classes of the open file were read."""
        return self.code.document is not None and self._symbols[0] == self.code.document.path

    def _right(self) -> str:
        code = self.code
        symbol = code.symbol or self._enclosing(code.line_number)
        where = f"{symbol.kind} {symbol.name}" if symbol else f"line {code.line_number:,}"
        git = " · modified" if code.document and code.document.git.strip()[:1] == "M" else ""
        return f"{'only ' if code.symbol else ''}{clean(where)}{git}"

    def _short(self, path: str) -> str:
        package = owner(self).snapshot.package
        return path.removeprefix(f"{package.folder}/") if package else path

    def _enclosing(self, line: int) -> Symbol | None:
        path, symbols = self._symbols
        if self.code.document is None or path != self.code.document.path:
            return None
        around = [symbol for symbol in symbols if symbol.first_line <= line <= symbol.last_line]
        return min(around, key=lambda symbol: symbol.last_line - symbol.first_line, default=None)

    # what messages of the views start

    async def load_tree(self) -> None:
        """Read the top folder."""
        from console.operations import source

        app = owner(self)
        try:
            entries = await source.tree(app.need_desk())
        except ConsoleError as error:
            self.files.reason = error.one_line()
            self.files.refresh()
            return
        self.files.reason = "" if entries else "the folder is empty"
        self.files.root(entries)
        self.name_it()

    def on_tree_view_wanted(self, event: TreeView.Wanted) -> None:
        """Read a folder below."""

        async def read() -> None:
            from console.operations import source

            self.files.fill(event.path, await source.tree(owner(self).need_desk(), event.path))

        launch(owner(self), read, group="tree")

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Open what was chosen in the tree, the hits or the diff."""
        if isinstance(event.lines, TreeView):
            self.open(event.lines.nodes[event.index].entry.path)
        elif isinstance(event.lines, HitsView) and (hit := event.lines.hit(event.index)):
            self.open(hit.file, hit.line)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Name the def that the cursor is in."""
        if isinstance(event.lines, CodeView):
            self.name_it()

    def open(self, path: str, line: int | None = None) -> None:
        """Open a file of the host, at a line."""
        launch(owner(self), self._open, path, line, group="open", exclusive=True)

    async def _open(self, path: str, line: int | None, last: int | None = None) -> None:
        from console.operations import source

        desk = owner(self).need_desk()
        document = await source.open_document(desk, path)
        if document.binary:
            raise UsageError(f"{path}: not a text file", f"{document.size:,} bytes")
        self.code.marked = self._marks(document.path)
        self.code.show(document, line)
        self._turn("code")
        launch(owner(self), self._study, group="study", exclusive=True)

    async def _study(self) -> None:
        """Bring colours and symbols of the open file, in threads."""
        from console.operations import source
        from console.ui.highlight import parse

        document = self.code.document
        if document is None:
            return
        if document.size <= COLOURED_MOST_BYTES:
            self.code.colour(document, await asyncio.to_thread(parse, document.path, document.lines))
        if document.path.endswith(".py") and document.size <= OUTLINED_MOST_BYTES:
            symbols = await asyncio.to_thread(source.outline, document)
            self._symbols = (document.path, tuple(symbols))
            self.name_it()

    def _marks(self, path: str) -> Mapping[int, str]:
        """Return which lines of a file a patch that is on has made."""
        marks: dict[int, str] = {}
        for status in owner(self).snapshot.patches:
            if status.disk.value != "on" or not any(path.endswith(f"/{file}") or path == file for file in status.files):
                continue
            number, here = 0, False
            for text in status.diff:
                if text.startswith("--- "):
                    name = text[4:].split("  ")[0].strip().removeprefix("a/")
                    here = path.endswith(name)
                elif text.startswith("@@") and (found := re.match(r"@@ -(\d+)", text)):
                    number = int(found[1])
                elif here and text[:1] in (" ", "-"):
                    if text.startswith("-"):
                        marks[number] = f"◆ {status.name}"
                    number += 1
        return marks

    def refresh_marks(self) -> None:
        """Mark the lines of patches again, and read the open file again when one changed it."""
        if self.code.document is not None:
            launch(owner(self), self._open_again, self.code.document.path, group="open", exclusive=True)

    async def _open_again(self, path: str) -> None:
        from console.operations import source

        document = await source.open_document(owner(self).need_desk(), path)
        self.code.marked = self._marks(document.path)
        if self.code.document is None or document.sha256 != self.code.document.sha256:
            line, symbol = self.code.line_number, self.code.symbol
            self.code.show(document)
            await self._study()
            self.code.place(line - 1)
            if symbol is not None:
                self.code.focus_symbol(self._enclosing(line))
        self.code.refresh()
        self.name_it()

    # keys

    def action_go_back(self) -> bool:
        """Go one view back; false when there is none."""
        if self.views[-1] == "code" and self.code.symbol is not None:
            self.code.focus_symbol(None)
            self.name_it()
            return True
        if len(self.views) == 1:
            if self.views == ["tree"]:
                return False
            self.views = ["tree"]
        else:
            self.views.pop()
        self._turn()
        return True

    def action_find_text(self) -> None:
        """Search what is open; in the tree, search all files."""
        if self.views[-1] != "code":
            self.action_grep_tree()
            return

        async def find() -> None:
            text = await owner(self).push_screen_wait(PromptModal("find ", hint="regular expression"))
            if text:
                pattern = pattern_of(text)
                if not self.code.search(re.compile(pattern.pattern.encode(), pattern.flags & re.IGNORECASE)):
                    raise UsageError(f"{clean(text)}: not in this file")

        launch(owner(self), find, group="find", exclusive=True)

    def action_step(self, way: int) -> None:
        """Go to the next or previous match or hit."""
        if self.views[-1] == "code":
            self.code.step(way)
        elif self.views[-1] == "hits":
            self.view.action_move(way)

    def action_grep_tree(self) -> None:
        """Ask for a pattern and stream the lines that match."""

        async def ask() -> None:
            text = await owner(self).push_screen_wait(
                PromptModal("grep ", hint="pattern, in every file of the package")
            )
            if text:
                await self.grep(text)

        launch(owner(self), ask, group="grep", exclusive=True)

    async def grep(self, text: str) -> None:
        """Stream the lines that match a pattern."""
        from console.operations import source

        hits = self.query_one(HitsView)
        hits.begin(text)
        self._turn("hits")
        self.view.focus()
        batch: list[GrepHit] = []
        loop = asyncio.get_running_loop()
        last = loop.time()
        try:
            async for hit in source.grep(owner(self).need_desk(), text):
                batch.append(hit)
                if loop.time() - last > 0.05 or not hits.rows:
                    hits.add(batch)
                    batch, last = [], loop.time()
                    self.name_it()
                if hits.hits > HITS_MOST:
                    raise UsageError(
                        f"grep {clean(text)}: more than {HITS_MOST:,} lines", hint="search for something rarer"
                    )
        finally:
            hits.add(batch)
            hits.end()
            self.name_it()

    def action_show_symbol(self) -> None:
        """Show the enclosing def or class alone, or the whole file again."""
        if self.views[-1] != "code" or self.code.document is None:
            return
        if self.code.symbol is not None:
            self.code.focus_symbol(None)
        else:
            symbol = self._enclosing(self.code.line_number)
            if symbol is None:
                small = self.code.document.size <= OUTLINED_MOST_BYTES
                why = "" if small else f"defs are looked for in files up to {OUTLINED_MOST_BYTES // 1_000_000} MB"
                owner(self).tell(UsageError(f"line {self.code.line_number:,} is in no def or class", why))
                return
            self.code.focus_symbol(symbol)
        self.name_it()

    def action_diff_head(self) -> None:
        """Show the working tree against HEAD."""

        async def diff() -> None:
            from console.operations import source

            text = await source.diff_head(owner(self).need_desk())
            self.query_one("#source-diff", DiffView).show(text)
            self._turn("source-diff")

        launch(owner(self), diff, group="open", exclusive=True)

    def action_copy_line(self) -> None:
        """Send the line to the terminal's clipboard."""
        if self.views[-1] == "code" and self.code.document is not None:
            owner(self).copy(clean(self.code.raw(self.code.line_number)))

    def action_copy_place(self) -> None:
        """Send file:line to the terminal's clipboard."""
        if self.views[-1] == "code" and self.code.document is not None:
            owner(self).copy(f"{self._short(self.code.document.path)}:{self.code.line_number}")

    async def go_to(self, file: str, first: int | None, last: int | None) -> None:
        """Go to a line of a file; an empty file means the open one."""
        path = file or (self.code.document.path if self.code.document else "")
        if not path:
            raise UsageError("no file is open", hint="write file:line")
        if file or self.code.document is None:
            await self._open(path, first, last)
        else:
            self.code.focus_symbol(None)
            self.code.place((first or 1) - 1)
        if first and last:
            self.code.focus_symbol(Symbol(f"{first}-{last}", "lines", first, min(last, self.code.count())))
        self._turn("code")
        self.view.focus()
