"""The load program on the host: started, its progress passed on, its result returned."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.bench.vocabulary import USUAL
from console.domain.text import clean
from console.errors import ConsoleError, LinkLostError
from console.remote.link import HostLink
from console.telemetry.sampler import lines

HINTS = {
    "HTTP 401": 'it wants a key: api-key = { from = "env" } under [launch.args] of the profile that it is launched from',
    "HTTP 403": 'it wants a key: api-key = { from = "env" } under [launch.args] of the profile that it is launched from',
    "HTTP 30": "no redirect is followed: what stands before the server would be measured, too",
}


class LoadError(ConsoleError):
    """The load could not be made."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One load at one concurrency."""

    port: int
    concurrency: int
    requests: int
    warmup: int
    input_tokens: int
    output_tokens: int
    seed: int = 0
    api: str = "generate"
    """`generate` (SGLang's own), `completions` or `chat`."""
    rate: float | None = None
    """Requests a second of an open loop, `concurrency` then being the most in flight; `None` is a closed loop."""
    arrival: str = "poisson"
    """`poisson`, `constant`, or `burst`: `burst` requests at once."""
    burst: int = 1
    input_spread: float = 0.0
    output_spread: float = 0.0
    """Share of the length by which a request may be shorter, uniformly and by the seed."""
    ignore_eos: bool = True
    model: str = ""
    timeout_s: float = 600.0
    token_range: tuple[int, int] = USUAL
    """Ids of the prompts' tokens, the end excluded."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent on standard input: an API key may be among them."""

    def line(self) -> bytes:
        """Return the plan as the program reads it."""
        said = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**said, "headers": dict(self.headers)}).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is."""

    phase: str
    """`warmup` or `measure`."""
    done: int
    total: int
    running: int
    failed: int
    tok_s: float
    silent_s: float = 0.0
    """For how long now nothing has come of what is in flight."""


async def load(link: HostLink, plan: LoadPlan) -> AsyncGenerator[LoadProgress | Mapping[str, Any], None]:
    """Yield progress, and the result as the last thing; closing the iterator ends the load at once.

    Raises:
        LoadError: The server cannot be asked, or the program failed.
        LinkLostError: The connection to the host went away; the load ends with it.
    """
    name = link.host.name
    async with link.program("console.bench.load", "run") as channel:
        await channel.write(plan.line())
        async for line in lines(channel):
            try:
                said = json.loads(line)
            except ValueError:
                continue
            kind = said.pop("kind", "") if isinstance(said, dict) else ""
            if kind == "progress":
                yield LoadProgress(**said)
            elif kind == "result":
                yield said
                return
            elif kind == "fault":
                reason = clean(str(said.get("reason", "")))
                raise LoadError(f"{name}: load at concurrency {plan.concurrency:,} failed", reason, hint_to(reason))
        if await channel.wait() is None:
            title = f"{name}: the connection was lost while load was made at concurrency {plan.concurrency:,}"
            raise LinkLostError(title, hint="the load there ends with it, and nothing of it counts: measure again")
        complaint = channel.complaint().decode("utf-8", "replace").strip().splitlines()
        last = str(clean(complaint[-1])) if complaint else "it said nothing"
        raise LoadError(f"{name}: the load program ended early", last)


def hint_to(reason: str) -> str:
    """Return what helps against the reason why a server answered no request."""
    return next((words for begin, words in HINTS.items() if reason.startswith(begin)), "")
