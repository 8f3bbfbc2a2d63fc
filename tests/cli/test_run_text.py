"""A run as lines for people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.cli.run_text import run_fields, run_lines
from console.domain.run import Run, Rung, RunPhase

RUN = Run(
    id="2026-12-03-1",
    profile="fast",
    engine="sglang",
    folder="/r",
    log="/r/server.log",
    port=0,
    started_at=1.0,
    argv=(),
)


@pytest.mark.parametrize(
    ("phase", "port", "word"),
    [
        (RunPhase.STARTING, 0, "no port yet"),
        (RunPhase.EXITED, 0, "port not known"),
        (RunPhase.READY, 30000, "port 30000"),
    ],
)
def test_a_port_that_nobody_knows_is_no_number(phase: RunPhase, port: int, word: str) -> None:
    head, *_ = run_lines(replace(RUN, phase=phase, port=port))
    assert head.endswith(f" run 2026-12-03-1 · {phase.value} · {word} · fast")


@pytest.mark.parametrize(
    ("run", "end"),
    [
        (RUN, None),
        (
            replace(RUN, phase=RunPhase.EXITED, stopped_by="ada"),
            "nobody noted when, no exit status was left, stopped by ada",
        ),
        (replace(RUN, phase=RunPhase.FAILED), "not noted so far: what has failed may still be ending"),
        (replace(RUN, phase=RunPhase.LOST), "nobody noted when, no exit status was left"),
        (
            replace(RUN, phase=RunPhase.FAILED, ended_at=60.0, exit_status=0),
            "1970-01-01T00:01:00.000+00:00, exit status 0",
        ),
    ],
)
def test_an_end_says_what_is_known_of_it(run: Run, end: str | None) -> None:
    told = [line.partition("ended ")[2].strip() for line in run_lines(run) if line.startswith("  ended ")]
    assert told == ([] if end is None else [end])


@pytest.mark.parametrize(
    ("phase", "said"),
    [(RunPhase.FAILED, "died here"), (RunPhase.EXITED, "ended here"), (RunPhase.STARTING, "")],
)
def test_a_run_that_is_over_says_at_which_step(phase: RunPhase, said: str) -> None:
    ladder = (Rung("weights", 1.0, 2.5), Rung("kv cache", 2.5))
    steps = [line.split() for line in run_lines(replace(RUN, phase=phase, ladder=ladder)) if " s  " in line]
    assert steps == [["1.0", "s", "weights", "1.5", "s"], ["2.5", "s", "kv", "cache", *said.split()]]


def test_what_an_adopted_run_had_loaded_is_told_as_far_as_it_is_known() -> None:
    told = "/e/sglang unchanged since before it started (9 files, as it was looked at)"
    run = replace(RUN, phase=RunPhase.READY, launched=False, loaded=told)
    assert f"  loaded    {told}" in list(run_lines(run))
    assert run_fields(run)["loaded"] == told and run_fields(RUN)["loaded"] is None
