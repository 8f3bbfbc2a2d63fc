"""The cockpit under load, without a host: 8 GPUs at 10 Hz and 5,000 log lines a second; `j` shows a counter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from console.domain.run import LogKind, LogRecord, Run
from console.ui.app import TokwattApp
from console.ui.options import Options
from console.ui.widgets.tree import TreeView
from tests.ui import fakes


class Loaded(fakes.Operations):
    """Operations that never rest."""

    async def watch_watch_gpus(self, desk: Any) -> None:
        began = time.time()
        while True:
            now = time.time()
            sample = fakes.gpu_sample(250 + 40 * ((now - began) % 1), now, time.monotonic())
            history = tuple((now - 60 + i, tuple(250.0 + (i * g) % 40 for g in range(8))) for i in range(60))
            desk.store.update(gpus=sample, gpu_history=history)
            await asyncio.sleep(0.1)

    async def logs_follow(self, desk: Any, run: Run) -> AsyncIterator[tuple[LogRecord, ...]]:
        number = 0
        while True:
            batch = []
            for _ in range(250):
                number += 1
                batch.append(
                    LogRecord(
                        LogKind.DECODE,
                        f"[2026-12-02 14:02:31 TP0] Decode batch, #running-req: {number}, gen throughput (token/s): 3741.00",
                    )
                )
            yield tuple(batch)
            await asyncio.sleep(0.05)


def main() -> None:
    """Run it on this terminal."""
    patch = pytest.MonkeyPatch()
    filled = fakes.snapshot(gpus=fakes.gpu_sample(), marks=())
    desk = fakes.FakeDesk(filled)
    Loaded(desk).install(patch)
    shown = TreeView.line
    pressed = [0]

    def counted(self: TreeView, index: int, width: int) -> Any:
        return [(f"KEY{pressed[0]:04}", ""), *shown(self, index, width)]

    def move(self: TreeView, by: int) -> None:
        pressed[0] += 1
        self.refresh_line(0)

    patch.setattr(TreeView, "line", counted)
    patch.setattr(TreeView, "action_move", move)
    TokwattApp(Options(("blackwell",))).run()


if __name__ == "__main__":
    main()
