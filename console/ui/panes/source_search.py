"""Searching in the source pane: find, grep, definitions and references, hits to walk through."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING

from console.domain.source import GrepHit
from console.domain.text import clean
from console.errors import UsageError
from console.ui.modals.grep import Asked, GrepModal
from console.ui.modals.pick import Item, PickModal
from console.ui.modals.prompt import PromptModal
from console.ui.panes import source_find
from console.ui.panes.source_words import bytes_pattern, names_in, pattern_of
from console.ui.worker import end_group, launch, owner

if TYPE_CHECKING:
    from console.ui.panes.source import SourcePane

HITS_MOST = 10_000
AROUND = 2
SEARCH = "grep"
"""Group of the worker that searches; ending it stops the search on the host."""


def find(pane: SourcePane) -> None:
    """Find in the open file; in the tree, filter the names."""
    if pane.views[-1] == "tree":
        pane.files.begin_filter()
        reach_all(pane)
        return
    if pane.views[-1] != "code":
        ask(pane)
        return

    async def look() -> None:
        text = await owner(pane).push_screen_wait(PromptModal("find ", hint="regular expression; i switches case"))
        if text:
            await _find(pane, text)

    launch(owner(pane), look, group="find", exclusive=True)


def reach_all(pane: SourcePane) -> None:
    """Let the tree's filter reach names whose folders were not opened."""
    pane.name_it()
    launch(owner(pane), source_find.know_names, pane, group="names", exclusive=True)


async def _find(pane: SourcePane, text: str) -> None:
    pattern = pattern_of(text, any_case=pane.any_case)
    document = pane.code.document
    if document is not None and not document.complete and not document.binary and pane.code.symbol is None:
        await grep(pane, Asked(text, document.path, any_case=bool(pattern.flags & re.IGNORECASE)))
        return
    if not pane.code.search(bytes_pattern(pattern)):
        raise UsageError(f"{clean(text)}: not in this file", hint="i switches whether case counts")


def case(pane: SourcePane) -> None:
    """Let case count or not, in the present search, too."""
    pattern = pane.code.pattern
    any_case = not (pane.any_case if pane.any_case is not None else bool(pattern and pattern.flags & re.IGNORECASE))
    pane.any_case = any_case
    if pattern is not None:
        pane.code.search(re.compile(pattern.pattern, re.IGNORECASE if any_case else 0))
    owner(pane).say("small and capital letters are equal" if any_case else "case counts")


def step(pane: SourcePane, way: int) -> None:
    """Go to the next or previous match or hit."""
    if pane.views[-1] == "code":
        pane.code.step(way)
    elif pane.views[-1] == "hits":
        pane.hits.step(way)


def next_hit(pane: SourcePane) -> None:
    """Open the next hit, in the next file where this one has no more."""
    _open_hit(pane, 1)


def previous_hit(pane: SourcePane) -> None:
    """Open the hit before."""
    _open_hit(pane, -1)


def _open_hit(pane: SourcePane, way: int) -> None:
    if pane.views[-1] == "hits":
        pane.hits.step(way)
    elif pane.views[-1] == "code" and pane.hits.rows:
        row = pane.hits.step(way)
        if row is None:
            owner(pane).tell(UsageError("that was the last hit" if way > 0 else "that was the first hit"))
        else:
            pane.open(row.file, row.line)


def ask(pane: SourcePane) -> None:
    """Ask for a pattern and stream the lines that match."""

    async def search() -> None:
        asked = await owner(pane).push_screen_wait(GrepModal(pane.asked or Asked()))
        if asked is not None and asked.pattern:
            await grep(pane, asked)

    launch(owner(pane), search, group=SEARCH, exclusive=True)


def stop(pane: SourcePane) -> None:
    """Stop the running search."""
    if pane.hits.running:
        end_group(owner(pane), SEARCH)


