"""Words for states: a symbol, a word and an ink for each, so that colour is never alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.domain.host import Link, LinkState
from console.ui.drawing import age, clock

if TYPE_CHECKING:  # the first frame shows no patch and no run: their modules may come later
    from console.domain.patch import PatchStatus
    from console.domain.run import Run

Word = tuple[str, str, str]
"""Symbol, word, ink."""

_DISK: dict[str, Word] = {
    "off": ("○", "off", "dim"),
    "on": ("●", "on", "good"),
    "drifted": ("◑", "drifted", "warn"),
    "conflict": ("✗", "conflict", "bad"),
    "already_upstream": ("✓", "upstream", "dim"),
    "not_applicable": ("–", "not for this", "dim"),
    "invalid": ("✗", "invalid", "bad"),
    "unknown": ("?", "unknown", "dim"),
}

_LOADED: dict[str, Word] = {
    "needs_restart": ("◐", "needs restart", "warn"),
    "loaded": ("●", "loaded", "good"),
    "proven": ("●", "proven", "good"),
    "not_reached": ("◌", "not reached", "warn"),
}

_LINK: dict[Link, Word] = {
    Link.IDLE: ("○", "not connected", "dim"),
    Link.CONNECTING: ("◌", "connecting", "info"),
    Link.UP: ("●", "", "good"),
    Link.LOST: ("✗", "link lost", "bad"),
    Link.REFUSED: ("✗", "refused", "bad"),
    Link.CLOSED: ("○", "closed", "dim"),
}


def of_patch(status: PatchStatus) -> Word:
    """Return how a patch stands: what the process has of it where that says more than the file."""
    if status.disk.value == "on" and status.loaded.value in _LOADED:
        return _LOADED[status.loaded.value]
    if status.disk.value == "off" and status.loaded.value == "needs_restart":
        return ("◐", "off, restart", "warn")
    return _DISK[status.disk.value]


def of_patches(patches: tuple[PatchStatus, ...], *, short: bool = False) -> str:
    """Return a summary of all patches that are not simply off."""
    counts: dict[str, int] = {}
    for status in patches:
        _, word, _ = of_patch(status)
        if status.disk.value not in ("off", "not_applicable", "already_upstream") or "restart" in word:
            word = "need restart" if "restart" in word else word
            counts[word] = counts.get(word, 0) + 1
    if not counts:
        return "none on" if patches else "—"
    if short:
        return " ".join(f"{number} {word.removeprefix('need ')}" for word, number in counts.items())
    said = [
        f"{number} {'needs restart' if word == 'need restart' and number == 1 else word}"
        for word, number in counts.items()
    ]
    return ", ".join(said)


def of_link(state: LinkState) -> Word:
    """Return how the connection stands."""
    symbol, word, ink = _LINK[state.link]
    if state.link is Link.UP:
        word = (
            f"{state.rtt_ms:.0f} ms"
            if state.rtt_ms is not None and state.rtt_ms >= 1
            else "up"
            if state.rtt_ms is None
            else "<1 ms"
        )
    return symbol, word, ink


def of_run(run: Run | None, now: float) -> Word:
    """Return how the server stands; `now` is the host's wall clock."""
    if run is None or run.phase.value == "none":
        return "○", "no server", "dim"
    began = run.ready_at or run.started_at
    since = now - began if began else None  # of a server that we did not start it may be unknown
    match run.phase.value:
        case "starting":
            return "◔", f"starting {clock(now - run.started_at)}", "info"
        case "ready":
            return "▶", f"ready {age(since)}", "good"
        case "busy":
            return "▶", f"busy {age(since)}", "warn"
        case "degraded":
            return "▲", f"unwell {age(since)}", "warn"
        case "stopping":
            return "◼", "stopping", "warn"
        case "exited":
            return "◼", "stopped", "dim"
        case "failed":
            return "✗", f"failed{'' if run.exit_status is None else f', exit {run.exit_status}'}", "bad"
        case _:
            return "✗", "gone", "bad"
