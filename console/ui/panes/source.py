"""Source pane: the tree, one file, hits, comparisons, what was changed; `esc` goes one view back."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from console.domain.source import Document, Symbol
from console.errors import ConsoleError, UsageError
from console.operations.catalogue import verbs_of
from console.ui.panes import source_beside, source_compare, source_find, source_read, source_search, source_words
from console.ui.panes.source_history import History, Spot
from console.ui.panes.source_words import pattern_of as pattern_of
from console.ui.widgets.changed import ChangedView
from console.ui.widgets.code import CodeView
from console.ui.widgets.compare import CompareView
from console.ui.widgets.frame import Framed
from console.ui.widgets.hits import HitsView
from console.ui.widgets.lines import Lines
from console.ui.widgets.tree import TreeView
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.operations.source import Folder
    from console.ui.modals.grep import Asked


PARSED_MOST_BYTES = 500_000
"""The colours' parser holds the interpreter's lock: a bigger file is parsed by parts, as they come into sight."""

MANY_SYMBOLS = 5000


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
        self.history = History()
        self.asked: Asked | None = None
        """The last search, to begin the next one with."""
        self.any_case: bool | None = None
        """Whether letters' case counts; `None` lets a capital letter decide."""
        self.warning = ""
        """Why the open file is not the one that loads."""
        self.folder = ""
        """Top of the tree; empty for the engine package."""
        self._symbols: tuple[str, tuple[Symbol, ...]] = ("", ())
        self._settled = False
        """Whether what was loaded for good is out of the garbage collector's sight."""

    def compose(self) -> ComposeResult:
        """Lay the views over each other; one is shown."""
        yield TreeView()
        yield CodeView()
        yield HitsView()
        yield CompareView()
        yield ChangedView()

    def on_mount(self) -> None:
        """Show the tree."""
        self.turn()

    @property
    def files(self) -> TreeView:
        """The tree."""
        return self.query_one(TreeView)

    @property
    def code(self) -> CodeView:
        """The open file."""
        return self.query_one(CodeView)

    @property
    def hits(self) -> HitsView:
        """The hits of the last search."""
        return self.query_one(HitsView)

    @property
    def compared(self) -> CompareView:
        """The last comparison."""
        return self.query_one(CompareView)

    @property
    def changes(self) -> ChangedView:
        """What was changed by hand."""
        return self.query_one(ChangedView)

    @property
    def view(self) -> Lines:
        """What is shown."""
        return self.query_one(f"#{self.views[-1]}", Lines)

    def focus(self, scroll_visible: bool = True, **_: object) -> Widget:  # type: ignore[override]
        """Focus what is shown."""
        return self.view.focus(scroll_visible)

    def turn(self, to: str = "") -> None:
        """Show a view, the present one below it."""
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
        title, right = source_words.title_of(self)
        self.entitle("1", title, right, "$warning" if self.views[-1] == "code" and self.warning else "$muted")

    @property
    def symbols_known(self) -> bool:
        """Whether defs and classes of the open file were read."""
        return self.code.document is not None and self._symbols[0] == self.code.document.path

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Defs and classes of the open file, as far as they were read."""
        return self._symbols[1] if self.symbols_known else ()

    def short(self, path: str) -> str:
        """Return a path from the engine package on."""
        package = owner(self).snapshot.package
        return path.removeprefix(f"{package.folder}/") if package else path

    def enclosing(self, line: int) -> Symbol | None:
        """Return the innermost def or class around a line of the open file."""
        around = [symbol for symbol in self.symbols if symbol.first_line <= line <= symbol.last_line]
        return min(around, key=lambda symbol: symbol.last_line - symbol.first_line, default=None)

    @property
    def here(self) -> Spot | None:
        """The line under the cursor in the open file."""
        document = self.code.document
        return Spot(document.path, self.code.line_number) if document is not None else None

    # what messages of the views start

    async def load_tree(self) -> None:
        """Read the top folder again, unless another one is shown before the answer is there."""
        from console.operations import source

        folder = self.folder
        try:
            page = await source.page(owner(self).need_desk(), folder)
        except ConsoleError as error:
            if folder == self.folder:
                self.files.reason = error.one_line()
                self.files.refresh()
            return
        if folder == self.folder:
            self._show_page(page)

    async def show_folder(self, folder: str) -> None:
        """Show another top folder; one that cannot be read leaves what is shown, and its fault is raised."""
        from console.operations import source

        page = await source.page(owner(self).need_desk(), folder)
        self.folder = folder
        self.files.end_filter()
        self.views = ["tree"]
        self._show_page(page)
        self.turn()

    def _show_page(self, page: Folder) -> None:
        self.files.reason = "" if page.entries else "the folder is empty"
        self.files.root(page.entries, page.total, page.path)
        self.name_it()

    def on_tree_view_wanted(self, event: TreeView.Wanted) -> None:
        """Read a folder below, or its next names."""

        async def read() -> None:
            from console.operations import source

            page = await source.page(owner(self).need_desk(), event.path, offset=event.offset)
            self.files.fill(event.path, page.entries, page.total, event.offset)

        launch(owner(self), read, group="tree")

    def on_tree_view_filtered(self) -> None:
        """Say what is filtered."""
        self.name_it()

    def on_tree_view_began(self) -> None:
        """Let the filter reach every name below the top folder."""
        source_search.reach_all(self)

    def on_tree_view_hidden(self, event: TreeView.Hidden) -> None:
        """Open the folders above a folder, and it."""
        launch(owner(self), source_find.reveal, self, event.path, group="tree")

    def on_code_view_beyond(self, event: CodeView.Beyond) -> None:
        """Read another part of a big file."""
        if self.code.document is not None:
            launch(owner(self), self.read_file, self.code.document.path, event.line, group="open", exclusive=True)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Open what was chosen in the tree, the hits, a comparison or the changes."""
        view = event.lines
        if isinstance(view, TreeView):
            self.open(view.nodes[event.index].entry.path)
        elif isinstance(view, HitsView) and (hit := view.hit(event.index)):
            self.open(hit.file, hit.line)
        elif isinstance(view, CompareView):
            source_compare.open_row(self)
        elif isinstance(view, ChangedView) and view.rows:
            launch(owner(self), source_compare.show_change, self, *view.rows[event.index], group="open", exclusive=True)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Name the def that the cursor is in; a picked range follows the cursor."""
        if isinstance(event.lines, CodeView):
            self.name_it()
            if event.lines.picking is not None:
                event.lines.refresh()

    def open(self, path: str, line: int | None = None) -> None:
        """Open a file of the host, at a line."""
        launch(owner(self), self.jump, path, line, group="open", exclusive=True)

    async def jump(self, path: str, line: int | None = None) -> None:
        """Open a file and remember where the reader was."""
        before = self.here
        await self.read_file(path, line)
        if before is not None:
            self.history.leave(before)

    async def read_file(self, path: str, line: int | None = None) -> None:
        """Show a file, at a line; a negative one means the last."""
        from console.operations import source

        if self.code.document is not None and path == self.code.document.path and line and self.code.holds(line):
            self.code.focus_symbol(None)
            self.code.place_line(line)
            self.turn("code")
            return
        document = await source.open_document(owner(self).need_desk(), path, line=line or 0)
        self.warning = ""
        self.code.marked = source_words.marks_of(document.path, owner(self).snapshot.patches)
        shown = source_words.hex_of(document) if document.binary else document
        if line is not None and line < 0:
            line = shown.first_line + len(shown.lines) - 1
        self.code.facts = source_words.facts_of(document)
        self.code.show(shown, line)
        self.turn("code")
        launch(owner(self), self._study, document, group="study", exclusive=True)

    async def _study(self, document: Document) -> None:
        """Bring colours, symbols and the place of the open file, in threads."""
        from console.operations import installed, source
        from console.ui.highlight import parse

        if not document.binary:
            whole = sum(map(len, document.lines)) <= PARSED_MOST_BYTES
            self.code.colour(document, await asyncio.to_thread(parse, document.path, document.lines, whole=whole))
        if document.path.endswith(".py"):
            symbols = await asyncio.to_thread(source.outline, document)
            self._symbols = (document.path, tuple(symbols))
            self.name_it()
            if not self._settled or len(symbols) > MANY_SYMBOLS:
                self._settled = True
                gc.freeze()  # else a collection goes through all of it in the middle of paging, for 80 ms
            warning = await installed.shadowed(owner(self).need_desk(), document.path)
            if warning and self.code.document is document:
                self.warning = warning
                owner(self).tell(UsageError(document.path, warning))
                self.name_it()

    def refresh_marks(self) -> None:
        """Mark the lines of patches again, and read the open file again when one changed it."""
        if self.code.document is not None and not self.code.document.binary:
            launch(owner(self), self._open_again, self.code.document.path, group="open", exclusive=True)

    async def _open_again(self, path: str) -> None:
        from console.operations import source

        document = await source.open_document(owner(self).need_desk(), path, line=self.code.line_number)
        self.code.marked = source_words.marks_of(document.path, owner(self).snapshot.patches)
        if self.code.document is None or document.sha256 != self.code.document.sha256:
            line, symbol = self.code.line_number, self.code.symbol
            self.code.facts = source_words.facts_of(document)
            self.code.show(document)
            await self._study(document)
            self.code.place_line(line)
            if symbol is not None:
                self.code.focus_symbol(self.enclosing(line))
        self.code.refresh()
        self.name_it()

    async def go_to(self, file: str, first: int | None, last: int | None) -> None:
        """Go to a line of a file; an empty file means the open one."""
        path = file or (self.code.document.path if self.code.document else "")
        if not path:
            raise UsageError("no file is open", hint="write file:line")
        await self.jump(path, first or (None if file else 1))
        if first and last:
            end = self.code.document.first_line + len(self.code.document.lines) - 1 if self.code.document else last
            self.code.focus_symbol(Symbol(f"{first}-{last}", "lines", first, min(last, end)))
        self.turn("code")
        self.view.focus()

    # keys

    def action_go_back(self) -> bool:
        """Go one view back; false when there is none."""
        view = self.views[-1]
        if view == "tree" and self.files.end_filter():
            return True
        if view == "code" and (self.code.symbol is not None or self.code.picking is not None):
            if self.code.picking is not None:
                self.code.picking = None
                self.code.refresh()
            else:
                self.code.focus_symbol(None)
            self.name_it()
            return True
        if view == "hits" and self.hits.running:
            source_search.stop(self)
            return True
        if len(self.views) == 1:
            if self.views == ["tree"]:
                return False
            self.views = ["tree"]
        else:
            self.views.pop()
        self.turn()
        return True

    def action_step(self, way: int) -> None:
        """Go to the next or previous match or hit."""
        source_search.step(self, way)


_ACTS: dict[str, Callable[[SourcePane], None]] = {
    "find_text": source_search.find,
    "find_file": source_find.find_file,
    "grep_tree": source_search.ask,
    "stop_search": source_search.stop,
    "show_outline": source_read.outline,
    "show_symbol": source_read.whole_def,
    "go_to_definition": source_search.definition,
    "show_references": source_search.references,
    "diff_head": source_compare.head,
    "show_changed": source_compare.changed,
    "compare_with": source_beside.beside,
    "capture_shown": source_compare.capture,
    "edit_file": source_compare.edit,
    "switch_sides": source_compare.sides,
    "switch_spaces": source_read.spaces,
    "switch_wrap": source_read.wrap,
    "switch_case": source_search.case,
    "more_context": source_compare.wider,
    "less_context": source_compare.narrower,
    "previous_hit": source_search.previous_hit,
    "next_hit": source_search.next_hit,
    "go_to_line": source_read.line,
    "go_to_folder": source_read.folder,
    "history_back": source_read.back,
    "history_forward": source_read.forward,
    "set_mark": source_read.mark,
    "show_marks": source_read.marks,
    "pick_range": source_read.pick,
    "copy_line": source_read.copy_lines,
    "copy_place": source_read.copy_place,
}
"""What the verbs of the catalogue do here."""


def _action(act: Callable[[SourcePane], None]) -> Callable[[SourcePane], None]:
    def action(self: SourcePane) -> None:
        act(self)

    action.__doc__ = act.__doc__
    return action


for _id, _act in _ACTS.items():
    setattr(SourcePane, f"action_{_id}", _action(_act))