async def grep(pane: SourcePane, asked: Asked) -> None:
    """Stream the lines that match; ending this stops the search on the host."""
    from console.operations import source

    pane.asked = asked
    hits, app = pane.hits, owner(pane)
    hits.begin(asked.pattern, f"grep {asked.pattern}", _mark(asked), _short(pane))
    pane.turn("hits")
    pane.view.focus()
    batch: list[GrepHit] = []
    loop = asyncio.get_running_loop()
    last, why = loop.time(), "stopped"
    found = source.grep(
        app.need_desk(),
        asked.pattern,
        asked.paths or ((pane.folder,) if pane.folder else ()),
        fixed=asked.fixed,
        word=asked.word,
        ignore_case=asked.any_case,
        include=asked.include,
        exclude=asked.exclude,
        context=AROUND if asked.context else 0,
    )
    try:
        async for hit in found:
            batch.append(hit)
            if loop.time() - last > 0.05 or not hits.rows:
                hits.add(batch)
                batch, last = [], loop.time()
                pane.name_it()
            if hits.hits + len(batch) >= HITS_MOST:
                why = f"stopped at {HITS_MOST:,} lines: search for something rarer, or in fewer files"
                return
        why = ""
    finally:
        hits.add(batch)
        hits.end(why)
        pane.name_it()
        if why:
            app.say(f"grep {asked.pattern}: {why}")
        await found.aclose()  # type: ignore[attr-defined]


def _mark(asked: Asked) -> re.Pattern[str] | None:
    """Return what is to be marked in hits, as far as our expressions mean what grep's do."""
    text = re.escape(asked.pattern) if asked.fixed or not re.search(r"[\\+?|(){}]", asked.pattern) else ""
    if not asked.fixed and text:
        text = asked.pattern
    if not text:
        return None
    try:
        return re.compile(rf"\b(?:{text})\b" if asked.word else text, re.IGNORECASE if asked.any_case else 0)
    except re.error:
        return None


def _short(pane: SourcePane) -> str:
    package = owner(pane).snapshot.package
    return pane.folder or (package.folder if package is not None else "")


def definition(pane: SourcePane) -> None:
    """Go to where a name of this line is defined."""
    launch(owner(pane), _definition, pane, group=SEARCH, exclusive=True)


def references(pane: SourcePane) -> None:
    """List every line where a name of this line stands."""
    launch(owner(pane), _references, pane, group=SEARCH, exclusive=True)


async def _picked_name(pane: SourcePane, hint: str) -> str:
    raw = b""
    if pane.views[-1] == "code" and pane.code.document is not None and not pane.code.document.binary:
        raw = pane.code.raw(pane.code.line_number)
    elif pane.views[-1] == "hits" and (hit := pane.hits.hit(pane.hits.cursor)):
        raw = hit.text.encode()
    names = names_in(raw, pane.code.pattern if pane.views[-1] == "code" else None)
    answer = await owner(pane).push_screen_wait(PickModal(hint, [Item(name, clean(name)) for name in names], free=True))
    return (answer or "").removeprefix("typed ")


async def _definition(pane: SourcePane) -> None:
    from console.operations import source

    name = await _picked_name(pane, "definition of")
    if not name:
        return
    app = owner(pane)
    told: list[int] = []

    def reading(read: int, files: int) -> None:
        if not told:
            app.say(f"reading {files:,} files for {name}; the next time is quick")
        told.append(read)

    found = await source.references(app.need_desk(), name, pane.folder, reading)
    here = pane.here.path if pane.here is not None else ""
    places = source.definitions(found, here)
    if not places:
        raise UsageError(f"{clean(name)}: no definition in the tree", hint="r lists where it stands")
    if len(places) == 1:
        await pane.jump(places[0].file, places[0].line)
        return
    _show(pane, f"definitions of {name}", name)
    pane.hits.add_references(places)
    pane.hits.end()
    pane.name_it()


async def _references(pane: SourcePane) -> None:
    from console.operations import source

    name = await _picked_name(pane, "references of")
    if not name:
        return
    _show(pane, f"references of {name}", name)
    why = "stopped"
    try:
        found = await source.references(owner(pane).need_desk(), name, pane.folder, partial(_reading, pane))
        pane.hits.add_references(found.found)
        why = f"more than {len(found.found):,} lines; the rest is not told" if found.limited else ""
    finally:
        pane.hits.end(why)
        pane.name_it()


def _reading(pane: SourcePane, read: int, files: int) -> None:
    pane.hits.progress = f"{read:,} of {files:,} files read"
    pane.hits.refresh()
    pane.name_it()


def _show(pane: SourcePane, words: str, name: str) -> None:
    pane.hits.begin(name, words, re.compile(rf"\b{re.escape(name)}\b"), _short(pane))
    pane.turn("hits")
    pane.view.focus()
