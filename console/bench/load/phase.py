"""One phase of load: a closed loop of a fixed number of streams, and what became of each request."""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import Any, Dict, List, Optional

from .http import Broken, Connection, Events
from .requests import Answer, Plan, finish

LAG_PERIOD_S = 0.02


class Phase:
    """Asks `count` requests, at most `plan.concurrency` at once.

    Args:
        plan: What to ask.
        first: Number of the first request: phases must not share prompts.
        count: How many.
    """

    def __init__(self, plan: Plan, first: int, count: int) -> None:
        self._plan = plan
        self._bodies = [plan.request(first + number) for number in range(count)]
        self._next = 0
        self._failed_in_a_row = 0
        self._connections: List[Connection] = []
        self.count = count
        self.answers: List[Answer] = []
        self.errors: Dict[str, int] = {}
        self.events = 0
        self.running = 0
        self.peak = 0
        self.gave_up = ""
        self.lags = array("d")
        self.began = self.ended = 0.0
        self.began_wall = self.ended_wall = 0.0
        self.processor_s = 0.0

    async def run(self) -> None:
        """Ask all of them; returns when the last has ended."""
        lag = asyncio.ensure_future(self._watch_lag())
        processor = time.process_time()
        self.began, self.began_wall = time.perf_counter(), time.time()
        streams = min(self._plan.concurrency, self.count)
        try:
            await asyncio.gather(*(self._stream() for _ in range(streams)))
        finally:
            lag.cancel()
            self.ended_wall = time.time()
            last = max((answer.stamps[-1] for answer in self.answers if answer.stamps), default=0.0)
            self.ended = max(last, self.began) if last else time.perf_counter()
            self.processor_s = time.process_time() - processor
            for connection in self._connections:
                connection.close()

    @property
    def failed(self) -> int:
        """How many requests failed so far."""
        return sum(self.errors.values())

    def _counted(self, events: int) -> None:
        self.events += events

    async def _stream(self) -> None:
        connection = Connection(self._plan.host, self._plan.port)
        self._connections.append(connection)
        while self._next < self.count and not self.gave_up:
            number, self._next = self._next, self._next + 1
            self.running += 1
            self.peak = max(self.peak, self.running)
            answer = await self._ask(connection, self._bodies[number])
            self._bodies[number] = b""
            self.running -= 1
            self.answers.append(answer)
            self._judge(answer)
            if answer.error:
                connection.close()
                await asyncio.sleep(0.05)  # a server that refuses must not be hammered

    async def _ask(self, connection: Connection, body: bytes) -> Answer:
        answer = Answer(time.perf_counter())
        try:
            answer = await asyncio.wait_for(self._once_or_twice(connection, body), self._plan.timeout_s)
        except asyncio.TimeoutError:
            answer.error = "no end within %g s" % self._plan.timeout_s
        except Broken as error:
            answer.error = str(error)
        except OSError as error:
            answer.error = error.strerror or str(error) or type(error).__name__
        return answer

    async def _once_or_twice(self, connection: Connection, body: bytes) -> Answer:
        """Ask; once more when a kept connection turned out to be closed before anything came."""
        while True:
            kept = connection.is_open
            await connection.open()
            answer = Answer(time.perf_counter())
            events = Events(self._counted)
            try:
                status, text = await connection.exchange(body, events.take)
            except (Broken, ConnectionError):
                connection.close()
                if kept and not events.stamps:
                    continue
                raise
            if status != 200:
                answer.error = "HTTP %d: %s" % (status, " ".join(text.decode("utf-8", "replace").split())[:200])
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


def result(phase: Phase, plan: Plan) -> Dict[str, Any]:
    """Return a phase as plain data: sums, and a row of numbers for each completed request."""
    good = [answer for answer in phase.answers if not answer.error]
    gaps = array("d")
    rows = []
    for answer in good:
        stamps = answer.stamps
        own = [stamps[place] - stamps[place - 1] for place in range(1, len(stamps))]
        gaps.extend(own)
        rows.append(
            [
                round(answer.sent_at - phase.began, 6),
                round(stamps[0] - answer.sent_at, 6),
                round(stamps[-1] - answer.sent_at, 6),
                answer.output_tokens,
                round(sum(own) / len(own), 6) if own else None,
                answer.input_tokens,
                answer.cached,
            ]
        )
    return {
        "requests": phase.count,
        "completed": len(good),
        "failed": phase.count - len(good),
        "errors": phase.errors,
        "gave_up": phase.gave_up,
        "duration_s": phase.ended - phase.began,
        "began": phase.began_wall,
        "ended": phase.began_wall + (phase.ended - phase.began),
        "peak_concurrency": phase.peak,
        "columns": ["sent_s", "ttft_s", "e2el_s", "output_tokens", "mean_itl_s", "input_tokens", "cached_tokens"],
        "rows": rows,
        "itl": _distribution(gaps),
        "lag": _distribution(phase.lags),
        "processor_share": phase.processor_s / max(1e-9, phase.ended - phase.began),
        "told": all(answer.told for answer in good),
        "wrong_length": sum(answer.output_tokens != plan.output_tokens for answer in good),
    }


def _distribution(values: "array[float]") -> Dict[str, Optional[float]]:
    ordered = sorted(values)
    found: Dict[str, Optional[float]] = {"count": len(ordered), "sum_s": sum(ordered)}
    for name, share in (("p50_s", 0.5), ("p90_s", 0.9), ("p99_s", 0.99)):
        found[name] = _quantile(ordered, share) if ordered else None
    found["max_s"] = ordered[-1] if ordered else None
    return found


def _quantile(ordered: List[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
