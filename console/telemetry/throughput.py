"""Counters and gauges of an engine become speeds: rates, idleness, staleness, each told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from console.domain.throughput import ThroughputSample
from console.telemetry import metrics

HOLD_S = 3.0
"""A counter may stand still so long between two steps of a busy server."""

STILL_S = 8.0
"""Values that repeat themselves so long are old."""

LONGEST_STEP_S = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source said at one moment, engines and sources alike."""

    time: float
    source: str
    decoded: float | None = None
    """Output tokens since the server started."""
    prefilled: float | None = None
    """Prompt tokens computed since the server started."""
    cached: float | None = None
    """Prompt tokens taken from the cache since the server started."""
    speed: float | None = None
    """The engine's own number, of unknown age."""
    running: float | None = None
    queued: float | None = None
    active: float | None = None
    """Requests open at the HTTP front: the only count that falls to 0 at once."""
    kv_usage: float | None = None
    cache_hit: float | None = None
    retracted: float | None = None
    accept_length: float | None = None
    """Tokens taken a step with speculative decoding, as the engine says or counts since its start."""


def from_metrics(text: str, time: float) -> Reading:
    """Return a scrape of `/metrics` of SGLang, vLLM or llama.cpp."""
    return from_series(metrics.parse(text), time)


def from_series(series: Sequence[metrics.Series], time: float) -> Reading:
    """Return a scrape that was parsed."""
    kinds = {one.name.partition(":")[0] for one in series}
    if "vllm" in kinds:
        return _vllm(series, time)
    return _llamacpp(series, time) if "llamacpp" in kinds else _sglang(series, time)


def _sglang(series: Sequence[metrics.Series], time: float) -> Reading:
    realtime = "sglang:realtime_tokens_total"
    decoded = metrics.total(series, realtime, mode="decode")
    # Without the real-time counter only finished requests are counted: too coarse for a speed.
    usages = ("sglang:token_usage", "sglang:full_token_usage", "sglang:swa_token_usage", "sglang:mamba_usage")
    return Reading(
        time,
        "/metrics",
        decoded=decoded,
        prefilled=metrics.total(series, realtime, mode="prefill_compute"),
        cached=metrics.total(series, realtime, mode="prefill_cache"),
        speed=metrics.total(series, "sglang:gen_throughput"),
        running=metrics.total(series, "sglang:num_running_reqs"),
        queued=metrics.total(series, "sglang:num_queue_reqs"),
        active=_open_requests(series),
        kv_usage=_largest([metrics.highest(series, name) for name in usages]),
        retracted=metrics.total(series, "sglang:num_retracted_requests_total"),
        accept_length=metrics.highest(series, "sglang:spec_accept_length") or None,
    )


def _open_requests(series: Sequence[metrics.Series]) -> float | None:
    serving = [
        one.value
        for one in series
        if one.name == "sglang:http_requests_active"
        and (one.labels.get("endpoint", "") == "/generate" or one.labels.get("endpoint", "").startswith("/v1/"))
        and one.labels.get("method", "POST") == "POST"
    ]
    return sum(serving) if serving else None


