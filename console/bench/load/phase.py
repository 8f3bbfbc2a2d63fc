"""One phase of load: a closed loop of streams or an open loop of arrivals, and what became of each request."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from typing import Dict, List, Optional, Set

from .answers import Answer, finish, refusal
from .http import Broken, Connection, Events
from .requests import Plan

LAG_PERIOD_S = 0.02

RACE_S = 1.0
"""A kept connection that breaks within so much of a request was closed before the request came to it."""


class Phase:
    """Asks `count` requests, at most `plan.concurrency` at once.

    Args:
        plan: What to ask.
        first: Number of the first request: phases must not share prompts.
        count: How many.
        closed: Whether a request follows its predecessor, whatever rate the plan says.
    """

    def __init__(self, plan: Plan, first: int, count: int, closed: bool = False) -> None:
        self._plan = plan
        self._first = first
        self._bodies = [plan.request(first + number) for number in range(count)]
        self._due = [] if closed or not plan.rate else plan.arrivals(count)
        self._next = 0
        self._failed_in_a_row = 0
        self._connections: List[Connection] = []
        self.count = count
        self.answers: List[Answer] = []
        self.errors: Dict[str, int] = {}
        self.events = 0
        self.running = 0
        self.in_flight: Set[str] = set()
        """Ids of the requests that the server has now."""
        self.peak = 0
        self.gave_up = ""
        self.silence_begin_s: Optional[float] = None
        """From the first request to the first event of any."""
        self.silence_s = 0.0
        """The longest time without an event of any stream after that, while one was in flight."""
        self.heard_at = 0.0
        """When the last event came, or a request was sent while none was in flight."""
        self.lags = array("d")
        self.began = self.ended = 0.0
        self.began_wall = self.ended_wall = 0.0
        self.processor_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests are sent when they are due, not when another has ended."""
        return bool(self._due)

    async def run(self) -> None:
        """Ask all of them; returns when the last has ended."""
        lag = asyncio.ensure_future(self._watch_lag())
        processor = time.process_time()
        self.began, self.began_wall = time.perf_counter(), time.time()
        try:
            if self.is_open:
                await self._arrivals()
            else:
                await asyncio.gather(*(self._stream() for _ in range(min(self._plan.concurrency, self.count))))
        finally:
            lag.cancel()
            self.ended_wall = time.time()
            last = max((answer.stamps[-1] for answer in self.answers if answer.stamps), default=0.0)
            self.ended = max(last, self.began) if last else time.perf_counter()
            self.processor_s = time.process_time() - processor
            self.close()

    def stop(self) -> None:
        """Send nothing more, and let go of what is in flight."""
        self.gave_up = "the load was ended"
        self.close()

    def close(self) -> None:
        """Let go of every connection at once."""
        for connection in self._connections:
            connection.close()

    @property
    def failed(self) -> int:
        """How many requests failed so far."""
        return sum(self.errors.values())

    def silent_s(self) -> float:
        """Return for how long now nothing has come of what is in flight."""
        return time.perf_counter() - self.heard_at if self.running else 0.0

    def _counted(self, events: int, now: float) -> None:
        self.events += events
        silence = now - self.heard_at
        if self.silence_begin_s is None:
            self.silence_begin_s = silence
        elif silence > self.silence_s:
            self.silence_s = silence
        self.heard_at = now

    def _connection(self) -> Connection:
        connection = Connection(self._plan.host, self._plan.port)
        self._connections.append(connection)
        return connection

    async def _stream(self) -> None:
        connection = self._connection()
        while self._next < self.count and not self.gave_up:
            number, self._next = self._next, self._next + 1
            answer = await self._served(connection, number)
            if answer.error:
                await asyncio.sleep(0.05)  # a server that refuses must not be hammered

    async def _arrivals(self) -> None:
        """Send each request when it is due; one that finds no room waits, and its wait is told as send lag."""
        room = asyncio.Semaphore(self._plan.concurrency)
        idle: List[Connection] = []
        work: Set["asyncio.Future[None]"] = set()

        async def one(number: int) -> None:
            connection = idle.pop() if idle else self._connection()
            try:
                await self._served(connection, number, self.began + self._due[number])
                idle.append(connection)
            finally:
                room.release()

        for number in range(self.count):
            await asyncio.sleep(max(0.0, self.began + self._due[number] - time.perf_counter()))
            await room.acquire()
            if self.gave_up:
                break
            task = asyncio.ensure_future(one(number))
            work.add(task)
            task.add_done_callback(work.discard)
        while work:
            await asyncio.wait(list(work))

    async def _served(self, connection: Connection, number: int, due: float = 0.0) -> Answer:
        """Ask one request and judge its answer."""
        rid = self._plan.rid(self._first + number)
        if not self.running:
            self.heard_at = time.perf_counter()
        self.running += 1
        self.in_flight.add(rid)
        self.peak = max(self.peak, self.running)
        answer = await self._ask(connection, self._bodies[number])
        answer.asked = self._plan.lengths(self._first + number)[1]
        answer.due_at = due or answer.sent_at
        self._bodies[number] = b""
        self.running -= 1
        self.in_flight.discard(rid)
        self.answers.append(answer)
        self._judge(answer)
        if answer.error:
            connection.close()
        return answer

    async def _ask(self, connection: Connection, body: bytes) -> Answer:
        answer = Answer(time.perf_counter())
        try:
            answer = await asyncio.wait_for(self._once_or_twice(connection, body), self._plan.timeout_s)
        except asyncio.TimeoutError:
            answer.error = "no end within %g s" % self._plan.timeout_s
        except Broken as error:
            answer.error = str(error)
        except OSError as error:
            answer.error = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
        return answer

    async def _once_or_twice(self, connection: Connection, body: bytes) -> Answer:
        """Ask; once more when a kept connection turned out to be closed before anything came."""
        while True:
            kept = connection.is_open
            await connection.open()
            answer = Answer(time.perf_counter())
            in_time = answer.sent_at + RACE_S
            events = Events(self._counted)
            try:
                status, text = await connection.exchange(body, events.take)
            except (Broken, ConnectionError):
                connection.close()
                if kept and not events.stamps and not self.gave_up and time.perf_counter() < in_time:
                    continue
                raise
            if status != 200:
                answer.error = refusal(status, connection.headers, text)
            else:
                finish(answer, events)
            return answer

    def _judge(self, answer: Answer) -> None:
        if not answer.error:
            self._failed_in_a_row = 0
            return
        self.errors[answer.error] = self.errors.get(answer.error, 0) + 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= max(20, self._plan.concurrency):
            self.gave_up = answer.error

    async def _watch_lag(self) -> None:
        while True:
            due = time.perf_counter() + LAG_PERIOD_S
            await asyncio.sleep(LAG_PERIOD_S)
            self.lags.append(max(0.0, time.perf_counter() - due))
