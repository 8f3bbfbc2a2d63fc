"""Notes to a ladder in words: what must not be compared and why, the steady stretch, the knee, missing percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.domain.measurement import ENOUGH, Measurement
from console.domain.text import clean, dash
from console.ui.drawing import Span, fit
from console.ui.widgets.inks import Painting

MOST = 5


def notes(done: Sequence[Measurement]) -> list[tuple[str, str]]:
    """Return what is to be said of a ladder so far, with its ink, the gravest first."""
    from console.operations.measure import knee

    found: list[tuple[str, str]] = []
    for rung in sorted({one.concurrency_limit for one in done}):
        why = sorted({reason for one in done if one.concurrency_limit == rung for reason in one.tainted})
        if why:
            found.append((f"! {rung:,} is not to be compared: {'; '.join(why)}", "warn"))
    if not done:
        return []
    last = done[-1]
    steady = last.protocol.get("steady")
    if last.steady_tok_s is not None:
        found.append((f"steady at {last.concurrency_limit:,}: {dash(last.steady_tok_s)} tok/s", ""))
    elif isinstance(steady, Mapping) and steady.get("reason"):
        reason = str(steady["reason"]).removeprefix("none: ")
        found.append((f"steady at {last.concurrency_limit:,}: none, {reason}", "dim"))
    bend = knee(done)
    if bend is not None:
        found.append((f"knee at {bend.concurrency:,}: beyond it more streams wait instead of getting tokens", ""))
    few = sorted({one.concurrency_limit for one in done if one.ttft_ms.p99_ms is None})
    if few:
        rungs = ", ".join(f"{rung:,}" for rung in few)
        found.append((f"— for p99 at {rungs}: fewer than {ENOUGH[0.99]} requests tell none", "dim"))
    return found


def mode_words(protocol: Mapping[str, object]) -> str:
    """Return what kind of load it is: closed or open loop, and the API."""
    api = str(protocol.get("api") or "")
    if protocol.get("loop") != "open":
        return ", ".join(filter(None, ("closed loop", api)))
    rate = protocol.get("request_rate_req_s")
    return ", ".join(filter(None, (f"open loop at {rate:g} req/s" if isinstance(rate, float | int) else "open loop",
                                   str(protocol.get("arrival") or ""), api)))  # fmt: skip


class BenchNotes(Painting):
    """The notes, as high as they need."""

    DEFAULT_CSS = "BenchNotes { height: auto; max-height: 5; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="bench-notes")
        self.said: list[tuple[str, str]] = []

    def show(self, done: Sequence[Measurement]) -> None:
        """Show what is to be said of what was measured."""
        self.said = notes(done)[:MOST]
        self.display = bool(self.said)
        self.styles.height = max(1, len(self.said))
        self.repaint()

    def lines(self, width: int, height: int) -> Sequence[Sequence[Span]]:
        """Return a line for each."""
        return [[(fit(f" {clean(text)}", width).rstrip(), ink)] for text, ink in self.said]
