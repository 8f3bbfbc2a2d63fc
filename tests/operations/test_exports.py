"""What is exported: whatever text a run carries, its rows stay rows, and a spreadsheet computes nothing."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

from console.journal.records import RunEntry
from console.operations import exports
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
