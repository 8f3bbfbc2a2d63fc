"""Searching: points of a declared space measured one by one, then the best of them against the base in pairs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.config.experiments import digest
from console.domain.experiment import BASE, METRICS, Arm, ExperimentSpec, ExperimentState
from console.domain.machine import changes, compact
from console.domain.measurement import Measurement
from console.domain.profile import HostSection
from console.errors import ConnectError, ConsoleError, RefusedError
from console.experiments import arms as resolving
from console.experiments.report import plan_of
from console.experiments.search import LAUNCH, Search, arm_of, base_point
from console.journal import experiments as entries
from console.journal.book import Journal, default_path
from console.operations import experiments_run, measure
from console.operations.desk import Desk
from console.operations.experiments import find_patch
from console.operations.experiments_noise import value_of
from console.operations.holds import held
from console.operations.rollback import StepError, through

if TYPE_CHECKING:
    import optuna

TRIES = 3
"""Times that a point is measured before what taints it counts as its own fault."""

TRIAL = "trial-"
"""Begins the name of a point as an arm."""

SEARCHING = "-search"
"""Ends the name of the journal's entry of a search; its winners stand in another entry, of the file's own name."""


def study_file(spec: ExperimentSpec) -> Path:
    """Return where a study is kept: where the file says, else beside the journal."""
    assert spec.search is not None
    if spec.search.storage:
        return Path(spec.path).parent / Path(spec.search.storage).expanduser()
    return default_path().parent / "searches" / f"{spec.name}.log"


def study_of(spec: ExperimentSpec, owner: str, claim: str = "") -> Search:
    """Return the study of an experiment file, the same one whatever a host is called."""
    assert spec.search is not None
    anywhere = digest(replace(spec, base=replace(spec.base, host=HostSection())))
    return Search(spec.search, f"{spec.name} {anywhere[:12]}", study_file(spec), owner, claim)


async def run(desk: Desk, spec: ExperimentSpec) -> AsyncIterator[ExperimentState]:
    """Search, then measure the best against the base; goes on where it was cut off.

    Raises:
        ConsoleError: Optuna is not installed, or the base cannot be measured.
        RefusedError: Another experiment is unfinished on this host.
    """
    desk.must_write("experiment run")
    host = desk.link.host
    study = await asyncio.to_thread(study_of, spec, f"{host.name} {desk.operator}")
    left = await entries.unfinished(Journal(), host.name)
    for cut in left:
        proof = proof_of(spec, study, cut)
        if proof is not None and proof.digest == cut.digest:
            async with aclosing(experiments_run.resume(desk, proof, cut)) as states:  # type: ignore[type-var]
                async for state in states:
                    yield state
            return
    async with held(desk, f"search {spec.name}"):
        await _must_be_equal(desk, spec, study)
        entry = await _entry(desk, spec, left)
        study.claim = f"{study.owner} {entry.id} {entry.created_at:.6f}"
        work = _Searching(desk, spec, entry, study)
        async with aclosing(work.walk_space()) as steps:
            async for state in steps:
                yield state
    for number, owner in study.elsewhere:
        desk.say(f"trial {number} is not ended yet: {owner} measures it, or did when it was cut off")
    desk.say(f"{study.done} trials; the best: {_points(study.best(), study.spec.objectives)}")
    async with aclosing(experiments_run.run(desk, tested(spec, study))) as states:  # type: ignore[type-var]
        async for state in states:
            yield state


def proof_of(spec: ExperimentSpec, study: Search, entry: entries.ExperimentEntry) -> ExperimentSpec | None:
    """Return the experiment of a search's best points as it was begun: others may have found better ones since."""
    arms = [str(arm.get("name") or "") for arm in entry.plan.get("arms") or ()]
    numbers = [int(name[len(TRIAL) :]) for name in arms if name.startswith(TRIAL) and name[len(TRIAL) :].isdigit()]
    points = study.points(numbers)
    return tested(spec, study, points) if points else None


