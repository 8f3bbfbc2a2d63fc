"""Our probe beside nvidia-smi on a real H200 under load, as recorded."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

GPUS = Path(__file__).parent.parent / "data" / "gpus"


def _probe() -> list[dict[str, Any]]:
    text = gzip.decompress((GPUS / "h200-load-probe.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def test_power_is_within_two_percent_of_nvidia_smi() -> None:
    text = gzip.decompress((GPUS / "h200-load-smi.csv.gz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    ours = mean(sample["gpus"][0]["power_draw_w"] for sample in _probe())
    assert ours == pytest.approx(mean(float(row[2]) for row in rows), rel=0.02)


def test_energy_counter_is_within_three_percent_of_integrated_watts() -> None:
    changes: list[tuple[float, float]] = []
    for sample in _probe():
        energy = sample["gpus"][0]["energy_j"]
        if energy is not None and (not changes or changes[-1][1] != energy):
            changes.append((datetime.fromisoformat(sample["time"]).timestamp(), energy))
    (start, first), (end, last) = changes[0], changes[-1]
    watts = [
        sample["gpus"][0]["power_draw_w"]
        for sample in _probe()
        if start <= datetime.fromisoformat(sample["time"]).timestamp() <= end
    ]
    assert (last - first) / (end - start) == pytest.approx(mean(watts), rel=0.03)
