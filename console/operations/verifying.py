"""Verifying and reproducing a winner: what has drifted from its evidence, and whether its numbers come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean
from typing import Any

from console.domain.measurement import Measurement, SweepProgress
from console.domain.profile import Profile
from console.domain.run import UP
from console.domain.text import counted
from console.errors import ConsoleError, RefusedError, UsageError
from console.experiments.statistics import unpaired
from console.operations import drifts
from console.operations.desk import Desk
from console.operations.drifts import Drift, Gravity
from console.operations.holds import held

READY_S = 3600.0
ALIKE = 0.03
"""Change that counts as noise where too few repeats were saved to know the noise."""

TELLING = 1.25
"""Bounds further apart than this would call half the speed the same: nothing is reproduced by noise alone."""


@dataclass(frozen=True, slots=True)
class Verification:
    """A winner held against a host."""

    profile: str
    host: str
    drifts: tuple[Drift, ...]
    unknown: tuple[str, ...] = ()
    """What the evidence or the host does not tell; it excludes nothing."""
    checked: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why something is unknown, by what it is."""

    @property
    def deciding(self) -> tuple[Drift, ...]:
        """The drifts after which the winner's numbers do not stand beside new ones."""
        return tuple(one for one in self.drifts if one.gravity is Gravity.DECIDES)


@dataclass(frozen=True, slots=True)
class Again:
    """One concurrency measured again beside what was saved."""

    concurrency: int
    saved_tok_s: float
    now_tok_s: float | None
    low_pct: float | None = None
    high_pct: float | None = None
    """Bounds of the change, where both have three repeats or more."""
    verdict: str = ""
    """`reproduced`, `slower`, `faster`, `not measured`, `too noisy`."""
    why: str = ""
    """Why nothing could be measured."""

    @property
    def change_pct(self) -> float | None:
        """Change from what was saved, in percent."""
        return None if self.now_tok_s is None else 100 * (self.now_tok_s / self.saved_tok_s - 1)


class Conclusion(StrEnum):
    """What measuring a winner again has shown, in words."""

    REPRODUCED = "reproduced within noise"
    NOT_REPRODUCED = "not reproduced"
    NONE = "not everything could be measured well enough: nothing is concluded"


def summary(found: Verification) -> str:
    """Return how much has drifted, in a sentence."""
    told = f"{len(found.drifts)} drifted" if found.drifts else "nothing has drifted"
    if found.drifts and len(found.deciding) < len(found.drifts):
        told += f" ({len(found.deciding)} so that the numbers cannot be compared)"
    return f"{found.profile} on {found.host}: {told}, {len(found.checked)} alike"


def concluded(rows: Sequence[Again]) -> Conclusion:
    """Return what all concurrencies together show."""
    verdicts = {row.verdict for row in rows}
    if not rows or verdicts & {"not measured", "too noisy"}:
        return Conclusion.NONE
    return Conclusion.REPRODUCED if verdicts == {"reproduced"} else Conclusion.NOT_REPRODUCED


def evidence_of(profile: Profile) -> Mapping[str, Any]:
    """Return the evidence of a winner; `UsageError` when the profile is none."""
    if not profile.winner:
        raise UsageError(
            f"{profile.path or profile.name}: has no [winner]: nothing was saved to verify", hint="tokwatt profile save"
        )
    return profile.winner


async def verify(desk: Desk) -> Verification:
    """Hold the desk's profile against its evidence and the host, before GPU time is spent.

    What decides comes first.

    Raises:
        UsageError: The profile is no winner.
        ConnectError: The host cannot be reached.
    """
    profile = desk.must_profile()
    saved = evidence_of(profile)
    found = drifts.Found()
    drifts.check_seal(profile, saved, found)
    if await drifts.check_install(desk, saved, found):
        await found.look("patches and code", drifts.check_patches(desk, saved, found))
    await found.look("model's files", drifts.check_model(desk, saved, found))
    await found.look("machine's state", drifts.check_machine(desk, saved, found))
    await found.look("caches", drifts.check_caches(desk, saved, found))
    told = sorted(found.drifts, key=lambda one: one.gravity is not Gravity.DECIDES)
    return Verification(
        profile.name, desk.link.host.name, tuple(told), tuple(found.unknown), tuple(found.checked), found.unknown
    )


async def reproduce(desk: Desk, *, force: bool = False) -> AsyncIterator[Again | str]:
    """Rebuild a winner, measure it again, and say of each concurrency whether its number came again.

    Yields words of what is being done, then an `Again` for each concurrency that was saved. The server goes on.

    Args:
        desk: Its profile is the winner.
        force: Go on although something has drifted.

    Raises:
        RefusedError: Something has drifted, or a server runs already that is not this profile's.
        ReadOnlyError: The console may only look.
    """
    name = desk.must_profile().name
    desk.must_write("profile reproduce")
    standing = "nothing was changed on the host"
    try:
        async with held(desk, f"reproduce {name}"), aclosing(_reproduced(desk, force)) as parts:
            async for part, standing in parts:  # noqa: B007 (said below)
                if part:
                    yield part
    except (ConsoleError, asyncio.CancelledError, GeneratorExit):
        desk.say(f"not finished, nothing is concluded: {standing}")
        raise


