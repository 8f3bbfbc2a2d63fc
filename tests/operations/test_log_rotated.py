"""A log that was rotated while its past is read: the rows shown are those of the place asked for, or it is said."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from console.domain.run import Run, RunPhase
from console.errors import UsageError
from console.journal.book import Journal
from console.journal.recordings import KeptMark, keep_marks
from console.operations import log_filter, log_marks, log_stretch, run_log
from console.operations.desk import Desk
from console.operations.following import Batch, batches
from console.operations.log_stretch import Stretch
from console.remote.link import HostLink


def run_of(path: Path) -> Run:
    return Run("r", "p", "sglang", str(path.parent), str(path), port=1, started_at=0.0, phase=RunPhase.EXITED)


def lines(word: str, count: int = 400) -> str:
    return "".join(f"{word} line {number:06}\n" for number in range(count))


def rotate(log: Path, way: str) -> None:
    old = log.with_name("server.log.1")
    if way == "rename":
        log.rename(old)
    else:
        shutil.copyfile(log, old)
    log.write_text(lines("new"))
    os.utime(old, (1, 1))


@pytest.mark.parametrize("way", ["rename", "copytruncate"])
async def test_a_place_is_found_again_in_the_file_it_was_in(local_link: HostLink, tmp_path: Path, way: str) -> None:
    (log := tmp_path / "server.log").write_text(lines("old"))
    desk, run = Desk(local_link), run_of(log)
    known = await log_stretch.around(desk, run, 2000)
    rotate(log, way)
    again = await log_stretch.around(desk, run, 2000, known.file)
    assert [one.raw for one in again.records] == [one.raw for one in known.records]
    assert again.name == str(tmp_path / "server.log.1") and again.newer == str(log) and not again.older
    now = await log_stretch.around(desk, run, 0, path=again.newer)
    assert now.records[0].raw == "new line 000000" and (now.name, now.older) == ("", again.name)
    end = await log_stretch.around(desk, run, -1, path=now.older)
    assert end.is_end and end.records[-1].raw == "old line 000399"


@pytest.mark.parametrize("way", ["rename", "copytruncate"])
async def test_a_file_that_is_gone_is_said_to_be(local_link: HostLink, tmp_path: Path, way: str) -> None:
    (log := tmp_path / "server.log").write_text(lines("old"))
    desk, run = Desk(local_link), run_of(log)
    known = await log_stretch.around(desk, run, 2000)
    rotate(log, way)
    (tmp_path / "server.log.1").unlink()
    with pytest.raises(UsageError, match="not on the host any more"):
        await log_stretch.around(desk, run, 2000, known.file)
    with pytest.raises(UsageError, match="not on the host any more"):
        await wanted(desk, run, "line", 2000, -1, known)


@pytest.mark.parametrize("way", ["rename", "copytruncate"])
async def test_a_start_up_is_read_where_a_rotation_has_put_it(local_link: HostLink, tmp_path: Path, way: str) -> None:
    ready = "[2026-12-03 05:00:09] The server is fired up and ready to roll!\n"
    (log := tmp_path / "server.log").write_text(f"[2026-12-03 05:00:01] proof of a patch\n{ready}")
    rotate(log, "rename")
    (tmp_path / "server.log.1").rename(tmp_path / "server.log.2")
    rotate(log, way)
    reading = await run_log.read_through(Desk(local_link), run_of(log), ("proof of a patch",))
    assert reading.watch.ready and reading.evidence == {"proof of a patch"}
    assert reading.offset == log.stat().st_size and reading.last_lines[-1] == "new line 000399"
    strangers = replace(run_of(log), folder=str(tmp_path / "run"))
    assert not (await run_log.read_through(Desk(local_link), strangers)).watch.ready


async def wanted(desk: Desk, run: Run, words: str, edge: int, way: int, known: Stretch) -> Stretch:
    found = [
        one async for one in log_stretch.wanted_of(desk, run, log_filter.make(pattern=words), edge, way, known.file)
    ]
    assert isinstance(found[-1], Stretch)
    return found[-1]


async def test_what_is_followed_tells_its_file(local_link: HostLink, tmp_path: Path) -> None:
    (log := tmp_path / "server.log").write_text(lines("old", 3))
    desk, run = Desk(local_link), run_of(log)
    seen: list[Batch] = []
    stream = batches(desk, run)
    async for batch in stream:
        seen.append(batch)
        if batch.settled and log.stat().st_size and not (tmp_path / "server.log.1").exists():
            rotate(log, "copytruncate")
        if any(one.raw == "new line 000398" for one in batch.records):
            break
    await stream.aclose()
    assert any(one.anew for one in seen)
    first = next(one for one in seen if one.records)
    assert first.records[0].raw == "old line 000000"
    old = await log_stretch.around(desk, run, first.records[0].offset, first.file)
    assert old.records[0].raw == "old line 000000" and old.name.endswith(".1")
    last = await log_stretch.around(desk, run, seen[-1].records[-1].offset, seen[-1].file)
    assert not last.name and last.records[0].raw == "new line 000000"


async def test_a_filter_reaches_what_stands_far_before_and_behind(
    local_link: HostLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stretch, "BLOCK_BYTES", 500)
    monkeypatch.setattr(log_stretch, "FOUND", 5)
    text = "".join(f"line {number:06} {'wanted' if number % 100 == 7 else 'other'}\n" for number in range(4000))
    (log := tmp_path / "server.log").write_text(text)
    desk, run = Desk(local_link), run_of(log)
    known = await log_stretch.around(desk, run, 0)
    for way in (-1, 1):
        edge, said = (len(text) if way < 0 else 0), list[str]()
        while True:
            found = await wanted(desk, run, "wanted", edge, way, known)
            told = [one.raw for one in found.records]
            said = told + said if way < 0 else said + told
            edge = found.first if way < 0 else found.last
            if not told or edge in (0, len(text)):
                break
        assert said == [line for line in text.splitlines() if "wanted" in line]


async def test_marks_of_earlier_sessions_are_known_once(local_link: HostLink, tmp_path: Path) -> None:
    desk, run = Desk(local_link), run_of(tmp_path / "server.log")
    kept = [KeptMark(50.0, "patch", "applied one"), KeptMark(40.0, "restart", "r p"), KeptMark(60.0, "ready", "")]
    await keep_marks(Journal(), local_link.host.name, run.id, kept)
    marks = await log_marks.marks_of(desk, run)
    assert [(one.kind, one.text) for one in marks] == [("restart", "r p"), ("patch", "applied one")]
