"""A start-up as it goes: what it usually takes, what is left, and when it has stalled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.domain.run import Run, Rung, RunPhase, Stall

SILENT_S = {"distributed": 180.0, "workers": 300.0, "start": 300.0}
"""How long a log may say nothing in a step whose usual time is not known."""

SILENT_OTHERWISE_S = 600.0
TIMES_USUAL = 3.0
OVER_USUAL_S = 60.0

WORDS = {
    "distributed": "distributed init",
    "weights": "loading weights",
    "kv cache": "KV cache allocation",
    "autotune": "kernel autotuning",
    "cuda graphs": "CUDA graph capture",
    "prefill graphs": "prefill graph capture",
    "http": "HTTP start",
    "workers": "starting its workers",
    "start": "importing",
}
COMPILERS = ("ninja", "nvcc", "cicc", "ptxas", "cudafe++", "cc1plus")


@dataclass(frozen=True, slots=True)
class Usual:
    """What earlier starts of the same profile on the same host took."""

    ready_s: float | None = None
    rungs: Mapping[str, float] = field(default_factory=dict)
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known around a start beside its ladder."""

    now: float
    """Host's wall clock."""
    quiet_s: float
    """Since the log's last byte."""
    last_clock: str = ""
    last_line: str = ""
    reported: str = ""
    """Which ranks said that a step is behind them, in words; empty when none is known."""
    env_names: Sequence[str] = ()
    titles: Sequence[str] = ()
    """Of the run's processes."""
    gpus: str = ""
    """Memory and load of its GPUs in words."""


def open_rung(run: Run) -> Rung | None:
    """Return the step that a start is at."""
    return next((rung for rung in reversed(run.ladder) if rung.started_s is not None and rung.ended_s is None), None)


def eta_s(run: Run, now: float) -> float | None:
    """Return the seconds until a start is ready, as far as earlier ones and its own bar tell."""
    if run.phase is not RunPhase.STARTING or run.usual_ready_s is None:
        return None
    left = max(0.0, run.usual_ready_s - (now - run.started_at))
    rung = open_rung(run)
    return max(left, rung.eta_s) if rung is not None and rung.eta_s is not None else left


def stall_of(run: Run, scene: Scene) -> Stall | None:
    """Return what is wrong when a step takes far longer than usual, or its log has been silent for minutes."""
    rung = open_rung(run)
    if run.phase is not RunPhase.STARTING or rung is None or rung.started_s is None:
        return None
    lasted = scene.now - run.started_at - rung.started_s
    limit = None if rung.usual_s is None else max(TIMES_USUAL * rung.usual_s, rung.usual_s + OVER_USUAL_S)
    patience = SILENT_S.get(rung.name, SILENT_OTHERWISE_S)
    if limit is not None:
        patience = min(patience, max(limit, OVER_USUAL_S))
    words = WORDS.get(rung.name, rung.name)
    compiling = [title for title in scene.titles if _program(title) in COMPILERS]
    if scene.quiet_s >= patience and not compiling:
        since = scene.now - scene.quiet_s
        text = f"stalled in {words} since {scene.last_clock[11:19] or 'its last line'}"
        return Stall(rung.name, text, since, scene.quiet_s, _evidence(rung, scene, lasted), _hints(rung, scene))
    if limit is None or lasted < limit or rung.usual_s is None:
        return None
    text = f"{words} takes {_span(lasted)}, usually {_span(rung.usual_s)}"
    evidence = _evidence(rung, scene, lasted)
    if compiling:
        evidence = (f"{len(compiling)} compilers run: kernels are being built", *evidence)
    return Stall(rung.name, text, run.started_at + rung.started_s + limit, scene.quiet_s, evidence, ())


def _program(title: str) -> str:
    return title.split(" ", 1)[0].rpartition("/")[2]


def _evidence(rung: Rung, scene: Scene, lasted: float) -> tuple[str, ...]:
    found = []
    if rung.ranks_begun:
        found.append(f"{rung.ranks_ended} of {rung.ranks_begun} ranks have ended {WORDS.get(rung.name, rung.name)}")
    if scene.reported:
        found.append(scene.reported)
    found.append(f"log silent for {_span(scene.quiet_s)}, {_span(lasted)} in this step")
    if scene.gpus:
        found.append(scene.gpus)
    if scene.last_line:
        found.append(f"last line: {scene.last_line[:160]}")
    return tuple(found)


def _hints(rung: Rung, scene: Scene) -> tuple[str, ...]:
    stop = "serve stop ends it in this phase, too: it may ignore SIGTERM and is killed then"
    given = set(scene.env_names)
    if rung.name not in ("distributed", "workers"):
        return (stop,)
    hints = []
    if not given & {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}:
        hints.append("which interface: set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME (IPv6 alone has hung here)")
    if "NCCL_P2P_DISABLE" not in given:
        hints.append("NCCL_P2P_DISABLE=1 in the next launch tells whether GPU peer-to-peer hangs (IOMMU, ACS)")
    if "NCCL_DEBUG" not in given:
        hints.append("NCCL_DEBUG=INFO in the next launch tells where")
    return (*hints, stop)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
