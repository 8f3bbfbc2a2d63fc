"""A pretend host in memory: patches, one server, numbers; it fails where it is told to."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.domain.host import Host, Link, LinkState
from console.domain.measurement import Measurement, Percentiles, SweepProgress
from console.domain.patch import DiskState, Patch, Requires
from console.domain.profile import Profile
from console.domain.run import Run, RunPhase
from console.errors import ConsoleError, LinkLostError
from console.journal import book
from console.operations import answers, experiments, measure, patches, server
from console.operations.desk import Desk
from console.state.store import Store

PROFILE = """schema = 1
title = "Small"
[launch]
port = 31000
[launch.args]
model-path = "/models/x"
max-running-requests = 64
[bench]
concurrency = [8, 32]
output_tokens = 8
[target]
output_tok_s = 5816
from = "K2-Thinking on this host"
"""

EXPERIMENT = """schema = 1
base = "small"
[measure]
repeats = 4
[[arm]]
name = "wide"
hypothesis = "starved"
args = { max-running-requests = 2048 }
[[arm]]
name = "tuned"
extends = "wide"
patches = ["tune"]
[[arm]]
name = "fused"
extends = "wide"
args = { fuse = true }
patches = ["fuse"]
"""


class Killed(BaseException):
    """The console is gone."""


@dataclass
class World:
    """What the pretend host is and does."""

    on: set[str] = field(default_factory=set)
    run: Run | None = None
    launched: int = 0
    calls: list[str] = field(default_factory=list)
    fail_at: int = -1
    """The call that fails."""
    fault: Callable[[str], BaseException] = lambda what: Killed(what)
    speed: Callable[[Profile, frozenset[str]], float] = lambda profile, on: 880.0
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Arms that the install would not take, and why."""
    in_force: Callable[[Profile], Mapping[str, object]] = lambda profile: dict(profile.launch.args)
    answer: Callable[[Profile, frozenset[str]], str] = lambda profile, on: "The sea was calm and the boats came home."
    dies: Callable[[Profile, frozenset[str]], str] = lambda profile, on: ""
    stuck: set[str] = field(default_factory=set)
    taint: Callable[[Profile], str] = lambda profile: ""
    facts: dict[str, Any] = field(default_factory=lambda: {"driver": "580", "package": "0.5.9", "commit": "abc"})
    """What a search compares hosts by."""

    def call(self, what: str) -> None:
        self.calls.append(what)
        if len(self.calls) - 1 == self.fail_at:
            raise self.fault(what)

    @property
    def loaded(self) -> frozenset[str]:
        assert self.run is not None
        return frozenset(self.run.patches_on)


def link_lost(what: str) -> BaseException:
    """Return a link that went away in a call, and is back at once."""
    return LinkLostError(f"the link went away in {what}")


class _Link:
    """A link that is up."""

    host = Host("box")
    state = LinkState(Link.UP)
    facts = SimpleNamespace(user="root", hostname="box", home="/root", clock_offset_s=0.0)

    async def changes(self) -> AsyncIterator[LinkState]:
        yield self.state

    async def call(self, op: str, *_: Any, **__: Any) -> Any:
        """Grant the hold of the host; whatever else is asked of it is in the place of patches, servers and measuring."""
        assert op in ("hold", "let_go")
        return SimpleNamespace(result={"before": {}})


def desk_on(folder: Path) -> Desk:
    """Return another console's desk."""
    return Desk(_Link(), Store())  # type: ignore[arg-type]


