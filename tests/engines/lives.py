"""Lives of a real SGLang 0.5.13 on an H200, to be lived again: output, HTTP and end, at any multiple of their speed."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.engines.recorded import content

FOLDER = Path(__file__).parents[1] / "data" / "lives"
REPLAYED = Path(__file__).parent / "replayed"
"""Working folder of a profile whose `python -m sglang.launch_server` lives such a life."""

SPEED = float(os.environ.get("REPLAY_SPEED", "60"))
"""How many times faster than recorded; `REPLAY_SPEED=1` takes the minutes that it took."""

PORT = 30000
PATIENCE_S = 60 + 240 / SPEED


def _unpacked(name: str) -> str:
    return gzip.decompress((FOLDER / name).read_bytes()).decode()


def events(name: str) -> list[dict[str, Any]]:
    """Return what was noted of a life, in its order."""
    found = [json.loads(line) for line in _unpacked("events.jsonl.gz").splitlines()]
    return [event for event in found if event.get("name") in (name, f"fail-{name}")]


def answers() -> dict[str, dict[str, Any]]:
    """Return what an idle server answered, by path."""
    found: dict[str, dict[str, Any]] = json.loads(_unpacked("answers.json.gz"))
    found["/abort_request"] = {"status": 200, "body": ""}
    return found


def write_script(
    folder: Path, name: str, *, speed: float = SPEED, metrics: str = "", replies: Mapping[str, str] | None = None
) -> Path:
    """Write down a life for the stand-in and return the file.

    Args:
        folder: Where.
        name: Of its recorded log.
        speed: How many times faster than it was.
        metrics: What `/metrics` says; nothing answers there otherwise.
        replies: Bodies of further paths.
    """
    told = events(name)
    start = next(event for event in told if event["event"] == "start")
    ready = next((event for event in told if event["event"] == "ready"), None)
    asked = next((event for event in told if event["event"] == "signal"), None)
    exited = next(event for event in told if event["event"] == "exit")
    by_hand = any(event.get("rc", 0) is None for event in told)
    asked_s = asked["t"] - start["t"] if asked is not None else None
    text = content(f"{name}.log")
    chunks: list[tuple[float, int, int]] = []
    place = 0
    for line in _unpacked(f"{name}.times.csv.gz").splitlines()[1:]:
        due, size = line.split(",")
        chunks.append((float(due), place, place + int(size)))
        place += int(size)
    assert place == len(text)
    served = answers()
    for asked_for, body in {**(replies or {}), **({"/metrics": metrics} if metrics else {})}.items():
        served[asked_for] = {"status": 200, "body": body}
    health = {step["health"]: step["s"] for step in ready["health"]} if ready else {}
    script = {
        "began": start["t"],
        "port": PORT,
        "speed": speed,
        "text": base64.b64encode(text).decode(),
        "before": [chunk for chunk in chunks if asked_s is None or chunk[0] < asked_s],
        "after": [chunk for chunk in chunks if asked_s is not None and chunk[0] >= asked_s],
        "sigterm_s": asked_s,
        "listen_s": health.get(503, 0),
        "well_s": health.get(200, 0),
        "rc": None if by_hand else exited["rc"],
        "titles": [title.strip() for _, title in (asked or {}).get("tree", []) if title.startswith("sglang::")],
        "answers": {
            where: {"status": each["status"], "body": base64.b64encode(each["body"].encode()).decode()}
            for where, each in served.items()
        },
    }
    written = folder / f"{name}.script.json"
    written.write_text(json.dumps(script), encoding="utf-8")
    return written
