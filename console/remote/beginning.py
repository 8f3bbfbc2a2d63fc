"""The first seconds of a connection: the outpost is sent, and says where it is."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from console.domain.host import HostFacts
from console.domain.text import clean
from console.errors import ConnectError, RemoteError
from console.remote import sending
from console.remote.channel import Channel
from console.remote.client import OutpostClient
from console.remote.marked import MarkedChannel, NotBegunError


async def begin_outpost(
    start: Callable[[Sequence[str]], Awaitable[Channel]], python: str, name: str, start_s: float
) -> tuple[OutpostClient, MarkedChannel]:
    """Send the outpost and wait for its first sign; also return the channel, which knows the login's noise.

    Raises:
        NotBegunError: This interpreter is missing or too old.
        ConnectError: Nothing began in time.
    """
    try:
        raw = await start(sending.argv(python))
    except RemoteError as error:
        if error.kind not in ("enoent", "eacces"):
            raise
        raise NotBegunError(127, error.detail) from None
    channel = MarkedChannel(raw)
    try:
        async with asyncio.timeout(start_s):
            await channel.write(sending.payload("console.remote.outpost", "serve"))
            await channel.begin()
    except TimeoutError:
        await channel.close()
        raise ConnectError(
            f"{name}: no program began within {start_s:g} s",
            hint="a login script there may wait for input",
        ) from None
    except BaseException:
        await channel.close()
        raise
    return OutpostClient(channel, name), channel


def facts_of(said: Mapping[str, Any], wall: float) -> HostFacts:
    """Return what a `hello` told; `wall` is our clock when it was asked."""
    python = str(said["python"])
    return HostFacts(
        hostname=clean(str(said["hostname"])),
        user=str(said["user"]),
        uid=int(said["uid"]),
        home=str(said["home"]),
        system=str(said["system"]),
        python=f"{python} {said['executable']}" if python else "",
        state_home=str(said["state_home"]),
        boot_id=str(said["boot_id"]),
        clock_offset_s=float(said["time"]) - (wall + time.time()) / 2,
    )


_CONTAINER = re.compile(
    r"No such container: (?P<no>\S+)|no container with name or ID \"?(?P<none>[^\"\s]+)"
    r"|[Cc]ontainer (?P<down>\S+) is (?:not running|paused)|can only create exec sessions on running containers"
    r"|(?P<daemon>Cannot connect to the Docker daemon|permission denied while trying to connect to the Docker daemon)"
)


def container_fault(said: Sequence[str]) -> str:
    """Return what is wrong with the container that the programs were to run in; empty when that is not it."""
    match = next(filter(None, map(_CONTAINER.search, said)), None)
    if match is None:
        return ""
    if match["daemon"]:
        return match["daemon"][:1].lower() + match["daemon"][1:]
    if name := match["no"] or match["none"]:
        return f"there is no container {name}"
    return f"container {match['down'] or ''} is not running".replace("  ", " ")