@pytest.fixture
def desk(world: World, tmp_path: Path) -> Desk:
    """A desk on the pretend host."""
    return desk_on(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The experiment's file, its base beside it."""
    (tmp_path / "small.toml").write_text(PROFILE)
    path = tmp_path / "story.toml"
    path.write_text(EXPERIMENT)
    return path


@pytest.fixture(autouse=True)
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: thousands of entries are written here, and no power cut is tried."""
    monkeypatch.setattr(book, "SYNCHRONOUS", "OFF")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The pretend host in the place of patches, servers and measuring."""
    world = World()
    needs = {"tune": Requires(), "fuse": Requires({"fuse": True}), "unreached": Requires({"backend": "cutlass"})}

    async def host_facts(desk: Desk) -> dict[str, Any]:
        return dict(world.facts)

    async def statuses(desk: Desk, names: Any = ()) -> tuple[Any, ...]:
        world.call("statuses")
        return tuple(
            SimpleNamespace(name=name, disk=DiskState.ON if name in world.on else DiskState.OFF, reason="")
            for name in names
        )

    async def apply(desk: Desk, name: str, **_: Any) -> None:
        world.call(f"apply {name}")
        if name in world.stuck:
            raise ConsoleError(f"{name} does not fit")
        world.on.add(name)

    async def revert(desk: Desk, name: str, **_: Any) -> None:
        world.call(f"revert {name}")
        world.on.discard(name)

    async def restart(desk: Desk) -> Run:
        world.call("stop")
        world.run = None
        world.call("launch")
        profile = desk.must_profile()
        world.launched += 1
        world.run = Run(
            f"run-{world.launched}", profile.name, "sglang", "", "", 31000, 1.0, phase=RunPhase.STARTING,
            patches_on=tuple(sorted(world.on)), resolved=world.in_force(profile),
        )  # fmt: skip
        return world.run

    async def wait_ready(desk: Desk, run: Run, *, deadline_s: float) -> Run:
        world.call("ready")
        assert world.run is not None
        why = world.dies(desk.must_profile(), world.loaded)
        if why:
            world.run = replace(run, phase=RunPhase.FAILED)
            raise ConsoleError(f"run {run.id} failed: {why}")
        world.run = replace(run, phase=RunPhase.READY)
        desk.store.update(run=world.run)
        return world.run

    async def status(desk: Desk) -> Run | None:
        world.call("status")
        desk.store.update(run=world.run)
        return world.run

    async def resolved_arguments(desk: Desk, run: Run) -> Mapping[str, object]:
        return run.resolved

    async def ask(desk: Desk, run: Run) -> tuple[str, ...]:
        world.call("ask")
        return (world.answer(desk.must_profile(), world.loaded),) * 6

    async def sweep(desk: Desk, *, repeats: int = 1, first_repeat: int = 0, concurrency: Any = ()) -> Any:
        world.call("measure")
        profile = desk.must_profile()
        assert world.run is not None and world.run.phase is RunPhase.READY and world.run.profile == profile.name
        done: tuple[Measurement, ...] = ()
        for rung in concurrency or profile.bench.concurrency:
            noise = random.Random(f"{profile.name} {first_repeat} {rung}").gauss(0, 0.004)
            value = world.speed(profile, world.loaded) * (1 + noise)
            done = (*done, _measurement(world.run.id, rung, first_repeat, value, world.taint(profile)))
            yield SweepProgress(world.run.id, profile.bench.concurrency, 1, done)

    for name, fake in (("statuses", statuses), ("apply", apply), ("revert", revert)):
        monkeypatch.setattr(patches, name, fake)
    monkeypatch.setattr(server, "restart", restart)
    monkeypatch.setattr(server, "wait_ready", wait_ready)
    monkeypatch.setattr(server, "status", status)
    monkeypatch.setattr(server, "resolved_arguments", resolved_arguments)
    monkeypatch.setattr(answers, "ask", ask)
    monkeypatch.setattr(measure, "sweep", sweep)

    async def unfit(*_: Any) -> tuple[dict[str, str], list[str]]:
        return dict(world.unfit), []

    monkeypatch.setattr(experiments, "_unfit", unfit)
    found = {name: Patch(name, requires=required) for name, required in needs.items()}
    monkeypatch.setattr(experiments, "find_patch", found.__getitem__)
    monkeypatch.setattr("console.operations.experiments_run.find_patch", found.__getitem__)
    monkeypatch.setattr("console.operations.experiments_search.find_patch", found.__getitem__)
    monkeypatch.setattr("console.operations.experiments_search.host_facts", host_facts)
    return world


def _measurement(run: str, rung: int, repeat: int, value: float, taint: str) -> Measurement:
    told = Percentiles(10, 10.0, 10.0, 11.0, 12.0)
    return Measurement(
        run, rung, repeat, 1.0, 2.0, 16, 16, 0, 100, 100, value, 3.0, replace(told, p50_ms=1e6 / value), told, told, told,
        power_mean_w=2000.0, energy_j_per_token=2000 / value, tainted=(taint,) if taint else (),
        protocol={"input_tokens": 1024, "output_tokens": 8},
    )  # fmt: skip


def story(profile: Profile, on: frozenset[str]) -> float:
    """Return how fast a configuration of the pretend host is."""
    if profile.launch.args.get("fuse") and "fuse" in on:
        return 236.0
    wide = profile.launch.args.get("max-running-requests") == 2048
    return (1950.0 if wide else 880.0) * (1.09 if "tune" in on else 1.0)
