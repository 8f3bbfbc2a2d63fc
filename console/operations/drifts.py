"""What of a host and a sealed profile is not as it was when a winner won: each thing once, by name, with how grave it is."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from console.domain.profile import Profile
from console.engines.registry import engine
from console.errors import ConnectError, ConsoleError, RemoteError
from console.operations.desk import Desk

if TYPE_CHECKING:
    from console.domain.gpu import GpuSample
    from console.domain.patch import PatchStatus

GPU_PATIENCE_S = 5.0

NONE = "none"
MISSING = "missing"

SLOWING = ("hardware slowdown", "thermal (software)", "thermal (hardware)", "power brake")
"""What holds a GPU's clock down without having been asked to; a power cap under load is how it works."""


class Gravity(StrEnum):
    """What a drift means for the winner's numbers."""

    DECIDES = "decides"
    """Numbers from before and after do not stand beside each other."""
    MAY_MATTER = "may_matter"


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that is not as it was when the winner won."""

    what: str
    saved: object
    now: object
    gravity: Gravity = Gravity.DECIDES
    mendable: bool = False
    """Whether turning the profile's patches on, and others off, takes it away."""

    @property
    def said(self) -> str:
        """The drift in words."""
        then = "unknown" if self.saved is None else self.saved
        weight = " (may matter)" if self.gravity is Gravity.MAY_MATTER else ""
        return f"{self.what}: {then} → {self.now}{weight}"


class Found:
    """Collects what differs."""

    def __init__(self) -> None:
        self.drifts: list[Drift] = []
        self.unknown: dict[str, str] = {}
        """What cannot be compared, with why where something said so."""
        self.checked: list[str] = []

    def hold(self, what: str, saved: object, now: object, gravity: Gravity = Gravity.DECIDES) -> None:
        """Compare one fact; what either side does not know is unknown."""
        if saved in (None, "", {}, []) or now in (None, "", {}, []):
            self.unknown[what] = "not in its evidence" if saved in (None, "", {}, []) else "the host does not tell"
        elif saved != now:
            self.drifts.append(Drift(what, saved, now, gravity))
        else:
            self.checked.append(what)

    def hold_all(
        self,
        what: str,
        saved: Mapping[str, Any],
        now: Mapping[str, Any],
        *,
        each: str = "",
        gravity: Gravity = Gravity.DECIDES,
        absent: str = NONE,
    ) -> None:
        """Compare a table of facts whole, and tell what differs fact by fact.

        Args:
            what: The table in words; counted as alike when nothing differs.
            saved: As it was.
            now: As it is.
            each: Words before the name of a fact.
            gravity: Of each.
            absent: Stands for a fact that one side does not have.
        """
        moved = sorted(name for name in saved.keys() | now.keys() if saved.get(name) != now.get(name))
        self.drifts += [
            Drift(
                f"{each or what} {name}", _short(saved.get(name, absent)), _short(now.get(name, absent)), gravity
            )
            for name in moved
        ]  # fmt: skip
        if not moved:
            self.checked.append(what)

    async def look(self, what: str, check: Awaitable[None]) -> None:
        """Await one check; what the host cannot tell is unknown, a lost link ends everything."""
        try:
            await check
        except ConnectError:
            raise
        except ConsoleError as error:
            self.unknown[what] = error.one_line()


def _short(value: object) -> object:
    """Return a hash as far as people compare one."""
    return value[:12] if isinstance(value, str) and len(value) == 64 and value.isalnum() else value


def check_seal(profile: Profile, saved: Mapping[str, Any], found: Found) -> None:
    """Hold the file against its seal; a broken one is told by what was edited, as far as the evidence repeats it."""
    from console.operations.winner import seal_of
    from console.operations.winner_fit import edits

    seal, now, sealed = saved.get("seal"), seal_of(profile), saved.get("profile")
    if seal == now:
        found.checked.append("seal of the file")
        return
    told = edits(profile, sealed) if sealed else ()
    found.drifts += [Drift(one.what, one.saved, one.now, Gravity(one.gravity)) for one in told]
    if not told or sealed is None or seal != seal_of(profile, sealed):
        found.drifts.append(
            Drift("evidence under [winner]" if told else "seal of the file", _short(seal or MISSING), _short(now))
        )


async def check_install(desk: Desk, saved: Mapping[str, Any], found: Found) -> bool:
    """Hold interpreter, package, commit and versions; return whether there is a package to look into."""
    from console.operations import host
    from console.operations.ways import in_image

    if desk.profile is not None and in_image(desk.profile):
        found.unknown["install"] = "it is in an image"
        return False
    if desk.profile is not None and not engine(desk.profile.engine.kind).package:
        found.unknown["install"] = f"{desk.profile.engine.kind} is no package of an interpreter"
        return False
    try:
        package = await host.engine_package(desk, refresh=True)
    except RemoteError as error:
        if error.kind not in host.UNKNOWN:
            raise
        kind = desk.must_profile().engine
        if error.kind == "no_package":
            found.drifts.append(Drift(f"package {kind.kind}", saved.get("package"), MISSING))
        else:
            found.drifts.append(Drift(f"interpreter {kind.python}", "there", error.one_line()))
        return False
    found.hold(f"version of {package.name}", saved.get("package"), package.version)
    git = await host.git_state(desk)
    if saved.get("commit") or git:
        found.hold("git commit", str(saved.get("commit") or NONE)[:12], git.commit[:12] if git else MISSING)
    await _check_versions(desk, saved, package.name, found)
    return True


