"""Comparing with something else: another file, install or host, and two runs by what each had loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.domain.text import SafeText, clean
from console.errors import UsageError
from console.ui.modals.pick import Item, PickModal
from console.ui.panes.source_compare import show
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.ui.panes.source import SourcePane

_ELSEWHERE = re.compile(r"(?P<host>[\w.@-]+(?::\d+)?):(?P<path>[/~].*)?", re.DOTALL)
"""`HOST:PATH`, or `HOST:` for the same path."""


def beside(pane: SourcePane) -> None:
    """Show what is under the cursor beside something else, or two runs by the bytes each had loaded."""
    launch(owner(pane), _pick, pane, group="open", exclusive=True)


def here(pane: SourcePane) -> str:
    """Return the file or folder that is meant: the open one, the hit's, or the tree's; empty when none is."""
    view = pane.views[-1]
    if view == "code" and pane.here is not None:
        return pane.here.path
    if view == "hits" and (hit := pane.hits.hit(pane.hits.cursor)):
        return hit.file
    if view == "tree" and pane.files.nodes:
        return pane.files.nodes[pane.files.cursor].entry.path
    if view == "compare" and pane.compared.comparison is not None and pane.compared.here is not None:
        return pane.compared.comparison.files[pane.compared.here.file].path
    return ""


async def _pick(pane: SourcePane) -> None:
    app, path = owner(pane), here(pane)
    desk = app.need_desk()
    answer = await app.push_screen_wait(
        PickModal("or a path of the host, or HOST:PATH" if path else "", _items(pane, path), free=bool(path))
    )
    if answer is None:
        return
    kind, _, rest = answer.partition(" ")
    if kind == "runs":
        await _runs(pane)
    elif kind == "seat":
        other = next((seat.desk for seat in app.seats if seat.name == rest), None)
        if other is None:
            raise UsageError(f"{rest}: is not connected", hint="ctrl+r there tries again")
        await _with_desk(pane, desk, path, other)
    else:
        await _with(pane, desk, path, kind, rest)


def _items(pane: SourcePane, path: str) -> list[Item]:
    app = owner(pane)
    package = app.snapshot.package
    name = SafeText(clean(pane.short(path)))
    items = []
    if path:
        items = [
            Item("head", clean("as committed (git HEAD)"), name),
            Item("installed", clean("as installed (RECORD, wheels, caches)"), name),
        ]
        if package is not None and path.startswith(f"{package.folder}/"):
            items += [Item(f"typed {other}/{pane.short(path)}", clean(f"in {other}"), name) for other in package.also]
        items += [
            Item(f"seat {seat.name}", clean(f"on {seat.name}"), name) for seat in app.seats if seat is not app.seat
        ]
    return [*items, Item("runs", clean("two runs: the bytes each had loaded"))]


async def _with(pane: SourcePane, desk: Desk, path: str, kind: str, typed: str) -> None:
    from console.operations import comparing, installed

    elsewhere = _ELSEWHERE.fullmatch(typed)
    if kind == "head":
        show(pane, await comparing.with_head(desk, path))
    elif kind == "installed":
        show(pane, await installed.pristine(desk, path))
    elif elsewhere is not None:
        owner(pane).say(f"asking {elsewhere['host']}…")
        async with comparing.visiting(desk, elsewhere["host"]) as other:
            await _with_desk(pane, desk, path, other, elsewhere["path"] or "")
    else:
        show(pane, await comparing.two_places(desk, typed, desk, path))


async def _with_desk(pane: SourcePane, desk: Desk, path: str, other: Desk, there: str = "") -> None:
    """Compare with another host: a file of the engine package with that package's there, wherever it lies."""
    from console.operations import comparing

    package = desk.package
    if not there:
        inside = package is not None and other.package is not None and path.startswith(f"{package.folder}/")
        there = path.removeprefix(f"{package.folder}/") if package is not None and inside else path
    show(pane, await comparing.two_places(other, there, desk, path))


async def _runs(pane: SourcePane) -> None:
    from console.operations import comparing

    app = owner(pane)
    desk = app.need_desk()
    items = await _known_runs(desk)
    if len(items) < 2:
        raise UsageError("there are no two runs on this host or in the journal", hint="x s starts one")
    before = await app.push_screen_wait(PickModal("the earlier run", items, at=1))
    if before is None:
        return
    rest = [item for item in items if item.answer != before]
    after = await app.push_screen_wait(PickModal(f"{before} beside which run", rest))
    if after is not None:
        show(pane, await comparing.two_runs(desk, before, after))


async def _known_runs(desk: Desk) -> list[Item]:
    """Return the runs of the host and of the journal, the newest first."""
    from console.operations import compare, server

    found: dict[str, tuple[float, str, str]] = {}
    for entry in await compare.listed(host=desk.link.host.name):
        found[entry.id] = (entry.started_at, entry.profile, f"{entry.measured} measurements")
    for run in await server.all_runs(desk):
        if run.adopted:
            found[run.id] = (run.started_at, run.profile, run.phase.value)
    newest = sorted(found.items(), key=lambda one: one[1][0], reverse=True)
    return [Item(id, clean(f"{id}  {profile}"), clean(said)) for id, (_, profile, said) in newest]
