"""Verifying and reproducing a winner: what has drifted from its evidence, and whether its numbers come again."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any

from console.domain.measurement import Measurement
from console.domain.profile import Profile
from console.domain.run import UP
from console.errors import ConsoleError, RefusedError, UsageError
from console.experiments.statistics import unpaired
from console.operations.desk import Desk

READY_S = 3600.0
GPU_PATIENCE_S = 5.0

ALIKE = 0.03
"""Change that counts as noise where too few repeats were saved to know the noise."""

TELLING = 1.25
"""Bounds further apart than this would call half the speed the same: nothing is reproduced by noise alone."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that is not as it was when the winner won."""

    what: str
    saved: object
    now: object


@dataclass(frozen=True, slots=True)
class Verification:
    """A winner held against a host."""

    profile: str
    host: str
    drifts: tuple[Drift, ...]
    unknown: tuple[str, ...] = ()
    """What the evidence or the host does not tell; it excludes nothing."""
    checked: tuple[str, ...] = ()


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

    Raises:
        UsageError: The profile is no winner.
    """
    profile = desk.must_profile()
    saved = evidence_of(profile)
    found = _Found()
    _check_seal(profile, saved, found)
    await _check_install(desk, saved, found)
    await _check_patches(desk, saved, found)
    await _check_model(desk, saved, found)
    await _check_gpus(desk, saved, found)
    await _check_machine(desk, saved, found)
    return Verification(
        profile.name, desk.link.host.name, tuple(found.drifts), tuple(found.unknown), tuple(found.checked)
    )


class _Found:
    """Collects what differs."""

    def __init__(self) -> None:
        self.drifts: list[Drift] = []
        self.unknown: list[str] = []
        self.checked: list[str] = []

    def hold(self, what: str, saved: object, now: object) -> None:
        """Compare one fact; what either side does not know is unknown."""
        if saved in (None, "", {}, []) or now in (None, "", {}, []):
            self.unknown.append(what)
        elif saved != now:
            self.drifts.append(Drift(what, saved, now))
        else:
            self.checked.append(what)


def _check_seal(profile: Profile, saved: Mapping[str, Any], found: _Found) -> None:
    """Hold the file against its seal; a broken one is told by what was edited, where the evidence repeats it."""
    from console.operations.winner import seal_of
    from console.operations.winner_fit import edits

    now = seal_of(profile)
    found.hold("seal of the file", saved.get("seal") or "missing", now)
    if saved.get("seal") != now:
        found.drifts += (
            [Drift(*one) for one in edits(profile, saved.get("profile") or {})] if "profile" in saved else []
        )


async def _check_install(desk: Desk, saved: Mapping[str, Any], found: _Found) -> None:
    from console.operations import host
    from console.operations.launching import versions_beside

    package = await host.engine_package(desk)
    found.hold(f"version of {package.name}", saved.get("package"), package.version)
    git = await host.git_state(desk)
    if saved.get("commit") or git:
        found.hold("git commit", saved.get("commit"), git.commit if git else None)
    now = await versions_beside(desk)
    for name, version in sorted((saved.get("versions") or {}).items()):
        if name != package.name:
            found.hold(f"version of {name}", version, now.get(name))


async def _check_patches(desk: Desk, saved: Mapping[str, Any], found: _Found) -> None:
    """Compare each patched file's bytes with those that the winner's process had loaded."""
    from console.operations import host, patches

    folder = (await host.engine_package(desk)).folder
    wanted = {
        posixpath.join(folder, one["file"]): str(one.get("at_launch_sha256") or "")
        for patch in saved.get("patch") or ()
        for one in patch.get("files") or ()
    }
    now = (await desk.link.call("hash", {"paths": sorted(wanted)})).result if wanted else {}
    for path, digest in sorted(wanted.items()):
        found.hold(f"bytes of {posixpath.relpath(path, folder)}", digest[:12], (now.get(path) or "missing")[:12])
    names = {str(patch["name"]) for patch in saved.get("patch") or ()}
    on = [status for status in await patches.statuses(desk) if status.disk.value == "on"]
    if names or on:
        found.hold("patches on", sorted(names) or ["none"], sorted(status.name for status in on) or ["none"])
    theirs = (*(posixpath.relpath(path, folder) for path in wanted), *(file for status in on for file in status.files))
    await _check_uncommitted(desk, saved, theirs, found)


async def _check_uncommitted(desk: Desk, saved: Mapping[str, Any], patched: Sequence[str], found: _Found) -> None:
    """Compare what differs from the commit, but for files that patches change: those were held by their bytes."""
    from console.operations.identity import uncommitted
    from console.operations.winner import CLEAN

    now, then = await uncommitted(desk), saved.get("uncommitted")
    if now is None or then is None:
        if now is not None:
            found.unknown.append("uncommitted changes")
        return
    sides = [{} if side == CLEAN else dict(side) for side in (then, now[0])]
    paths = sorted(path for path in sides[0].keys() | sides[1].keys() if sides[0].get(path) != sides[1].get(path))
    moved = [path for path in paths if not any(path == file or path.endswith("/" + file) for file in patched)]
    found.drifts += [
        Drift(f"uncommitted {path}", *(str(side.get(path, "as committed"))[:12] for side in sides)) for path in moved
    ]
    if not moved:
        found.checked.append("uncommitted changes")


async def _check_model(desk: Desk, saved: Mapping[str, Any], found: _Found) -> None:
    from console.operations.identity import model_hashes

    wanted: Mapping[str, str] = saved.get("model_files") or {}
    now = await model_hashes(desk, saved.get("resolved") or {}) if wanted else {}
    for name in sorted({*wanted, *now}):  # a chat template that came since changes every prompt
        found.hold(f"model's {name}", wanted.get(name, "missing")[:12], now.get(name, "missing")[:12])
    if not wanted:
        found.unknown.append("model's files")


async def _check_gpus(desk: Desk, saved: Mapping[str, Any], found: _Found) -> None:
    from console.operations.watch import gpu_samples
    from console.operations.winner import gpu_words

    sample = desk.store.snapshot.gpus
    if sample is None or time.monotonic() - sample.received > GPU_PATIENCE_S:
        try:
            async with asyncio.timeout(GPU_PATIENCE_S), aclosing(gpu_samples(desk, hz=2.0)) as samples:  # type: ignore[type-var]
                sample = await anext(samples)
        except TimeoutError:
            sample = None
    gpus = [{"name": str(gpu.name), "power_limit_w": gpu.power_limit_w} for gpu in sample.gpus] if sample else []
    found.hold("GPUs and power limits", saved.get("gpus"), gpu_words(gpus))


async def _check_machine(desk: Desk, saved: Mapping[str, Any], found: _Found) -> None:
    """Hold the machine's state; the cards themselves and their power limits are held on their own."""
    from console.operations import machine

    then = saved.get("machine") or {}
    now = machine.fingerprint(await machine.look_quietly(desk)) if then else {}
    if not then or not now:
        found.unknown.append("machine's state")
        return
    moved = [one for one in machine.changes(then, now) if one.decides and one.what not in ("GPU", "power limit")]
    found.drifts += [
        Drift(f"{one.what} on {one.where}" if one.where else one.what, one.before, one.after) for one in moved
    ]
    if not moved:
        found.checked.append("machine's state")


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
    from console.operations import patches, server

    profile = desk.must_profile()
    desk.must_write("profile reproduce")
    saved = evidence_of(profile)
    if profile.patches_on:
        yield "turning the profile's patches on"
        try:
            await patches.apply_set(desk, exact=True)
        except ConsoleError as error:
            if error.exit_code != 6:
                raise
    found = await verify(desk)
    if found.drifts and not force:
        raise RefusedError(
            f"{desk.link.host.name}: {profile.name} cannot be rebuilt: {len(found.drifts)} things have drifted",
            "; ".join(f"{one.what}: {one.saved} → {one.now}" for one in found.drifts),
            "tokwatt profile verify lists them; --force measures all the same",
        )
    run = await server.status(desk)
    fresh = run is None or run.phase not in UP
    yield "starting the server" if fresh else "restarting the server"
    run = await (server.start(desk) if fresh else server.restart(desk))
    run = await server.wait_ready(desk, run, deadline_s=READY_S)
    yield f"measuring run {run.id}"
    done = await _measured(desk, saved)
    for row in saved.get("measured") or ():
        yield again(row, done)


async def _measured(desk: Desk, saved: Mapping[str, Any]) -> tuple[Measurement, ...]:
    from console.operations.measure import sweep

    rows = list(saved.get("measured") or ())
    repeats = max((len(row.get("repeats_tok_s") or ()) for row in rows), default=1)
    done: tuple[Measurement, ...] = ()
    steps = sweep(desk, concurrency=[int(row["concurrency"]) for row in rows], repeats=repeats)
    async with aclosing(steps) as parts:  # type: ignore[type-var]
        async for progress in parts:
            done = progress.done
    return done


def again(row: Mapping[str, Any], done: Sequence[Measurement]) -> Again:
    """Return one saved concurrency beside its new measurements."""
    concurrency, before = int(row["concurrency"]), float(row["output_tok_s"])
    now = [
        one.output_throughput_tok_s
        for one in done
        if one.concurrency_limit == concurrency and not one.tainted and one.output_throughput_tok_s
    ]
    if not now:
        return Again(concurrency, before, None, verdict="not measured")
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
