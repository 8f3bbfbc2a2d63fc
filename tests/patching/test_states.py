"""The table of design section 5, row by row."""

from __future__ import annotations

import pytest

from console.domain.patch import Applies, DiskState
from console.patching.pieces import Piece, PieceState
from console.patching.states import combined
from console.patching.versions import Facts, fit

ON, OFF, MISSING = Piece(PieceState.ON), Piece(PieceState.OFF), Piece(PieceState.MISSING, "not found")
APPLIES = Applies("sglang", ">=0.5.7,<0.5.13", "0.5.13", ("12.0",))


@pytest.mark.parametrize(
    ("pieces", "version", "gpu", "engine", "ours", "state"),
    [
        ([OFF, OFF], "0.5.9", "12.0", "sglang", False, DiskState.OFF),
        ([ON, ON], "0.5.9", "12.0", "sglang", False, DiskState.ON),
        ([ON, OFF], "0.5.9", "12.0", "sglang", False, DiskState.DRIFTED),
        ([ON, MISSING], "0.5.9", "12.0", "sglang", False, DiskState.DRIFTED),
        ([OFF, MISSING], "0.5.9", "12.0", "sglang", False, DiskState.CONFLICT),
        ([MISSING], "0.5.9", "12.0", "sglang", False, DiskState.CONFLICT),
        ([MISSING], "0.5.9", "12.0", "sglang", True, DiskState.DRIFTED),
        ([ON], "0.5.13", "12.0", "sglang", False, DiskState.ALREADY_UPSTREAM),
        ([MISSING], "0.5.14", "12.0", "sglang", False, DiskState.ALREADY_UPSTREAM),
        ([MISSING], "0.5.14.post1", "12.0", "sglang", True, DiskState.ALREADY_UPSTREAM),
        ([ON], "0.5.6", "12.0", "sglang", False, DiskState.ALREADY_UPSTREAM),
        ([ON], "0.5.13", "12.0", "sglang", True, DiskState.ON),
        ([OFF], "0.5.6", "12.0", "sglang", False, DiskState.NOT_APPLICABLE),
        ([OFF], "0.5.9", "9.0", "sglang", False, DiskState.NOT_APPLICABLE),
        ([ON], "0.5.9", "9.0", "sglang", False, DiskState.ON),
        ([OFF], "0.5.9", "12.0", "vllm", False, DiskState.NOT_APPLICABLE),
        ([OFF], None, None, "sglang", False, DiskState.OFF),
        ([OFF], "0.5.9+cu129.g1234", "12.0", "sglang", False, DiskState.OFF),
        ([OFF], "0.5.12.post1", "12.0", "sglang", False, DiskState.OFF),
        ([OFF], "0.5.9rc1", "12.0", "sglang", False, DiskState.OFF),
        ([OFF], "0.3.1.dev217+g2acebda10", "12.0", "sglang", False, DiskState.OFF),
        ([OFF], "main", "12.0", "sglang", False, DiskState.OFF),
    ],
)
def test_state(
    pieces: list[Piece], version: str | None, gpu: str | None, engine: str, ours: bool, state: DiskState
) -> None:
    named = [(f"{number}.py", piece) for number, piece in enumerate(pieces)]
    found, reason = combined(named, fit(APPLIES, Facts(engine, version, gpu)), ours)
    assert found is state
    if version is None:
        assert "version unknown" in reason and "GPU unknown" in reason