def tested(
    spec: ExperimentSpec, study: Search, best: Sequence[tuple[int, Any, Sequence[float]]] = ()
) -> ExperimentSpec:
    """Return the experiment that a search ends with: its best points as arms, in pairs against the base.

    Args:
        spec: The search.
        study: What it found.
        best: Points that were chosen before, instead of the best of now.

    Raises:
        ConsoleError: No point could be measured.
    """
    assert spec.search is not None
    best = best or study.best()
    if not best:
        raise ConsoleError(f"search {spec.name}: no trial could be measured", _causes(study))
    found = tuple(
        arm_of(
            f"{TRIAL}{number}",
            point,
            spec.search.space,
            f"best of the search: {_shown(values, spec.search.objectives)}",
        )
        for number, point, values in best
    )
    proof = replace(spec, arms=(*spec.arms, *found), search=None, metric=spec.search.objectives[0])
    return replace(proof, digest=digest(proof))


async def host_facts(desk: Desk) -> dict[str, Any]:
    """Return what hosts must share for their trials to stand in one study."""
    from console.operations import host, machine

    package = await host.known_package(desk)
    git = await host.git_state(desk) if package is not None else None
    return {
        **compact(machine.fingerprint(await machine.look_quietly(desk))),
        "package": package.version if package is not None else None,
        "commit": git.commit if git is not None else None,
    }


async def _must_be_equal(desk: Desk, spec: ExperimentSpec, study: Search) -> None:
    """Refuse a host whose numbers do not stand beside those that the study has.

    Raises:
        RefusedError: Its cards, limits, driver, engine or commit are others than those of the host that began.
    """
    now = await host_facts(desk)
    then = await asyncio.to_thread(study.host_state, now)
    said = [one.said for one in changes(then, now) if one.decides]
    for key, word in (("package", "engine's version"), ("commit", "git commit")):
        if then.get(key) and now[key] and then[key] != now[key]:
            said.append(f"{word} {str(then[key])[:12]} → {str(now[key])[:12]}")
    if said:
        raise RefusedError(
            f"search {spec.name}: {desk.link.host.name} is not equal to the host that its study began on",
            "; ".join(said),
            "make it equal, or give this host a study of its own: storage under [search]",
        )


async def _entry(desk: Desk, spec: ExperimentSpec, left: Sequence[entries.ExperimentEntry]) -> entries.ExperimentEntry:
    """Return the entry of the search that was cut off, or a new one."""
    host, name = desk.link.host, f"{spec.name}{SEARCHING}"
    mine = next((one for one in left if one.name == name and one.digest == spec.digest), None)
    if mine is not None:
        return mine
    if left:
        raise RefusedError(
            f"experiment {left[0].id} ({left[0].name}) is unfinished on {host.name}: {left[0].where or 'begun'}",
            hint=f"tokwatt experiment resume {left[0].id}, or abandon it",
        )
    return await entries.begin(
        Journal(),
        host=host.name,
        name=name,
        path=str(Path(spec.path).resolve()),
        digest=spec.digest,
        badge=host.badge,
        operator=desk.operator,
        plan=plan_of(spec, (Arm(BASE, spec.base, ""),)),
    )


