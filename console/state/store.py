"""The store: one immutable snapshot of all that is known, and the latest of it for whoever watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from console.domain.host import GitState, Host, HostFacts, LinkState, Package

if TYPE_CHECKING:  # making their dataclasses takes 40 ms, which the first frame does not have
    from console.domain.activity import Activity
    from console.domain.diagnosis import Diagnosis
    from console.domain.experiment import ExperimentState
    from console.domain.gpu import GpuSample
    from console.domain.machine import MachineState
    from console.domain.measurement import SweepProgress
    from console.domain.patch import PatchStatus
    from console.domain.profile import Profile
    from console.domain.run import Run
    from console.domain.throughput import ThroughputSample

ACTIVITIES_KEPT = 50


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that every history shows: patch ◆, restart ▲, measurement ▬."""

    time: float
    """Host's wall clock, seconds since the epoch."""
    kind: str
    """`patch`, `restart` or `measurement`."""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that the screens show; replaced whole, never changed in place."""

    host: Host = field(default_factory=lambda: Host(""))
    link: LinkState = field(default_factory=LinkState)
    facts: HostFacts | None = None
    profile: Profile | None = None
    profile_edited: bool = False
    readonly: bool = False
    package: Package | None = None
    package_reason: str = ""
    """Why the engine package is not known."""
    git: GitState | None = None
    patches: tuple[PatchStatus, ...] = ()
    run: Run | None = None
    gpus: GpuSample | None = None
    gpu_history: tuple[tuple[float, tuple[float | None, ...]], ...] = ()
    """(host time, W per GPU), one a second, the last minute."""
    throughput: ThroughputSample | None = None
    tok_s_history: tuple[tuple[float, float | None], ...] = ()
    """(host time, output tok/s), one a second, the last minute."""
    best_tok_s: float | None = None
    diagnosis: Diagnosis | None = None
    """What binds the server now, judged once a second."""
    peak_w: float | None = None
    """Highest instantaneous sum of all GPUs within the last ten seconds."""
    energy_j_per_token: float | None = None
    """From energy and token counters of the same seconds, where both are told."""
    machine: MachineState | None = None
    """Driver, limits, links and topology, as last looked at."""
    machine_changes: tuple[str, ...] = ()
    """What of the machine changed since the base run, in words."""
    base_run: str = ""
    """The run whose machine it is compared with."""
    sweep: SweepProgress | None = None
    experiment: ExperimentState | None = None
    activities: tuple[Activity, ...] = ()
    """Newest last."""
    marks: tuple[Mark, ...] = ()


class Store:
    """Holds the snapshot; operations write it, screens watch it."""

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._changed = asyncio.Event()
        self._next_activity = 1

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot now."""
        return self._snapshot

    def update(self, **fields: Any) -> None:
        """Replace fields of the snapshot."""
        self._snapshot = replace(self._snapshot, **fields)
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def begin(self, activity: Activity) -> int:
        """Add an activity under a new number and return it."""
        number, self._next_activity = self._next_activity, self._next_activity + 1
        kept = self._snapshot.activities[-ACTIVITIES_KEPT + 1 :]
        self.update(activities=(*kept, replace(activity, id=number)))
        return number

    def amend(self, number: int, **fields: Any) -> None:
        """Replace fields of one activity."""
        self.update(activities=tuple(replace(a, **fields) if a.id == number else a for a in self._snapshot.activities))

    async def changes(self) -> AsyncIterator[Snapshot]:
        """Yield the snapshot now and after changes: always the latest, not every one."""
        while True:
            event, snapshot = self._changed, self._snapshot
            yield snapshot
            if self._snapshot is snapshot:
                await event.wait()
