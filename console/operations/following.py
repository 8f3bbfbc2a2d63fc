"""One follower of a run's log, shared by all who want its records: bytes are fetched and read once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from console.domain.run import LogRecord, Run
from console.engines.records import LogParser
from console.engines.registry import engine
from console.operations.desk import Desk
from console.operations.log_parts import HEAD, LogFile, Part, parser_of, parts, settled

BACKLOG_LINES = 1000
"""Where a follower begins: so many lines before the end."""

KEPT_RECORDS = 4000
KEPT_CHARACTERS = 8 << 20
"""What is kept for those who come later."""

SLICE = 16 * 1024
"""Bytes read at a time: a few milliseconds, in which nothing is drawn."""

AHEAD = 8
"""Batches that a slow reader may be behind before the others wait for it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that became known together."""

    records: tuple[LogRecord, ...] = ()
    fed: int = 0
    """Offset behind the last byte that was read."""
    anew: bool = False
    """The file began anew: it was truncated, or another took its place."""
    settled: bool = False
    """The log has been quiet: no record waits for more lines."""
    before: int = 0
    """Offset of the end of the log when its following began: what lies before is past."""
    file: LogFile = LogFile()
    """Where the records stand."""


_Item = Batch | BaseException


class Following:
    """Follows one log for as long as somebody listens."""

    def __init__(self, desk: Desk, run: Run, *, offset: int | None = None, lines: int = BACKLOG_LINES) -> None:
        self._run = run
        self._source = parts(desk, run.log, offset=offset, lines=None if offset is not None else lines)
        self._parser = LogParser(engine(run.engine).grammar())
        self._kept: deque[Batch] = deque()
        self._kept_records = self._kept_characters = 0
        self._listeners: list[asyncio.Queue[_Item]] = []
        self._from: int | None = None
        self._before = 0
        self._file = LogFile()
        self._begun = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name=f"log {run.id}")

    @property
    def over(self) -> bool:
        """Whether it has ended, by a fault."""
        return self._task.done()

    async def covers(self, offset: int) -> bool:
        """Return whether everything from a byte on is still at hand."""
        waiting = asyncio.create_task(self._begun.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return self._from is not None and self._from <= offset

    async def listen(self, offset: int | None, past: bool) -> AsyncGenerator[Batch, None]:
        """Yield batches for ever, those at hand first.

        Args:
            offset: Records that begin before this byte are left out.
            past: Whether what is at hand already is wanted at all.
        """
        queue: asyncio.Queue[_Item] = asyncio.Queue(AHEAD)
        kept = list(self._kept) if past else []
        if self._task.done():
            self._task.result()
        self._listeners.append(queue)
        try:
            for batch in kept:
                yield _from(batch, offset)
            while True:
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                if past or item.fed > item.before or item.anew:
                    yield _from(item, offset if past else None)
        finally:
            self._listeners.remove(queue)
            while not queue.empty():
                queue.get_nowait()  # whoever waits to put something here must not wait for ever

    @property
    def listened(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    async def settle(self) -> None:
        """Take every record as whole: the log will not go on."""
        await self._tell(self._parser.close(), settled=True)

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._task

    async def _follow(self) -> None:
        try:
            async with contextlib.aclosing(settled(self._source)) as source:
                async for part in source:
                    if part is None:
                        await self._tell(self._parser.settle(), settled=True)
                    else:
                        await self._take(part)
        except Exception as error:
            for queue in self._listeners:
                await queue.put(error)
            raise

    async def _take(self, part: Part) -> None:
        anew = part.event in ("truncated", "rotated")
        if anew or self._from is None:
            rest = self._parser.close() if anew else []
            if rest:
                await self._tell(rest)
            self._kept.clear()
            self._kept_records = self._kept_characters = 0
            self._parser = parser_of(self._run, part.offset)
            self._from, self._before = part.offset, 0 if anew else part.size
            self._file = LogFile(part.inode, part.head)
            self._begun.set()
            if anew:
                await self._tell([], anew=True)
        if part.data and part.offset == len(self._file.head) < HEAD:
            self._file = LogFile(part.inode, (self._file.head + part.data)[:HEAD])
        for start in range(0, len(part.data), SLICE):
            await self._tell(self._parser.feed(part.data[start : start + SLICE]))
            await asyncio.sleep(0)

    async def _tell(self, records: list[LogRecord], *, anew: bool = False, settled: bool = False) -> None:
        batch = Batch(tuple(records), self._parser.fed, anew, settled, self._before, self._file)
        if records:
            self._keep(batch)
        for queue in list(self._listeners):
            await queue.put(batch)

    def _keep(self, batch: Batch) -> None:
        self._kept.append(batch)
        self._kept_records += len(batch.records)
        self._kept_characters += sum(len(record.raw) for record in batch.records)
        while len(self._kept) > 1 and (self._kept_records > KEPT_RECORDS or self._kept_characters > KEPT_CHARACTERS):
            gone = self._kept.popleft()
            self._kept_records -= len(gone.records)
            self._kept_characters -= sum(len(record.raw) for record in gone.records)
            self._from = self._kept[0].records[0].offset


_followings: WeakKeyDictionary[object, dict[str, Following]] = WeakKeyDictionary()
"""By link and run."""


async def batches(
    desk: Desk, run: Run, *, from_offset: int | None = None, tail_lines: int = BACKLOG_LINES
) -> AsyncGenerator[Batch, None]:
    """Yield the records of a run's log as they come, for ever, together with whoever else follows it.

    Args:
        desk: The host.
        run: Whose log.
        from_offset: Byte to begin at; by default the last `BACKLOG_LINES` lines.
        tail_lines: 0 when the past is not wanted.
    """
    shared = _followings.setdefault(desk.link, {})
    following = shared.get(run.key)
    if following is None or following.over:
        following = shared[run.key] = Following(desk, run)
    private = from_offset is not None and not await following.covers(from_offset)
    if private:
        if not following.listened:
            shared.pop(run.key, None)
            await following.close()
        following = Following(desk, run, offset=from_offset)
    try:
        async with contextlib.aclosing(following.listen(from_offset, tail_lines > 0)) as stream:
            async for batch in stream:
                yield batch
    finally:
        if not following.listened:
            if shared.get(run.key) is following:
                del shared[run.key]
            await following.close()


async def settle(desk: Desk, run: Run) -> None:
    """Have every record of a run's log told: it will not go on."""
    following = _followings.get(desk.link, {}).get(run.key)
    if following is not None and not following.over:
        await following.settle()


def _from(batch: Batch, offset: int | None) -> Batch:
    if offset is None or batch.anew or not batch.records or batch.records[0].offset >= offset:
        return batch
    records = tuple(record for record in batch.records if record.offset >= offset)
    return Batch(records, batch.fed, batch.anew, batch.settled, batch.before, batch.file)