class _Searching(experiments_run.Work):
    """A search under way: the arms come one after the other."""

    def __init__(self, desk: Desk, spec: ExperimentSpec, entry: entries.ExperimentEntry, study: Search) -> None:
        super().__init__(desk, spec, (Arm(BASE, spec.base, ""),), entry)
        assert spec.search is not None
        self.search = spec.search
        self.study = study

    async def walk_space(self) -> AsyncGenerator[ExperimentState, None]:
        """Measure points until there are enough of them."""
        await asyncio.to_thread(self.study.clear_left_over)
        if not self.study.has_base():
            self.step = "trial 0: the base"
            yield self.state()
            await self._base()
        while self.study.begun < self.search.trials + 1:
            if await asyncio.to_thread(lambda: self.study.seen_whole):
                self.desk.say("every point of the space was tried")
                break
            number = self.study.begun
            trial = await asyncio.to_thread(self.study.ask)
            arm = self._arm(trial)
            if arm is None:
                continue
            self.step = f"trial {number} of {self.search.trials}: {_point(trial.params)}"
            yield self.state()
            await self._trial(trial, arm)
        await through(self.desk, lambda: self.enter(BASE, "search"))
        await self.diary("left", {"arm": BASE}, f"base: run {self.progress.run} is ready; the search is over")
        await self.finish()

    async def _base(self) -> None:
        await through(self.desk, lambda: self.enter(BASE, "search"))
        done = await self._rungs(BASE, None)
        values = self._values(done)
        if values is None:
            why = self._why(done)
            raise ConsoleError(f"search {self.spec.name}: the base could not be measured", why)
        await asyncio.to_thread(self.study.tell_base, base_point(self.search.space, self.spec.base), values)

    def _arm(self, trial: optuna.Trial) -> Arm | None:
        """Return a point as an arm; `None` when an equal launch was measured before, or failed."""
        arm = arm_of(f"{TRIAL}{trial.number}", trial.params, self.search.space)
        [_, resolved] = resolving.resolve(replace(self.spec, arms=(arm,)), find_patch)
        launch = resolving.launch_key(resolved.profile, find_patch)
        trial.set_user_attr(LAUNCH, launch)
        known = self.study.known(launch, trial)
        if known is not None:
            self.study.tell_again(trial, known)
            return None
        self.arms[arm.name] = resolved
        return resolved

    async def _trial(self, trial: optuna.Trial, arm: Arm) -> None:
        try:
            await through(self.desk, lambda: self.enter(arm.name, "search"))
            done = await self._rungs(arm.name, trial)
        except StepError as error:
            await self.diary("note", {"arm": arm.name, "cause": error.one_line()}, f"{arm.name}: failed")
            self.study.tell_failed(trial, error.one_line())
            return
        if len(done) < len(self.spec.bench.concurrency):
            self.study.tell_pruned(trial, f"given up after concurrency {done[-1].concurrency_limit}")
            return
        values = self._values(done)
        if values is None:
            self.study.tell_failed(trial, self._why(done))
        else:
            self.study.tell(trial, values)

    async def _rungs(self, arm: str, trial: optuna.Trial | None) -> list[Measurement]:
        """Measure rung by rung, the low ones first; a hopeless point is given up between them."""
        found: list[Measurement] = []
        for place, rung in enumerate(sorted(self.spec.bench.concurrency)):
            done = await self._rung(rung)
            for again in range(1, TRIES):
                if not (why := self.taint(done[-1])):
                    break
                self.desk.say(f"measured again: {why}")
                done = await self._rung(rung, again)
            found += done
            value = value_of(found[-1], self.search.objectives[0])
            last = rung == max(self.spec.bench.concurrency)
            if trial is not None and value is not None and not last and self.study.hopeless(trial, value, place):
                break
        return found

    async def _rung(self, rung: int, again: int = 0) -> tuple[Measurement, ...]:
        async def once() -> tuple[Measurement, ...]:
            done: tuple[Measurement, ...] = ()
            steps = measure.sweep(self.desk, concurrency=(rung,), repeats=1, first_repeat=again)
            async with aclosing(steps) as sweep:  # type: ignore[type-var]
                async for progress in sweep:
                    done = progress.done
            return done

        try:
            return await through(self.desk, once)
        except ConnectError:
            raise
        except ConsoleError as error:
            raise StepError(f"concurrency {rung}: {error.title}", error.detail) from error

    def _values(self, done: Sequence[Measurement]) -> list[float] | None:
        """Return the objectives at the deciding concurrency; `None` when they must not be compared."""
        one = next((one for one in done if one.concurrency_limit == self.spec.decide_at), None)
        if one is None or self.taint(one):
            return None
        found = [value_of(one, name) for name in self.search.objectives]
        return [value for value in found if value is not None] if None not in found else None

    def _why(self, done: Sequence[Measurement]) -> str:
        one = next((one for one in done if one.concurrency_limit == self.spec.decide_at), None)
        return "not measured" if one is None else self.taint(one) or f"no {', '.join(self.search.objectives)}"


def _causes(study: Search) -> str:
    return "; ".join(f"trial {row['trial']}: {row['cause']}" for row in study.rows() if row["cause"])[:400]


def _points(best: Sequence[tuple[int, Any, Sequence[float]]], objectives: Sequence[str]) -> str:
    told = (f"trial {number} {_point(point)} {_shown(values, objectives)}" for number, point, values in best)
    return "; ".join(told) or "none"


def _point(point: Any) -> str:
    return ", ".join(f"{name.partition('.')[2]} {value}" for name, value in point.items())


def _shown(values: Sequence[float], objectives: Sequence[str]) -> str:
    metrics = [METRICS[name] for name in objectives]
    return " at ".join(f"{value:,.{one.digits}f} {one.unit}" for value, one in zip(values, metrics, strict=True))
