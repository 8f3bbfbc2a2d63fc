"""From pairs to a verdict, and from verdicts to what each change is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from console.domain.experiment import LedgerLine, Rated, Verdict
from console.domain.text import counted
from console.experiments.progress import Pairs
from console.experiments.sharing import Launches, Sharing, launches_of, sharing
from console.experiments.statistics import (
    CONFIDENCE,
    LEAST_PAIRS,
    MOST_PAIRS,
    Interval,
    futile,
    half_width,
    interval,
    look_confidence,
    pairs_to_settle,
    t_quantile,
)

EACH = 'relaunch = "each" under [measure] gives every measurement a launch of its own'
"""What to do where pairs share too few launches."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on so many pairs."""

    verdict: Verdict
    final: bool
    """Whether no further pair is to be measured."""
    reason: str
    pairs: int
    interval: Interval | None = None
    """At 95 %."""
    gain: float = 0.0
    """Log of the gain beyond what is wanted; below 0 for a loss."""
    remedy: str = ""
    """What settles it where more pairs of this kind would not, or not as soon."""

    @property
    def more_pairs(self) -> int | None:
        """How many more pairs would probably settle it; `None` when none are needed, too many, or others."""
        if self.verdict is not Verdict.INCONCLUSIVE or self.remedy:
            return None
        if self.interval is None:
            return max(1, LEAST_PAIRS - self.pairs)
        needed = pairs_to_settle(self.gain, self.interval.widening * self.interval.sd_log)
        return None if needed is None else max(1, needed - self.pairs)

    @property
    def _pairs_apart(self) -> int | None:
        """How many pairs in all would settle it if none shared a launch; `None` when none does."""
        if self.interval is None or self.interval.widening <= 1:
            return None
        return pairs_to_settle(self.gain, self.interval.sd_log)

    def told(self) -> str:
        """Return the reason, and for an open question what would settle it."""
        if self.verdict is not Verdict.INCONCLUSIVE:
            return self.reason
        if self.remedy:
            return f"{self.reason}; {self.remedy}"
        more = self.more_pairs
        settles = f"about {more} more pairs would settle it" if more else f"{MOST_PAIRS} pairs would not settle it"
        if (apart := self._pairs_apart) is not None:
            settles += f', or {apart} in all with relaunch = "each"'
        return f"{self.reason}; {settles}" if self.reason else settles


def judge(
    base: Sequence[float],
    arm: Sequence[float],
    most: int,
    *,
    early: bool = True,
    more_is_better: bool = True,
    min_gain_pct: float = 0.0,
    launches: Launches = (),
) -> Judged:
    """Return the verdict on the pairs so far.

    Args:
        base: One value a pair.
        arm: The other side, in the same order.
        most: Pairs that are planned at most.
        early: Whether every look may decide; each then has its own, stricter bound.
        more_is_better: Whether a ratio over 1 is a gain.
        min_gain_pct: Gains below this are not worth keeping.
        launches: The two launches of each pair; empty where each measurement has its own.
    """
    count = len(base)
    last = count >= most
    shared = sharing(launches_of(launches, count))
    told = interval(base, arm, launches=launches)
    if told is None:
        return _no_interval(shared, last)
    sign = 1.0 if more_is_better else -1.0
    gain = sign * math.log(told.ratio) - math.log1p(min_gain_pct / 100)
    level = 0.5 + look_confidence(count, most, early=early) / 2
    half = half_width(told.sd_log, count, level, told.widening, told.freedom)
    if (early or last) and abs(gain) > half:
        why = [] if last else [f"clear after {count} of {most} pairs"]
        why += [] if shared.apart else [f"from {shared.words}"]
        return Judged(Verdict.KEEP if gain > 0 else Verdict.REVERT, True, ", ".join(why), count, told, gain)
    hopeless = early and futile(gain, told.widening * told.sd_log, count, most)
    ends = last or hopeless
    if ends and not shared.apart and abs(gain) > half_width(told.sd_log, count, level):
        why = [f"clear only if launches do not differ: {counted(count, 'pair')} from {shared.words}"]
        return Judged(Verdict.INCONCLUSIVE, ends, why[0], count, told, gain, EACH)
    said = f"{most} pairs will hardly clear it" if hopeless and not last else ""
    return Judged(Verdict.INCONCLUSIVE, ends, said, count, told, gain)


