"""The judge: every rule is heard, the most particular one that holds is the verdict, the others stand beside it."""

from __future__ import annotations

from dataclasses import replace

from console.domain.diagnosis import Bound, Confidence, Diagnosis
from console.telemetry.diagnosis import limits, peers, work
from console.telemetry.diagnosis.rule import LEAST_S, Rule, facts
from console.telemetry.diagnosis.window import Window

RULES: tuple[Rule, ...] = (
    peers.straggler,
    peers.other_tenant,
    limits.thermally_capped,
    limits.clocks_locked,
    limits.power_capped,
    work.kv_bound,
    work.link_bandwidth,
    work.host_bound,
    work.starved,
    work.link_latency,
    work.hbm_bound,
    work.held_back,
    work.compute_bound,
)
"""The more particular cause first: a GPU that is capped computes, too, but the cap is what can be changed."""

IDLE_PCT = 3.0


def diagnose(seen: Window) -> Diagnosis:
    """Return what binds the server over a window; without a clear cause it says so."""
    blocked = _unreadable(seen)
    if blocked is not None:
        return blocked
    found = [one for rule in RULES if (one := rule(seen)) is not None]
    strong = [one for one in found if one.confidence is not Confidence.LOW]
    found = strong + [one for one in found if one.confidence is Confidence.LOW]
    if seen.idle and (not found or found[0].bound is not Bound.OTHER_TENANT):
        return _plain(Bound.IDLE, seen, "idle: no request runs or waits", ("a GPU that is busy all the same",))
    if found:
        return replace(found[0], also=tuple(found[1:]))
    quiet = seen.util is not None and seen.util < IDLE_PCT
    if quiet and not seen.running:
        why = "no request runs" if seen.running == 0 else "nothing runs on the GPUs"
        return _plain(Bound.IDLE, seen, f"{facts(seen)}: {why}", ("a request that runs meanwhile",))
    return _plain(
        Bound.NO_CLEAR_CAUSE,
        seen,
        f"{facts(seen)}: no clear cause",
        ("one of the signs of a cause growing while the load stays",),
        ("change one thing and measure: concurrency first",),
    )


def _unreadable(seen: Window) -> Diagnosis | None:
    if not seen.gpus:
        return _plain(Bound.UNKNOWN, seen, f"not known: {seen.reason or 'no GPU is read'}")
    if all(gpu.last.lost for gpu in seen.gpus):
        return _plain(Bound.UNKNOWN, seen, "not known: every GPU is lost")
    if seen.util is None and seen.power_share is None:
        why = next((text for gpu in seen.gpus for text in gpu.last.reasons.values()), "not told")
        return _plain(Bound.UNKNOWN, seen, f"not known: neither utilisation nor power can be read ({why})")
    if seen.seconds < LEAST_S or seen.samples < 3:
        return _plain(Bound.UNKNOWN, seen, f"not known yet: {seen.seconds:.1f} s of readings, {LEAST_S:.0f} are needed")
    return None


def _plain(
    bound: Bound, seen: Window, sentence: str, refuted_by: tuple[str, ...] = (), knobs: tuple[str, ...] = ()
) -> Diagnosis:
    sure = Confidence.HIGH if bound is Bound.IDLE else Confidence.LOW
    return Diagnosis(bound, sentence, (), sure, refuted_by, knobs, window_s=round(seen.seconds, 1))
