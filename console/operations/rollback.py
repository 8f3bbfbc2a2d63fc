"""Bringing a host from one configuration into another, and back: patches, arguments, server, readiness.

Each step is written down before it is done, in the transaction that also says where the host is, so that a console
that dies or loses its link leaves a host whose state has a name; every step can be done again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from console.domain.host import Link
from console.domain.patch import DiskState
from console.domain.profile import Profile
from console.domain.run import Run
from console.errors import ConnectError, ConsoleError, LinkLostError, RefusedError
from console.operations import holds, patches, server
from console.operations.desk import Desk
from console.operations.running import LIVING

T = TypeVar("T")

LINK_TRIES = 20
"""Times that one step is begun again after a lost link."""


class Diary(Protocol):
    """Writes down what happens, and in the same breath where the host is."""

    async def __call__(self, kind: str, data: Mapping[str, Any], where: str) -> None:
        """Keep one event."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a host can be in: a name, and the profile that it is launched from."""

    name: str
    profile: Profile


class StepError(ConsoleError):
    """A configuration cannot be had on this host; the title names the step and the cause."""


async def enter(
    desk: Desk,
    wanted: Configuration,
    diary: Diary,
    *,
    managed: Collection[str],
    base: str,
    ready_within_s: float,
) -> Run:
    """Bring the host into a configuration: its patches, its server launched, ready.

    Args:
        desk: The host; works under the configuration's profile from now on.
        wanted: Where to.
        diary: Is told each step before it is done.
        managed: Patches that this is about; others stay as they are.
        base: Profile whose runs, and those of its arms, may be stopped for it.
        ready_within_s: How long a start may take.

    Raises:
        StepError: A patch does not fit, or the server does not come up.
        RefusedError: A server runs that this is not about.
        ConnectError: The host cannot be reached.
    """
    name = wanted.name
    desk.profile = wanted.profile
    desk.store.update(profile=desk.profile)
    await _must_be_ours(desk, base)
    await diary("step", {"arm": name, "step": "patches"}, f"{name}: its patches are being put on")
    await _at_step(desk, name, "patches", switch_patches(desk, wanted.profile.patches_on, managed))
    await diary("step", {"arm": name, "step": "launch"}, f"{name}: patches on, server being launched")
    run = await _at_step(desk, name, "launch", server.restart(desk))
    await diary("step", {"arm": name, "step": "start", "run": run.id}, f"{name}: run {run.id} is starting")
    return await _at_step(desk, name, "start", server.wait_ready(desk, run, deadline_s=ready_within_s))


async def through(desk: Desk, work: Callable[[], Awaitable[T]]) -> T:
    """Do something to its end, from its beginning again after each lost link.

    Raises:
        ConnectError: The link stays away.
    """
    for _ in range(LINK_TRIES):
        holds.must_hold(desk)
        try:
            return await work()
        except LinkLostError as error:
            desk.say(f"{error.one_line()}; going on when the link is back")
            await _link_back(desk, error)
    return await work()


async def switch_patches(desk: Desk, wanted: Collection[str], managed: Collection[str]) -> None:
    """Bring exactly the managed patches to what is wanted; state comes from content, so twice is as good as once.

    Raises:
        RefusedError: One does not fit; those before it are done, and a second call goes on from there.
    """
    names = tuple(dict.fromkeys([*managed, *wanted]))
    if not names:
        return
    known = {status.name: status for status in await patches.statuses(desk, names)}
    gone = [name for name in names if name not in wanted and known[name].disk is DiskState.ON]
    for name in reversed(gone):
        await patches.revert(desk, name)
    for name in wanted:
        disk = known[name].disk
        if disk not in (DiskState.ON, DiskState.ALREADY_UPSTREAM):
            await patches.apply(desk, name)


async def living(desk: Desk, run_id: str) -> Run | None:
    """Return the run of this number when it is the one that serves now, and ready."""
    run = await server.status(desk)
    return run if run is not None and run.id == run_id and run.phase.value == "ready" else None


async def _must_be_ours(desk: Desk, base: str) -> None:
    run = await server.status(desk)
    if run is None or run.phase not in LIVING:
        return
    if not run.adopted:
        raise RefusedError(
            f"{desk.link.host.name}: port {run.port} is taken by a server that tokwatt did not start",
            f"{run.operator}: {' '.join(run.argv)}",
        )
    if run.profile.partition("+")[0] != base:
        raise RefusedError(
            f"{desk.link.host.name}: run {run.id} of {run.profile} is {run.phase.value}; it is not part of this",
            hint="stop it first: tokwatt serve stop",
        )


async def _at_step(desk: Desk, name: str, step: str, work: Awaitable[T]) -> T:
    try:
        return await work
    except (ConnectError, StepError):
        raise
    except ConsoleError as error:
        holds.must_hold(desk)
        said = StepError(f"{name}: {step}: {error.title}", error.detail, error.hint)
        raise said from error


async def _link_back(desk: Desk, error: LinkLostError) -> None:
    """Wait until the link is up; a login that is refused now is the end."""
    async for state in desk.link.changes():
        if state.link is Link.UP:
            return
        if state.link is Link.REFUSED:
            raise error
