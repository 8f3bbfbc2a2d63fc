"""Watching the run: its log and its process, followed together for as long as the console lives."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import Any

from console.domain import readiness
from console.domain.run import Failure, Run, RunPhase
from console.errors import DeadlineError, LinkLostError, RemoteError
from console.operations import blame, following, foreign, run_log, running, server, starting, units
from console.operations.desk import Desk
from console.operations.following import batches
from console.operations.log_parts import SETTLE_S, link_up
from console.operations.run_log import Reading
from console.operations.running import LIVING

LOOK_AGAIN_S = 15.0
"""How often a host without a living run is looked at: another operator may start one."""

FOREIGN_S = 5.0
FOREIGN_START_S = 1.5
"""How often the process of a server that is no run of ours is looked at."""

ASK_HTTP_S = 15.0
"""Each question is a line in the server's log."""

ASK_START_S = 1.0
"""Until a server whose log need not say so is ready."""

ASK_UNWELL_S = 3.0
"""How soon one is asked again that did not answer well."""

ASK_DOUBTED_S = 1.5
"""How soon one is asked again that answered well until now."""

ANSWERED_S = 4.0
ASKED = (RunPhase.READY, RunPhase.BUSY, RunPhase.DEGRADED)


async def watch_run(desk: Desk) -> None:
    """Keep the store's run fresh for ever, over reconnects; ends only when the link is given up."""
    while True:
        try:
            await link_up(desk)
            run = desk.store.snapshot.run
            if run is not None and foreign.is_foreign(run):
                await _watch_foreign(desk, run)
                continue
            if run is None or run.phase not in LIVING or not run.adopted:
                run = await server.status(desk)
            if run is not None and run.adopted and run.phase in LIVING:
                await _Watcher(desk, run).watch()
            else:
                await _another(desk, run)
        except (LinkLostError, DeadlineError):
            await asyncio.sleep(0.3)
        except RemoteError as error:
            if error.kind != "degraded":
                raise
            await asyncio.sleep(LOOK_AGAIN_S)  # no Python on the host: runs cannot be asked for


async def _watch_foreign(desk: Desk, run: Run) -> None:
    """Keep a server fresh that is no run of ours, until it is gone or another one is shown."""
    while True:
        waited = 0.0
        while waited < (FOREIGN_START_S if run.phase is RunPhase.STARTING else FOREIGN_S):
            await asyncio.sleep(0.25)
            waited += 0.25
            shown = desk.store.snapshot.run
            if shown is None or shown.key != run.key or not foreign.is_foreign(shown):
                return
        told = await foreign.again(desk, run, asked=not _answered_lately(desk, run))
        shown = desk.store.snapshot.run
        if shown is None or shown.key != run.key or not foreign.is_foreign(shown):
            return
        run = replace(told, resolved=told.resolved or shown.resolved)
        if run != shown:
            desk.store.update(run=run)


