"""Experiments: read, planned, listed and told; running them is in `experiments_run`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from console.config import experiments as files
from console.domain.experiment import BASE, Arm, ExperimentSpec, ExperimentState, Verdict
from console.domain.patch import DiskState, Patch
from console.errors import ConnectError, ConsoleError, UsageError
from console.experiments import arms as resolving
from console.experiments import schedule
from console.experiments.progress import Progress, Rules, Settled
from console.experiments.report import plan_of, rules_of, state_of
from console.experiments.search import arm_of, key
from console.journal import experiments as entries
from console.journal.book import Journal
from console.operations import patches
from console.operations.desk import Desk
from console.operations.experiment_words import search_data
from console.operations.experiments_noise import AFRESH, Finding, Noise, advice, finding, noise_of
from console.operations.running import LIVING

if TYPE_CHECKING:
    from console.journal.records import RunEntry

WARM_UP_SHARE = 2.0
"""A visit takes about this many times the measured window: warm-up of the same size, idle wait, flush."""

SETTLE_S = 3.0
SPACE = "the space"
"""What a search could set, in a plan's notes."""
CANNOT = (DiskState.CONFLICT, DiskState.NOT_APPLICABLE, DiskState.INVALID, DiskState.DRIFTED)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an experiment will do, before anything is done."""

    spec: ExperimentSpec
    arms: tuple[Arm, ...]
    order: tuple[tuple[str, tuple[str, ...]], ...]
    """Stage by stage: the arm that the others change, and each block's arms in order."""
    visits: int
    launches: int
    minutes: float | None
    """At most; `None` where this host has not done such a thing before."""
    minutes_why: str
    noise: Noise
    """What equal measurements on this host differed by."""
    finds: Finding
    """What this order can find at that noise."""
    each: Finding
    """What it would cost and find if every measurement had a launch of its own."""
    problems: tuple[tuple[str, str], ...] = ()
    """(arm, why it cannot be measured as things are)."""
    notes: tuple[str, ...] = ()

    @property
    def detectable_pct(self) -> float | None:
        """The smallest change that is found in 80 % of cases."""
        return self.finds.detectable_pct

    @property
    def to_measure(self) -> tuple[Arm, ...]:
        """The arms that something will be measured of."""
        return tuple(arm for arm in self.arms if arm.against and not arm.same_as and not arm.refused)


def load(name_or_path: str) -> ExperimentSpec:
    """Return an experiment file, read.

    Raises:
        UsageError: There is none; `FormatError` when it is wrong.
    """
    return files.load_experiment(files.find_experiment(name_or_path))


def parse(text: str, path: str) -> ExperimentSpec:
    """Return an experiment of a text that would stand in a file."""
    return files.parse_experiment(text, path)


def base_profile(name_or_path: str) -> str:
    """Return the path of the profile that a file starts from: whose host it is about."""
    return files.profile_name(files.find_experiment(name_or_path))


def known_files() -> tuple[Path, ...]:
    """Return every experiment file that a name can reach."""
    return files.all_experiments()


def find_patch(name: str) -> Patch:
    """Return a patch by name."""
    return patches.load_patch(None, name)


def resolve(spec: ExperimentSpec) -> tuple[Arm, ...]:
    """Return the arms of an experiment, resolved."""
    return resolving.resolve(spec, find_patch)


async def plan(desk: Desk | None, spec: ExperimentSpec) -> Plan:
    """Return what an experiment will do; with a desk, also what stands in its way on the host.

    Raises:
        UsageError: It names a patch that is not there.
    """
    arms = await asyncio.to_thread(resolve, spec)
    problems, notes = await _on_host(desk, spec, arms) if desk is not None else ((), ())
    rules, progress = expected(spec, arms, dict(problems))
    order = _walked(spec, rules, progress)
    host = desk.link.host.name if desk is not None else spec.base.host.ssh
    runs = await Journal().runs(host=host, limit=200) if host else ()
    noise, ready_s = noise_of(spec, runs), _ready_s(spec, runs)
    now = await asyncio.to_thread(finding, order, noise, spec.relaunch)
    each = await asyncio.to_thread(finding, order, noise, "each")
    points = spec.search.trials + 1 if spec.search is not None else 0  # the base is one of them
    visits, launches = points + sum(len(block) for _, block in order), points + now.launches
    minutes, why = _minutes(spec, runs, visits, launches, ready_s)
    return Plan(
        spec=spec,
        arms=arms,
        order=order,
        visits=visits,
        launches=launches,
        minutes=minutes,
        minutes_why=why,
        noise=noise,
        finds=now,
        each=each,
        problems=problems,
        notes=(*notes, *advice(spec, noise, now, each, fmean(ready_s) if ready_s else None, minutes)),
    )


