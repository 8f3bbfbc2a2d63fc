"""What is exported: whatever text a run carries, its rows stay rows, and a spreadsheet computes nothing."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import compare, exports
from tests.journal.test_book import ONE

NASTY = 'a,b "c"\nd|e \\| ü ✓ <img src=x>'
ENTRY = RunEntry(
    ONE.run_id, "box", NASTY, "sglang", 900.0, "DEMO", {}, (ONE, replace(ONE, repeat=1, tainted=())), ("best",), "=1+1"
)


def test_csv_comes_back_as_it_was_and_holds_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(exports.as_text(exports.rows_of([ENTRY], "csv"), "csv"))))
    assert len(rows) == 2 and rows[0]["profile"] == NASTY and rows[0]["tainted"] == "a; b"
    assert rows[0]["note"] == "'=1+1" and json.loads(rows[0]["protocol"]) == {"flushed": True}
    for text in ("=HYPERLINK(1)", "+1", "-1", "@x", "\t=1"):
        (row,) = csv.DictReader(io.StringIO(exports.as_csv([{"name": text, "value": -1.5}])))
        assert row == {"name": f"'{text}", "value": "-1.5"}


def test_rows_of_different_kinds_share_one_head() -> None:
    (one, two) = csv.DictReader(io.StringIO(exports.as_csv([{"a": 1}, {"b": 2}])))
    assert one == {"a": "1", "b": ""} and two == {"a": "", "b": "2"}


def test_a_table_for_people_keeps_one_line_a_measurement_and_says_that_it_is_of_the_demo() -> None:
    text = exports.as_text(exports.rows_of([ENTRY], "markdown"), "markdown")
    lines = text.splitlines()
    assert len(lines) == 4 and "box [DEMO]" in lines[2] and "&lt;img" in lines[2]
    bars = [line.replace("\\\\", "").replace("\\|", "").count("|") for line in lines]
    assert len(set(bars)) == 1


def test_json_lines_carry_protocol_tags_and_note() -> None:
    first = json.loads(exports.as_text(exports.rows_of([ENTRY], "jsonl"), "jsonl").splitlines()[0])
    assert first["protocol"] == {"flushed": True} and first["tags"] == ["best"] and first["note"] == "=1+1"


@pytest.mark.parametrize("form", ["jsonl", "csv", "markdown", "json"])
async def test_an_export_of_many_runs_is_read_and_written_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    monkeypatch.setattr(exports, "PART", 2)
    for number in range(5):
        await Journal().record_run(replace(ENTRY, id=f"r-{number}", started_at=float(number), measurements=()))
        if number != 2:
            await Journal().record_measurement("box", replace(ONE, run_id=f"r-{number}"))
    brief = await compare.listed()
    text = "".join([piece async for piece in exports.pieces(brief, form)])
    rows = exports.rows_of(await compare.whole(brief), form)
    assert [row["run_id"] for row in rows] == ["r-4", "r-3", "r-1", "r-0"]
    if form == "json":
        assert json.loads(text) == {"schema": 1, "measurements": rows}
    else:
        assert text == exports.as_text(rows, form)
    assert (await exports.write(brief, form, str(tmp_path / "out"))).read_text() == text
    assert not [piece async for piece in exports.pieces([brief[2]], form)]


async def test_requests_of_clients_that_told_other_columns_share_one_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    for number, column in enumerate(("sent_s", "due_s")):
        await Journal().record_run(replace(ENTRY, id=f"r-{number}"))
        load = {"columns": [column], "rows": [[0.5]]}
        await Journal().record_measurement("box", replace(ONE, run_id=f"r-{number}"), load=load)
    told = exports.pieces(await compare.listed(), "csv", requests=True)
    rows = list(csv.DictReader(io.StringIO("".join([piece async for piece in told]))))
    assert sorted((row["sent_s"], row["due_s"]) for row in rows) == [("", "0.5"), ("0.5", "")]
