"""Two runs of the journal side by side: every metric with its interval, whose run a name means, and other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.domain.measurement import Measurement, Percentiles
from console.errors import RefusedError, UsageError
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations.compare import compare, find_run, side_by_side

NONE = Percentiles(0)
SCATTER = (0.99, 1.0, 1.01)


def entry(run_id: str, speed: float = 1.0, *, host: str = "h", **identity: Any) -> RunEntry:
    protocol = {"input_tokens": 1024, "output_tokens": 256, "flushed": True}
    measured = tuple(
        Measurement(
            run_id, 64, repeat, 0.0, 10.0, 64, 64, 0, 65536, 8000, 800.0 * speed * SCATTER[repeat], 6.4,
            replace(NONE, p50_ms=100.0 / speed * SCATTER[repeat]), replace(NONE, p50_ms=20.0), NONE, NONE,
            energy_j_per_token=2.0 / speed * SCATTER[repeat], protocol=protocol,
        )
        for repeat in range(3)
    )  # fmt: skip
    return RunEntry(run_id, host, "p", "sglang", 1.0, identity=identity, measurements=measured)


def test_every_metric_has_its_interval_and_says_whether_it_is_better() -> None:
    (rung,) = side_by_side(entry("a"), entry("b", 1.25)).rungs
    told = {row.what: row for row in rung.rows}
    assert list(told) == ["output tok/s", "TTFT p50 ms", "ITL p50 ms", "J/token"]
    assert [row.better for row in rung.rows] == [True, True, None, True]
    faster, waits = told["output tok/s"], told["TTFT p50 ms"]
    assert faster.change_pct == pytest.approx(25) and waits.change_pct == pytest.approx(-20)
    assert waits.interval is not None and waits.interval.high < 1 < (faster.interval or waits.interval).low
    (back,) = side_by_side(entry("b", 1.25), entry("a")).rungs
    assert [row.better for row in back.rows] == [False, False, None, False]


@pytest.mark.parametrize(
    "sides",
    [
        ({"argv": ["llama-server", "--model", "/m/a.gguf"]}, {"argv": ["llama-server", "--model", "/m/b.gguf"]}),
        ({"argv": ["python3", "-m", "vllm", "serve", "a/b"]}, {"argv": ["python3", "-m", "vllm", "serve", "c/d"]}),
    ],
    ids=["by-flag", "by-place"],
)
def test_another_model_is_refused_where_only_the_command_tells_it(sides: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert side_by_side(entry("a", **sides[0]), entry("b", **sides[1])).refused.startswith("model ")
    assert not side_by_side(entry("a", **sides[0]), entry("b", **sides[0])).refused


async def test_a_number_that_several_hosts_have_is_asked_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    for host in ("one", "two"):
        await Journal().record_run(entry("2026-12-03-1", host=host))
    await Journal().record_run(entry("2026-12-03-2", host="two"))
    with pytest.raises(UsageError, match="one, two each have one") as told:
        await find_run("2026-12-03-1")
    assert "one:2026-12-03-1 or two:2026-12-03-1" in str(told.value.hint)
    assert (await find_run("2026-12-03-1", host="two")).host == (await find_run("two:2026-12-03-1")).host == "two"
    assert (await find_run("2026-12-03-2")).host == "two"
    with pytest.raises(UsageError, match="not in the journal"):
        await find_run("2026-12-03-2", host="one")
    with pytest.raises(RefusedError, match="nothing was measured of"):
        await compare("2026-12-03-1", "2026-12-03-2", host="two")  # neither has a measurement there


def _measured_otherwise(run: RunEntry, protocol: dict[str, Any] | None = None, **fields: Any) -> RunEntry:
    changed = [replace(one, protocol={**one.protocol, **(protocol or {})}, **fields) for one in run.measurements]
    return replace(run, measurements=tuple(changed))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (_measured_otherwise(entry("b"), {"input_tokens": 8}), "lengths 1,024 in, 256 out against 8 in, 256 out"),
        (
            _measured_otherwise(entry("b"), {"output_spread": 0.5, "ignore_eos": False}),
            "lengths 1,024 in, 256 out against 1,024 in, 256 out (up to 50% shorter), ended by the model",
        ),
        (_measured_otherwise(entry("b"), {"flushed": False}), "cache protocol flushed before against not flushed"),
        (
            _measured_otherwise(entry("b"), {"loop": "open", "request_rate_req_s": 5.0, "arrival": "poisson"}),
            "load closed loop against open loop at 5 req/s, poisson",
        ),
        (_measured_otherwise(entry("b"), vantage="here"), "vantage host against here"),
        (_measured_otherwise(entry("b"), concurrency_limit=8), "they were measured at no common concurrency"),
        (replace(entry("b"), badge="DEMO"), "badge none (a real host) against DEMO"),
        (replace(entry("b"), measurements=()), "nothing was measured of b"),
        (entry("a"), "they are one run"),
    ],
)
def test_a_refusal_says_its_reason_in_words(other: RunEntry, said: str) -> None:
    assert side_by_side(entry("a"), other).refused == said


def test_what_is_compared_with_a_grain_of_salt_is_marked() -> None:
    found = side_by_side(entry("a"), replace(entry("b"), engine="vllm"))
    assert "another engine: sglang against vllm" in found.note and "model of neither is known" in found.note
    assert [one.what for one in found.differences] == ["engine"]
    (rung,) = side_by_side(entry("a"), _measured_otherwise(entry("b"), tainted=("2 requests failed",))).rungs
    assert rung.note == "B tainted (2 requests failed): not compared" and rung.b_tok_s is None


def test_gpus_are_counted_and_a_limit_that_one_side_does_not_know_excludes_nothing() -> None:
    def on(limits: Sequence[float | None]) -> RunEntry:
        return entry(str(limits), gpus=[{"name": "G", "power_limit_w": limit} for limit in limits])

    told = side_by_side(on([600.0] * 8), on([600.0] * 7 + [450.0])).refused
    assert told == "GPUs 8 × G at 600 W against 7 × G at 600 W, 1 × G at 450 W"
    assert not side_by_side(on([600.0] * 8), on([None] * 8)).refused
    assert side_by_side(on([600.0] * 8), on([None] * 4)).refused == "GPUs 8 × G against 4 × G"


def test_another_engines_arguments_in_force_are_not_set_beside_ours_one_by_one() -> None:
    resolved = {"model": "m", "tp_size": 8}
    found = side_by_side(entry("a", resolved=resolved), replace(entry("b", resolved={"model": "m"}), engine="vllm"))
    assert [(one.what, one.a, one.b) for one in found.differences] == [
        ("engine", "sglang", "vllm"), ("resolved", "2 arguments", "1 argument"),
    ]  # fmt: skip
