"""Holding a host's measuring: told on the host itself, so that consoles of other machines keep away; renewed while it lasts."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from console.domain.host import Link
from console.domain.text import clean
from console.errors import AlreadySoError, ConnectError, ConsoleError, DriftError, RefusedError, RemoteError
from console.operations.desk import Desk, Hold
from console.remote.client import Reply

RENEW_S = 20.0
"""A small part of the time after which the host counts a hold as given up."""

LET_GO_S = 5.0


@contextlib.asynccontextmanager
async def held(desk: Desk, what: str, *, total: bool = True) -> AsyncIterator[Hold]:
    """Hold a host; within a total hold what only measures is part of it.

    The hold is given back at the end, unless the host cannot be reached: then it lasts until it is stale, and this
    machine's next console takes it back at once.

    Args:
        desk: The host.
        what: What is done, as others are told.
        total: Whether nobody else may change the host meanwhile, or only not measure.

    Raises:
        RefusedError: Another console holds it, here or on another machine.
    """
    from console.journal import holding

    if (mine := desk.hold) is not None:
        if total or not mine.total:
            kind = "an experiment" if mine.total else "a measurement"
            raise holding.under_way(desk.link.host.name, os.getpid(), what, kind=kind)
        yield mine
        return
    with contextlib.ExitStack() as local:
        if total:
            local.enter_context(holding.held(desk.link.host.name))
        local.enter_context(holding.held(desk.link.host.name, measuring=True))
        desk.hold = hold = Hold(os.urandom(8).hex(), total)
        try:
            renewing = asyncio.create_task(_renew(desk, hold, what)) if await _take(desk, what, total) else None
        except BaseException:
            desk.hold = None
            raise
        whole = False
        try:
            yield hold
            whole = True
        finally:
            if renewing is not None:
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)
                await _let_go(desk, LET_GO_S if whole else 0.0)
            desk.hold = None


def must_hold(desk: Desk) -> None:
    """Raise when the hold that we work under was taken over."""
    if desk.hold is not None and desk.hold.fault is not None:
        raise desk.hold.fault


async def guarded(
    desk: Desk, op: str, args: Mapping[str, Any], body: bytes = b"", *, what: str, deadline_s: float = 30.0
) -> Reply:
    """Do an operation that changes the host, which refuses it where another console's experiment would be spoilt.

    Raises:
        RefusedError: It would; or our own hold was taken over.
    """
    try:
        return await desk.link.call(op, {**args, "hold": desk.claim}, body, deadline_s=deadline_s)
    except RemoteError as error:
        if error.kind == "held":
            raise worded(desk, error.facts, what) from error
        if error.kind != "lost":
            raise
        fault = _lost(desk, error.facts)
        if desk.hold is not None:
            desk.hold.fault = fault
        raise fault from error


async def must_be_free(desk: Desk, what: str) -> None:
    """Raise before anything is asked or done that would spoil the experiment of a console of another machine.

    Raises:
        RefusedError: There is one under way.
    """
    now = await of_another(desk)
    if now is not None and now["total"]:
        raise worded(desk, now, what)


async def of_another(desk: Desk) -> Mapping[str, Any] | None:
    """Return the hold of a console of another machine, unless it is stale; `None` where there is none."""
    now = await holder(desk)
    return now if now and not now["stale"] and now["console"] != desk.claim["console"] else None


async def holder(desk: Desk) -> Mapping[str, Any]:
    """Return who holds the host, as the host says: operator, what, since_s, age_s, stale; nothing where nobody does."""
    try:
        found: Mapping[str, Any] = (await desk.link.call("holder")).result["hold"]
    except RemoteError as error:
        if error.kind == "degraded":
            return {}
        raise
    return found


async def take_over(desk: Desk, operator: str) -> str:
    """End the hold of an operator who was named in full; whose experiment it is stops at its next step.

    Returns what was under way.

    Raises:
        AlreadySoError: Nobody holds it.
        RefusedError: Somebody else than was named does.
    """
    desk.must_write("take over")
    host, now = desk.link.host.name, await holder(desk)
    if not now:
        raise AlreadySoError(f"{host}: nobody holds it")
    if operator != str(now["operator"]):
        raise RefusedError(
            f"{host} is held by {clean(str(now['operator']))}, not by {operator or 'nobody'}", told(now),
            "name who holds it, in full",
        )  # fmt: skip
    args = {"hold": desk.claim, "operator": desk.operator, "token": now["token"]}
    try:
        taken = (await desk.link.call("take_over", args)).result["taken"]
    except RemoteError as error:
        if error.kind != "changed":
            raise
        raise DriftError(f"{host}: another one holds it by now", error.title, "look again") from error
    if not taken:
        raise AlreadySoError(f"{host}: it was given back meanwhile")
    return told(taken)


def told(now: Mapping[str, Any]) -> str:
    """Return a hold in words: what is done, since when, and how lately it was heard of."""
    heard = f"heard of {_ago(float(now['age_s']))} ago" + ", so it binds nobody" * bool(now["stale"])
    return str(clean(f"{now['what']}, for {_ago(float(now['since_s']))} by now, {heard}"))


def plain(now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a hold as JSON."""
    return {
        "operator": str(now["operator"]),
        "what": str(now["what"]),
        "since": datetime.fromtimestamp(float(now["since"]), UTC).isoformat(timespec="seconds"),
        "renewed_s_ago": round(float(now["age_s"]), 1),
        "stale": bool(now["stale"]),
        "only_measures": not now["total"],
    }


