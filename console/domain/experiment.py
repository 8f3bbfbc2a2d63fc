"""An experiment: arms that each change something of a base, the order they are measured in, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from console.domain.profile import ArgValue, BenchSection, Profile, Secret

BASE = "base"
"""Name of what every experiment starts from."""


class Verdict(StrEnum):
    """What came of an arm."""

    KEEP = "KEEP"
    REVERT = "REVERT"
    INCONCLUSIVE = "INCONCLUSIVE"
    SAME_ARM = "same arm"
    """It resolves to what it is compared with: nothing was measured."""
    FAILED = "failed"
    """It did not start, its answers were garbage, or it could not be measured."""
    REFUSED = "refused"
    """Unlike its base: another model, other lengths."""
    SKIPPED = "skipped"
    """It builds on an arm that was not kept."""
    OPEN = "open"
    """Not decided yet."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What decides, and which way is better."""

    name: str
    title: str
    unit: str
    more_is_better: bool = True
    digits: int = 0


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("output_tok_s", "output tok/s", "tok/s"),
        Metric("request_req_s", "requests/s", "req/s", digits=2),
        Metric("goodput_req_s", "goodput", "req/s", digits=2),
        Metric("energy_j_per_token", "J/token", "J/token", False, 3),
        Metric("ttft_p50_ms", "TTFT p50", "ms", False, 1),
        Metric("itl_p50_ms", "ITL p50", "ms", False, 2),
        Metric("e2el_p50_ms", "E2EL p50", "ms", False, 1),
    )
}


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One arm as the file says it."""

    name: str
    hypothesis: str = ""
    extends: str = BASE
    """The arm that it changes, and is compared with."""
    combine: tuple[str, ...] = ()
    """Arms whose changes it has together."""
    args: Mapping[str, ArgValue] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    """Flags that are taken away."""
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    unset_env: tuple[str, ...] = ()
    """Variables that are taken away, of the host's login too; `NAME = false` in the file."""
    patches: tuple[str, ...] = ()
    """Patches that are on beside those of what it extends."""
    without: tuple[str, ...] = ()
    """Patches that are off."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Dimension:
    """One argument or variable that a search may set."""

    kind: str
    """`args` or `env`."""
    name: str
    choices: tuple[str | int | float | bool, ...] = ()
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    whole: bool = True
    """Whether the numbers are integers."""


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """`[search]`: a declared space, and how it is walked."""

    trials: int = 20
    objectives: tuple[str, ...] = ("output_tok_s",)
    """Several make it multi-objective: a front instead of a best."""
    sampler: str = "tpe"
    prune: bool = True
    storage: str = ""
    """File that equal hosts share; empty keeps it beside the journal."""
    seed: int | None = None
    space: tuple[Dimension, ...] = ()


@dataclass(frozen=True, slots=True)
class ExperimentSpec:
    """An experiment file, read."""

    name: str
    path: str
    title: str
    base: Profile
    bench: BenchSection
    arms: tuple[ArmSpec, ...]
    repeats: int = 5
    """Pairs at most."""
    confirm: int = 3
    """Pairs of the winner's fresh measurement; 0 leaves it out, and the winner cannot be saved then."""
    metric: str = "output_tok_s"
    decide_at: int = 0
    """Concurrency that decides."""
    min_gain_pct: float = 0.0
    """Smaller gains are not worth keeping."""
    early_stop: bool = True
    interleave: bool = True
    relaunch: str = "switch"
    """`switch`: neighbouring repeats of an arm share a launch. `each`: every repeat has its own."""
    ready_within_s: float = 1800.0
    answers: bool = True
    tolerate: tuple[str, ...] = ()
    """Taints that do not exclude a measurement, by a part of their words."""
    search: SearchSpec | None = None
    digest: str = ""
    """Of all that makes its numbers; another one is another experiment."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One resolved configuration."""

    name: str
    profile: Profile
    against: str
    """Name of the arm that it is compared with; empty for the base."""
    hypothesis: str = ""
    changes: tuple[str, ...] = ()
    """In words: `--max-running-requests 2048`, `+patch flashinfer-cutlass-autotune`."""
    same_as: str = ""
    """Name of an arm that resolves alike."""
    reason: str = ""
    """Why it is the same, or refused."""
    refused: bool = False
    combines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rated:
    """One arm against another at one concurrency."""

    concurrency: int
    base_mean: float | None
    arm_mean: float | None
    base_sd: float | None = None
    arm_sd: float | None = None
    pairs: int = 0
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Of the ratio; `None` with fewer than three pairs, or pairs of launches."""
    base_launches: int = 0
    """Launches that the base's side of the pairs comes from."""
    arm_launches: int = 0


