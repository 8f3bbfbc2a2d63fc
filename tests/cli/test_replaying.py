"""`runs export` of telemetry and pictures, and `runs replay`, as a shell sees them."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from console.errors import ConsoleError
from console.journal.book import default_path
from console.operations import run_picture
from tests.ui.test_replay import NOW, RUN, load, record


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path / "data"))
    asyncio.run(record("DEMO"))


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console", *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_telemetry_is_a_table_lines_or_one_document(tmp_path: Path) -> None:
    table = list(csv.DictReader(run("runs", "export", RUN, "--telemetry", "--format", "csv").stdout.splitlines()))
    assert len(table) == 240 and table[45]["output_tok_s"] == "1950.0" and table[45]["badge"] == "DEMO"
    assert float(table[45]["gpu5_power_draw_w"]) > 300 and table[45]["gpu5_throttle"] == "power cap"
    lines = [json.loads(line) for line in run("runs", "export", RUN, "--telemetry").stdout.splitlines()]
    assert len(lines) == 240 and lines[0]["schema"] == 1 and len(lines[0]["gpus"]) == 8
    file = tmp_path / "run.json"
    assert run("runs", "export", RUN, "--telemetry", "--output", file).returncode == 0
    whole = json.loads(file.read_text())
    assert len(whole["moments"]) == 240 and len(whole["gaps"]) == 1 and whole["target_tok_s"] == 5816
    assert [mark["kind"] for mark in whole["marks"]] == [
        "restart",
        "ready",
        "measurement",
        "patch",
        "measurement",
        "end",
    ]


def test_without_a_terminal_a_replay_is_text_and_json_streams() -> None:
    told = run("runs", "replay", RUN, "--speed", "0").stdout.splitlines()
    assert len(told) == 240 and "DEMO  concurrency 256" in told[45] and "1,950 tok/s" in told[45]
    lines = [json.loads(line) for line in run("runs", "replay", RUN, "--json").stdout.splitlines()]
    assert lines[45]["concurrency"] == 256 and lines[0]["concurrency"] is None and len(lines[0]["gpu_power_w"]) == 8


def test_a_picture_has_curves_limit_target_marks_and_the_gap(tmp_path: Path) -> None:
    file = tmp_path / "run.svg"
    assert run("runs", "export", RUN, "--output", file).returncode == 0
    text = file.read_text()
    root = ElementTree.fromstring(text)
    curves = [one for one in root if one.tag.endswith("polyline")]
    assert len(curves) == 2 * (1 + 8) + 2  # all, each GPU and tok/s, each in two pieces
    for word in (
        "limit 4,800",
        "limit of one 600",
        "(other model) 5,816",
        "nobody watched",
        "[DEMO]",
        ">256<",
        ">1024<",
    ):
        assert word in text, word
    assert "launch" in text and "apply fusion" in text and "\x1b" not in text
    assert run("runs", "export", RUN, "--format", "svg").stdout == text


def test_a_png_is_one_and_without_its_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = asyncio.run(load())
    assert run_picture.write(tape, str(tmp_path / "run.png")).read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(ConsoleError) as caught:
        run_picture.write(tape, str(tmp_path / "other.png"))
    assert "tokwatt[plots]" in caught.value.hint and not (tmp_path / "other.png").exists()


def test_a_damaged_block_is_left_out_and_told(tmp_path: Path) -> None:
    with sqlite3.connect(default_path()) as db:
        db.execute("UPDATE recordings SET data = x'00' WHERE number = 1")
    db.close()
    done = run("runs", "export", RUN, "--telemetry")
    assert done.returncode == 0 and len(done.stdout.splitlines()) < 240 and "are damaged" in done.stderr
    assert run("runs", "export", RUN, "--output", tmp_path / "run.svg").returncode == 0
    gpus = asyncio.run(load()).snapshot(NOW + 10).gpus
    assert gpus is not None and gpus.gpus == () and "damaged" in gpus.reason


@pytest.mark.parametrize(
    "argv",
    [
        ["export", "--format", "svg"],
        ["export", RUN, "--telemetry", "--format", "markdown"],
        ["export", RUN, "--requests", "--telemetry"],
        ["export", RUN, "--output", "/no/such/folder/x.svg"],
        ["export", RUN, "--telemetry", "--output", "/no/such/folder/x.csv"],
        ["replay", RUN, "--plot", "x.pdf"],
        ["replay", "no-such-run"],
    ],
)
def test_what_cannot_be_is_usage(argv: list[str]) -> None:
    done = run("runs", *argv)
    assert done.returncode == 2 and done.stderr.startswith("tokwatt: ") and not done.stdout
