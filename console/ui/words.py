"""Words for states: a symbol, a word and an ink for each, so that colour is never alone."""

from __future__ import annotations

from console.domain.host import Link, LinkState
from console.domain.patch import DiskState, PatchStatus, ProcessState
from console.domain.run import Run, RunPhase
from console.ui.drawing import age, clock

Word = tuple[str, str, str]
"""Symbol, word, ink."""

_DISK: dict[DiskState, Word] = {
    DiskState.OFF: ("○", "off", "dim"),
    DiskState.ON: ("●", "on", "good"),
    DiskState.DRIFTED: ("◑", "drifted", "warn"),
    DiskState.CONFLICT: ("✗", "conflict", "bad"),
    DiskState.ALREADY_UPSTREAM: ("✓", "upstream", "dim"),
    DiskState.NOT_APPLICABLE: ("–", "not for this", "dim"),
    DiskState.INVALID: ("✗", "invalid", "bad"),
    DiskState.UNKNOWN: ("?", "unknown", "dim"),
}

_LOADED: dict[ProcessState, Word] = {
    ProcessState.NEEDS_RESTART: ("◐", "needs restart", "warn"),
    ProcessState.LOADED: ("●", "loaded", "good"),
    ProcessState.PROVEN: ("●", "proven", "good"),
    ProcessState.NOT_REACHED: ("◌", "not reached", "warn"),
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
    if status.disk is DiskState.ON and status.loaded in _LOADED:
        return _LOADED[status.loaded]
    if status.disk is DiskState.OFF and status.loaded is ProcessState.NEEDS_RESTART:
        return ("◐", "off, restart", "warn")
    return _DISK[status.disk]


def of_patches(patches: tuple[PatchStatus, ...], *, short: bool = False) -> str:
    """Return a summary of all patches that are not simply off."""
    counts: dict[str, int] = {}
    for status in patches:
        _, word, _ = of_patch(status)
        if (
            status.disk not in (DiskState.OFF, DiskState.NOT_APPLICABLE, DiskState.ALREADY_UPSTREAM)
            or "restart" in word
        ):
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
    if run is None or run.phase is RunPhase.NONE:
        return "○", "no server", "dim"
    since = now - (run.ready_at or run.started_at)
    match run.phase:
        case RunPhase.STARTING:
            return "◔", f"starting {clock(now - run.started_at)}", "info"
        case RunPhase.READY:
            return "▶", f"ready {age(since)}", "good"
        case RunPhase.BUSY:
            return "▶", f"busy {age(since)}", "warn"
        case RunPhase.STOPPING:
            return "◼", "stopping", "warn"
        case RunPhase.EXITED:
            return "◼", "stopped", "dim"
        case RunPhase.FAILED:
            return "✗", f"failed{'' if run.exit_status is None else f', exit {run.exit_status}'}", "bad"
        case _:
            return "✗", "gone", "bad"
