"""From pairs to a verdict, and from verdicts to what each change is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from console.domain.experiment import LedgerLine, Rated, Verdict
from console.experiments.statistics import (
    CONFIDENCE,
    LEAST_PAIRS,
    MOST_PAIRS,
    Interval,
    futile,
    interval,
    look_confidence,
    pairs_to_settle,
    t_quantile,
)

Pairs = Sequence[tuple[float, float]]
"""(base, arm) of each block in which both were measured."""


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

    @property
    def more_pairs(self) -> int | None:
        """How many more pairs would probably settle it; `None` when none are needed, or too many."""
        if self.verdict is not Verdict.INCONCLUSIVE:
            return None
        if self.interval is None:
            return max(1, LEAST_PAIRS - self.pairs)
        needed = pairs_to_settle(self.gain, self.interval.sd_log)
        return None if needed is None else max(1, needed - self.pairs)

    def told(self) -> str:
        """Return the reason, and for an open question what would settle it."""
        if self.verdict is not Verdict.INCONCLUSIVE:
            return self.reason
        more = self.more_pairs
        settles = f"about {more} more pairs would settle it" if more else f"{MOST_PAIRS} pairs would not settle it"
        return f"{self.reason}; {settles}" if self.reason else settles


def judge(
    base: Sequence[float],
    arm: Sequence[float],
    most: int,
    *,
    early: bool = True,
    more_is_better: bool = True,
    min_gain_pct: float = 0.0,
) -> Judged:
    """Return the verdict on the pairs so far.

    Args:
        base: One value a pair.
        arm: The other side, in the same order.
        most: Pairs that are planned at most.
        early: Whether every look may decide; each then has its own, stricter bound.
        more_is_better: Whether a ratio over 1 is a gain.
        min_gain_pct: Gains below this are not worth keeping.
    """
    count = len(base)
    last = count >= most
    told = interval(base, arm)
    if told is None:
        need = f"an interval needs {LEAST_PAIRS} pairs, there {'is' if count == 1 else 'are'} {count}"
        return Judged(Verdict.INCONCLUSIVE, last, need, count)
    sign = 1.0 if more_is_better else -1.0
    gain = sign * math.log(told.ratio) - math.log1p(min_gain_pct / 100)
    half = t_quantile(0.5 + look_confidence(count, most, early=early) / 2, count - 1) * told.sd_log / math.sqrt(count)
    if (early or last) and abs(gain) > half:
        why = "" if last else f"clear after {count} of {most} pairs"
        return Judged(Verdict.KEEP if gain > 0 else Verdict.REVERT, True, why, count, told, gain)
    hopeless = early and futile(gain, told.sd_log, count, most)
    why = f"{most} pairs will hardly clear it" if hopeless and not last else ""
    return Judged(Verdict.INCONCLUSIVE, last or hopeless, why, count, told, gain)


def rated(concurrency: int, pairs: Pairs) -> Rated:
    """Return both sides at one concurrency with the ratio's interval."""
    base, arm = [a for a, _ in pairs], [b for _, b in pairs]
    told = interval(base, arm)
    ratio = math.exp(fmean(math.log(b / a) for a, b in pairs)) if pairs else None
    return Rated(
        concurrency,
        fmean(base) if base else None,
        fmean(arm) if arm else None,
        stdev(base) if len(base) > 1 else None,
        stdev(arm) if len(arm) > 1 else None,
        len(pairs),
        ratio,
        told.low if told else None,
        told.high if told else None,
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
        logs = [math.log(b / a) for a, b in pairs]
        if not logs:
            continue
        low, high = _bounds([logs])
        line = LedgerLine(name, against[name], _pct(fmean(logs)), low and low[0], high and high[0])
        named = [effects.get(part, ()) for part in parts.get(name, ())]
        if len(named) > 1 and all(named):
            line = _with_interaction(line, logs, [[math.log(b / a) for a, b in one] for one in named])
        lines.append(line)
    return tuple(lines)


def _with_interaction(line: LedgerLine, logs: list[float], parts: list[list[float]]) -> LedgerLine:
    """Return the line with the log of the combination less those of its parts: 0 where effects multiply."""
    mean = fmean(logs) - sum(fmean(one) for one in parts)
    low, high = _bounds([logs, *parts])
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


def _bounds(groups: list[list[float]]) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Return the bounds of the first group in percent, and the half width of the signed sum of all means.

    Scatters of the groups are not taken as equal: Welch's degrees of freedom.
    """
    if any(len(one) < LEAST_PAIRS for one in groups):
        return None, None
    shares = [stdev(one) ** 2 / len(one) for one in groups]
    total = sum(shares)
    if total <= 0:
        mean = _pct(fmean(groups[0]))
        return (mean, 0.0), (mean, 0.0)
    freedom = total**2 / sum(share**2 / (len(one) - 1) for share, one in zip(shares, groups, strict=True))
    half = t_quantile(0.5 + CONFIDENCE / 2, max(1, int(freedom))) * math.sqrt(total)
    mean_log = fmean(groups[0])
    return (_pct(mean_log - half), half), (_pct(mean_log + half), half)


def _pct(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)
