"""The load program's start and end: the plan from standard input, progress and result to standard output.

`echo '{"port":30000,"concurrency":8,"requests":32,"input_tokens":256,"output_tokens":64}' | cat - /dev/tty |
python -m console.bench.load.run` runs it by hand; `--plan JSON` does without standard input.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, Optional

from .aborting import abort
from .http import Connection
from .phase import Phase
from .requests import Plan
from .summary import result

PROGRESS_S = 0.5
END_S = 3.0
"""The program is gone this long after its input has ended, whatever the server does."""

FIND_S = 5.0

FILES_OF_OURS = 32
"""Open files beside a connection for each stream: input, output, the loop's, those that abort."""

WARMUP_NUMBERS = 1_000_000_000
"""First request number of a warm-up: its prompts are none of the measured ones."""


def say(kind: str, **fields: Any) -> None:
    """Write one JSON line; end when nobody listens."""
    fields["kind"] = kind
    try:
        sys.stdout.buffer.write((json.dumps(fields, separators=(",", ":")) + "\n").encode())
        sys.stdout.buffer.flush()
    except (BrokenPipeError, ValueError, OSError):
        os._exit(0)


def main() -> None:
    """Read the plan, make the load, say the result."""
    by_hand = len(sys.argv) > 2 and sys.argv[1] == "--plan"
    line = sys.argv[2] if by_hand else sys.stdin.buffer.readline()
    try:
        plan = Plan(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        say("fault", reason="the plan is not understood: %r" % error)
        return
    asyncio.run(_work(plan, by_hand))


def _end_with_input(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    """End with standard input: the requests are aborted, then the sockets close."""
    try:
        while os.read(0, 4096):  # not through `sys.stdin`, whose lock would be held at our own end
            continue
    except (OSError, ValueError):
        pass  # a closed input is an ended one
    loop.call_soon_threadsafe(end)
    time.sleep(END_S)
    os._exit(0)


class Ending:
    """Ends the program while requests are in flight."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.phase: Optional[Phase] = None

    def end(self) -> None:
        """Begin to end; called in the loop."""
        asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        if self.phase is not None:
            rids = list(self.phase.in_flight)
            self.phase.stop()
            await abort(self._plan, rids)
        os._exit(0)


async def _work(plan: Plan, by_hand: bool) -> None:
    ending = Ending(plan)
    if not by_hand:
        loop = asyncio.get_running_loop()
        threading.Thread(target=_end_with_input, args=(loop, ending.end), daemon=True).start()
    if fault := _short_of_files(plan.concurrency):
        say("fault", reason=fault)
        return
    await _find(plan)
    if plan.api != "generate" and not plan.model:
        plan.model = await _first_model(plan)
    if plan.warmup:
        warmup = ending.phase = Phase(plan, WARMUP_NUMBERS, plan.warmup, closed=True)
        await _with_progress(warmup, "warmup")
        if warmup.gave_up or warmup.failed == warmup.count:
            say("fault", reason=warmup.gave_up or max(warmup.errors, key=lambda error: warmup.errors[error]))
            return
    phase = ending.phase = Phase(plan, 0, plan.requests)
    gc.collect()
    gc.disable()  # a collection in mid-load would be read as the server's latency
    try:
        await _with_progress(phase, "measure")
    finally:
        gc.enable()
    say("result", **result(phase, plan))


async def _with_progress(phase: Phase, name: str) -> None:
    work = asyncio.ensure_future(phase.run())
    before, looked = 0, time.monotonic()
    while not work.done():
        await asyncio.wait([work], timeout=PROGRESS_S)
        done = len(phase.answers)
        tokens = sum(answer.output_tokens for answer in phase.answers)
        streamed = sum(len(answer.stamps) for answer in phase.answers)
        scale = tokens / streamed if streamed else 1.0
        now = time.monotonic()
        say(
            "progress",
            phase=name,
            done=done,
            total=phase.count,
            running=phase.running,
            failed=phase.failed,
            silent_s=round(phase.silent_s(), 1),
            tok_s=(phase.events - before) * scale / max(1e-3, now - looked),
        )
        before, looked = phase.events, now
    await work


async def _first_model(plan: Plan) -> str:
    """Return the name of the served model, which the completions API wants to hear."""
    connection = Connection(plan.host, plan.port)
    pieces = []
    try:
        await connection.open()
        head = "GET /v1/models HTTP/1.1\r\nHost: %s\r\n" % plan.place
        head += "".join("%s: %s\r\n" % pair for pair in plan.headers.items())
        await asyncio.wait_for(
            connection.exchange((head + "\r\n").encode(), lambda piece, now: pieces.append(piece)), 10
        )
        reply: Optional[Dict[str, Any]] = json.loads(b"".join(pieces))
        return str(reply["data"][0]["id"]) if reply else ""
    except Exception:  # noqa: BLE001 - the first request will say what is wrong with the server
        return ""
    finally:
        connection.close()


async def _find(plan: Plan) -> None:
    """Ask by IPv6 what listens on this host's IPv6 loopback alone: `--host ::` of a uvicorn does."""
    if plan.host != "127.0.0.1":
        return
    for host in ("127.0.0.1", "::1"):
        connection = Connection(host, plan.port)
        try:
            await asyncio.wait_for(connection.open(), FIND_S)
            plan.host = host
            return
        except (OSError, asyncio.TimeoutError):
            continue  # the first request will say what is wrong with the server
        finally:
            connection.close()


def _short_of_files(concurrency: int) -> str:
    """Raise the limit of open files as far as it goes; return what is wrong when that is not enough."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        soft = min(hard, max(soft, 65536)) if hard != resource.RLIM_INFINITY else max(soft, 65536)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    except (ImportError, ValueError, OSError):
        return ""  # the usual limit serves the usual concurrency
    if soft < concurrency + FILES_OF_OURS:
        return "%d connections need %d open files, and the host allows this login %d (ulimit -n)" % (
            concurrency, concurrency + FILES_OF_OURS, soft,
        )  # fmt: skip
    return ""


if __name__ == "__main__":
    main()
