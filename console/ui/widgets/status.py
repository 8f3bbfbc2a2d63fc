"""Status line: connected to what, which server since when, which patches it really runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from console.domain.patch import dirty_of_ours
from console.domain.text import clean
from console.state.store import Snapshot
from console.ui import clock, words
from console.ui.drawing import Span, fit, spread, width_of
from console.ui.widgets.inks import Painting

if TYPE_CHECKING:
    from console.domain.patch import PatchStatus

Piece = tuple[int, list[Span]]
"""How early a piece gives way when the line is narrow (0 never), and its spans."""


def host_now(snapshot: Snapshot) -> float:
    """Return the host's wall clock now."""
    offset = snapshot.facts.clock_offset_s if snapshot.facts else None
    return clock.wall() + (offset or 0.0)


def pieces(snapshot: Snapshot, *, short: bool = False) -> list[Piece]:
    """Return what the line says, in reading order."""
    host, link = snapshot.host, snapshot.link
    symbol, word, ink = words.of_link(link)
    found: list[Piece] = []
    if host.badge:
        found.append((0, [(f" {clean(host.badge)} ", "cursor accent strong")]))
    found.append(
        (
            0,
            [
                (clean(host.name) or "no host", "strong"),
                (" ", ""),
                (symbol, ink),
                (f" {word}", ink if word[:1].isalpha() else "dim"),
            ],
        )
    )
    if link.degraded:
        found.append((4, [("degraded", "warn")]))
    if snapshot.readonly:
        found.append((2, [("read-only", "warn")]))
    if snapshot.package:
        found.append((5, [(clean(snapshot.package.name), ""), (f" {clean(snapshot.package.version or '—')}", "dim")]))
    if snapshot.git:
        found.append((7, [(clean(snapshot.git.commit[:7]), "dim"), _dirty(snapshot)]))
    if snapshot.machine_changes:
        found.append((3, [("machine changed", "warn"), (" 8", "dim")]))
    run = snapshot.run
    symbol, word, ink = words.of_run(run, host_now(snapshot))
    found.append((0, [(f"{symbol} {word}", ink)]))
    if run and run.process and word[:4] in ("read", "star", "busy", "stop"):
        found.append((8, [(f"pid {run.process.pid}", "dim")]))
        if not run.adopted:
            found.append((6, [("not ours", "warn")]))
    if snapshot.profile:
        edited: list[Span] = [(" •edited", "warn")] if snapshot.profile_edited else []
        found.append((0, [(clean(snapshot.profile.name), ""), *edited]))
    else:
        found.append((6, [("no profile", "dim")]))
    found.append((0, _patches(snapshot.patches, short)))
    return found


def _dirty(snapshot: Snapshot) -> Span:
    """Return how many files are changed since the last commit, and how many of them hold our patches only."""
    git = snapshot.git
    if git is None or not git.dirty:
        return " clean", "dim"
    ours = len(dirty_of_ours(git, snapshot.package, snapshot.patches))
    told = f", {ours} ours" if ours else ""
    return f" ±{len(git.dirty)}{told}", "dim" if ours == len(git.dirty) else "warn"


def _patches(patches: tuple[PatchStatus, ...], short: bool) -> list[Span]:
    said = words.of_patches(patches, short=short)
    ink = (
        "warn"
        if "restart" in said or "drifted" in said or "conflict" in said
        else "good"
        if said[:1].isdigit()
        else "dim"
    )
    return [("patches ", "dim"), (said, ink)]


class Status(Painting):
    """The first line of the cockpit."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self.snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.snapshot = snapshot
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the line, without the pieces that do not fit."""
        found = pieces(self.snapshot, short=width < 120)
        time: list[Span] = [(clock.of_day(clock.wall()), "dim"), (" ", "")] if width >= 120 else []
        gap = "   " if width >= 120 else "  "

        def joined(kept: list[Piece]) -> list[Span]:
            spans: list[Span] = [(" ", "")]
            for place, (_, piece) in enumerate(kept):
                spans += [(gap, "")] * (place > 0) + piece
            return spans

        while width_of(joined(found)) + width_of(time) + 1 > width and any(early for early, _ in found):
            latest = max(early for early, _ in found)
            found = [piece for piece in found if piece[0] != latest]
        line = joined(found)
        for most in range(40, 9, -1):  # then the longest names give way, with a sign that they did
            if width_of(line) <= width:
                break
            found = [(early, [(_cut(text, most), ink) for text, ink in piece]) for early, piece in found]
            line = joined(found)
        return [spread(_clipped(line, width), time, width)]


def _clipped(line: list[Span], width: int) -> list[Span]:
    """Return the spans that fit, ended between two words with an ellipsis where some do not."""
    if width_of(line) <= width:
        return line
    kept: list[Span] = []
    for text, ink in line:
        room = width - width_of(kept) - 1
        if cell_len(text) > room:
            return [*kept, (text[: max(0, room)].rpartition(" ")[0].rstrip() + "…", ink)]
        kept.append((text, ink))
    return kept


def _cut(text: str, least: int) -> str:
    """Return a long word with an ellipsis; numbers and short words stay whole."""
    return fit(text, least) if cell_len(text) > least and " " not in text.strip() else text
