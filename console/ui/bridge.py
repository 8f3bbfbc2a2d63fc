"""The bridge: one worker over the store's changes, one reactive for all widgets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from console.state.store import Snapshot, Store
from console.ui import clock

if TYPE_CHECKING:
    from console.ui.app import TokwattApp

READINGS_PER_S = 4
"""Paints of gauges alone; sampling may be faster."""

BEHIND_PER_S = 1
"""The same for a host that is not in front: its tab alone is seen."""

READINGS = {
    "gpus",
    "gpu_history",
    "throughput",
    "tok_s_history",
    "best_tok_s",
    "diagnosis",
    "peak_w",
    "energy_j_per_token",
    "link",
}
SHOWN = [name for name in Snapshot.__slots__ if name not in READINGS]


def only_readings(old: Snapshot, new: Snapshot) -> bool:
    """Return whether nothing changed but gauges, which may wait for their next paint."""
    return old.link.link is new.link.link and all(getattr(old, name) is getattr(new, name) for name in SHOWN)


async def bridge(app: TokwattApp, store: Store) -> None:
    """Carry the newest snapshot to the screen for as long as the app lasts."""
    painted, seat = 0.0, app.seat
    async for snapshot in store.changes():
        while only_readings(seat.snapshot, snapshot):
            per_s = READINGS_PER_S if seat is app.front else BEHIND_PER_S
            if (wait := painted + 1 / per_s - clock.monotonic()) <= 0:
                break
            await asyncio.sleep(min(wait, 0.05))
            snapshot = store.snapshot
        app.snapshot = replace(snapshot, link=seat.link if seat.desk is not None else snapshot.link)
        painted = clock.monotonic()
