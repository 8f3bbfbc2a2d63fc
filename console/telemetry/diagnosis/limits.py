"""Rules about what holds clocks down: power, heat, locks."""

from __future__ import annotations

from console.domain.diagnosis import Bound, Diagnosis
from console.telemetry.diagnosis.rule import at_least, at_most, facts, pct, sign, verdict
from console.telemetry.diagnosis.window import Window

OFTEN = 0.5
HEAT = ("thermal", "hardware slowdown")


def power_capped(seen: Window) -> Diagnosis | None:
    """Judge whether the power limit holds the clocks down."""
    share = seen.across(lambda gpu: gpu.slowed_by("power cap"))
    at_limit = seen.power_share is not None and seen.power_share >= 0.97
    signs = [
        sign(
            "power cap: not told" if share is None else f"power cap in {share * 100:.0f} % of the samples, looked for 50 or more",
            None if share is None and not at_limit else at_limit or (share or 0) >= OFTEN,
            needed=True,
        ),
        at_least("power of the limit", pct(seen.power_share), 90, needed=True),
        at_most("SM clock of the highest", pct(seen.clock_share), 97),
        at_least("SM", seen.util, 80),
    ]  # fmt: skip
    return verdict(
        Bound.POWER_CAP,
        f"{facts(seen)}, clock {pct(seen.clock_share) or 0:.0f} % of its highest: the power limit holds it down",
        signs,
        seen,
        refuted_by=("the same clock under a higher limit", "the same tok/s at a lower limit"),
        knobs=(
            "a higher power limit, where the board allows it (nvidia-smi -pl needs root and is lost at reboot)",
            "fewer joules a token: a lower precision, fewer wasted steps",
            "a lower clock may give more tok/s per W: measure it",
        ),
    )


def thermally_capped(seen: Window) -> Diagnosis | None:
    """Judge whether heat holds the clocks of most GPUs down."""
    told = [share for gpu in seen.working if (share := gpu.slowed_by(*HEAT)) is not None]
    hot = [share for share in told if share >= 0.3]
    signs = [
        sign(
            f"heat slows {len(hot)} of {len(seen.working)} GPUs, looked for half or more" if told else "heat: not told",
            len(hot) * 2 >= len(seen.working) if told else None,
            needed=True,
        ),
        at_least("temperature", seen.across(lambda gpu: gpu.temperature.middle if gpu.temperature else None), 78, "°C"),
        at_most("SM clock of the highest", pct(seen.clock_share), 97),
        at_most("power of the limit", pct(seen.power_share), 97),
    ]
    warm = seen.across(lambda gpu: gpu.temperature.middle if gpu.temperature else None)
    return verdict(
        Bound.THERMAL_CAP,
        f"{facts(seen)}, {warm or 0:.0f} °C: heat holds the clocks down",
        signs,
        seen,
        refuted_by=("clocks that stay down when the GPUs are cool",),
        knobs=("airflow, fans, room temperature", "a lower power limit: less heat, a steadier clock"),
    )


def clocks_locked(seen: Window) -> Diagnosis | None:
    """Judge whether somebody holds the clocks: they do not move, and neither power nor heat does it."""
    clocks = [gpu.clock for gpu in seen.working if gpu.clock]
    moved = max((clock.high - clock.low for clock in clocks), default=None)
    held = [gpu.slowed_by("power", "sync", *HEAT) for gpu in seen.working]
    free = None if not held or None in held else all((share or 0) < 0.1 for share in held)
    set_by = [gpu.slowed_by("application clocks") for gpu in seen.working]
    alike = max(c.middle for c in clocks) - min(c.middle for c in clocks) <= 30 if len(clocks) > 1 else None
    told = None if not set_by or None in set_by else all((share or 0) > 0.5 for share in set_by)
    signs = [
        at_least("SM", seen.util, 50, needed=True),
        at_most("SM clock of the highest", pct(seen.clock_share), 92, needed=True),
        at_most("SM clock moved by", moved, 30, "MHz", needed=True),
        sign("neither power nor heat slows it" if free else "reasons: not told" if free is None else "power or heat slows it",
             free, needed=True),
        sign("the driver tells of application clocks" if told else "the driver tells of no application clocks", told),
        sign("all GPUs at one clock" if alike else "one GPU alone" if alike is None else "GPUs at several clocks", alike),
    ]  # fmt: skip
    mhz = seen.across(lambda gpu: gpu.clock.middle if gpu.clock else None)
    return verdict(
        Bound.CLOCKS_LOCKED,
        f"{facts(seen)}, clock held at {mhz or 0:,.0f} MHz, {pct(seen.clock_share) or 0:.0f} % of its highest",
        signs,
        seen,
        refuted_by=("a clock that moves with the load", "nvidia-smi -q -d CLOCK that shows no lock"),
        knobs=("nvidia-smi -rgc and -rac take locks away (root)", "a lock may be meant: compare tok/s per W first"),
    )
