"""Replay: the cockpit's gauges on the time of a recorded run; nothing here touches a host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from console.domain.text import clean
from console.operations.catalogue import BY_ID, VERBS
from console.operations.overview import overview
from console.operations.tape import Tape
from console.ui.drawing import MARKS, Span, clock, fit, spread, width_of
from console.ui.player import STEP_S, Player
from console.ui.widgets.compact import CompactGauges
from console.ui.widgets.frame import Framed
from console.ui.widgets.gpus import Gpus
from console.ui.widgets.inks import Painting
from console.ui.widgets.lines import Lines
from console.ui.widgets.throughput import Throughput
from console.ui.widgets.timeline import Timeline

WIDE = (140, 40)
PAINTS_PER_S = 8
PARTS = 2400
"""Parts that the whole run is read in; no terminal has more columns."""

KEYS = (
    ("space", "pause"), ("> <", "faster, slower"), ("→ ←", f"{STEP_S:.0f} s"), (". ,", "one row"), ("] [", "mark"),
    ("g G", "begin, end"), ("4 5", "one gauge"), ("esc", "leave"),
)  # fmt: skip

OWN = {"escape", "q", "ctrl+q", "ctrl+t", "3", "4", "5", "space"}
"""Keys of the cockpit that mean something here."""

REFUSED = [(key, verb.id) for verb in VERBS if not verb.where for key in verb.keys if key not in OWN]
"""The others, with their verbs."""


class ReplayBar(Painting):
    """The first line: that it is a replay, of which run, and its own clock."""

    DEFAULT_CSS = "ReplayBar { height: 1; background: $panel; }"

    def __init__(self, player: Player) -> None:
        super().__init__(id="replay-bar")
        self.player = player

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the line."""
        player, tape, entry = self.player, self.player.tape, self.player.tape.entry
        state = "▶" if player.playing else "at the end" if player.over else "paused"
        speed = f"×{player.speed:g}"
        left: list[Span] = [(" ", ""), (" REPLAY ", "cursor warn strong"), (" ", "")]
        if entry.badge:
            left += [(f" {clean(entry.badge)} ", "cursor accent strong"), (" ", "")]
        left += [("run ", "dim"), (clean(entry.id), "strong")]
        lasted = f"{clock(player.now - tape.began)} of {clock(tape.ended - tape.began)}"
        shown = "%Y-%m-%d %H:%M:%S" if width >= 100 else "%H:%M:%S"
        moment = time.strftime(shown, time.localtime(player.now))
        right: list[Span] = [(f"{state} ", "accent strong"), (speed, "strong"), (f"  {lasted}  ", "dim"), (moment, "strong"), (" ", "")]  # fmt: skip
        for piece in ((f" on {clean(entry.host)}", "dim"), (f"  {clean(entry.profile)}", "function"), self._patches()):
            if piece[0] and width_of(left) + len(piece[0]) + width_of(right) + 2 <= width:
                left.append(piece)
        return [spread(left, right, width)]

    def _patches(self) -> Span:
        on = self.player.tape.entry.identity.get("patches_on") or ()
        return (f"  patches {', '.join(clean(str(name)) for name in on)}" if on else "", "dim")


class ReplayKeys(Painting):
    """The last line: the keys of a replay."""

    DEFAULT_CSS = "ReplayKeys { height: 1; background: $background; }"

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return as many keys as fit."""
        spans: list[Span] = [(" ", "")]
        for key, word in KEYS:
            piece: list[Span] = [(key, "accent strong"), (f" {word}  ", "dim")]
            if width_of(spans) + width_of(piece) <= width:
                spans += piece
        return [spans]


class Story(Lines, Framed):
    """What happened in the run, in the order of time; enter goes there."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(id="story")
        self.tape = tape
        told = [(mark.time, mark.kind, clean(mark.text)) for mark in tape.marks]
        told += [(began, "gap", clean(f"nobody watched for {clock(ended - began)}")) for began, ended in tape.gaps]
        self.rows = sorted(told)
        self.now = tape.began
        self.entitle("3", "Story", "enter goes there")

    def show(self, now: float) -> None:
        """Follow the replay, unless the operator is looking around."""
        if now == self.now:
            return
        self.now = now
        if not self.has_focus and self.rows:
            past = sum(time <= now + 0.001 for time, _, _ in self.rows)
            self.cursor = max(0, past - 1)
        self.refresh()

    def count(self) -> int:
        """Return how many things happened."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one of them; what is still to come is dim."""
        moment, kind, text = self.rows[index]
        sign = MARKS.get(kind, {"gap": "╌", "end": "■", "ready": "●"}.get(kind, "·"))
        come = moment <= self.now + 0.001
        here: Span = ("▌" if index == self.cursor else " ", "accent")
        shown = time.strftime("%H:%M:%S", time.localtime(moment))
        return [
            here,
            (f"{shown}  {clock(moment - self.tape.began) if moment >= self.tape.began else '—':>8}  ", "dim"),
            (f"{sign} ", "mark" if come else "dim"),
            (fit(clean({"restart": "launch"}.get(kind, kind)), 12), "strong" if come else "dim"),
            (text, "" if come else "dim"),
        ]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        return [[("  patches, launches, measurements and gaps of the run", "dim")]]