def _vllm(series: Sequence[metrics.Series], time: float) -> Reading:
    hits = metrics.total(series, "vllm:prefix_cache_hits_total")
    return Reading(
        time,
        "/metrics",
        decoded=metrics.total(series, "vllm:generation_tokens_total"),
        prefilled=metrics.total(series, "vllm:prompt_tokens_total"),
        cached=hits,
        running=metrics.total(series, "vllm:num_requests_running"),
        queued=metrics.total(series, "vllm:num_requests_waiting"),
        kv_usage=_largest(
            [metrics.highest(series, name) for name in ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")]
        ),
        retracted=metrics.total(series, "vllm:num_preemptions_total"),
        accept_length=_accepted(series, "vllm"),
    )


def _llamacpp(series: Sequence[metrics.Series], time: float) -> Reading:
    """Return a scrape of llama.cpp's server.

    It counts output tokens when a request ends; decode steps times busy slots are counted at once, and a step that
    computes a prompt counts as one token.
    """
    steps, busy = (metrics.total(series, f"llamacpp:{name}") for name in ("n_decode_total", "n_busy_slots_per_decode"))
    return Reading(
        time,
        "/metrics",
        decoded=None if steps is None or busy is None else steps * busy,
        prefilled=metrics.total(series, "llamacpp:prompt_tokens_total"),
        cached=metrics.total(series, "llamacpp:prompt_tokens_cached_total"),
        running=metrics.total(series, "llamacpp:requests_processing"),
        queued=metrics.total(series, "llamacpp:requests_deferred"),
        kv_usage=metrics.highest(series, "llamacpp:kv_cache_usage_ratio"),
        accept_length=_accepted(series, "llamacpp"),
    )


def _accepted(series: Sequence[metrics.Series], engine: str) -> float | None:
    """Return the mean tokens of a speculative step: the accepted drafts and the one that is always made."""
    drafts = metrics.total(series, f"{engine}:spec_decode_num_drafts_total")
    accepted = metrics.total(series, f"{engine}:spec_decode_num_accepted_tokens_total")
    return 1 + accepted / drafts if drafts and accepted is not None else None


def from_loads(reply: object, time: float) -> Reading | None:
    """Return a reply of `/v1/loads` or `/get_load`, data-parallel ranks summed."""
    ranks = reply.get("loads") if isinstance(reply, Mapping) else reply
    if not isinstance(ranks, list) or not ranks or not all(isinstance(rank, Mapping) for rank in ranks):
        return None
    by_rank = {rank.get("dp_rank", place): rank for place, rank in enumerate(ranks)}
    waiting = _sum(by_rank, "num_waiting_reqs")
    running = _sum(by_rank, "num_running_reqs")
    if running is None and (both := _sum(by_rank, "num_reqs")) is not None:
        running = both - (waiting or 0)
    return Reading(
        time,
        "/v1/loads",
        speed=_sum(by_rank, "gen_throughput"),
        running=running,
        queued=waiting,
        kv_usage=_largest([_number(rank.get("token_usage")) for rank in by_rank.values()]),
        cache_hit=_largest([_number(rank.get("cache_hit_rate")) for rank in by_rank.values()]),
    )


def from_server_info(reply: object, time: float) -> Reading | None:
    """Return the speed in `/server_info`: the last decode line's, of unknown age."""
    states = reply.get("internal_states") if isinstance(reply, Mapping) else None
    if not isinstance(states, list):
        return None
    speeds = [_number(state.get("last_gen_throughput")) for state in states if isinstance(state, Mapping)]
    known = [speed for speed in speeds if speed is not None]
    return Reading(time, "/server_info", speed=sum(known) if known else None)


def merged(speed: Reading, load: Reading) -> Reading:
    """Return the speed of one reading with the queues of another."""
    return replace(speed, running=load.running, queued=load.queued, kv_usage=load.kv_usage, cache_hit=load.cache_hit)


class Speeds:
    """Turns readings in their order into samples; remembers only what a rate needs."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._last: Reading | None = None
        self._anchor: Reading | None = None
        """Reading at which the output counter moved last."""
        self._rate: float | None = None
        self._step_s = 0.0
        self._still_since: float | None = None
        self._was_idle = True

    def step(self, now: Reading) -> ThroughputSample:
        """Return the sample for a reading."""
        last = self._last
        if last is not None and last.source != now.source:
            self._forget()  # another source counts from another start
            last = None
        self._watch_stillness(last, now)
        nothing = now.active == 0 or (now.running == 0 and not now.queued and not now.active)
        stale = self._is_still(now) and not (now.running == 0 and not now.queued)
        speed = None
        if now.decoded is not None:
            speed = self._counted(now, nothing)
            stale = stale and speed is None
        elif not nothing and not stale and not self._was_idle:
            speed = now.speed
        idle = nothing
        if nothing:
            stale = bool(now.running)  # the front is empty, so the gauge is an old one
        sample = ThroughputSample(
            time=now.time,
            source=now.source,
            output_tok_s=None if idle or stale else speed,
            output_tokens=now.decoded,
            input_tok_s=None if idle or stale else _rate(last, now, "prefilled"),
            running=_whole(None if idle and stale else now.running),
            queued=_whole(now.queued),
            kv_usage=now.kv_usage,
            cache_hit=_hits(last, now) if now.cached is not None else now.cache_hit,
            retracted=_whole(now.retracted),
            retracted_per_s=_rate(last, now, "retracted"),
            accept_length=None if idle else now.accept_length,
            input_tokens=now.prefilled,
            idle=idle,
            stale=stale,
        )
        self._last, self._was_idle = now, idle or (stale and now.decoded is None)
        return sample

    def _counted(self, now: Reading, nothing: bool) -> float | None:
        """Return the speed between the last two movements of the output counter."""
        anchor = self._anchor
        assert now.decoded is not None
        if anchor is None or anchor.decoded is None or now.decoded < anchor.decoded:
            self._anchor, self._rate = now, None  # first, or the server was started anew
            return None
        if now.decoded > anchor.decoded:
            gap_s = now.time - anchor.time
            after_idle = self._was_idle or gap_s > LONGEST_STEP_S or gap_s <= 0
            self._rate = None if after_idle else (now.decoded - anchor.decoded) / gap_s
            self._step_s = 0.0 if after_idle else gap_s
            self._anchor = now
            return self._rate
        if nothing:
            self._anchor, self._rate = now, None
        elif now.time - anchor.time > max(HOLD_S, 2.5 * self._step_s):
            self._rate = 0.0 if now.active else None
        return self._rate

    def _watch_stillness(self, last: Reading | None, now: Reading) -> None:
        if last is None or replace(last, time=now.time) != now:
            self._still_since = now.time

    def _is_still(self, now: Reading) -> bool:
        since = self._still_since
        return since is not None and now.time - since >= max(STILL_S, 2.5 * self._step_s)


def _rate(last: Reading | None, now: Reading, name: str) -> float | None:
    if last is None or now.time <= last.time:
        return None
    before, after = getattr(last, name), getattr(now, name)
    if before is None or after is None or after < before:
        return None
    return float((after - before) / (now.time - last.time))


def _hits(last: Reading | None, now: Reading) -> float | None:
    """Return the share of prompt tokens that the cache had, over the last step."""
    if last is None or None in (last.cached, now.cached, last.prefilled, now.prefilled):
        return None
    cached = (now.cached or 0) - (last.cached or 0)
    computed = (now.prefilled or 0) - (last.prefilled or 0)
    if cached < 0 or computed < 0 or cached + computed == 0:
        return None
    return cached / (cached + computed)


def _sum(ranks: Mapping[Any, Mapping[str, Any]], name: str) -> float | None:
    known = [value for rank in ranks.values() if (value := _number(rank.get(name))) is not None]
    return sum(known) if known else None


def _number(value: object) -> float | None:
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and value == value
        and abs(value) != float("inf")
    ):
        return float(value)
    return None


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