@dataclass(frozen=True, slots=True)
class ArmOutcome:
    """What came of one arm."""

    name: str
    against: str
    verdict: Verdict
    reason: str = ""
    rungs: tuple[Rated, ...] = ()
    more_pairs: int | None = None
    """How many more pairs would probably settle it."""
    hypothesis: str = ""
    changes: tuple[str, ...] = ()
    rolled_back_to: str = ""
    rolled_back_at: float | None = None
    relaunched_at: float | None = None
    """When the base was ready again."""
    runs: tuple[str, ...] = ()
    so_far: str = ""
    """Where an open arm stands by its pairs so far, in words."""


@dataclass(frozen=True, slots=True)
class Block:
    """One round through the arms of a stage, in the order that they are measured in."""

    stage: str
    arms: tuple[str, ...]
    done: int = 0
    """How many of them were measured, from the left."""


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """What one arm's changes are worth, as a share of the whole; of a combination also what is not the sum."""

    name: str
    over: str
    change_pct: float
    low_pct: float | None = None
    high_pct: float | None = None
    interaction_pct: float | None = None
    interaction_low_pct: float | None = None
    interaction_high_pct: float | None = None


@dataclass(frozen=True, slots=True)
class ExperimentState:
    """An experiment as its journal tells it now."""

    id: str
    name: str
    host: str
    created_at: float
    title: str = ""
    badge: str = ""
    operator: str = ""
    path: str = ""
    digest: str = ""
    base: str = ""
    """Name of the profile."""
    metric: str = "output_tok_s"
    decide_at: int = 0
    concurrency: tuple[int, ...] = ()
    repeats: int = 0
    target: str = ""
    """The profile's line to look at, in words: never a comparison."""
    outcomes: tuple[ArmOutcome, ...] = ()
    """The base first, then the arms in the order of the file."""
    ledger: tuple[LedgerLine, ...] = ()
    where: str = ""
    """State that the host was left in, or is being brought into: never empty once it began."""
    step: str = ""
    """What is being done now."""
    current: str = ""
    """Arm that is in force on the host."""
    done: int = 0
    planned: int = 0
    """Visits: one arm measured once at every concurrency."""
    left_s: float | None = None
    """Seconds that the visits to come take at most, as those before did; `None` before there are enough of them."""
    winner: str = ""
    confirmed: tuple[Rated, ...] = ()
    """The winner's fresh measurement against the base."""
    finished: bool = False
    live_tok_s: float | None = None
    notes: tuple[str, ...] = ()
    noise_pct: float | None = None
    """Scatter of the ratio of two equal measurements within this experiment, each in a launch of its own."""
    noise_within_pct: float | None = None
    """Scatter between repeats of one launch."""
    noise_between_pct: float | None = None
    """Scatter between launches, that of repeats taken off."""
    error: str = ""
    blocks: tuple[Block, ...] = ()
    """Rounds done, the one under way, and those of its stage that are still planned."""

    @property
    def verdict(self) -> Verdict:
        """The whole experiment's: KEEP when there is a winner."""
        arms = [one.verdict for one in self.outcomes if one.against]
        if self.winner:
            return Verdict.KEEP
        if not self.finished or Verdict.OPEN in arms:
            return Verdict.OPEN
        if Verdict.INCONCLUSIVE in arms:
            return Verdict.INCONCLUSIVE
        if arms and all(one is Verdict.SAME_ARM for one in arms):
            return Verdict.SAME_ARM
        return Verdict.REVERT
