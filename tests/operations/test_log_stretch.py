"""A stretch of a log: whole lines around a byte, whatever stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.domain.run import Run, RunPhase
from console.operations import log_stretch
from console.operations.desk import Desk
from console.remote.link import HostLink


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stretch, "BEFORE_BYTES", 64)
    monkeypatch.setattr(log_stretch, "AFTER_BYTES", 128)


def run_of(path: Path) -> Run:
    return Run("r", "p", "sglang", str(path.parent), str(path), port=1, started_at=0.0, phase=RunPhase.EXITED)


@pytest.mark.usefixtures("small")
async def test_every_place_has_whole_lines_around_it(local_link: HostLink, tmp_path: Path) -> None:
    lines = [f"größe of line {number}" for number in range(40)]
    text = "".join(f"{line}\n" for line in lines).encode()
    (log := tmp_path / "server.log").write_bytes(text)
    offset = 0
    for line in lines:
        found = await log_stretch.around(Desk(local_link), run_of(log), offset)
        said = [one.raw for one in found.records]
        assert line in said and set(said) <= set(lines)
        assert text[found.first : found.last].decode() == "".join(f"{one}\n" for one in said)
        assert found.size == len(text) and found.is_end is (lines[-1] in said)
        offset += len(line.encode()) + 1


@pytest.mark.usefixtures("small")
async def test_a_line_longer_than_the_stretch_is_cut_and_found(local_link: HostLink, tmp_path: Path) -> None:
    (log := tmp_path / "server.log").write_bytes(b"first\n" + b"x" * 1000 + b"\nlast\n")
    found = await log_stretch.around(Desk(local_link), run_of(log), 6)
    assert [one.raw[:5] for one in found.records] == ["first", "xxxxx"] and not found.is_end
    found = await log_stretch.around(Desk(local_link), run_of(log), 1007)
    assert [one.raw for one in found.records][-1] == "last" and found.is_end


@pytest.mark.usefixtures("small")
async def test_a_log_that_became_shorter_has_nothing_there(local_link: HostLink, tmp_path: Path) -> None:
    (log := tmp_path / "server.log").write_bytes(b"all there is\n")
    found = await log_stretch.around(Desk(local_link), run_of(log), 5000)
    assert not found.records and found.is_end and found.size == 13