def worded(desk: Desk, facts: Mapping[str, Any], what: str) -> RefusedError:
    """Return the refusal of what another machine's console stands in the way of."""
    host, who = desk.link.host.name, clean(str(facts.get("operator") or "another console"))
    hint = f"wait, have it stopped there, or: tokwatt --host {host} experiment take-over '{who}'"
    return RefusedError(f"{what}: {who} is at {host}, from another machine", told(facts), hint)


async def _take(desk: Desk, what: str, total: bool) -> bool:
    """Take the hold on the host; false where the host can keep none, which is told."""
    args = {"hold": desk.claim, "operator": desk.operator, "what": what, "total": total}
    try:
        before = (await desk.link.call("hold", args)).result["before"]
    except RemoteError as error:
        if error.kind == "held":
            raise worded(desk, error.facts, what) from error
        if error.kind != "degraded" and not error.kind.startswith("e"):
            raise
        desk.say(f"consoles of other machines are not kept away: {error.one_line()}")
        return False
    if before:
        desk.say(f"{before['operator']} left this host: {told(before)}; its hold ends here")
    return True


async def _let_go(desk: Desk, patience_s: float) -> None:
    """Give the hold back, at once or when the link is back; what cannot be given back becomes stale."""
    with contextlib.suppress(ConsoleError, TimeoutError):
        async with asyncio.timeout(patience_s or None):
            async for state in desk.link.changes():
                if state.link is Link.UP or not patience_s:
                    break
        await desk.link.call("let_go", {"hold": desk.claim}, deadline_s=LET_GO_S)


async def _renew(desk: Desk, hold: Hold, what: str) -> None:
    """Renew the hold for as long as it is ours; a lost link is outlived."""
    args = {"hold": desk.claim, "operator": desk.operator, "what": what, "total": hold.total, "renew": True}
    while hold.fault is None:
        await asyncio.sleep(RENEW_S)
        try:
            await desk.link.call("hold", args)
        except ConnectError:
            continue
        except RemoteError as error:
            if error.kind == "lost":
                hold.fault = _lost(desk, error.facts)


def _lost(desk: Desk, facts: Mapping[str, Any]) -> RefusedError:
    who = clean(str(facts.get("operator") or "another console"))
    host = desk.link.host.name
    return RefusedError(f"{host} was taken over by {who}", "nothing more is done here", "resume it once that is over")


def _ago(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