def _no_interval(shared: Sharing, last: bool) -> Judged:
    """Return the verdict on too few pairs, or pairs of too few launches: those of one and the same are one pair."""
    count = shared.pairs
    if count < LEAST_PAIRS:
        need = f"an interval needs {LEAST_PAIRS} pairs, there {'is' if count == 1 else 'are'} {count}"
        return Judged(Verdict.INCONCLUSIVE, last, need, count)
    need = f"{count} pairs come from {counted(shared.distinct, 'pair')} of launches, an interval needs {LEAST_PAIRS}"
    return Judged(Verdict.INCONCLUSIVE, last, need, count, remedy=EACH)


def rated(concurrency: int, pairs: Pairs) -> Rated:
    """Return both sides at one concurrency with the ratio's interval."""
    base, arm = pairs.base, pairs.arm
    told = interval(base, arm, launches=pairs.launches)
    shared = sharing(pairs.launches)
    return Rated(
        concurrency,
        fmean(base) if base else None,
        fmean(arm) if arm else None,
        stdev(base) if len(base) > 1 else None,
        stdev(arm) if len(arm) > 1 else None,
        len(pairs),
        math.exp(fmean(pairs.logs)) if pairs else None,
        told.low if told else None,
        told.high if told else None,
        shared.base,
        shared.arm,
    )


def ledger(
    effects: Mapping[str, Pairs], against: Mapping[str, str], parts: Mapping[str, Sequence[str]]
) -> tuple[LedgerLine, ...]:
    """Return what each arm's changes are worth; of combinations also what their parts do not explain.

    Args:
        effects: Pairs of each measured arm.
        against: What each was compared with.
        parts: The arms that a combination has together.
    """
    lines = []
    for name, pairs in effects.items():
        if not pairs:
            continue
        low, high = _bounds([pairs])
        line = LedgerLine(name, against[name], _pct(fmean(pairs.logs)), low and low[0], high and high[0])
        named = [effects.get(part, Pairs()) for part in parts.get(name, ())]
        if len(named) > 1 and all(named):
            line = _with_interaction(line, pairs, named)
        lines.append(line)
    return tuple(lines)


def _with_interaction(line: LedgerLine, whole: Pairs, parts: list[Pairs]) -> LedgerLine:
    """Return the line with the log of the combination less those of its parts: 0 where effects multiply."""
    mean = fmean(whole.logs) - sum(fmean(one.logs) for one in parts)
    low, high = _bounds([whole, *parts])
    return LedgerLine(
        line.name,
        line.over,
        line.change_pct,
        line.low_pct,
        line.high_pct,
        _pct(mean),
        None if low is None else _pct(mean - low[1]),
        None if high is None else _pct(mean + high[1]),
    )


def _bounds(groups: list[Pairs]) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return the bounds of the first group in percent, and the half width of the signed sum of all means.

    Scatters of the groups are not taken as equal: Welch's degrees of freedom.
    """
    told = [interval(one.base, one.arm, launches=one.launches) for one in groups]
    known = [one for one in told if one is not None]
    if len(known) < len(told):
        return None, None
    shares = [(one.widening * one.sd_log) ** 2 / one.pairs for one in known]
    total, mean_log = sum(shares), fmean(groups[0].logs)
    if total <= 0:
        return (_pct(mean_log), 0.0), (_pct(mean_log), 0.0)
    freedom = total**2 / sum(share**2 / one.freedom for share, one in zip(shares, known, strict=True))
    half = t_quantile(0.5 + CONFIDENCE / 2, max(1.0, freedom)) * math.sqrt(total)
    return (_pct(mean_log - half), half), (_pct(mean_log + half), half)


def _pct(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)
