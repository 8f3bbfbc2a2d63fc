"""Reading in the source pane: outline, whole def, wrap, history, marks, copying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.domain.text import SafeText, clean, plain
from console.errors import UsageError
from console.ui.clipboard import copy
from console.ui.modals.pick import Item, PickModal
from console.ui.modals.prompt import PromptModal
from console.ui.panes.source_history import Spot
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.ui.panes.source import SourcePane


def in_file(pane: SourcePane) -> bool:
    """Return whether a file is shown; say so when none is."""
    if pane.views[-1] == "code" and pane.code.document is not None:
        return True
    owner(pane).tell(UsageError("no file is shown", hint="enter opens one"))
    return False


def outline(pane: SourcePane) -> None:
    """Pick a class or def of the open file."""
    if not in_file(pane):
        return
    symbols = pane.symbols
    if not symbols:
        owner(pane).tell(UsageError("no classes or defs are known of this file"))
        return

    async def pick() -> None:
        items = [
            Item(str(one.first_line), clean(f"{one.kind} {one.qualified}"), SafeText(f"{one.first_line:,}"))
            for one in symbols
        ]
        at = max((n for n, one in enumerate(symbols) if one.first_line <= pane.code.line_number), default=0)
        answer = await owner(pane).push_screen_wait(PickModal("class or def", items, at=at))
        if answer is not None and pane.here is not None:
            pane.history.leave(pane.here)
            await pane.read_file(pane.here.path, int(answer))

    launch(owner(pane), pick, group="find", exclusive=True)


def whole_def(pane: SourcePane) -> None:
    """Show the enclosing def or class alone, or the whole file again."""
    if pane.views[-1] != "code" or pane.code.document is None:
        return
    if pane.code.symbol is not None:
        pane.code.focus_symbol(None)
    else:
        symbol = pane.enclosing(pane.code.line_number)
        if symbol is None:
            owner(pane).tell(UsageError(f"line {pane.code.line_number} is in no def or class"))
            return
        pane.code.focus_symbol(symbol)
    pane.name_it()


def spaces(pane: SourcePane) -> None:
    """Mark white space in a file, or leave its changes out of a comparison."""
    if pane.views[-1] == "compare":
        pane.compared.ignore_space = not pane.compared.ignore_space
        pane.compared.build()
    else:
        pane.code.spaces = not pane.code.spaces
        pane.code.refresh()
    pane.name_it()


def wrap(pane: SourcePane) -> None:
    """Break long lines, or let them run on."""
    if in_file(pane):
        pane.code.toggle_wrap()
        pane.name_it()


def line(pane: SourcePane) -> None:
    """Ask for a line and go there."""
    if not in_file(pane):
        return

    async def ask() -> None:
        text = await owner(pane).push_screen_wait(PromptModal("line ", hint="number, or $ for the last"))
        if not text or pane.here is None:
            return
        if text.strip() != "$" and not text.strip().isdigit():
            raise UsageError(f"{clean(text)}: not a line number")
        await pane.jump(pane.here.path, -1 if text.strip() == "$" else max(1, int(text)))

    launch(owner(pane), ask, group="find", exclusive=True)


def folder(pane: SourcePane) -> None:
    """Ask for a folder and show its tree."""

    async def ask() -> None:
        snapshot = owner(pane).snapshot
        known = [("", "engine package", snapshot.package.folder if snapshot.package else "")]
        if snapshot.git is not None:
            known.append((snapshot.git.top, "checkout", snapshot.git.top))
        if snapshot.run is not None and snapshot.run.folder:
            known.append((snapshot.run.folder, f"run {snapshot.run.id}", snapshot.run.folder))
        known.append(("~", "home", "~"))
        items = [Item(f"to {path}", clean(f"{name}  {shown}")) for path, name, shown in known]
        answer = await owner(pane).push_screen_wait(PickModal("a folder of the host", items, free=True))
        if answer is not None:
            await pane.show_folder(answer.partition(" ")[2])

    launch(owner(pane), ask, group="tree", exclusive=True)


def back(pane: SourcePane) -> None:
    """Go back to where the reader was before."""
    _travel(pane, pane.history.back(pane.here))


def forward(pane: SourcePane) -> None:
    """Go forward again."""
    _travel(pane, pane.history.forward(pane.here))


def _travel(pane: SourcePane, spot: Spot | None) -> None:
    if spot is None:
        owner(pane).tell(UsageError("there is nothing further in that direction"))
        return
    launch(owner(pane), pane.read_file, spot.path, spot.line, group="open", exclusive=True)


def mark(pane: SourcePane) -> None:
    """Mark the line, or take its mark away."""
    if in_file(pane) and pane.here is not None:
        marked = pane.history.toggle(pane.here)
        owner(pane).say(f"line {pane.here.line:,} {'marked' if marked else 'not marked any more'}: ' lists marks")


def marks(pane: SourcePane) -> None:
    """Pick a mark and go there."""
    spots = pane.history.marks
    if not spots:
        owner(pane).tell(UsageError("no line is marked", hint="m marks one"))
        return

    async def pick() -> None:
        items = [Item(str(n), clean(f"{pane.short(spot.path)}:{spot.line}")) for n, spot in enumerate(spots)]
        answer = await owner(pane).push_screen_wait(PickModal("mark", items))
        if answer is not None:
            await pane.jump(spots[int(answer)].path, spots[int(answer)].line)

    launch(owner(pane), pick, group="find", exclusive=True)


def pick(pane: SourcePane) -> None:
    """Begin to pick lines, or end it."""
    if in_file(pane):
        pane.code.picking = None if pane.code.picking is not None else pane.code.line_number
        pane.code.refresh()
        pane.name_it()


def copy_lines(pane: SourcePane) -> None:
    """Send the line, the picked lines or the hunk to the terminal's clipboard."""
    app = owner(pane)
    if pane.views[-1] == "code" and pane.code.document is not None:
        first, last = pane.code.picked
        text = "\n".join(plain(pane.code.raw(number)) for number in range(first, last + 1))
        copy(app, text, f"line {first:,}" if first == last else f"lines {first:,}-{last:,}")
        pane.code.picking = None
        pane.code.refresh()
    elif pane.views[-1] == "hits" and (hit := pane.hits.hit(pane.hits.cursor)):
        copy(app, hit.text, f"line {hit.line:,}")
    elif pane.views[-1] == "compare":
        _copy_patch(pane, whole=False)


