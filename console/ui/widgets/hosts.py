"""Hosts: a tab for each host of the cockpit, and what all of them draw and make together."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from console.domain.host import Link
from console.domain.text import clean
from console.ui import clock, words
from console.ui.drawing import Span, fit, spread, width_of
from console.ui.seats import Seat
from console.ui.widgets.inks import Painting

FRESH_S = 10.0
"""Older readings are left out of a sum: a host that is silent now draws nobody knows what."""


class Hosts(Painting):
    """The first line, where there is more than one host."""

    class Picked(Message):
        """A host was picked."""

        def __init__(self, seat: Seat) -> None:
            super().__init__()
            self.seat = seat

    def __init__(self, seats: Sequence[Seat], front: Seat) -> None:
        super().__init__(id="hosts")
        self.seats = seats
        self.front = front
        self.display = len(seats) > 1

    def show(self) -> None:
        """Show the tabs as the hosts are now."""
        self.display = len(self.seats) > 1
        self.repaint()

    def step(self, by: int) -> None:
        """Pick the next host, or the one before."""
        if len(self.seats) > 1:
            self.post_message(self.Picked(self.seats[(self.front.number + by) % len(self.seats)]))

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return the tabs, and the sums at the right where they have room."""
        sums = [(text, "strong") for text in (summed(self.seats),) if text]
        room = max(8, (width - 2 - width_of(sums)) // len(self.seats) - 2)
        tabs: list[Span] = []
        for seat in self.seats:
            tabs += self._tab(seat, room)
        if width_of(tabs) + width_of(sums) + 3 > width:
            sums = []
        return [spread([(" ", ""), *tabs], [*sums, (" ", "")], width)]

    def _tab(self, seat: Seat, room: int) -> list[Span]:
        """Return ` name ● state tok/s `, shorter where there is less room."""
        snapshot = seat.snapshot
        symbol, link, ink = words.of_link(snapshot.link)
        state = link
        if snapshot.link.link is Link.UP and snapshot.run is not None:
            _, state, _ = words.of_run(snapshot.run, clock.wall())
            state = state.split(" ")[0]
        speed = snapshot.throughput.output_tok_s if snapshot.throughput else None
        if speed:
            state += f" {speed:,.0f} tok/s"
        name = f" {seat.number + 1} {clean(snapshot.host.name) or 'no host'} "
        under = "cursor accent strong" if seat is self.front else "dim"
        pieces: list[Span] = [(name, under), (symbol, f"cursor {ink}" if seat is self.front else ink)]
        rest = room - width_of(pieces) - 2
        if rest < 0:
            pieces[0] = (fit(name, max(4, len(name) + rest)), under)
        elif len(state) <= rest:
            pieces.append((f" {state}", under))
        return [*pieces, (" ", under), (" ", "")]

    def on_click(self, event: events.Click) -> None:
        """Go to the host whose tab was clicked."""
        room = max(8, (self.size.width - 2 - width_of([(summed(self.seats), "")])) // len(self.seats) - 2)
        left = 1
        for seat in self.seats:
            wide = width_of(self._tab(seat, room))
            if left <= event.x < left + wide - 1:
                self.post_message(self.Picked(seat))
            left += wide


def summed(seats: Sequence[Seat]) -> str:
    """Return what the hosts with fresh readings draw and make together; empty while fewer than two have any."""
    now = clock.monotonic()
    watts = limit = speed = 0.0
    drawing = making = 0
    for seat in seats:
        sample, throughput = seat.snapshot.gpus, seat.snapshot.throughput
        if sample is not None and now - sample.received <= FRESH_S:
            known = [gpu for gpu in sample.gpus if gpu.power_draw_w is not None]
            watts += sum(gpu.power_draw_w or 0.0 for gpu in known)
            limit += sum(gpu.power_limit_w or 0.0 for gpu in known)
            drawing += bool(known)
        if throughput is not None and throughput.output_tok_s is not None and not throughput.stale:
            speed += throughput.output_tok_s
            making += 1
    parts = []
    if drawing > 1:
        parts.append(f"{drawing} hosts {watts:,.0f} of {limit:,.0f} W" if limit else f"{watts:,.0f} W")
    if making > 1 or (making and drawing > 1):
        parts.append(f"{speed:,.0f} tok/s")
    return " · ".join(parts)
