"""One follower for all who want a run's records: nothing lost, doubled or read twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from console.domain.run import LogKind, LogRecord, Run, RunPhase
from console.engines.records import LogParser
from console.errors import ConsoleError
from console.operations import following, logs
from console.operations.desk import Desk
from console.remote.link import HostLink
from tests.ssh_servers import SshServer


def lines(first: int, count: int) -> bytes:
    return b"".join(b"[2026-01-02 03:04:05 TP0] line %06d\n" % number for number in range(first, first + count))


def run_of(log: Path) -> Run:
    return Run("2026-01-02-1", "p", "sglang", str(log.parent), str(log), 30000, 0.0, phase=RunPhase.READY)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(b"")
    return path


class Listener:
    """Somebody who follows; what came is in `got`."""

    def __init__(self, source: AsyncIterator[tuple[LogRecord, ...]]) -> None:
        self.got: list[LogRecord] = []
        self._source = source
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for records in self._source:
            self.got.extend(records)

    async def has(self, count: int) -> None:
        """Wait until so many records came."""
        async with asyncio.timeout(30):
            while len(self.got) < count:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)

    @property
    def numbers(self) -> list[int]:
        return [int(record.raw.split()[-1]) for record in self.got]

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the bytes that parsers were given."""
    count = 0
    feed = LogParser.feed

    def counted(self: LogParser, data: bytes) -> list[LogRecord]:
        nonlocal count
        count += len(data)
        return feed(self, data)

    monkeypatch.setattr(LogParser, "feed", counted)
    return lambda: count


async def test_three_listeners_cost_one_reading(local_link: HostLink, log: Path, fed: Callable[[], int]) -> None:
    log.write_bytes(lines(0, 500))
    desk, run = Desk(local_link), run_of(log)
    pane = Listener(logs.follow(desk, run))
    await pane.has(500)
    watcher = Listener(logs.follow(desk, run, from_offset=len(lines(0, 200))))
    speed = Listener(logs.follow(desk, run, tail_lines=0))
    await watcher.has(300)
    with log.open("ab") as file:
        file.write(lines(500, 700))
    for listener, count in ((pane, 1200), (watcher, 1000), (speed, 700)):
        await listener.has(count)
    assert pane.numbers == list(range(1200))
    assert watcher.numbers == list(range(200, 1200))
    assert speed.numbers == list(range(500, 1200))
    assert fed() == log.stat().st_size
    for listener in (pane, watcher, speed):
        await listener.leave()
    assert following._followings[local_link] == {}


async def test_what_is_older_than_the_shared_part_is_read_apart(local_link: HostLink, log: Path) -> None:
    log.write_bytes(lines(0, 3000))
    desk, run = Desk(local_link), run_of(log)
    pane, whole = Listener(logs.follow(desk, run)), Listener(logs.follow(desk, run, from_offset=0))
    await pane.has(1000)
    await whole.has(3000)
    assert pane.numbers == list(range(2000, 3000))
    assert whole.numbers == list(range(3000))
    await whole.leave()
    with log.open("ab") as file:
        file.write(lines(3000, 5))
    await pane.has(1005)
    await pane.leave()


async def test_who_comes_alone_from_the_start_gets_everything(local_link: HostLink, log: Path) -> None:
    log.write_bytes(lines(0, 3000))
    whole = Listener(logs.follow(Desk(local_link), run_of(log), from_offset=0))
    await whole.has(3000)
    assert whole.numbers == list(range(3000))
    await whole.leave()


async def test_who_listens_slowly_and_leaves_holds_nobody_up(local_link: HostLink, log: Path) -> None:
    desk, run = Desk(local_link), run_of(log)
    pane = Listener(logs.follow(desk, run))
    lazy = logs.follow(desk, run)
    with log.open("ab") as file:
        file.write(lines(0, 10))
    assert len(await anext(lazy)) >= 1
    with log.open("ab") as file:
        file.write(lines(10, 40_000))
    await pane.has(500)
    await lazy.aclose()
    await pane.has(40_010)
    assert pane.numbers == list(range(40_010))
    await pane.leave()


async def test_a_log_that_is_not_there_is_told_to_everyone(local_link: HostLink, tmp_path: Path) -> None:
    desk, run = Desk(local_link), run_of(tmp_path / "nowhere.log")
    both = [Listener(logs.follow(desk, run)), Listener(logs.follow(desk, run, tail_lines=0))]
    for listener in both:
        with pytest.raises(ConsoleError, match="nowhere"):
            await listener.has(1)


async def test_a_traceback_is_whole_when_the_log_is_said_to_be_over(local_link: HostLink, log: Path) -> None:
    desk, run = Desk(local_link), run_of(log)
    pane = Listener(logs.follow(desk, run))
    with log.open("ab") as file:
        file.write(lines(0, 1) + b"Traceback (most recent call last):\n  File 'x'\nValueError: no end of line")
    await pane.has(1)
    async with asyncio.timeout(30):
        while len(pane.got) < 2:
            await following.settle(desk, run)
            await asyncio.sleep(0.01)
    assert pane.got[1].raw.endswith("ValueError: no end of line")
    await pane.leave()


async def test_records_over_lost_links_and_rotations(link: HostLink, ssh_server: SshServer, log: Path) -> None:
    """Copied and truncated, renamed and created, cut off in between: each line once, in order."""
    desk, run = Desk(link), run_of(log)
    pane = Listener(logs.follow(desk, run))
    number = 0

    async def write(count: int) -> None:
        nonlocal number
        with log.open("ab") as file:
            file.write(lines(number, count))
        number += count

    for how in ("drop", "truncate", "rename", "drop and rename"):
        await write(300)
        if how.startswith("drop"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await pane.has(number)  # cut off somewhere
            await ssh_server.drop()
        if "rename" in how:
            await write(50)
            os.rename(log, log.with_suffix(".1"))
            log.write_bytes(b"")
        if how == "truncate":
            await pane.has(number)  # what is truncated before it was read is gone for any reader
            log.write_bytes(b"")
        await write(100)
        await pane.has(number)
    assert pane.numbers == list(range(number))
    await pane.leave()


def test_a_later_failure_is_not_taken_for_the_first_cause() -> None:
    verdict = LogRecord(LogKind.FAILURE, "", cause="GPU 0 is out of memory: 1 GiB asked (during: weights) on TP0, TP1")
    assert logs.tells(LogRecord(LogKind.FAILURE, "", cause="GPU 0 is out of memory: 1 GiB asked"), verdict)
    assert not logs.tells(LogRecord(LogKind.FAILURE, "", cause="NCCL error: remote process exited"), verdict)
    assert not logs.tells(None, verdict)
