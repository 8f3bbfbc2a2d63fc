"""Why a measurement must not be compared: each reason at its threshold, in words, and none below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.bench.judging import measurement
from console.bench.loading import LoadPlan, hint_to
from console.bench.power import PowerWindow
from console.bench.protocol import Flushed
from console.domain.measurement import Measurement
from console.domain.profile import LimitsSection

PLAN = LoadPlan(port=1, concurrency=2, requests=4, warmup=2, input_tokens=10, output_tokens=11)
ROW = [0.0, 0.5, 1.5, 11, 0.1, 10, 0]
"""Sent, TTFT, E2EL, output tokens, mean ITL, input tokens, cached tokens."""


def told(**more: Any) -> dict[str, Any]:
    """Return a load's result without a blemish: four requests of 1.5 s, two at once."""
    return {
        "requests": 4, "completed": 4, "failed": 0, "unsent": 0, "errors": {}, "gave_up": "",
        "duration_s": 3.0, "began": 100.0, "ended": 103.0, "peak_concurrency": 2,
        "columns": ["sent_s", "ttft_s", "e2el_s", "output_tokens", "mean_itl_s", "input_tokens", "cached_tokens"],
        "rows": [ROW] * 4, "itl": {"count": 40, "sum_s": 4.0, "p50_s": 0.1, "p90_s": 0.1, "p99_s": 0.1},
        "lag": {"count": 150, "sum_s": 0.0, "p99_s": 0.001, "max_s": 0.002}, "send_lag": None, "course": {},
        "processor_share": 0.1, "told": True, "wrong_length": 0, "wrong_reasons": {},
        "silence_begin_s": 0.5, "silence_s": 0.1, **more,
    }  # fmt: skip


def judged(plan: LoadPlan = PLAN, *, retracted: float | None = None, idle: str = "", **more: Any) -> Measurement:
    return measurement(
        "r", plan, 0, told(**more), limits=LimitsSection(ttft_ms=600, itl_ms=100, e2el_ms=1500), power=PowerWindow(),
        flushed=Flushed(True, ""), idle=idle, retracted=retracted,
    )  # fmt: skip


def lagging(p99_s: float, max_s: float) -> dict[str, float]:
    return {"count": 150, "sum_s": 0.0, "p99_s": p99_s, "max_s": max_s}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"failed": 3, "errors": {"HTTP 503: full": 3}, "rows": [ROW]},
            "3 of 4 requests failed: HTTP 503: full",
        ),
        (
            {"failed": 2, "unsent": 1, "errors": {"the server hung up": 1, "Connection refused": 1}, "rows": [ROW]},
            "2 of 4 requests failed: 1 × the server hung up, 1 × Connection refused; 1 was never sent",
        ),
        (
            {"failed": 4, "errors": {"a": 1, "b": 1, "c": 1, "d": 1}, "rows": []},
            "4 of 4 requests failed: 1 × a, 1 × b, 1 × c, 1 more kind",
        ),
        ({"idle": "2 other requests were in flight"}, "2 other requests were in flight"),
        ({"retracted": 3.0}, "3 retractions or preemptions"),
        ({"rows": [[*ROW[:6], 1]] * 4}, "warm prefix cache: 4 of 40 prompt tokens came from it"),
        (
            {"wrong_length": 3, "wrong_reasons": {"stop": 2, "length": 1}},
            "3 answers did not have 11 tokens: 2 ended at a stop token, so ignore_eos was not heeded,"
            " 1 was cut at a limit of the server's",
        ),
        ({"told": False}, "the server told no token counts: events were counted instead"),
        ({"silence_s": 5.1}, "the server sent nothing for 5.1 s while requests were in flight"),
        ({"lag": lagging(0.001, 0.6)}, "the client stood still for 0.6 s, or the whole host did"),
        ({"lag": lagging(0.031, 0.04)}, "the client was late: event loop lag p99 31 ms"),
        ({"processor_share": 0.91}, "the client was the limit: it used 91 % of a core"),
    ],
)
def test_a_measurement_says_why_it_must_not_be_compared(more: dict[str, Any], why: str) -> None:
    assert judged(**more).tainted == (why,)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rows": [[*ROW[:6], 0]] * 3 + [[*ROW[:6], 2]]},  # a first token of a prompt may be in the cache
        {"silence_s": 4.9},
        {"silence_s": 29.0, "silence_begin_s": 10.0},  # a server whose prefill of all takes ten seconds
        {"lag": lagging(0.029, 0.45)},  # late by less than a third of a gap
        {"lag": lagging(0.001, 1.1), "duration_s": 60.0},  # a second of a minute
        {"processor_share": 0.89},
        {"retracted": 0.0},
    ],
)
def test_what_is_below_every_threshold_may_be_compared(more: dict[str, Any]) -> None:
    assert judged(**more).tainted == ()


def test_an_open_loop_that_is_late_by_more_than_its_gap_is_none() -> None:
    plan = replace(PLAN, rate=10.0)
    late = {"count": 4, "sum_s": 0.0, "p50_s": 0.0, "p90_s": 0.0, "max_s": 0.2}
    assert judged(plan, send_lag={**late, "p99_s": 0.09}).tainted == ()
    [why] = judged(plan, send_lag={**late, "p99_s": 0.11}).tainted
    assert why == "requests were sent late: p99 110 ms after they were due, at most 2 in flight"


def test_numbers_are_over_the_window_and_goodput_over_the_limits() -> None:
    slow = [0.0, 0.7, 1.5, 11, 0.08, 10, 0]  # its first token was late
    halting = [0.0, 0.1, 1.5, 11, 0.14, 10, 0]  # its tokens were
    one = judged(rows=[ROW, ROW, slow, halting])
    assert (one.output_tokens, one.input_tokens, one.failed) == (44, 40, 0)
    assert one.output_throughput_tok_s == pytest.approx(44 / 3)
    assert one.request_throughput_req_s == pytest.approx(4 / 3)
    assert one.goodput_req_s == pytest.approx(2 / 3)
    assert one.tpot_ms.mean_ms == pytest.approx(1000 * (0.1 + 0.1 + 0.08 + 0.14) / 4)
    assert (one.ttft_ms.p50_ms, one.ttft_ms.p90_ms) == (500, None)  # ten are needed


@pytest.mark.parametrize(
    ("reason", "begin"), [("HTTP 401: no", "it wants a key"), ("HTTP 307 to x", "no redirect"), ("x", "")]
)
def test_a_refusal_has_a_hint_where_there_is_one(reason: str, begin: str) -> None:
    assert hint_to(reason).startswith(begin) and bool(hint_to(reason)) == bool(begin)
