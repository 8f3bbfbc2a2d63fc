"""Running an experiment: the next step, done and written down, until there is none; goes on after any crash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.domain.activity import Activity, Outcome
from console.domain.experiment import BASE, Arm, ExperimentSpec, ExperimentState, Verdict
from console.domain.measurement import Measurement
from console.domain.run import Run
from console.domain.text import clean
from console.errors import ConnectError, ConsoleError, DriftError, RefusedError
from console.experiments import answers as judging
from console.experiments import arms as resolving
from console.experiments import schedule
from console.experiments.progress import CONFIRM, Progress, Rules, take
from console.experiments.report import plan_of, progress_of, rules_of, state_of
from console.experiments.schedule import Finish, Leave, Refute, RollBack, Settle, Visit
from console.journal import experiments as entries
from console.journal.book import Journal
from console.journal.records import measurement_data
from console.operations import answers, machine, measure, rollback, server
from console.operations.desk import Desk
from console.operations.experiments import Plan, expected, find_patch, managed_patches, plan
from console.operations.experiments_noise import value_of
from console.operations.holds import held
from console.operations.rollback import Configuration, StepError, through
from console.operations.winner import FRESH

Answers = tuple[str, ...]


async def run(desk: Desk, spec: ExperimentSpec, *, again: bool = False) -> AsyncIterator[ExperimentState]:
    """Run an experiment from its beginning; yields how it stands after each thing that happened.

    Args:
        desk: The host.
        spec: The experiment.
        again: Leave an unfinished one of the same file as it is, and begin anew.

    Raises:
        ReadOnlyError: It starts, stops and patches.
        RefusedError: An experiment is unfinished on this host, or an arm is of another model.
    """
    desk.must_write("experiment run")
    planned = await plan(desk, spec)
    resolving.alike(planned.arms)
    left = await entries.unfinished(Journal(), desk.link.host.name)
    if left and not again:
        raise RefusedError(
            f"experiment {left[0].id} ({left[0].name}) is unfinished on {desk.link.host.name}: {left[0].where or 'begun'}",
            hint=f"tokwatt experiment resume {left[0].id}, or run --again",
        )
    async with held(desk, f"experiment {spec.name}"), aclosing(_begun(desk, spec, planned)) as states:
        async for state in states:
            yield state


async def _begun(desk: Desk, spec: ExperimentSpec, planned: Plan) -> AsyncGenerator[ExperimentState, None]:
    host = desk.link.host
    entry = await entries.begin(
        Journal(),
        host=host.name,
        name=spec.name,
        path=str(Path(spec.path).resolve()),
        digest=spec.digest,
        badge=host.badge,
        operator=desk.operator,
        plan=plan_of(spec, planned.arms),
    )
    work = Work(desk, spec, planned.arms, entry)
    _, known = expected(spec, planned.arms, dict(planned.problems))
    for name, settled in known.settled.items():
        data = {"arm": name, "verdict": settled.verdict.value, "reason": settled.reason, "same_as": settled.same_as}
        await work.diary("verdict", data, "")
    async with aclosing(work.walk()) as states:
        async for state in states:
            yield state


async def resume(desk: Desk, spec: ExperimentSpec, entry: entries.ExperimentEntry) -> AsyncIterator[ExperimentState]:
    """Go on with an experiment where it was left.

    Raises:
        DriftError: Its file, or the profile it starts from, says something else now.
        RefusedError: It is finished.
    """
    desk.must_write("experiment resume")
    if entry.finished:
        raise RefusedError(f"experiment {entry.id} is finished", hint=f"tokwatt experiment report {entry.id}")
    if entry.digest != spec.digest:
        raise DriftError(
            f"{spec.path} or its base profile changed since {entry.id} began",
            "its numbers would be of two experiments",
            "take the change back, or begin anew: tokwatt experiment run --again",
        )
    from console.operations.experiments import resolve

    arms = await asyncio.to_thread(resolve, spec)
    work = Work(desk, spec, arms, entry)
    async with held(desk, work.words), aclosing(work.walk()) as states:
        async for state in states:
            yield state


async def abandon(desk: Desk, spec: ExperimentSpec, entry: entries.ExperimentEntry) -> ExperimentState:
    """End an experiment now: its changes taken back, the base relaunched and ready."""
    desk.must_write("experiment abandon")
    from console.operations.experiments import resolve

    work = Work(desk, spec, await asyncio.to_thread(resolve, spec), entry)
    async with held(desk, work.words):
        await through(desk, lambda: work.enter(BASE, "abandoned"))
        await work.diary("left", {"arm": BASE}, f"base: run {work.progress.run} is ready; the experiment was abandoned")
        await work.finish()
    return work.state()


class Work:
    """One experiment under way."""

    def __init__(self, desk: Desk, spec: ExperimentSpec, arms: tuple[Arm, ...], entry: entries.ExperimentEntry) -> None:
        self.desk = desk
        self.spec = spec
        self.entry = entry
        self.arms = {arm.name: arm for arm in arms}
        self.managed = managed_patches(arms)
        self.rules: Rules = rules_of(entry.plan)
        self.progress: Progress = progress_of(entry)
        self.journal = Journal()
        self.step = ""
        self._verified = False

    @property
    def words(self) -> str:
        """Which it is, as others are told."""
        return f"experiment {self.entry.id} {self.spec.name}"

    async def diary(self, kind: str, data: Mapping[str, Any], where: str) -> None:
        """Keep an event, and fold it into what is known."""
        event = await entries.happened(self.journal, self.entry, kind, data, where=where)
        self.entry = replace(self.entry, events=(*self.entry.events, event), where=where or self.entry.where)
        take(self.progress, kind, event.at, data)

    def state(self, **fields: Any) -> ExperimentState:
        """Return how it stands, and show it."""
        told = replace(state_of(self.entry), step=self.step, **fields)
        self.desk.store.update(experiment=told)
        return told

    async def walk(self) -> AsyncGenerator[ExperimentState, None]:
        """Do step after step."""
        number = self.desk.store.begin(Activity(0, "experiment", clean(self.words), started_at=time.time()))
        began, outcome, detail = (
            time.monotonic(),
            Outcome.FAILED,
            f"interrupted; tokwatt experiment resume {self.entry.id}",
        )
        try:
            yield self.state()
            while not isinstance(step := schedule.next_step(self.rules, self.progress), Finish):
                self.step = _words(step)
                yield self.state()
                async with aclosing(self._do(step)) as live:
                    async for tok_s in live:
                        yield self.state(live_tok_s=tok_s)
            await self.finish()
            told = self.state()
            outcome, detail = Outcome.DONE, f"{told.verdict}: {told.winner or told.where}"
            yield told
        except ConsoleError as error:
            detail = error.one_line()
            where = error.title if isinstance(error, StepError) else ""  # what was being started is not any more
            await self.diary("error", {"error": detail}, where)
            yield self.state(error=detail)
            raise
        finally:
            self.desk.store.amend(number, outcome=outcome, detail=clean(detail), ms=(time.monotonic() - began) * 1000)

    async def finish(self) -> None:
        """Write down that nothing is left to do."""
        self.step = ""
        event = await entries.happened(self.journal, self.entry, "finished", finished=True)
        self.entry = replace(self.entry, events=(*self.entry.events, event), finished=True)
        take(self.progress, "finished", event.at, {})

    async def _do(self, step: schedule.Step) -> AsyncGenerator[float | None, None]:
        match step:
            case Visit():
                if await through(self.desk, lambda: self._in_force(step)):
                    async with aclosing(self._measured(step)) as live:
                        async for tok_s in live:
                            yield tok_s
            case Settle(arm, verdict, reason):
                await self.diary("verdict", {"arm": arm, "verdict": verdict.value, "reason": reason}, "")
            case RollBack(arm, to):
                await through(self.desk, lambda: self._roll_back(arm, to))
            case Refute(arm, reason):
                await self.diary("refuted", {"arm": arm, "reason": reason}, "")
            case Leave(arm):
                if not await through(self.desk, lambda: self._still(arm)):
                    await through(self.desk, lambda: self.enter(arm))
                patched = ", its patches are on" if self.arms[arm].profile.patches_on else ""
                await self.diary("left", {"arm": arm}, f"{arm}: run {self.progress.run} is ready{patched}")

    # into a configuration

    async def enter(self, arm: str, stage: str = "", after: str = "") -> Run:
        """Launch an arm, and write down that it is ready."""
        wanted = self.arms[arm]
        profile = replace(wanted.profile, bench=self.spec.bench)
        began = await rollback.enter(
            self.desk,
            Configuration(arm, profile),
            self.diary,
            managed=self.managed,
            base=self.spec.base.name,
            ready_within_s=self.spec.ready_within_s,
        )
        resolved = await server.resolved_arguments(self.desk, began)
        other = [
            f"{arm}: {one.name} {one.requested} was asked for, {one.resolved} is in force"
            for one in server.differences(profile, resolved)
        ]
        if not resolved:
            other.append(f"{arm}: its server tells no arguments in force: whether they are as asked is not proven")
        data = {
            "arm": arm,
            "run": began.id,
            "stage": stage,
            "after": after,
            "in_force": resolving.in_force_key(profile, resolved, find_patch),
            "notes": other,
        }
        self._verified = True
        await self.diary("ready", data, f"{arm}: run {began.id} is ready")
        return began

    async def _in_force(self, visit: Visit) -> bool:
        """Bring an arm into force, look at it once, and return whether it is to be measured."""
        arm = visit.arm
        try:
            if not await self._still(arm) or self._worn(visit):
                await self.enter(arm, visit.stage)
            return self.progress.run in self.progress.asked or await self._checked(arm)
        except StepError as error:
            if arm == BASE or self.progress.settled.get(arm) is not None:
                raise
            data = {"arm": arm, "verdict": Verdict.FAILED.value, "reason": error.one_line()}
            await self.diary("verdict", data, f"{arm}: failed; to be rolled back")
            return False

    async def _still(self, arm: str) -> bool:
        """Whether the arm's run is the one that serves; asked of the host once after a resume."""
        if self.progress.current != arm:
            return False
        self.desk.profile = replace(self.arms[arm].profile, bench=self.spec.bench)
        self.desk.store.update(profile=self.desk.profile)
        if not self._verified:
            self._verified = await rollback.living(self.desk, self.progress.run) is not None
        return self._verified

    def _worn(self, visit: Visit) -> bool:
        """Whether the run that serves must not be measured for this visit: each repeat, or fresh one, has its own."""
        fresh = visit.stage.startswith(CONFIRM)
        return self.progress.run_visits > 0 and (fresh or self.spec.relaunch == "each")

    async def _roll_back(self, arm: str, to: str) -> None:
        """Take an arm's patches and arguments back, and relaunch what it changed."""
        if arm not in self.progress.rolled_back:
            self.desk.profile = replace(self.arms[to].profile, bench=self.spec.bench)
            await self.diary("step", {"arm": arm, "step": "roll back"}, f"{arm}: being rolled back to {to}")
            await rollback.switch_patches(self.desk, self.desk.profile.patches_on, self.managed)
            await self.diary("rolled_back", {"arm": arm, "to": to}, f"{arm}: patches are off; {to} is being relaunched")
        await self.enter(to, after=arm)

    # what is in force

    async def _checked(self, arm: str) -> bool:
        """Look at what is in force and at what this launch answers; return whether it is to be measured."""
        first = arm not in self.progress.checked
        base = self.progress.same(self.rules.against[arm]) if first and arm in self.rules.against else ""
        mine, theirs = self.progress.in_force.get(arm, ""), self.progress.in_force.get(base, "")
        if base and mine and mine == theirs:
            reason = "the server says that the same arguments are in force"
            data = {"arm": arm, "verdict": Verdict.SAME_ARM.value, "reason": reason, "same_as": base}
            await self.diary("verdict", data, "")
            return False
        given = await self._answers(arm) if self.spec.answers and (first or arm != BASE) else None
        base_answers = self.progress.answers.get(BASE)
        if given is not None and arm != BASE and base_answers:
            told = judging.judge(base_answers, [repeats[0] for repeats in given])
            if told.blocked:
                data = {"arm": arm, "verdict": Verdict.FAILED.value, "reason": f"answer check: {told.blocked}"}
                await self.diary("verdict", data, f"{arm}: answers with garbage; to be rolled back")
                return False
        await self.diary("checked", {"arm": arm, "run": self.progress.run, "answers": given}, "")
        return True

    async def _answers(self, arm: str) -> list[list[str]] | None:
        """Return the arm's answers; the base is asked again, for its own noise."""
        run = self.desk.store.snapshot.run
        assert run is not None
        asked = []
        for _ in range(judging.REPEATS if arm == BASE else 1):
            try:
                given = await answers.ask(self.desk, run)
            except ConnectError:
                raise
            except ConsoleError as error:
                raise StepError(f"{arm}: answer check: {error.title}", error.detail) from error
            if given is None:
                return None
            asked.append(given)
        return [list(repeats) for repeats in zip(*asked, strict=True)]

    # numbers

    async def _measured(self, visit: Visit) -> AsyncGenerator[float | None, None]:
        repeat = visit.block + (FRESH if visit.stage.startswith(CONFIRM) else 0)
        done: tuple[Measurement, ...] = ()
        for tries in range(rollback.LINK_TRIES):
            try:
                steps = measure.sweep(self.desk, repeats=1, first_repeat=repeat)
                async with aclosing(steps) as sweep:  # type: ignore[type-var]
                    async for progress in sweep:
                        done = progress.done
                        yield progress.live_tok_s
                break
            except ConnectError as error:
                if tries == rollback.LINK_TRIES - 1:
                    raise
                self.desk.say(f"{error.one_line()}; measured again when the link is back")
                await through(self.desk, self._link_up)
        await self._keep(visit, done)

    async def _link_up(self) -> None:
        await server.status(self.desk)

    async def _keep(self, visit: Visit, done: tuple[Measurement, ...]) -> None:
        first = (self.progress.runs.get(BASE) or [self.progress.run])[0]
        if moved := await machine.moved_between(self.desk.link.host.name, first, self.progress.run):
            done = tuple(replace(one, tainted=(*one.tainted, moved)) for one in done)
        bad = {one.concurrency_limit: self.taint(one) for one in done}
        values = {
            str(one.concurrency_limit): value
            for one in done
            if not bad[one.concurrency_limit] and (value := value_of(one, self.spec.metric)) is not None
        }
        deciding = bad.get(self.spec.decide_at, "not measured")
        if not deciding and str(self.spec.decide_at) not in values:
            deciding = f"no {self.spec.metric} was measured"
        data = {
            "stage": visit.stage,
            "block": visit.block,
            "arm": visit.arm,
            "run": self.progress.run,
            "values": values,
            "tainted": deciding,
            "measurements": [measurement_data(one) for one in done],
        }
        await self.diary("measured", data, f"{visit.arm}: run {self.progress.run} is ready")

    def taint(self, one: Measurement) -> str:
        """Return why a measurement must not be compared; what the file tolerates does not count."""
        return one.spoilt(self.spec.tolerate)


def _words(step: schedule.Step) -> str:
    match step:
        case Visit(stage, block, arm):
            what = "afresh" if stage.startswith(CONFIRM) else f"against {stage}" if arm != stage else "as base"
            return f"pair {block + 1}: {arm} {what}"
        case RollBack(arm, to):
            return f"rolling {arm} back to {to}"
        case Leave(arm):
            return f"leaving the host in {arm}"
    return ""