async def _reproduced(desk: Desk, force: bool) -> AsyncGenerator[tuple[Again | str, str], None]:
    """Yield what `reproduce` does, each with how the host stands from there on."""
    from console.operations import server

    profile = desk.must_profile()
    saved = evidence_of(profile)
    standing = "nothing was changed on the host"
    found = await verify(desk)
    _refuse(desk, found, force)
    if any(one.mendable for one in found.drifts):
        yield "turning the profile's patches on, others off", "its patches may be turned on (tokwatt patch undo)"
        await _patches_as_sealed(desk, force)
        standing = "the patches are as the profile has them (tokwatt patch undo), nothing was launched"
        yield "", standing
        found = await verify(desk)
        _refuse(desk, found, force)
    for one in found.drifts:
        yield f"drifted: {one.said}", standing
    run = await server.status(desk)
    if run is None or run.phase not in UP:
        yield "starting the server", "a launch was begun: tokwatt serve status"
        run = await server.start(desk)
    else:
        word = f"run {run.id} of {run.profile or run.engine}"
        yield (
            f"restarting the server: {word} is stopped",
            f"{word} was stopped, or is about to be: tokwatt serve status",
        )
        run = await server.restart(desk)
    yield "", f"run {run.id} was launched as {profile.name}: tokwatt serve status"
    run = await server.wait_ready(desk, run, deadline_s=READY_S)
    standing = f"run {run.id} was launched as {profile.name} and goes on"
    yield f"measuring run {run.id}", standing
    done: tuple[Measurement, ...] = ()
    async with aclosing(_measured(desk, saved)) as steps:
        async for progress in steps:
            done = progress.done
            if progress.current:
                yield f"concurrency {progress.current}, repeat {progress.repeat + 1}: {progress.step}", standing
    for row in saved.get("measured") or ():
        yield again(row, done, saved.get("tolerate") or ()), standing


def _refuse(desk: Desk, found: Verification, force: bool) -> None:
    """Refuse what cannot be rebuilt; another protocol measures something else, whatever is asked.

    Args:
        desk: Whose host.
        found: What has drifted.
        force: Whether the operator knows of it.
    """
    name = f"{desk.link.host.name}: {found.profile}"
    standing = [one for one in found.deciding if not one.mendable]
    if other := [one for one in standing if one.what.startswith("bench ")]:
        raise RefusedError(
            f"{name} would be measured by another protocol than it won by",
            "; ".join(one.said for one in other),
            "set [bench] back to what was sealed",
        )
    if standing and not force:
        raise RefusedError(
            f"{name} cannot be rebuilt: {counted(len(standing), 'thing')} drifted",
            "; ".join(one.said for one in standing),
            "tokwatt profile verify lists them; --force measures all the same",
        )


async def _patches_as_sealed(desk: Desk, force: bool) -> None:
    from console.operations import patches

    try:
        await patches.apply_set(desk, exact=True)
    except ConsoleError as error:
        if error.exit_code != 6 and not force:
            raise
        desk.say(error.one_line())


async def _measured(desk: Desk, saved: Mapping[str, Any]) -> AsyncGenerator[SweepProgress, None]:
    from console.operations.measure import sweep

    rows = list(saved.get("measured") or ())
    repeats = max((len(row.get("repeats_tok_s") or ()) for row in rows), default=1)
    repeats = max(repeats, desk.must_profile().bench.repeats)  # some were tainted: as many as were tried then
    steps = sweep(desk, concurrency=[int(row["concurrency"]) for row in rows], repeats=repeats)
    told = ("", 0, 0)
    async with aclosing(steps) as parts:  # type: ignore[type-var]
        async for progress in parts:
            now = (progress.step, progress.current or 0, progress.repeat)
            yield progress if now != told else replace(progress, current=None)
            told = now


def again(row: Mapping[str, Any], done: Sequence[Measurement], tolerate: Sequence[str] = ()) -> Again:
    """Return one saved concurrency beside its new measurements; taints that the winner was won with do not count."""
    concurrency, before = int(row["concurrency"]), float(row["output_tok_s"])
    made = [one for one in done if one.concurrency_limit == concurrency]
    now = [one.output_throughput_tok_s for one in made if not one.spoilt(tolerate) and one.output_throughput_tok_s]
    if not now:
        why = next((one.spoilt(tolerate) for one in made if one.spoilt(tolerate)), "")
        return Again(concurrency, before, None, verdict="not measured", why=why)
    change = fmean(now) / before - 1
    bounds = unpaired([float(value) for value in row.get("repeats_tok_s") or ()], now)
    if bounds is None:
        same = abs(change) <= ALIKE
        low = high = None
    else:
        same = bounds.low <= 1.0 <= bounds.high
        low, high = bounds.low_pct, bounds.high_pct
    vague = same and bounds is not None and bounds.high > TELLING * bounds.low
    verdict = "too noisy" if vague else "reproduced" if same else "faster" if change > 0 else "slower"
    return Again(concurrency, before, fmean(now), low, high, verdict)
