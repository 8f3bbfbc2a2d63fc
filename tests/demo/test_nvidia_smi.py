"""The pretend nvidia-smi answers as the real one."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from console.demo import layout
from console.telemetry.probe.smi import FIELDS
from tests.demo.conftest import ROLL, Launch


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host of this module's own: what other tests load onto theirs is not to be seen here."""
    folder = tmp_path_factory.mktemp("smi")
    layout.build(folder)
    return folder


def smi(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(folder / "bin" / "nvidia-smi"), *args], capture_output=True, text=True, check=False)


def test_knows_every_field_that_the_probe_asks_for(built: Path) -> None:
    done = smi(built, "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits")
    rows = [line.split(", ") for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [row[FIELDS.index("index")] for row in rows] == [str(number) for number in range(8)]
    assert {row[FIELDS.index("compute_cap")] for row in rows} == {"12.0"}
    assert {float(row[FIELDS.index("power.limit")]) for row in rows} == {600.0}
    assert {row[FIELDS.index("memory.total")] for row in rows} == {"97887"}
    assert len({row[FIELDS.index("uuid")] for row in rows}) == 8


def test_names_a_field_that_it_does_not_know(built: Path) -> None:
    done = smi(built, "--query-gpu=index,power.drow", "--format=csv")
    assert done.returncode == 2
    assert done.stdout.startswith('Field "power.drow" is not a valid field to query.')


def test_prints_heads_and_units_unless_told_not_to(built: Path) -> None:
    lines = smi(built, "--query-gpu=index,memory.total", "--format=csv").stdout.splitlines()
    assert lines[0] == "index, memory.total [MiB]"
    assert lines[1] == "0, 97887 MiB"


def test_streams_until_its_reader_goes(built: Path) -> None:
    argv = [str(built / "bin" / "nvidia-smi"), "--query-gpu=index", "--format=csv,noheader", "-lms", "20"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rows = [process.stdout.readline().strip() for _ in range(24)]
        process.stdout.close()
        assert process.wait(10) == 0
    assert rows == [str(number % 8) for number in range(24)]


def test_lists_the_cards_and_draws_the_table(built: Path) -> None:
    assert len(smi(built, "-L").stdout.splitlines()) == 8
    assert "No running processes found" in smi(built).stdout


def test_shows_who_holds_memory_and_that_a_killed_server_gave_it_back(built: Path, launch: Launch) -> None:
    engine = launch("--max-running-requests", "64", folder=built)
    engine.wait_for(ROLL)
    query = ("--query-compute-apps=pid,name,used_memory", "--format=csv,noheader,nounits")
    rows = [line.split(", ") for line in smi(built, *query).stdout.splitlines()]
    assert [row[1] for row in rows] == [f"sglang::scheduler_TP{rank}" for rank in range(8)]
    assert {int(row[0]) for row in rows} <= set(engine.children())
    assert all(int(row[2]) > 60_000 for row in rows)
    ranks = engine.children()
    engine.process.kill()
    engine.process.wait(10)
    _wait_gone(ranks)
    assert smi(built, *query).stdout == ""


def _wait_gone(pids: list[int]) -> None:
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.01)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
