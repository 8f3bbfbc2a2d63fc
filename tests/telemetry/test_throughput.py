"""Speeds from recorded scrapes and replies: idle, stale, slow and unknown told apart."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path

import httpx
import pytest

from console.domain.throughput import ThroughputSample
from console.telemetry import metrics
from console.telemetry.sources import EngineSources
from console.telemetry.throughput import Reading, Speeds, from_loads, from_metrics, from_server_info, merged

DATA = Path(__file__).parent.parent / "data" / "sglang"


def recorded(name: str) -> list[ThroughputSample]:
    text = gzip.decompress((DATA / name).read_bytes()).decode()
    parts = re.split(r"^# ---- scrape at ([\d.]+).*\n", text, flags=re.M)[1:]
    speeds = Speeds()
    return [speeds.step(from_metrics(body, float(at))) for at, body in zip(parts[::2], parts[1::2], strict=True)]


def test_gauges_that_never_return_to_zero_are_idle_not_busy() -> None:
    idle = recorded("graph-c256-1hz.txt.gz")[:21]
    # The gauges say 18 running and 9008 tok/s all the time.
    assert all(sample.idle and sample.stale for sample in idle)
    assert {(sample.output_tok_s, sample.running) for sample in idle} == {(None, None)}


def test_speeds_come_from_counters_over_the_time_between_their_steps() -> None:
    samples = recorded("retract-c128-1hz.txt.gz")
    busy = [sample.output_tok_s for sample in samples if sample.output_tok_s is not None][5:25]
    assert all(1400 < speed < 3600 for speed in busy)  # the engine's own lines say 1476 to 3533
    assert samples[-1].retracted is not None and samples[-1].retracted >= 34
    assert samples[2].queued == 72 and not samples[2].idle and not samples[2].stale


def test_the_first_sample_after_idle_is_unknown_rather_than_low() -> None:
    samples = recorded("graph-c256-1hz.txt.gz")
    first = next(place for place, sample in enumerate(samples) if not sample.idle)
    assert samples[first].output_tok_s is None and samples[first].running == 1


def reading(time: float, decoded: float | None, **more: float | None) -> Reading:
    return Reading(time, "/metrics", decoded=decoded, **{"running": 4.0, "queued": 0.0, **more})


def test_a_counter_that_starts_anew_is_no_negative_speed() -> None:
    speeds = Speeds()
    seen = [speeds.step(reading(t, c)).output_tok_s for t, c in [(0, 100), (1, 200), (2, 5), (3, 105), (4, 205)]]
    assert seen == [None, 100, None, 100, 100]


def test_a_counter_that_moves_every_other_second_is_held_between() -> None:
    speeds = Speeds()
    seen = [speeds.step(reading(t, 1000 * (t // 2))).output_tok_s for t in range(9)]
    assert seen[5:] == [500, 500, 500, 500]


def test_values_that_repeat_become_stale() -> None:
    speeds = Speeds()
    for time in range(4):
        speeds.step(reading(time, 100 * time))
    later = [speeds.step(reading(time, 300)) for time in range(4, 20)]
    assert not later[0].stale and later[0].output_tok_s == 100
    assert later[-1].stale and later[-1].output_tok_s is None and not later[-1].idle


def test_busy_without_a_token_is_zero_not_unknown() -> None:
    speeds = Speeds()
    for time in range(4):
        speeds.step(reading(time, 100 * time, active=4))
    last = [speeds.step(reading(time, 300, active=4)) for time in range(4, 20)][-1]
    assert (last.output_tok_s, last.idle, last.stale) == (0, False, False)


def test_a_gauge_alone_is_believed_while_it_changes() -> None:
    speeds = Speeds()
    seen = [speeds.step(reading(time, None, speed=500.0 + time)) for time in range(3)]
    assert [sample.output_tok_s for sample in seen] == [None, 501, 502]
    assert speeds.step(reading(3, None, speed=502.0, running=0)).idle
    assert speeds.step(reading(4, None, speed=3.2)).output_tok_s is None  # divided by the pause
    assert speeds.step(reading(5, None, speed=500)).output_tok_s == 500


def test_data_parallel_ranks_are_summed_and_tensor_parallel_ones_are_not() -> None:
    lines = [
        f'sglang:num_running_reqs{{model_name="m",dp_rank="{dp}",tp_rank="{tp}"}} {10 * (dp + 1)}'
        for dp in range(2)
        for tp in range(4)
    ]
    assert metrics.total(metrics.parse("\n".join(lines)), "sglang:num_running_reqs") == 30


def test_nan_and_torn_lines_are_unknown() -> None:
    text = 'sglang:token_usage{tp_rank="0"} NaN\nsglang:num_running_reqs{tp_rank="0"} 3\nsglang:num_queue_reqs{tp_ra'
    found = from_metrics(text, 1)
    assert (found.kv_usage, found.running, found.queued) == (None, 3, None)


def test_a_recorded_scrape() -> None:
    found = from_metrics((DATA / "graph-c256.txt").read_text(), 1)
    assert (found.decoded, found.prefilled, found.cached) == (132694, 187212, 9951)
    assert (found.running, found.queued, found.active, found.speed) == (253, 0, 257, 601.790480626235)


def test_vllm_by_its_names() -> None:
    text = (
        'vllm:num_requests_running{engine="0",model_name="m"} 3\nvllm:num_requests_running{engine="1",model_name="m"} 4\n'
        'vllm:num_requests_waiting{engine="0",model_name="m"} 2\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'
        'vllm:generation_tokens_total{engine="0"} 100\nvllm:generation_tokens_total{engine="1"} 50\n'
    )
    found = from_metrics(text, 1)
    assert (found.running, found.queued, found.kv_usage, found.decoded) == (7, 2, 0.5, 150)


def test_recorded_replies() -> None:
    busy = from_loads(json.loads((DATA / "graph-c256-get_load.json").read_text()), 1)
    idle = from_loads(json.loads((DATA / "graph-after-get_load.json").read_text()), 1)
    info = from_server_info(json.loads((DATA / "graph-c256-server_info.json").read_text()), 1)
    assert busy is not None and (busy.running, busy.queued) == (256, 0)
    assert idle is not None and idle.running == 0
    assert info is not None and info.speed == 601.790480626235
    assert merged(info, busy).running == 256 and merged(info, busy).source == "/server_info"


@pytest.mark.parametrize("reply", [None, [], {}, [1], {"loads": "x"}, {"internal_states": [None]}])
def test_other_replies_are_no_reading(reply: object) -> None:
    assert from_loads(reply, 1) is None


def sources_of(answers: dict[str, tuple[int, str]]) -> tuple[EngineSources, list[str]]:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        status, body = answers.get(request.url.path, (404, "{}"))
        return httpx.Response(status, text=body)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://engine")
    return EngineSources(client), asked


async def test_the_best_source_is_named() -> None:
    loads = json.dumps([{"dp_rank": 0, "num_running_reqs": 5, "num_waiting_reqs": 1, "gen_throughput": 70.0}])
    info = json.dumps({"internal_states": [{"last_gen_throughput": 60.0}, {"last_gen_throughput": 6.0}]})
    old = (DATA / "graph-c256-get_load.json").read_text()
    scrape = (DATA / "graph-c256.txt").read_text()
    for answers, source in (
        ({"/metrics": (200, scrape), "/v1/loads": (200, loads)}, "/metrics"),
        ({"/v1/loads": (200, loads), "/server_info": (200, info)}, "/v1/loads"),
        (
            {"/v1/loads": (500, "Internal Server Error"), "/get_load": (200, old), "/server_info": (200, info)},
            "/server_info",
        ),
        ({}, ""),
    ):
        sources, asked = sources_of(answers)
        sample = await sources.sample()
        assert sample.source == source
        assert not any("health" in path for path in asked)
    assert "/metrics: HTTP 404" in sample.reason


@pytest.mark.parametrize(("status", "again"), [(503, "/metrics"), (429, "/metrics"), (404, "")])
async def test_a_server_that_is_warming_up_is_asked_for_the_same_again(status: int, again: str) -> None:
    answers = {"/metrics": (status, "")}
    sources, _ = sources_of(answers)
    assert f"/metrics: HTTP {status}" in (await sources.sample()).reason
    answers["/metrics"] = (200, (DATA / "graph-c256.txt").read_text())
    assert (await sources.sample()).source == again


async def test_ranks_of_server_info_are_summed() -> None:
    info = json.dumps({"internal_states": [{"last_gen_throughput": 60.0}, {"last_gen_throughput": 6.0}]})
    sources, _ = sources_of(
        {"/server_info": (200, info), "/get_load": (200, '[{"num_reqs": 2, "num_waiting_reqs": 0}]')}
    )
    found = await sources.reading()
    assert found is not None and (found.speed, found.running) == (66, 2)


async def test_a_source_that_refused_is_left_alone_for_a_while() -> None:
    sources, asked = sources_of({"/get_load": (200, '[{"num_reqs": 2, "num_waiting_reqs": 0}]')})
    await asyncio.gather(sources.sample())
    await sources.sample()
    assert asked.count("/metrics") == 1 and asked.count("/get_load") == 2


def test_several_engines_of_vllm_are_summed_and_the_fullest_cache_binds() -> None:
    text = "\n".join(
        f'vllm:{name}{{engine="{engine}",model_name="m"}} {value}'
        for engine in range(2)
        for name, value in (
            ("num_requests_running", 10 * (engine + 1)),
            ("num_requests_waiting", engine),
            ("generation_tokens_total", 1000.0 * (engine + 1)),
            ("kv_cache_usage_perc", 0.2 + 0.5 * engine),
        )
    )
    found = from_metrics(text, 1.0)
    assert (found.running, found.queued, found.decoded, found.kv_usage) == (30, 1, 3000, 0.7)


def test_a_gauge_that_is_always_0_is_not_read() -> None:
    """`sglang:is_cuda_graph` says 0 while graphs run: the log's own words are taken."""
    assert not any("cuda_graph" in name for name in metrics.WANTED)
