"""What the running server has of a patch: bytes at its start, the evidence line, reachability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.domain.patch import DiskState, Patch, ProcessState, Requires
from console.domain.run import Run, RunPhase

GONE = (RunPhase.NONE, RunPhase.EXITED, RunPhase.FAILED, RunPhase.LOST)

_ALIASES = {"tp": "tp-size", "tensor-parallel-size": "tp-size", "ep": "ep-size", "dp": "dp-size", "pp": "pp-size"}
_SHORTEST = 6
"""Letters from which an abbreviated flag is taken for the one that it begins."""


@dataclass(frozen=True, slots=True)
class FileNow:
    """A file of a patch as it is now."""

    path: str
    """Absolute, as the package is found."""
    real: str
    """The same with links resolved."""
    sha256: str
    """Empty for no file."""
    mtime: float = 0.0
    ctime: float = 0.0
    """Of the last change of content, name, mode or links: no copy and no `touch` sets it back."""

    @property
    def touched(self) -> float:
        """The moment from which on it is surely what it is now."""
        return max(self.mtime, self.ctime)


@dataclass(frozen=True, slots=True)
class Worker:
    """One process of the server."""

    pid: int
    title: str
    started_at: float
    """Host's wall clock."""
    loads: str = ""
    """Folder that it imports the package from; empty where that cannot be told."""


def judge(
    patch: Patch,
    disk: DiskState,
    files: Sequence[FileNow],
    run: Run | None,
    args: Mapping[str, object],
    workers: Sequence[Worker] = (),
    *,
    elsewhere: str = "",
    switches: Sequence[tuple[float, str]] = (),
) -> tuple[ProcessState, str]:
    """Return the state in the process, and its evidence.

    Args:
        patch: The patch.
        disk: Its state on disk now.
        files: Its files now.
        run: The newest run, or `None` when there is none.
        args: Launch arguments of the profile; those of the run itself go before.
        workers: Processes of the run, where they could be asked.
        elsewhere: Why the run has another copy of the package loaded; empty when as far as is known it has this one.
        switches: (when, verb) of the patch in the host's journal, oldest first.
    """
    if run is not None and run.argv:
        args = arguments(run.argv)
    lacking = unreached(patch.requires, args) if args else ""
    if run is None or run.phase in GONE:
        reason = f"this profile never reaches it: {lacking}" if lacking and disk is DiskState.ON else "no server runs"
        return ProcessState.NO_SERVER, reason
    if disk not in (DiskState.ON, DiskState.OFF, DiskState.DRIFTED):
        return ProcessState.NOT_LOADED, ""
    recorded = {item.path for item in run.hashes}
    if elsewhere and not any({file.path, file.real} & recorded for file in files):
        return ProcessState.UNKNOWN, elsewhere
    at_start, why = _at_start(patch, disk, files, run, switches)
    if at_start is None:
        return ProcessState.UNKNOWN, why
    if disk is DiskState.DRIFTED:
        return (ProcessState.NEEDS_RESTART if at_start else ProcessState.UNKNOWN), why
    if at_start != (disk is DiskState.ON):
        was = "on" if at_start else "off"
        return ProcessState.NEEDS_RESTART, f"it was {was} when {named(run)} started; {why}{_by_worker(files, workers)}"
    if disk is DiskState.OFF:
        return ProcessState.NOT_LOADED, why
    if lacking:
        return ProcessState.NOT_REACHED, f"on, but this profile never reaches it: {lacking}"
    if patch.evidence_log and patch.evidence_log in run.evidence:
        return ProcessState.PROVEN, f"the log of {named(run)} says {patch.evidence_log!r}"
    why += _by_worker(files, workers)
    missing = f"; its log has not said {patch.evidence_log!r}" if patch.evidence_log else ""
    return ProcessState.LOADED, f"{why}{missing}"


def _by_worker(files: Sequence[FileNow], workers: Sequence[Worker]) -> str:
    """Tell which processes began before the last write, and which after it: those may have other bytes loaded."""
    written = max((file.mtime for file in files), default=0.0)
    known = [worker for worker in workers if worker.started_at]
    if not written or not known:
        return ""
    late = [worker for worker in known if worker.started_at > written]
    if not late:
        return f"; all {len(known)} of its processes began before the write" if len(known) > 1 else ""
    if len(late) == len(known):
        return f"; all {len(known)} of its processes began after the last write" if len(known) > 1 else ""
    named = ", ".join(f"{worker.pid} {worker.title.split(' ')[0].rpartition('/')[2]}" for worker in late[:3])
    more = f" and {len(late) - 3} more" if len(late) > 3 else ""
    return f"; {len(late)} of {len(known)} processes began after the last write: {named}{more}"


