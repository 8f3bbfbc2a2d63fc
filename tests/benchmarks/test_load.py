"""Ceiling of the load generator: streamed events a second from an unpaced pretend engine, both on this machine.

The engine is Python too and shares the cores: where it is the slower of the two, the number is its.
The client's processor time per event tells what the client could do on a core of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("concurrency", [64, 256, 1024])
@pytest.mark.parametrize("api", ["generate", "completions"])
def test_streamed_events(api: str, concurrency: int) -> None:
    engine = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/bench/engine.py"), "0"], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert engine.stdout is not None
        plan = {
            "port": int(engine.stdout.readline()), "concurrency": concurrency, "requests": 2 * concurrency,
            "input_tokens": 32, "output_tokens": 128, "api": api,
        }  # fmt: skip
        command = [sys.executable, "-m", "console.bench.load.run", "--plan", json.dumps(plan)]
        out = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=120, check=True)
    finally:
        engine.kill()
        engine.wait()
        if engine.stdout is not None:
            engine.stdout.close()
    result = json.loads(out.stdout.splitlines()[-1])
    events = result["itl"]["count"] + result["completed"]
    spent_s = result["processor_share"] * result["duration_s"]
    print(
        f"\nload, {api}, {concurrency} streams: {events / result['duration_s']:,.0f} events/s,"
        f" client {1e6 * spent_s / events:.1f} µs an event ({events / spent_s:,.0f} events/s a core)"
    )
    assert result["completed"] == 2 * concurrency
