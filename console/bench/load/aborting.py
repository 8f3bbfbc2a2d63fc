"""The end of a load that is no longer wanted: its requests aborted by their ids, then gone."""

from __future__ import annotations

import asyncio
import json
from typing import Iterable, List

from .http import Broken, Connection
from .requests import Plan

STREAMS = 16
PATIENCE_S = 2.0


async def abort(plan: Plan, rids: Iterable[str]) -> None:
    """Ask the server to drop requests by id, for a while; one that does not know how sees its sockets close.

    SGLang alone has the call (`POST /abort_request`); every engine notices a client that hung up, but only when it
    next writes to it.
    """
    waiting = list(rids) if plan.api == "generate" else []
    if waiting:
        streams = [asyncio.ensure_future(_stream(plan, waiting)) for _ in range(min(STREAMS, len(waiting)))]
        await asyncio.wait(streams, timeout=PATIENCE_S)


async def _stream(plan: Plan, waiting: List[str]) -> None:
    connection = Connection(plan.host, plan.port)
    try:
        while waiting:
            body = json.dumps({"rid": waiting.pop()}).encode()
            await connection.open()
            await connection.exchange(plan.head("/abort_request", len(body)) + body, lambda piece, now: None)
    except (Broken, OSError):
        return  # the sockets of the requests close in any case
    finally:
        connection.close()
