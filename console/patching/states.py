"""The table of design section 5: from pieces and facts to the state of a patch on disk."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.patch import DiskState
from console.patching.pieces import Piece, PieceState
from console.patching.versions import Fit


def combined(pieces: Sequence[tuple[str, Piece]], fit: Fit, ours: bool) -> tuple[DiskState, str]:
    """Return the state of a whole patch and the reason for it.

    Args:
        pieces: (file, piece) of every edit or hunk.
        fit: Engine, version and GPU against `[applies_to]`.
        ours: The host's journal says that the patch is on by our own hand.
    """
    state, reason = by_content(pieces)
    doubt = f" ({', '.join(fit.unknown)})" if fit.unknown else ""
    if fit.other_engine:
        return DiskState.NOT_APPLICABLE, fit.other_engine
    if state in (DiskState.ON, DiskState.DRIFTED) and ours:
        return state, reason + doubt
    if fit.upstream:
        still = "; its original text is still there: look at it" if state is DiskState.OFF else ""
        return DiskState.ALREADY_UPSTREAM, fit.upstream + still
    if state is DiskState.CONFLICT and ours and not fit.outside:
        return DiskState.DRIFTED, f"ours, and changed since: {reason}{doubt}"
    if fit.outside:
        if state is DiskState.ON:
            return DiskState.ALREADY_UPSTREAM, f"{fit.outside}; its result is there, {reason}"
        return DiskState.NOT_APPLICABLE, fit.outside
    if fit.other_gpu and state is not DiskState.ON:
        return DiskState.NOT_APPLICABLE, fit.other_gpu
    return state, reason + doubt


def by_content(pieces: Sequence[tuple[str, Piece]]) -> tuple[DiskState, str]:
    """Return the state that the files alone tell."""
    states = {piece.state for _, piece in pieces}
    told = _told(pieces)
    if states == {PieceState.ON}:
        return DiskState.ON, told
    if states == {PieceState.OFF}:
        return DiskState.OFF, told
    if PieceState.PARTLY in states or (PieceState.ON in states and PieceState.OFF in states):
        return DiskState.DRIFTED, told
    if PieceState.ON in states:
        return DiskState.DRIFTED, told
    return DiskState.CONFLICT, _told([(file, piece) for file, piece in pieces if piece.state is not PieceState.OFF])


def _told(pieces: Sequence[tuple[str, Piece]]) -> str:
    alike = len({piece.state for _, piece in pieces}) == 1
    words = []
    for file, piece in pieces:
        name = file.rpartition("/")[2]
        state = "" if alike or piece.state in (PieceState.MISSING, PieceState.AMBIGUOUS) else f"{piece.state.value} "
        words.append(f"{name}: {state}{piece.note}")
    if len(words) > 6:
        words = [*words[:6], f"{len(words) - 6} more"]
    return "; ".join(words)