class ReplayScreen(Screen[None]):
    """A recorded run, played again.

    Args:
        tape: The run.
        speed: Times as fast as it was.
        alone: Whether there is nothing below: to leave it is to leave the program.
    """

    CSS = """
    ReplayScreen {
      #gauges { height: 11; }
      #gpus, #throughput { width: 1fr; height: 100%; }
      #compact { height: 4; display: none; }
      #timeline { height: 1fr; min-height: 7; }
      #story { height: 1fr; }
      &.-single #gauges { display: none; }
      &.-single #compact { display: block; }
      &.-one #timeline, &.-one #story, &.-one #compact { display: none; }
      &.-one #gauges { display: block; height: 1fr; }
    }
    """
    AUTO_FOCUS = "#timeline"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", show=False, priority=True),
        Binding("greater_than_sign", "faster(1)", show=False),
        Binding("less_than_sign", "faster(-1)", show=False),
        Binding("right,l", "seek(1)", show=False, priority=True),
        Binding("left,h", "seek(-1)", show=False, priority=True),
        Binding("full_stop", "step(1)", show=False),
        Binding("comma", "step(-1)", show=False),
        Binding("right_square_bracket,n", "mark(1)", show=False),
        Binding("left_square_bracket,N", "mark(-1)", show=False),
        Binding("g,home", "edge(0)", show=False),
        Binding("G,end", "edge(1)", show=False),
        Binding("4", "one('gpus')", show=False),
        Binding("5", "one('throughput')", show=False),
        Binding("3", "show_story", show=False),
        Binding("escape", "go_back", show=False),
        Binding("q", "leave", show=False),
        *(Binding(key, f"refuse('{verb}')", show=False) for key, verb in REFUSED),
    ]

    def __init__(self, tape: Tape, speed: float = 10.0, *, alone: bool = False) -> None:
        super().__init__()
        self.alone = alone
        self.tape = tape
        self.player = Player(tape, speed)
        self._shown: tuple[float, float, bool] | None = None
        self._one = ""

    def compose(self) -> ComposeResult:
        """Put gauges above the whole run and its story."""
        yield ReplayBar(self.player)
        yield CompactGauges()
        with Horizontal(id="gauges"):
            yield Gpus()
            yield Throughput()
        yield Timeline(self.tape)
        yield Story(self.tape)
        yield ReplayKeys()

    async def on_mount(self) -> None:
        """Begin to play, and read the whole run in the background."""
        self.set_interval(1 / PAINTS_PER_S, self._tick)
        self.run_worker(self._read(), group="replay", exclusive=True)
        self._show()

    async def _read(self) -> None:
        whole = await asyncio.to_thread(overview, self.tape, PARTS)
        self.query_one(Timeline).show(self.player.now, whole)

    def _tick(self) -> None:
        if not self.is_current:
            return
        self.player.tick()
        self._show()

    def _show(self) -> None:
        player = self.player
        key = (player.now, player.speed, player.playing)
        if key == self._shown:
            return
        moved = self._shown is None or self._shown[0] != player.now
        self._shown = key
        self.query_one(ReplayBar).repaint()
        if not moved:
            return
        snapshot = self.tape.snapshot(player.now)
        self.query_one(CompactGauges).show(snapshot)
        self.query_one(Gpus).show(snapshot)
        self.query_one(Throughput).show(snapshot)
        self.query_one(Timeline).show(player.now)
        self.query_one(Story).show(player.now)

    # layout

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size."""
        self._lay_out()

    def _lay_out(self) -> None:
        width, height = self.size
        self.set_class(width < WIDE[0] or height < WIDE[1], "-single")
        self.set_class(bool(self._one), "-one")
        for pane in ("gpus", "throughput"):
            self.query_one(f"#{pane}").display = self._one in ("", pane)

    # keys

    def action_pause(self) -> None:
        """Stop, or go on."""
        self.player.pause()
        self._show()

    def action_faster(self, way: int) -> None:
        """Play faster or slower."""
        self.player.faster(way)
        self._show()

    def action_seek(self, way: int) -> None:
        """Go some seconds on or back."""
        self.player.seek(self.player.now + way * STEP_S)
        self._show()

    def action_step(self, way: int) -> None:
        """Go one row on or back."""
        self.player.step(way)
        self._show()

    def action_mark(self, way: int) -> None:
        """Go to the next mark or the one before."""
        if not self.player.mark(way):
            self._say("no further mark" if way > 0 else "no earlier mark")
        self._show()

    def action_edge(self, end: int) -> None:
        """Go to the begin or the end."""
        self.player.seek(self.tape.ended if end else self.tape.began)
        self._show()

    def action_one(self, pane: str) -> None:
        """Give one gauge the whole screen, or take it back."""
        self._one = "" if self._one == pane else pane
        self._lay_out()

    def action_show_story(self) -> None:
        """Look around in the story."""
        self._one = ""
        self._lay_out()
        self.query_one(Story).focus()

    def action_go_back(self) -> None:
        """Take a gauge back, come back from the story, then leave."""
        if self._one:
            self.action_one(self._one)
        elif self.query_one(Story).has_focus:
            self.query_one(Timeline).focus()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        """Leave the replay."""
        if self.alone:
            self.app.exit(0)
        else:
            self.dismiss()

    def action_refuse(self, verb: str) -> None:
        """Say that nothing can be done to a host from here."""
        run = clean(self.tape.entry.id)
        self._say(f"{BY_ID[verb].title}: refused, this is a REPLAY of run {run} and touches no host; esc leaves it")

    def _say(self, text: str) -> None:
        self.notify(clean(text), markup=False, timeout=4, severity="warning")

    def on_timeline_sought(self, event: Timeline.Sought) -> None:
        """Go to where the mouse was."""
        self.player.seek(event.time)
        self._show()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Go to what was chosen."""
        moment, _, _ = self.query_one(Story).rows[event.index]
        self.player.seek(moment)
        self._show()
