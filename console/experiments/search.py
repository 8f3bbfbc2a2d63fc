"""The walk through a declared space: Optuna asks, we measure and tell; equal hosts share one study by its file.

Optuna is an extra (`pip install 'tokwatt[search]'`) and is imported only when a search begins.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.domain.experiment import METRICS, ArmSpec, Dimension, SearchSpec
from console.domain.profile import ArgValue, Profile
from console.errors import ConsoleError

if TYPE_CHECKING:
    import optuna

Point = Mapping[str, str | int | float | bool]
"""Value of each dimension, by `KIND.NAME`."""

OWNER = "owner"
CLAIM = "claim"
LEFT = "left"
"""Marks a trial that was cut off: its point is tried again under another number."""
HOST = "host_state"
CAUSE = "cause"
LAUNCH = "launch"
FAILED = "failed"
AGAIN = "again"
"""Marks a point that the sampler proposed although it was measured before: it costs no launch and is no trial."""
AGAIN_MOST = 50
"""A sampler that proposes so many known points one after the other has seen the space."""
BASELINE = "baseline"
PRUNE_AFTER = 4
"""Finished trials that a pruner must have seen."""


def need_optuna() -> Any:
    """Return Optuna's module, or say what brings it."""
    try:
        import optuna
    except ImportError as error:
        raise ConsoleError(
            "a search needs Optuna, which is not installed",
            str(error),
            "install the extra: pip install 'tokwatt[search]' (pipx inject tokwatt optuna)",
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class Search:
    """One study: trial 0 is the base, then points of the space until enough were measured.

    Args:
        spec: The declared space.
        name: Of the study: equal names in one file are one study.
        file: Where it is kept; every console that names it works on it.
        owner: Who measures here, in words.
        claim: What this search alone is known by, before and after a crash; two consoles may have one owner.
    """

    def __init__(self, spec: SearchSpec, name: str, file: Path, owner: str, claim: str = "") -> None:
        self._optuna = need_optuna()
        self.spec = spec
        self.owner, self.claim = owner, claim or owner
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            storage = JournalStorage(JournalFileBackend(str(file)))
        except OSError as error:
            raise ConsoleError(f"{file}: the study cannot be kept there", error.strerror or str(error)) from error
        self.study: optuna.Study = self._optuna.create_study(
            study_name=name,
            storage=storage,
            sampler=self._sampler(),
            pruner=self._pruner(),
            directions=["maximize" if METRICS[one].more_is_better else "minimize" for one in spec.objectives],
            load_if_exists=True,
        )

    @property
    def several(self) -> bool:
        """Whether there is a front instead of a best."""
        return len(self.spec.objectives) > 1

    @property
    def done(self) -> int:
        """Trials that ended, whoever measured them; the base is one of them."""
        return sum(trial.state.is_finished() for trial in self._trials())

    @property
    def begun(self) -> int:
        """Trials that ended or are being measured somewhere; the base counts once, whoever measured it."""
        waiting = self._optuna.trial.TrialState.WAITING
        there = [trial for trial in self._trials() if trial.state != waiting]
        bases = sum(bool(trial.user_attrs.get(BASELINE)) for trial in there)
        return len(there) - max(0, bases - 1)

    @property
    def elsewhere(self) -> list[tuple[int, str]]:
        """Trials (number, owner) that others have begun and not ended."""
        running = self._optuna.trial.TrialState.RUNNING
        return [
            (trial.number, str(trial.user_attrs.get(OWNER) or "somebody"))
            for trial in self._trials()
            if trial.state == running and trial.user_attrs.get(CLAIM) != self.claim
        ]

    def host_state(self, now: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state of the host that the study began on, which is this one's where there was none."""
        kept = self.study.user_attrs.get(HOST)
        if kept is None:
            self.study.set_user_attr(HOST, dict(now))
        return dict(now) if kept is None else kept

    @property
    def seen_whole(self) -> bool:
        """Whether every point of the space was tried, or the sampler finds no other any more."""
        every = size(self.spec.space)
        tried = {tuple(sorted(trial.params.items())) for trial in self._trials() if trial.params}
        latest = self.study.get_trials(deepcopy=False)[-AGAIN_MOST:]
        stuck = len(latest) == AGAIN_MOST and all(trial.user_attrs.get(AGAIN) for trial in latest)
        return stuck or (every is not None and len(tried) >= every)

    def _trials(self) -> list[Any]:
        trials = self.study.get_trials(deepcopy=False)
        return [one for one in trials if not one.user_attrs.get(AGAIN) and not one.user_attrs.get(LEFT)]

    def clear_left_over(self) -> int:
        """Have what this search was measuring when it was cut off tried again; return how many points."""
        running, fail = self._optuna.trial.TrialState.RUNNING, self._optuna.trial.TrialState.FAIL
        left = [t for t in self.study.trials if t.state == running and t.user_attrs.get(CLAIM) == self.claim]
        for trial in left:
            self.study._storage.set_trial_user_attr(trial._trial_id, LEFT, True)
            self.study.tell(trial.number, state=fail)
            if trial.params:
                self.study.enqueue_trial(trial.params)
        return len(left)

    def has_base(self) -> bool:
        """Whether the base was measured, or is being measured."""
        return any(trial.user_attrs.get(BASELINE) for trial in self.study.get_trials(deepcopy=False))

    def tell_base(self, point: Point | None, values: Sequence[float]) -> None:
        """Add the base as a finished trial; without parameters where it stands outside the space."""
        known = point or {}
        spaces = {one: self._distribution(one) for one in self.spec.space} if known else {}
        trial = self._optuna.trial.create_trial(
            values=list(values),
            params=dict(known),
            distributions={key(one): space for one, space in spaces.items()},
            user_attrs={BASELINE: True, OWNER: self.owner},
        )
        self.study.add_trial(trial)

    def ask(self) -> optuna.Trial:
        """Return the next point to measure."""
        trial = self.study.ask({key(one): self._distribution(one) for one in self.spec.space})
        trial.set_user_attr(OWNER, self.owner)
        trial.set_user_attr(CLAIM, self.claim)
        return trial

    def tell(self, trial: optuna.Trial, values: Sequence[float]) -> None:
        """Tell what a point did."""
        self.study.tell(trial, list(values))

    def tell_failed(self, trial: optuna.Trial, cause: str) -> None:
        """Tell that a point could not be measured, and why.

        Samplers pass over what Optuna calls failed and propose the same again; a pruned trial without a value is the
        worst that they know of.
        """
        trial.set_user_attr(FAILED, True)
        self.tell_pruned(trial, cause)

    def tell_again(self, trial: optuna.Trial, known: optuna.trial.FrozenTrial) -> None:
        """Tell that a point is an old one: what that came to, or nothing while it is being measured elsewhere."""
        trial.set_user_attr(AGAIN, True)
        if known.state == self._optuna.trial.TrialState.COMPLETE:
            self.tell(trial, known.values)
        elif known.user_attrs.get(FAILED):
            self.tell_pruned(trial, "known")
        else:
            self.study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def tell_pruned(self, trial: optuna.Trial, cause: str) -> None:
        """Tell that a point was given up early."""
        trial.set_user_attr(CAUSE, cause)
        self.study.tell(trial, state=self._optuna.trial.TrialState.PRUNED)

    def hopeless(self, trial: optuna.Trial, value: float, step: int) -> bool:
        """Whether a point is so far behind at a lower concurrency that it is given up."""
        if self.several or not self.spec.prune:
            return False
        trial.report(value, step)
        return bool(trial.should_prune())

    def known(self, launch: str, trial: optuna.Trial) -> optuna.trial.FrozenTrial | None:
        """Return the trial of an equal launch that was measured, failed, or is being measured; not one that was cut off.

        Of two consoles that ask at one moment the one with the later number gives way: what it asked for is in the
        study before anything else is.

        Args:
            launch: What the point stands for.
            trial: The new one.
        """
        states = self._optuna.trial.TrialState
        earlier = [one for one in self._trials() if one.number < trial.number]
        alike = (
            one
            for one in earlier
            if one.user_attrs.get(LAUNCH) == launch or (one.state == states.RUNNING and one.params == trial.params)
        )
        return next(
            (one for one in alike if one.user_attrs.get(FAILED) or one.state in (states.COMPLETE, states.RUNNING)), None
        )

    def best(self, count: int = 3) -> list[tuple[int, Point, Sequence[float]]]:
        """Return the best points (number, point, values), those of the front where there are several objectives."""
        state = self._optuna.trial.TrialState.COMPLETE
        complete = [trial for trial in self._trials() if trial.state == state and not trial.user_attrs.get(BASELINE)]
        if not complete:
            return []
        found = self.study.best_trials if self.several else complete
        more = METRICS[self.spec.objectives[0]].more_is_better
        ranked = sorted(found, key=lambda trial: trial.values[0], reverse=more)
        ranked = [trial for trial in ranked if not trial.user_attrs.keys() & {BASELINE, AGAIN}]
        return [(trial.number, trial.params, trial.values) for trial in ranked[: count if self.several else 1]]

    def points(self, numbers: Sequence[int]) -> list[tuple[int, Point, Sequence[float]]]:
        """Return trials by their numbers, as `best` does; none when one of them has no value."""
        trials = {trial.number: trial for trial in self.study.get_trials(deepcopy=False)}
        found = [trials[number] for number in numbers if number in trials and trials[number].values]
        return [(one.number, one.params, one.values) for one in found] if len(found) == len(numbers) else []

    def rows(self) -> list[dict[str, Any]]:
        """Return every trial as plain data."""
        return [
            {
                "trial": trial.number,
                "state": _state(trial),
                "values": trial.values,
                "point": dict(trial.params),
                "owner": trial.user_attrs.get(OWNER, ""),
                "cause": trial.user_attrs.get(CAUSE, ""),
                "baseline": bool(trial.user_attrs.get(BASELINE)),
            }
            for trial in self._trials()
        ]

    def _sampler(self) -> Any:
        samplers = self._optuna.samplers
        if self.spec.sampler == "nsga2":
            return samplers.NSGAIISampler(seed=self.spec.seed, population_size=max(4, min(20, self.spec.trials // 3)))
        if self.spec.sampler == "random":
            return samplers.RandomSampler(seed=self.spec.seed)
        return samplers.TPESampler(
            seed=self.spec.seed, constant_liar=True, n_startup_trials=max(3, min(10, self.spec.trials // 3))
        )

    def _pruner(self) -> Any:
        pruners = self._optuna.pruners
        return pruners.MedianPruner(n_startup_trials=PRUNE_AFTER) if self.spec.prune else pruners.NopPruner()

    def _distribution(self, one: Dimension) -> Any:
        distributions = self._optuna.distributions
        if one.choices:
            return distributions.CategoricalDistribution(one.choices)
        assert one.low is not None and one.high is not None
        if one.whole:
            step = int(one.step or 1)
            return distributions.IntDistribution(int(one.low), int(one.high), one.log, step)
        return distributions.FloatDistribution(one.low, one.high, one.log, one.step)


def _state(trial: Any) -> str:
    return "fail" if trial.user_attrs.get(FAILED) else str(trial.state.name).lower()


def size(space: Sequence[Dimension]) -> int | None:
    """Return how many points a space has; `None` where a dimension is continuous."""
    found = 1
    for one in space:
        if one.choices:
            found *= len(one.choices)
            continue
        assert one.low is not None and one.high is not None
        step = one.step or (1 if one.whole else None)
        if step is None:
            return None
        found *= int((one.high - one.low) / step + 1e-9) + 1
    return found


def key(one: Dimension) -> str:
    """Return the name of a dimension in the study."""
    return f"{one.kind}.{one.name}"


def base_point(space: Sequence[Dimension], profile: Profile) -> Point | None:
    """Return the base as a point of the space; `None` when it stands outside."""
    point: dict[str, str | int | float | bool] = {}
    for one in space:
        value = profile.launch.args.get(one.name) if one.kind == "args" else profile.launch.env.get(one.name)
        if one.kind == "env" and isinstance(value, str) and not (one.choices and value in one.choices):
            with contextlib.suppress(ValueError):
                value = int(value) if one.whole else float(value)
        if one.kind == "args" and value is None and False in one.choices:
            value = False
        if not isinstance(value, (str, int, float, bool)) or not _inside(one, value):
            return None
        point[key(one)] = value
    return point


def _inside(one: Dimension, value: str | int | float | bool) -> bool:
    if one.choices:
        return any(type(value) is type(choice) and value == choice for choice in one.choices)
    if isinstance(value, (bool, str)) or one.low is None or one.high is None or not one.low <= value <= one.high:
        return False
    return one.step is None or (value - one.low) % one.step == 0


def arm_of(name: str, point: Point, space: Sequence[Dimension], hypothesis: str = "") -> ArmSpec:
    """Return a point as an arm."""
    args: dict[str, ArgValue] = {}
    env: dict[str, Any] = {}
    for one in space:
        value = point[key(one)]
        if one.kind == "args":
            args[one.name] = value
        else:
            env[one.name] = str(value)
    return replace(ArmSpec(name, hypothesis), args=args, env=env)