async def report(name: str, *, host: str | None = None) -> ExperimentState:
    """Return an experiment of the journal by its id, name or file.

    Raises:
        UsageError: There is none.
    """
    return state_of(await entry_of(name, host=host))


async def entry_of(name: str, *, host: str | None = None) -> entries.ExperimentEntry:
    """Return the newest entry of an experiment by id, name or file."""
    for wanted in dict.fromkeys((name, str(Path(name).expanduser().resolve()), Path(name).stem)):
        found = await entries.find(Journal(), wanted, host=host)
        if found is not None:
            return found
    raise UsageError(f"experiment {name}: not in the journal", hint="tokwatt experiment run FILE")


async def listed() -> tuple[ExperimentState, ...]:
    """Return the experiments of the journal, the newest first."""
    return tuple(state_of(entry) for entry in await entries.listed(Journal()))


def expected(spec: ExperimentSpec, arms: Sequence[Arm], problems: Mapping[str, str]) -> tuple[Rules, Progress]:
    """Return the rules of an experiment, and the verdicts that stand before anything was measured."""
    rules, progress = rules_of(plan_of(spec, tuple(arms))), Progress()
    for arm in arms:
        if arm.refused:
            progress.settled[arm.name] = Settled(Verdict.REFUSED, arm.reason)
        elif arm.same_as:
            progress.settled[arm.name] = Settled(Verdict.SAME_ARM, arm.reason, arm.same_as)
        elif arm.name in problems and arm.against:
            progress.settled[arm.name] = Settled(Verdict.FAILED, problems[arm.name])
    return rules, progress


