"""Whether a server can be used, judged from process, HTTP and log together."""

from __future__ import annotations

from console.domain.run import RunPhase

OK, UNWELL, REFUSED, TIMEOUT = "ok", "unwell", "refused", "timeout"
"""What the cheap endpoint did: answered, said that it is unwell (5xx), refused, or kept silent."""

LOG_ALIVE_S = 60.0


def judged(*, ready: bool, answer: str | None, quiet_s: float) -> tuple[RunPhase, str]:
    """Return the phase of a living server and why.

    Args:
        ready: Whether it has said in its log that it is ready; an open port is not enough.
        answer: What the cheap endpoint did; `None` when it was not asked.
        quiet_s: Seconds since its log's last byte.
    """
    if not ready:
        why = {OK: "HTTP answers, its log does not say that it is ready", UNWELL: "HTTP is up and warming up (503)"}
        return RunPhase.STARTING, why.get(answer or "", "")
    if answer == UNWELL:
        return RunPhase.DEGRADED, "it answers 503"
    if answer == REFUSED:
        return RunPhase.DEGRADED, "its port refuses connections, its process lives"
    if answer == TIMEOUT:
        if quiet_s <= LOG_ALIVE_S:
            return RunPhase.BUSY, "it does not answer, its log goes on"
        return RunPhase.DEGRADED, f"it does not answer, its log is silent for {quiet_s:.0f} s"
    return RunPhase.READY, ""
