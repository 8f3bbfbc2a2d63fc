"""`gpus FILE`, `bench import` and `runs`, as a shell sees them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from console.domain.measurement import Measurement, Percentiles
from console.journal.book import Journal
from console.journal.records import RunEntry

DATA = Path(__file__).parent.parent / "data"
NONE = Percentiles(0)


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "console", *map(str, argv)], capture_output=True, text=True, timeout=60
    )


def objects(out: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=lambda word: pytest.fail(word)) for line in out.splitlines()]


def test_gpus_of_a_file_is_an_object_a_sample() -> None:
    done = run("gpus", DATA / "gpus" / "B01.csv", "--json")
    first, second = objects(done.stdout)
    assert done.returncode == 0
    assert first["schema"] == 1 and first["time"] is None and first["source"] == "nvidia-smi"
    gpu = first["gpus"][1]
    assert gpu["power_draw_w"] is None and gpu["reasons"]["power_draw_w"] == "Not Supported"
    assert gpu["reasons"]["energy_j"] == "not read" and "fan_pct" not in gpu["reasons"]
    assert second["gpus"][0]["power_draw_w"] == 612.35 and second["reporting"] == 1


def test_gpus_of_a_text_of_failure_is_1_with_the_reason() -> None:
    done = run("--json", "gpus", DATA / "gpus" / "B06.txt")
    assert done.returncode == 1 and [found["gpus"] for found in objects(done.stdout)] == [[], [], [], []]


def test_gpus_says_how_many_report() -> None:
    out = run("gpus", DATA / "gpus" / "B01.csv").stdout
    assert "(1 of 3 GPUs reporting)" in out and "— of — W" in out


def test_a_file_that_is_not_there_is_usage() -> None:
    gpus, bench = run("gpus", "/nowhere.csv"), run("bench", "import", "/nowhere.jsonl")
    assert gpus.returncode == bench.returncode == 2
    assert "/nowhere.csv: cannot be read" in gpus.stderr and not gpus.stdout


def test_bench_import_is_strict_json() -> None:
    (found,) = objects(run("bench", "import", DATA / "results" / "F03.txt", "--json").stdout)
    assert found["winner"] is None and [one["request_rate"] for one in found["results"]] == ["inf"] * 3
    assert found["results"][2]["ttft_ms"] == {"mean_ms": None, "p50_ms": None, "p99_ms": None}


@pytest.mark.parametrize(
    "argv", [["bench", "run", "--concurrency", "a"], ["bench"], ["bench", "run", "--concurrency", "0"]]
)
def test_wrong_numbers_are_usage(argv: list[str]) -> None:
    assert run(*argv).returncode == 2


async def fill(journal: Journal) -> None:
    one = Measurement("r1", 8, 0, 1000.0, 10.0, 32, 32, 0, 512, 320, 32.0, 3.2, NONE, NONE, NONE, NONE,
                      protocol={"input_tokens": 16, "output_tokens": 10})  # fmt: skip
    for name, model in (("r1", "x"), ("r2", "y")):
        identity = {"resolved": {"model_path": model}}
        await journal.record_run(RunEntry(name, "demo", "p", "sglang", 900.0, "DEMO", identity))
    await journal.record_measurement("demo", one, badge="DEMO")


def test_runs() -> None:
    assert run("runs", "list").returncode == 1
    asyncio.run(fill(Journal()))
    listed = run("runs", "list")
    assert listed.returncode == 0 and "r1  demo [DEMO]  p" in listed.stdout
    (shown,) = objects(run("runs", "show", "r1", "--json").stdout)
    assert all(one["started_at"].endswith("+00:00") for one in shown["measurements"]) and shown["measurements"]
    assert shown["measurements"][0]["output_throughput_tok_s"] == 32
    unlike = run("runs", "compare", "r1", "r2")
    assert unlike.returncode == 3 and "model x against y" in unlike.stderr
    assert run("runs", "show", "r9").returncode == 2
    exported = run("runs", "export", "--csv").stdout.splitlines()
    assert exported[1].startswith("demo,DEMO,p,r1,8,0,1970-01-01T00:16:40+00:00")


def test_runs_are_tagged_noted_and_found() -> None:
    asyncio.run(fill(Journal()))
    assert run("runs", "tag", "r1", "base", "quiet").returncode == 0
    assert run("runs", "tag", "r1", "base").returncode == 6
    assert run("runs", "tag", "r1", "quiet", "--remove").returncode == 0
    assert run("runs", "tag", "r1", "two words").returncode == 2
    assert run("runs", "note", "r1", "after the  reboot").returncode == 0
    (found,) = objects(run("runs", "list", "--tag", "base", "--json").stdout)[0]["runs"]
    assert (found["id"], found["tags"], found["note"]) == ("r1", ["base"], "after the reboot")
    assert run("runs", "list", "--find", "REBOOT").stdout.count("\n") == 1
    assert run("runs", "list", "--tag", "base", "--find", "nothing").returncode == 1


def test_an_export_is_read_by_the_engines_own_names_and_by_people() -> None:
    asyncio.run(fill(Journal()))
    lines = objects(run("runs", "export", "r1", "--format", "bench").stdout)
    assert lines[0]["output_throughput"] and "schema" not in lines[0]
    table = run("runs", "export", "r1", "--format", "markdown").stdout.splitlines()
    assert table[0].startswith("| host | profile | run | concurrency |") and len(table) == 2 + len(lines)
    nothing = run("runs", "export", "r1", "--requests")
    assert nothing.returncode == 1 and "no requests were kept" in nothing.stderr
    assert run("runs", "export", "--requests", "--format", "markdown").returncode == 2


def test_a_replay_tells_every_recorded_moment_and_draws_it(tmp_path: Path) -> None:
    asyncio.run(fill(Journal()))
    assert run("runs", "replay", "r1").returncode == 1
    asyncio.run(recorded_run(Journal()))
    moments = objects(run("runs", "replay", "r3", "--json").stdout)
    assert [(one["power_w"], one["output_tok_s"], one["concurrency"]) for one in moments] == [
        (500.0, 40.0, 8), (None, 80.0, 8), (520.5, None, 8),
    ]  # fmt: skip
    assert moments[0]["time"] == "1970-01-01T00:16:40.000+00:00" and moments[0]["gpu_power_w"] == [250.0, 250.0]
    picture = tmp_path / "r3.svg"
    assert run("runs", "replay", "r3", "--plot", picture).returncode == 0
    assert "<polyline" in picture.read_text() and "r3 on demo [DEMO]" in picture.read_text()
    table = run("runs", "replay", "r3", "--csv").stdout.splitlines()
    assert len(table) == 4 and table[0].startswith("run,host,badge,time")
    assert run("runs", "replay", "r3", "--plot", "/no/such/folder/x.svg").returncode == 2


async def recorded_run(journal: Journal) -> None:
    """A run with three samples of power, the second of which lacks a GPU, and a course of two half seconds."""
    one = Measurement("r3", 8, 0, 1000.0, 1.0, 8, 8, 0, 8, 60, 60.0, 8.0, NONE, NONE, NONE, NONE)
    await journal.record_run(RunEntry("r3", "demo", "p", "sglang", 900.0, "DEMO"))
    power = [[1000.0, [250.0, 250.0]], [1000.5, [250.0, None]], [1002.0, [260.0, 260.5]]]
    course = {"bin_s": 0.5, "tokens": [20.0, 40.0], "running": [8.0, 7.5]}
    await journal.record_measurement("demo", one, badge="DEMO", telemetry=power, load={"course": course})