def managed_patches(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return every patch that an experiment may switch."""
    return tuple(dict.fromkeys(name for arm in arms for name in arm.profile.patches_on))


async def _on_host(
    desk: Desk, spec: ExperimentSpec, arms: Sequence[Arm]
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return what keeps arms from being measured on this host, and what else should be known."""
    from console.operations import server

    problems, notes = [], []
    names = managed_patches(arms)
    if names:
        known = {status.name: status for status in await patches.statuses(desk, names)}
        for arm in arms:
            bad = [known[name] for name in arm.profile.patches_on if known[name].disk in CANNOT]
            if bad:
                problems.append((arm.name, f"patch {bad[0].name} is {bad[0].disk.value}: {bad[0].reason}"))
        for name in names:
            if known[name].disk is DiskState.ON and name not in spec.base.patches_on:
                notes.append(f"{name} is on now and not in the base: it will be taken off")
    wrong, unsaid = await _unfit(desk, spec, arms)
    if space := wrong.pop(SPACE, ""):
        notes.append(f"{SPACE}: {space}")
    problems += [(name, why) for name, why in wrong.items() if name not in dict(problems)]
    notes += unsaid
    run = await server.status(desk)
    if run is not None and run.phase in LIVING:
        notes.append(
            f"run {run.id or 'of somebody else'} of {run.profile or '—'} is {run.phase.value}: it will be stopped"
        )
    return tuple(problems), tuple(notes)


async def _unfit(desk: Desk, spec: ExperimentSpec, arms: Sequence[Arm]) -> tuple[dict[str, str], list[str]]:
    """Return what keeps arms from coming up, as a restart would say, and why that is not known."""
    from console.operations import fitness, launching, profile_check

    tried = [arm for arm in arms if arm.against and not arm.refused and not arm.same_as]
    if spec.search is not None:
        first = {key(one): one.choices[0] if one.choices else one.low for one in spec.search.space}
        corner = arm_of(SPACE, cast("dict[str, str | int | float | bool]", first), spec.search.space)
        tried.append(resolving.resolve(replace(spec, arms=(corner,)), find_patch)[1])
    found: dict[str, str] = {}
    try:
        said = await launching.look(desk, spec.base, model=profile_check.model_folder(spec.base))
        for arm in tried:
            told = await profile_check.check(arm.profile, replace(desk, profile=arm.profile), looked=said)
            if wrong := fitness.stopping(told):
                found[arm.name] = f"{wrong[0].told}" + f" ({wrong[0].hint})" * bool(wrong[0].hint)
    except ConnectError:
        raise
    except ConsoleError as error:
        return found, [f"whether the arms would start was not checked: {error.one_line()}"]
    return found, []


def _walked(spec: ExperimentSpec, rules: Rules, progress: Progress) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the order, if no arm is decided early."""
    order: list[tuple[str, tuple[str, ...]]] = []
    for parent in schedule.stages(rules, progress):
        open_arms = [name for name in schedule.children(rules, progress, parent) if name not in progress.settled]
        if open_arms:
            arms = (parent, *open_arms)
            order += _blocks(rules, parent, rules.repeats, arms)
    if spec.search is not None:
        order += _blocks(rules, BASE, rules.repeats, (BASE, "the winner"))
    if order and rules.confirm:
        order += _blocks(rules, AFRESH, rules.confirm, (BASE, "the winner"))
    return tuple(order)


def _blocks(rules: Rules, stage: str, count: int, arms: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    if rules.interleave or stage not in rules.arms:
        return [(stage, schedule.order(block, arms)) for block in range(count)]
    return [(stage, (arm,) * count) for arm in arms]


def _alike(spec: ExperimentSpec, runs: Sequence[RunEntry]) -> list[RunEntry]:
    return [run for run in runs if run.profile.partition("+")[0] == spec.base.name]


def _ready_s(spec: ExperimentSpec, runs: Sequence[RunEntry]) -> list[float]:
    """Return how long each launch of the base and its arms took on this host."""
    return [float(run.identity["ready_s"]) for run in _alike(spec, runs) if run.identity.get("ready_s")]


def _minutes(
    spec: ExperimentSpec, runs: Sequence[RunEntry], visits: int, launches: int, ready: Sequence[float]
) -> tuple[float | None, str]:
    """Return how long it takes by what such launches and measurements took here before."""
    alike = _alike(spec, runs)
    visit_s = 0.0
    for rung in spec.bench.concurrency:
        took = [
            one.duration_s
            for run in alike
            for one in run.measurements
            if one.concurrency_limit == rung and one.requests == rung * spec.bench.requests_per_stream
            and one.protocol.get("output_tokens") == spec.bench.output_tokens
        ]  # fmt: skip
        if not took:
            return None, f"concurrency {rung} was never measured so on this host"
        visit_s += WARM_UP_SHARE * fmean(took) + SETTLE_S
    if not ready:
        return None, "no start of this profile was timed on this host"
    return (visits * visit_s + launches * fmean(ready)) / 60, f"as {len(ready)} run{'s'[: len(ready) != 1]} here took"


def plain_plan(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON."""
    problems = dict(plan.problems)
    return {
        "experiment": plan.spec.name,
        "title": plan.spec.title,
        "file": plan.spec.path,
        "base": plan.spec.base.name,
        "metric": plan.spec.metric,
        "decide_at": plan.spec.decide_at,
        "concurrency": list(plan.spec.bench.concurrency),
        "repeats": plan.spec.repeats,
        "confirm": plan.spec.confirm,
        "relaunch": plan.spec.relaunch,
        "arms": [
            {
                "name": arm.name,
                "against": arm.against or None,
                "hypothesis": arm.hypothesis,
                "changes": list(arm.changes),
                "patches_on": list(arm.profile.patches_on),
                "same_as": arm.same_as or None,
                "verdict": "refused" if arm.refused else "same arm" if arm.same_as else None,
                "reason": problems.get(arm.name, arm.reason),
            }
            for arm in plan.arms
        ],
        "search": None if plan.spec.search is None else search_data(plan.spec.search),
        "order": [{"stage": stage, "arms": list(arms)} for stage, arms in plan.order],
        "measurements": plan.visits,
        "restarts": plan.launches,
        "minutes": None if plan.minutes is None else round(plan.minutes, 1),
        "minutes_reason": plan.minutes_why,
        "noise_pct": _rounded(plan.noise.pair_pct),
        "noise_within_launch_pct": _rounded(plan.noise.within_pct),
        "noise_between_launches_pct": _rounded(plan.noise.between_pct),
        "noise_measurements": plan.noise.measurements,
        "noise_launches": plan.noise.launches,
        "noise_reason": plan.noise.told,
        "noise_assumed": plan.noise.assumed or None,
        "smallest_detectable_effect_pct": _rounded(plan.detectable_pct),
        "pairs_share_launches": plan.finds.shared,
        "relaunch_each": {
            "restarts": plan.launches - plan.finds.launches + plan.each.launches,
            "smallest_detectable_effect_pct": _rounded(plan.each.detectable_pct),
        },
        "notes": list(plan.notes),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