async def _check_versions(desk: Desk, saved: Mapping[str, Any], engine: str, found: Found) -> None:
    """Hold the packages beside the engine's: one that came or went is a drift, too."""
    from console.operations.launching import BESIDE, versions_beside

    then = {name: version for name, version in (saved.get("versions") or {}).items() if name != engine}
    now = await versions_beside(desk)
    for name in sorted({*then, *(name for name in now if name in BESIDE)}):
        found.hold(f"version of {name}", then.get(name, NONE), now.get(name, MISSING))


async def check_patches(desk: Desk, saved: Mapping[str, Any], found: Found) -> None:
    """Hold each patch's state and definition, and the bytes of its files with those that the winner's process had loaded."""
    from console.operations import host, patches
    from console.operations.winner_evidence import definition_of

    package = await host.engine_package(desk)
    known = {status.name: status for status in await patches.statuses(desk)}
    wanted = {str(one["name"]): one for one in saved.get("patch") or ()}
    for name in sorted({*wanted, *(name for name, status in known.items() if status.disk.value == "on")}):
        now = known[name].disk.value if name in known else "no such patch"
        then = "on" if name in wanted else "off"
        if now == then:
            found.checked.append(f"patch {name}")
        else:
            found.drifts.append(Drift(f"patch {name}", then, now, mendable={then, now} == {"on", "off"}))
    for name, one in wanted.items():
        state = known[name].disk.value if name in known else ""
        if one.get("definition_sha256") and state not in ("", "invalid"):
            found.hold(
                f"file of patch {name}", _short(one["definition_sha256"]), _short(definition_of(desk, name) or MISSING)
            )
    await _check_bytes(desk, wanted.values(), known, package.folder, found)
    held = [str(file["file"]) for one in wanted.values() for file in one.get("files") or ()]
    theirs = [*held, *(file for status in known.values() if status.disk.value == "on" for file in status.files)]
    await check_uncommitted(desk, saved, theirs, found)
    await _check_code(desk, saved, theirs, found)


async def _check_bytes(
    desk: Desk,
    wanted: Iterable[Mapping[str, Any]],
    known: Mapping[str, PatchStatus],
    folder: str,
    found: Found,
) -> None:
    files: dict[str, tuple[str, str, bool]] = {}
    for patch in wanted:
        status = known.get(str(patch["name"]))
        off = status is None or status.disk.value == "off"
        for one in patch.get("files") or ():
            path = posixpath.join(folder, one["file"])
            files[path] = (str(one.get("at_launch_sha256") or ""), str(one.get("before_sha256") or ""), off)
    now = (await desk.link.call("hash", {"paths": sorted(files)})).result if files else {}
    for path, (loaded, before, off) in sorted(files.items()):
        if off and before and now.get(path) == before:
            continue  # the patch is off and nothing else: told by its state
        what, then, digest = (
            f"bytes of {posixpath.relpath(path, folder)}",
            _short(loaded),
            _short(now.get(path) or MISSING),
        )
        if off and not before and then != digest:
            found.drifts.append(Drift(what, then, digest, mendable=True))
        else:
            found.hold(what, then, digest)


async def check_uncommitted(desk: Desk, saved: Mapping[str, Any], patched: Sequence[str], found: Found) -> None:
    """Compare what differs from the commit, but for files that patches change: those were held by their bytes."""
    from console.operations.identity import uncommitted
    from console.operations.winner_evidence import CLEAN

    now, then = await uncommitted(desk), saved.get("uncommitted")
    if now is None or then is None:
        if now is not None:
            found.unknown["uncommitted changes"] = "not in its evidence"
        return
    sides = [{} if side == CLEAN else dict(side) for side in (then, now[0])]
    sides = [_but(side, patched) for side in sides]
    found.hold_all("uncommitted changes", *sides, each="uncommitted", absent="as committed")


