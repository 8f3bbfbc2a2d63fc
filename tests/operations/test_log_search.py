"""A search of a whole log by the host finds exactly what reading all of it finds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from console.domain.run import Run, RunPhase
from console.engines.records import LogParser
from console.engines.registry import engine
from console.operations import log_search
from console.operations.desk import Desk
from console.operations.log_filter import make
from console.remote.link import HostLink

TRACEBACK = (
    "[2026-01-20 10:00:{second:02d} TP3] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "scheduler.py", line 12, in run\n    step()\nRuntimeError: boom in layer {number}\n\n'
)


def flood(lines: int) -> bytes:
    """Return a log as servers write it: floods, with few other things between them."""
    luck = random.Random(7)
    out = []
    for number in range(lines):
        second = number // 100 % 60
        stamp = f"[2026-01-20 10:00:{second:02d} TP{number % 4}]"
        out.append(f"{stamp} Decode batch, #running-req: {number % 64}, #token: {number}, #queue-req: 0\n")
        if number % 7 == 0:
            out.append('INFO:     127.0.0.1:4711 - "GET /health HTTP/1.1" 200 OK\n')
        if luck.random() < 0.01:
            out.append(TRACEBACK.format(second=second, number=number))
        if luck.random() < 0.01:
            out.append(f"{stamp} KV cache pool is full. Retract requests. größe\n")
    return "".join(out).encode()


@pytest.mark.parametrize(
    "asked",
    [
        {"pattern": "boom"},
        {"pattern": "Retract"},
        {"pattern": "^RuntimeError: boom in layer [0-9]*5$"},
        {"pattern": "GRÖSSE|größe"},
        {"pattern": "Decode", "inverse": True},
        {"kinds": "access"},
        {"kinds": "failure"},
        {"level": "warning"},
        {"level": "error"},
        {"rank": "TP3"},
        {"rank": "3", "level": "error"},
    ],
    ids=str,
)
@pytest.mark.parametrize("backward", [False, True])
async def test_what_reading_everything_finds(
    local_link: HostLink, tmp_path: Path, asked: dict[str, object], backward: bool
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(flood(3000))
    wanted = make(**asked)  # type: ignore[arg-type]
    parser = LogParser(engine("sglang").grammar())
    every = [record for record in [*parser.feed(log.read_bytes()), *parser.close()] if wanted.accepts(record)]
    run = Run("1", "p", "sglang", str(tmp_path), str(log), 30000, 0.0, phase=RunPhase.READY)
    trips = local_link.round_trips
    found = [
        record
        async for told in log_search.search(Desk(local_link), run, wanted, backward=backward)
        for record in told.records
    ]
    assert local_link.round_trips - trips <= 1 + log.stat().st_size // log_search.TAKEN_BYTES
    assert sorted((record.offset, record.raw) for record in found) == [(record.offset, record.raw) for record in every]
    assert every or "kinds" in asked


async def test_few_finds_in_each_of_many_blocks_come_to_an_end(local_link: HostLink, tmp_path: Path) -> None:
    log, blocks = tmp_path / "server.log", 56  # more than the 48 parts that the host sends untold
    filler = (b"[2026-01-20 10:00:00 TP0] " + b"y" * 4070 + b"\n") * (4 * 256)
    with log.open("wb") as file:
        for number in range(blocks):
            file.write(b"[2026-01-20 10:00:00 TP0] needle %d\n" % number + filler)
    run = Run("1", "p", "sglang", str(tmp_path), str(log), 30000, 0.0, phase=RunPhase.READY)
    wanted = make(pattern="needle")
    found = [r async for told in log_search.search(Desk(local_link), run, wanted) for r in told.records]
    assert len(found) == blocks
