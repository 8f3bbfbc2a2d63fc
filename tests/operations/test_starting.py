"""Starts that hang, and servers that are ready or not: the field cases G06, G07 and G01."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.domain import readiness
from console.domain.run import Readiness, Run, RunPhase
from console.domain.starting import Usual, eta_s
from console.operations import run_log, running, starting

DATA = Path(__file__).parents[1] / "data/engines"
UTC_0939 = 1739871595.0
"""2025-02-18 09:39:55 UTC."""


def state(log: str = "", **facts: Any) -> dict[str, Any]:
    record = {"id": "2025-02-18-1", "profile": "p", "started_at": UTC_0939, "utc_offset_s": 0, "env_names": []}
    return {
        "folder": "/runs/2025-02-18-1",
        "log": log,
        "record": record,
        "pid": 100,
        "start_ticks": 1,
        "session": 100,
        "alive": True,
        "processes": [],
        "exit": None,
        "ended_at": None,
        "stop": None,
        "time": UTC_0939,
        "log_mtime": UTC_0939,
        **facts,
    }


def read(text: str) -> tuple[Run, run_log.Reading]:
    run = running.run_of(state())
    reading = run_log.reading_of(run)
    reading.feed(text.encode())
    reading.take(reading.parser.settle())
    return run, reading


def hang(after_s: float, more: str = "") -> Run:
    text = "".join(line for line in (DATA / "G06.txt").read_text().splitlines(True) if line.startswith("["))
    run, reading = read(text + more)
    last = UTC_0939 + 18
    return running.run_with(run, state(time=last + after_s, log_mtime=last), reading)


def test_of_an_adopted_server_http_says_that_it_is_ready_and_nobody_when() -> None:
    told = state()
    told["record"]["adopted"] = True
    run = running.run_of(told)
    for answer, phase in ((readiness.OK, RunPhase.READY), (readiness.REFUSED, RunPhase.STARTING)):
        now = running.run_with(run, told, run_log.reading_of(run), answers=answer)
        assert (now.phase, now.ready_at) == (phase, None)
    ours = running.run_of(state())
    unsaid = running.run_with(ours, state(), run_log.reading_of(ours), answers=readiness.OK)
    assert unsaid.phase is RunPhase.STARTING, "of one that was launched here the log says it"


def test_a_silent_init_is_an_alarm_after_minutes_only() -> None:
    assert hang(60).phase is RunPhase.STARTING and hang(60).stall is None
    stalled = hang(600)
    assert stalled.phase is RunPhase.STARTING and stalled.stall is not None
    assert stalled.stall.text == "stalled in distributed init since 09:40:13"
    assert "0 of 2 ranks have ended distributed init" in stalled.stall.evidence
    assert any("nccl==2.21.5" in text for text in stalled.stall.evidence)
    assert any("NCCL_SOCKET_IFNAME" in hint for hint in stalled.stall.hints)
    assert any("NCCL_DEBUG=INFO" in hint for hint in stalled.stall.hints)


def test_one_of_sixteen_ranks_is_not_ready() -> None:
    line = (
        "node-1:276:276 [5] NCCL INFO ncclCommInitRank comm 0x369e2a10 rank 13 nranks 16 cudaDev 5 nvmlDev 5 "
        "busId ae000 - Init COMPLETE\n"
    )
    stalled = hang(600, line)
    assert stalled.phase is RunPhase.STARTING and stalled.stall is not None
    assert "1 of 16 ranks reported NCCL Init COMPLETE" in stalled.stall.evidence


def test_ready_is_neither_an_open_port_nor_a_model_list() -> None:
    """G07, sample by sample."""
    samples = json.loads((DATA / "G07.json").read_text())
    ready, told = False, {}
    for sample in samples:
        ready = ready or "fired up" in sample.get("log", "")
        said = sample.get("GET /health")
        answers = {200: readiness.OK, 503: readiness.UNWELL, None: None}
        answer = answers.get(said) if said in (200, 503, None) else "refused" if "refused" in said else "timeout"
        told[sample["t"]] = readiness.judged(ready=ready, answer=answer, quiet_s=5)
    phases = {at: phase for at, (phase, _) in told.items()}
    assert [phases[at] for at in (0, 41, 55)] == [RunPhase.STARTING] * 3
    assert phases[74] is RunPhase.READY
    assert told[900] == (RunPhase.DEGRADED, "it answers 503")
    assert phases[905] is RunPhase.READY
    assert told[1800] == (RunPhase.BUSY, "it does not answer, its log goes on")
    ended = running.run_of(state(alive=False, exit=1, ended_at=UTC_0939 + 2000))
    assert (ended.phase, ended.readiness, ended.exit_status) == (RunPhase.FAILED, Readiness.CRASHED, 1)


def test_orphans_of_a_stopped_run_keep_it_stopping() -> None:
    """G01: two schedulers live on under parent 1 after the launcher's end."""
    left = [{"pid": pid, "start_ticks": 1, "title": "sglang::scheduler"} for pid in (2505781, 2505782)]
    run = running.run_of(state(alive=False, exit=137, processes=left, stop={"at": 1.0}, held_mib=202042.0))
    assert (run.phase, run.readiness) == (RunPhase.STOPPING, Readiness.STOPPING)
    assert f"{run.phase.value} - {run.reason}" == "stopping - 2 processes of this run still alive (202042 MiB)"


def test_usual_times_are_medians_of_the_same_arguments() -> None:
    def earlier(number: int, argv: list[str], ready_s: float) -> dict[str, Any]:
        record = {"id": f"2025-02-17-{number}", "profile": "p", "engine": "sglang", "argv": argv}
        return {"record": record, "ladder": {"ready_s": ready_s, "rungs": {"weights": ready_s / 2}}}

    run = replace(running.run_of(state()), argv=("a",), usual_ready_s=60.0)
    states = [earlier(4, ["b"], 500), earlier(3, ["a"], 70), earlier(2, ["a"], 60), earlier(1, ["a"], 50)]
    assert starting.usual_of(states, run) == Usual(60, {"weights": 30}, 3)
    assert starting.usual_of(states[:1], run) == Usual(500, {"weights": 250}, 1)
    assert starting.usual_of([], run) == Usual()
    assert eta_s(replace(run, phase=RunPhase.STARTING), UTC_0939 + 20) == 40
