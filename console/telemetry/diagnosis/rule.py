"""What every rule is made of: signs, the verdict that they allow, and words for numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from console.domain.diagnosis import Bound, Confidence, Diagnosis, Sign
from console.telemetry.diagnosis.window import Window

Rule = Callable[[Window], Diagnosis | None]
"""Returns its verdict, `None` where a needed sign is missing or unknown."""

HIGH, MEDIUM = 0.8, 0.6
"""Shares of signs that were met."""

LEAST_S = 3.0
"""A shorter window supports nothing."""

SURE_S = 5.0


def sign(text: str, met: bool | None, *, needed: bool = False) -> Sign:
    """Return a sign."""
    return Sign(text, met, needed)


def at_least(what: str, value: float | None, least: float, unit: str = "%", *, needed: bool = False) -> Sign:
    """Return the sign that a value is not below a threshold."""
    return Sign(f"{_told(what, value, unit)}, looked for {least:,.0f} {unit} or more", _test(value, least), needed)


def at_most(what: str, value: float | None, most: float, unit: str = "%", *, needed: bool = False) -> Sign:
    """Return the sign that a value is not above a threshold."""
    met = None if value is None else value <= most
    return Sign(f"{_told(what, value, unit)}, looked for {most:,.0f} {unit} or less", met, needed)


def verdict(
    bound: Bound,
    sentence: str,
    signs: Sequence[Sign],
    seen: Window,
    *,
    refuted_by: Sequence[str],
    knobs: Sequence[str],
    gpu: int | None = None,
    confidence: Confidence | None = None,
) -> Diagnosis | None:
    """Return a diagnosis when every needed sign is met and at least half of all are; `None` otherwise."""
    met = sum(one.met is True for one in signs) / len(signs)
    if any(one.needed and one.met is not True for one in signs) or (met < 0.5 and confidence is None):
        return None
    if confidence is None:
        confidence = Confidence.HIGH if met >= HIGH else Confidence.MEDIUM if met >= MEDIUM else Confidence.LOW
    if seen.seconds < SURE_S and confidence is Confidence.HIGH:
        confidence = Confidence.MEDIUM
    return Diagnosis(
        bound, sentence, tuple(signs), confidence, tuple(refuted_by), tuple(knobs), gpu, round(seen.seconds, 1)
    )


def pct(share: float | None) -> float | None:
    """Return a share in percent."""
    return None if share is None else share * 100


def facts(seen: Window) -> str:
    """Return the three numbers that most verdicts stand on: `SM 98 %, 250 of 600 W, PCIe 3 % of x16 gen5`."""
    parts = []
    if seen.util is not None:
        rests = (
            f" while it works ({seen.seconds:.0f} of {seen.seconds + seen.rest_s:.0f} s)" if seen.rest_s >= 1 else ""
        )
        parts.append(f"SM {seen.util:.0f} %{rests}")
    watts = seen.across(lambda gpu: gpu.watts.mean if gpu.watts else None)
    limit = seen.across(lambda gpu: gpu.last.power_limit_w)
    if watts is not None:
        parts.append(f"{watts:,.0f} of {limit:,.0f} W" if limit else f"{watts:,.0f} W")
    if seen.link_share is not None:
        links = {gpu.last.link for gpu in seen.working if gpu.last.link}
        parts.append(f"PCIe {seen.link_share * 100:.0f} % of {links.pop() if len(links) == 1 else 'its links'}")
    return ", ".join(parts)


def _told(what: str, value: float | None, unit: str) -> str:
    return f"{what} not read" if value is None else f"{what} {value:,.0f} {unit}"


def _test(value: float | None, least: float) -> bool | None:
    return None if value is None else value >= least