def _but(table: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
    """Return a table of files without some, which are named from their package on."""
    return {
        path: value
        for path, value in table.items()
        if not any(path == file or path.endswith("/" + file) for file in files)
    }


async def _check_code(desk: Desk, saved: Mapping[str, Any], patched: Sequence[str], found: Found) -> None:
    """Compare code that no commit and no RECORD holds, start-up files, Python itself, and the host's own variables."""
    from console.operations.identity import launch_code
    from console.operations.winner_evidence import CLEAN

    now = await launch_code(desk)
    reasons: Mapping[str, str] = now.get("reasons") or {}
    found.hold("version of Python", saved.get("python"), now.get("python"))
    for key, what, each in (
        ("edited", "files as installed", "edited"),
        ("added", "files that nothing recorded", "added by hand"),
        ("startup", "start-up files", "start-up file"),
        ("host_environment", "environment of the host", "host's environment"),
    ):
        then, today = saved.get(key), now.get(key.removeprefix("host_"))
        if then is None or today is None:
            found.unknown[what] = reasons.get(key) or (
                "not in its evidence" if then is None else "the host does not tell"
            )
            continue
        sides = [_but({} if side == CLEAN else side, patched) for side in (then, today)]
        found.hold_all(what, *sides, each=each, absent="unset" if key == "host_environment" else NONE)


async def check_model(desk: Desk, saved: Mapping[str, Any], found: Found) -> None:
    """Hold the model's files: small ones by their bytes, weights by their sizes."""
    from console.operations.identity import model_prints

    if not saved.get("model_files") and not saved.get("model_sizes"):
        found.unknown["model's files"] = "not in its evidence"
        return
    now = await model_prints(desk, saved.get("resolved") or {})
    found.hold_all("model's", saved.get("model_files") or {}, now["model_files"], absent=MISSING)
    for key, what in (("model_sizes", "size of"), ("argument_files", "file of")):
        if key in saved or now[key]:
            found.hold_all(what, saved.get(key) or {}, now[key], absent=MISSING)


async def check_caches(desk: Desk, saved: Mapping[str, Any], found: Found) -> None:
    """Tell of caches that were warm and are not any more; that others warmed one is no drift of this winner."""
    from console.operations.identity import caches

    then: Mapping[str, int] = saved.get("caches") or {}
    if not then:
        return
    now = await caches(desk)
    for name, entries in sorted(then.items()):
        if entries and not (now.get(name) or {}).get("entries"):
            found.drifts.append(Drift(name, f"warm ({entries:,} entries)", "empty", Gravity.MAY_MATTER))
        elif entries:
            found.checked.append(name)


async def check_machine(desk: Desk, saved: Mapping[str, Any], found: Found) -> None:
    """Hold cards, limits, clocks, driver and links; a GPU that is slowed down at this moment is told, too."""
    from console.operations import machine
    from console.operations.winner_evidence import gpu_words

    sample = await _sample(desk)
    then = saved.get("machine") or {}
    state = machine.with_limits(await machine.look_quietly(desk), sample)
    now = machine.fingerprint(state)
    if not then.get("gpus") or not now.get(
        "gpus"
    ):  # no state of the cards: their names and limits, where those are told
        gpus = [{"name": str(gpu.name), "power_limit_w": gpu.power_limit_w} for gpu in sample.gpus] if sample else []
        found.hold("GPUs and power limits", saved.get("gpus"), gpu_words(gpus))
    if not then or not now:
        found.unknown["machine's state"] = (state.reason or "the host does not tell") if then else "not in its evidence"
    else:
        moved = machine.changes(then, now)
        if any(one.what == "GPUs" for one in moved):  # other cards are joined otherwise: one thing
            moved = tuple(one for one in moved if one.what not in ("topology", "paths between GPUs"))
        found.drifts += [
            Drift(
                f"{one.what} on {one.where}" if one.where else one.what,
                f"{one.before} {one.unit}".rstrip(),
                f"{one.after} {one.unit}".rstrip(),
                Gravity.DECIDES if one.decides or one.what == "NCCL" else Gravity.MAY_MATTER,
            )
            for one in moved
        ]
        if not moved and now.get("gpus"):
            found.checked.append("machine's state")
    _check_throttle(sample, found)


def _check_throttle(sample: GpuSample | None, found: Found) -> None:
    told = {gpu.index: gpu.throttle for gpu in sample.gpus if gpu.throttle is not None} if sample is not None else {}
    if not told:
        found.unknown["clocks held down"] = (sample.reason if sample is not None else "") or "the host does not tell"
        return
    slow: dict[str, list[int]] = {}
    for index, reasons in told.items():
        for reason in reasons:
            if reason in SLOWING:
                slow.setdefault(reason, []).append(index)
    found.drifts += [
        Drift(f"clock of GPU {', '.join(map(str, where))}", "free", f"held down: {reason}")
        for reason, where in slow.items()
    ]
    if not slow:
        found.checked.append("clocks held down")


async def _sample(desk: Desk) -> GpuSample | None:
    from console.operations.watch import gpu_samples

    sample = desk.store.snapshot.gpus
    if sample is None or time.monotonic() - sample.received > GPU_PATIENCE_S:
        try:
            async with asyncio.timeout(GPU_PATIENCE_S), aclosing(gpu_samples(desk, hz=2.0)) as samples:  # type: ignore[type-var]
                sample = await anext(samples)
        except TimeoutError:
            return None
    return sample