async def _another(desk: Desk, run: Run | None) -> None:
    """Return when another run is shown, or it is time to look again."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_AGAIN_S):
            async for snapshot in desk.store.changes():
                now = snapshot.run
                if now is not None and now.phase in LIVING and (run is None or now.id != run.id):
                    return


def _answered_lately(desk: Desk, run: Run) -> bool:
    """Return whether the speed was read over HTTP a moment ago: asking once more would only be a line in the log."""
    snapshot = desk.store.snapshot
    sample = snapshot.throughput
    if sample is None or not sample.source.startswith("/") or snapshot.run is None or snapshot.run.id != run.id:
        return False
    return time.monotonic() - sample.received < ANSWERED_S


class _Watcher:
    """One run watched to its end."""

    def __init__(self, desk: Desk, run: Run) -> None:
        self._desk = desk
        self._run = run
        self._state: dict[str, Any] | None = None
        self._reading: Reading | None = None
        self._answers: str | None = None
        self._doubted = False
        self._noted = False
        self._fed_at = 0.0
        self._ask_at = 0.0
        self._settled = False
        self._blame: tuple[Failure, Failure | None] | None = None
        self._changed = asyncio.Event()

    async def watch(self) -> None:
        """Watch until nothing of the run is left."""
        patterns = await running.evidence_patterns(self._desk)
        self._reading = await run_log.read_through(self._desk, self._run, patterns)
        self._reading.usual = await starting.usual_times(self._desk, self._run)
        tasks = [
            asyncio.create_task(self._follow_log(self._reading), name="watch log"),
            asyncio.create_task(self._follow_process(), name="watch process"),
        ]
        try:
            while not await self._show():
                waiting = asyncio.create_task(self._changed.wait())
                try:
                    await asyncio.wait([waiting, *tasks], timeout=SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                self._changed.clear()
                for task in tasks:
                    if task.done():
                        task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_log(self, reading: Reading) -> None:
        """Take the log's records where `reading` stopped, from the follower that all share."""
        begin, reading.parser = reading.parser.told, run_log.reading_of(self._run).parser
        async with contextlib.aclosing(batches(self._desk, self._run, from_offset=begin)) as source:
            async for batch in source:
                reading.offset = batch.fed
                reading.take(batch.records)
                if batch.records:
                    self._fed_at = time.monotonic()
                self._settled = batch.settled
                self._changed.set()

    async def _follow_process(self) -> None:
        """Follow exit, life and processes; ends when nothing of the run is left."""
        while True:
            stream = self._desk.link.stream("watch_run", {"folder": self._run.folder, "every_ms": 300})
            try:
                async for reply in stream:
                    self._state = dict(reply.result)
                    if not self._fed_at:
                        quiet = self._state["time"] - (self._state["log_mtime"] or self._state["time"])
                        self._fed_at = time.monotonic() - max(0.0, quiet)
                    self._changed.set()
                    if not reply.more:
                        await asyncio.Event().wait()  # the watcher sees the end and cancels
            except LinkLostError:
                await asyncio.sleep(0.3)
            except RemoteError as error:
                if error.kind != "enoent":
                    raise
                raise LinkLostError(f"run {self._run.id}: its folder is gone") from error
            finally:
                await stream.aclose()
            await link_up(self._desk)

    def _told(self, state: dict[str, Any], reading: Reading) -> Run:
        offset = self._desk.link.facts.clock_offset_s or 0.0
        quiet = time.monotonic() - self._fed_at if self._fed_at else None
        return running.run_with(
            self._run, state, reading, answers=self._answers, now=time.time() + offset, quiet_s=quiet
        )

    async def _show(self) -> bool:
        """Put what is known into the store; return whether the run has ended."""
        state, reading = self._state, self._reading
        if state is None or reading is None:
            return False
        if not state["alive"]:
            if reading.offset < int(state["log_size"]):
                return False  # its last words are on the way
            if not self._settled:
                await following.settle(self._desk, self._run)
                return False
        run = self._told(state, reading)
        unsaid = run.phase is RunPhase.STARTING and reading.by_http
        if (unsaid or run.phase in ASKED) and time.monotonic() >= self._ask_at:
            await self._ask(run, unsaid=unsaid)
            run = self._told(state, reading)
        if run.phase is RunPhase.READY and not self._noted:
            self._noted = True
            if run.ready_at is not None and not state.get("ladder") and not self._desk.readonly:
                await starting.keep_ladder(self._desk, run)
        run = await self._blamed(run)
        shown = self._desk.store.snapshot.run
        if shown is not None and shown.id == run.id:
            if shown.phase is RunPhase.STOPPING and run.phase in LIVING:
                run = replace(run, phase=RunPhase.STOPPING)
            run = replace(run, resolved=run.resolved or shown.resolved)
        if shown != run and (shown is None or shown.id in ("", run.id)):
            self._desk.store.update(run=run)
        self._run = run
        return run.phase not in LIVING and not units.lives(state)

    async def _ask(self, run: Run, *, unsaid: bool) -> None:
        """Ask over HTTP; a first answer that is not well is asked for again before it counts.

        A server that ends closes its port before it is gone: its process or its log tells in a moment.
        """
        well = _answered_lately(self._desk, run)
        answer = readiness.OK if well else await running.answers(self._desk, run)
        self._doubted = run.phase is RunPhase.READY and answer != readiness.OK and not self._doubted
        again = ASK_HTTP_S if answer == readiness.OK else ASK_UNWELL_S
        if self._doubted:
            again = ASK_DOUBTED_S
        else:
            self._answers = answer
        self._ask_at = time.monotonic() + (ASK_START_S if unsaid else again)

    async def _blamed(self, run: Run) -> Run:
        """Return the run with who is behind its failure, asked of the host once."""
        if run.failure is None:
            return run
        if self._blame is None or self._blame[0] != run.failure:
            self._blame = run.failure, (await blame.named(self._desk, run)).failure
        return replace(run, failure=self._blame[1])