def _copy_patch(pane: SourcePane, *, whole: bool) -> None:
    from console.operations import comparing

    view = pane.compared
    row = view.here
    if view.comparison is None or row is None:
        return
    hunk = row.hunk if row.hunk >= 0 and not whole and not view.ignore_space else None
    text = comparing.patch_text(
        view.comparison, file=None if whole else row.file, hunk=hunk, context=min(view.context, 20)
    )
    if not text:
        owner(pane).tell(UsageError("there is no text to copy as a patch here"))
        return
    what = "the whole comparison" if whole else "the hunk" if hunk is not None else "the file's changes"
    copy(owner(pane), text.decode("utf-8", "replace"), f"{what} as a patch")


def copy_place(pane: SourcePane) -> None:
    """Send file:line, or the comparison as a patch, to the terminal's clipboard."""
    if pane.views[-1] == "compare":
        _copy_patch(pane, whole=True)
    elif pane.views[-1] == "hits" and (hit := pane.hits.hit(pane.hits.cursor)):
        copy(owner(pane), clean(f"{pane.short(hit.file)}:{hit.line}"), "file:line")
    elif pane.views[-1] == "code" and pane.here is not None:
        first, last = pane.code.picked
        lines = str(first) if first == last else f"{first}-{last}"
        copy(owner(pane), clean(f"{pane.short(pane.here.path)}:{lines}"), "file:line")