def _at_start(
    patch: Patch, disk: DiskState, files: Sequence[FileNow], run: Run, switches: Sequence[tuple[float, str]]
) -> tuple[bool | None, str]:
    """Tell whether the patch was on when the run started."""
    hashes = {item.path: item.sha256 for item in run.hashes}
    unrecorded = []
    for file in files:
        known = hashes.get(file.path, hashes.get(file.real))
        name = file.path.rpartition("/")[2]
        if known is None and file.sha256 and file.touched < run.started_at:
            unrecorded.append(file)
            continue
        if known is None:
            if run.patches_on:
                return patch.name in run.patches_on, f"{name} has changed since {named(run)} started"
            if switches:
                return _by_journal(run, switches)
            return None, _unknown(file, name, run)
        if known != file.sha256:
            was = f"{known[:8]} at launch" if known else "not there at launch"
            return patch.name in run.patches_on, f"{name} was {was}, is {file.sha256[:8] or 'gone'} now"
    if unrecorded:
        return disk is DiskState.ON, f"{_names(files)} unchanged since before {named(run)} started"
    return disk is DiskState.ON, f"{_names(files)} as at launch of {named(run)}"


def _unknown(file: FileNow, name: str, run: Run) -> str:
    """Tell why nothing says which bytes of a file a process had loaded."""
    what = "was written since" if file.mtime >= run.started_at else "was put there or touched since"
    if not file.sha256:
        what = "is not there now"
    return f"unknown which bytes it loaded: nothing noted {name} when {named(run)} started, and it {what}"


def _by_journal(run: Run, switches: Sequence[tuple[float, str]]) -> tuple[bool, str]:
    """Tell from the host's journal whether a patch was on at a start."""
    before = [(when, verb) for when, verb in switches if when <= run.started_at]
    if before:
        return before[-1][1] == "apply", f"the last {before[-1][1]} before {named(run)} started says so"
    verb = switches[0][1]
    return verb != "apply", f"the host's journal has its first {verb} after {named(run)} started"


def named(run: Run | None) -> str:
    """Return a run by its number, a server without one by its process."""
    if run is None or run.id or run.process is None:
        return f"run {run.id if run else ''}".rstrip()
    return f"pid {run.process.pid}"


def unreached(requires: Requires, args: Mapping[str, object]) -> str:
    """Return what the arguments lack for the patched code to run at all; empty when nothing."""
    known = {_flag(name): value for name, value in args.items()}
    lacking = []
    for name, wanted in requires.args.items():
        value = _given(_flag(name), known)
        if not _same(value, wanted):
            lacking.append(f"needs --{_flag(name)}" + ("" if wanted is True else f" {wanted}"))
    for name in requires.absent:
        if _given(_flag(name), known) not in (None, False):
            lacking.append(f"must be without --{_flag(name)}")
    return ", ".join(lacking)


def arguments(argv: Sequence[str]) -> dict[str, object]:
    """Return the flags of a command line: `True` for one alone, else its value or values."""
    found: dict[str, object] = {}
    name = ""
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            found[name] = value if equals else True
            name = "" if equals else name
        elif name:
            present = found[name]
            found[name] = (
                word if present is True else (*present, word) if isinstance(present, tuple) else (present, word)
            )
    return found


def _given(name: str, known: Mapping[str, object]) -> object:
    if name in known:
        return known[name]
    for given, value in known.items():
        if len(given) >= _SHORTEST and name.startswith(given):
            return value
    return None


def _flag(name: str) -> str:
    plain = name.lstrip("-").replace("_", "-")
    return _ALIASES.get(plain, plain)


def _same(value: object, wanted: object) -> bool:
    if isinstance(wanted, bool):
        return value is wanted or (wanted is False and value is None)
    return value is not None and str(value) == str(wanted)


def _names(files: Sequence[FileNow]) -> str:
    names = [file.path.rpartition("/")[2] for file in files]
    return names[0] if len(names) == 1 else f"{len(names)} files"
