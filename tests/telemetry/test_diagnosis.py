"""Each verdict on a series of its own, series without a clear cause, and the recorded H200."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from console.domain.diagnosis import Bound, Confidence
from console.domain.gpu import GpuReading, GpuSample, HostProcess
from console.domain.text import SafeText
from console.domain.throughput import ThroughputSample
from console.telemetry.diagnosis.judge import RULES, diagnose
from console.telemetry.diagnosis.window import Window, window
from console.telemetry.throttle import throttle_words
from console.telemetry.throughput import Speeds, from_metrics
from tests.telemetry.series import SESSION, Load, every, only, ours, seen, series

DATA = Path(__file__).parent.parent / "data"

SPIN = Load(spin=0.93, compute=0.05)
CALM = Load(compute=0.3, memory=0.25, spin=0.25)
STRANGER = HostProcess(7777, SafeText("python3 train.py --big"), 98.0, 900, "eve")


CASES: dict[str, tuple[Bound, Window]] = {
    "all-reduces of small batches": (Bound.LINK_LATENCY, seen(SPIN)),
    "arithmetic": (Bound.COMPUTE, seen(Load(compute=0.95, link=0.1, prefill_tok_s=60_000))),
    "weights and KV": (Bound.HBM, seen(Load(memory=0.8, compute=0.15, prefill_tok_s=20))),
    "a full link": (Bound.LINK_BANDWIDTH, seen(Load(spin=0.9, compute=0.08, link=0.82, running=1024, kv=0.6))),
    "a front that fills its core": (Bound.HOST, seen(Load(compute=0.25, memory=0.1, front_pct=99.0))),
    "too little load": (Bound.STARVED, seen(Load(compute=0.2, memory=0.15, running=3))),
    "a scheduler that admits no more": (Bound.STARVED, seen(Load(compute=0.3, memory=0.3, spin=0.2, queued=190))),
    "no room for KV": (Bound.KV, seen(Load(memory=0.4, compute=0.4, kv=0.97, queued=80, retracted=(3, 9)))),
    "the power limit": (
        Bound.POWER_CAP,
        seen(Load(compute=1.0), every(power_draw_w=597.0, sm_clock_mhz=1900.0, throttle=("power cap",))),
    ),
    "heat": (
        Bound.THERMAL_CAP,
        seen(Load(compute=0.8), every(temperature_c=89.0, sm_clock_mhz=1700.0, throttle=("thermal (software)",))),
    ),
    "locked clocks": (
        Bound.CLOCKS_LOCKED,
        seen(Load(compute=0.9, memory=0.05), every(sm_clock_mhz=1500.0, throttle=("application clocks",))),
    ),
    "a link that trained down": (Bound.STRAGGLER, seen(SPIN, only(5, pcie_width=4, power_draw_w=340.0))),
    "one hot GPU": (
        Bound.STRAGGLER,
        seen(SPIN, only(2, sm_clock_mhz=1500.0, temperature_c=90.0, throttle=("thermal (hardware)",))),
    ),
    "replays": (Bound.STRAGGLER, seen(SPIN, lambda gpu, tick: replace(gpu, pcie_replays=tick if gpu.index == 6 else 0))),
    "another tenant": (
        Bound.OTHER_TENANT,
        seen(SPIN, only(3, processes=((4103, 70_000.0), (7777, 18_000.0)), shares_pct={4103: 50, 7777: 45}),
             processes=(*ours(), STRANGER)),
    ),
    "a tenant while the engine idles": (
        Bound.OTHER_TENANT,
        seen(Load(running=0, tok_s=None, idle=True),
             only(3, gpu_util_pct=97.0, processes=((4103, 70_000.0), (7777, 18_000.0))), processes=(*ours(), STRANGER)),
    ),
    "nothing to do": (Bound.IDLE, seen(Load(running=0, tok_s=None, idle=True))),
    "no readings": (Bound.UNKNOWN, window([GpuSample(1.0, "", reason="no GPUs visible")])),
    "MIG tells neither": (Bound.UNKNOWN, seen(SPIN, every(gpu_util_pct=None, power_draw_w=None))),
    "two samples": (Bound.UNKNOWN, seen(SPIN, seconds=0.2)),
    "a bit of everything": (Bound.NO_CLEAR_CAUSE, seen(CALM)),
    "half watts, half memory, full SMs": (Bound.NO_CLEAR_CAUSE, seen(Load(compute=0.35, memory=0.45, spin=0.2))),
    "low SMs, and nothing known of the engine": (Bound.NO_CLEAR_CAUSE, seen(Load(compute=0.3, speeds=False))),
    "one GPU at low watts, alone": (Bound.NO_CLEAR_CAUSE, seen(Load(spin=0.97, gpus=1))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_told_from_the_others(name: str) -> None:
    bound, series_seen = CASES[name]
    found = diagnose(series_seen)
    assert found.bound is bound, found.said


def test_no_cause_is_claimed_twice_and_the_strongest_stands_first() -> None:
    for bound, series_seen in CASES.values():
        found = diagnose(series_seen)
        assert bound not in [other.bound for other in found.also if bound is not Bound.STARVED]
        order = [one.confidence is Confidence.LOW for one in (found, *found.also)]
        assert order == sorted(order)


def test_every_rule_has_a_series_and_says_what_would_refute_it() -> None:
    given = {rule.__name__: found for _, each in CASES.values() for rule in RULES if (found := rule(each)) is not None}
    assert set(given) == {rule.__name__ for rule in RULES}
    for found in given.values():
        assert found.refuted_by and found.knobs and found.signs and 0 < found.met <= len(found.signs)


def test_the_sentence_says_what_binds_and_how_much_speaks_for_it() -> None:
    found = diagnose(seen(SPIN))
    assert found.said == ("SM 98 %, 261 of 600 W, PCIe 3 % of x16 gen5: waiting on all-reduce latency (8 of 8 signs)")
    assert found.confidence is Confidence.HIGH and "max-running-requests" in found.knobs[0]


def test_what_cannot_be_read_is_a_sign_that_is_missing_and_lowers_trust() -> None:
    whole = diagnose(seen(SPIN))
    blind = diagnose(seen(SPIN, every(pcie_tx_mb_s=None, pcie_rx_mb_s=None, throttle=None, max_sm_clock_mhz=None)))
    assert (whole.bound, blind.bound) == (Bound.LINK_LATENCY, Bound.LINK_LATENCY)
    assert (whole.confidence, blind.confidence) == (Confidence.HIGH, Confidence.MEDIUM)
    assert [sign.met for sign in blind.signs].count(None) == 3 and "not read" in blind.signs[3].text


def test_a_full_queue_stands_beside_the_link() -> None:
    found = diagnose(seen(replace(SPIN, queued=190)))
    assert found.bound is Bound.LINK_LATENCY
    assert [other.bound for other in found.also] == [Bound.STARVED]
    assert found.also[0].knobs[0].startswith("max-running-requests")


def test_a_spinning_scheduler_is_no_pinned_host() -> None:
    """SGLang's schedulers take a whole core whatever they do."""
    cores = (100.0,) * 8 + (10.0,) * 24
    assert diagnose(seen(Load(compute=0.2, memory=0.1, cores=cores))).bound is Bound.STARVED


def test_a_stranger_that_only_holds_memory_is_no_cause() -> None:
    beside = ((4103, 70_000.0), (7777, 18_000.0))
    found = diagnose(
        seen(SPIN, only(3, processes=beside, shares_pct={4103: 97, 7777: 0}), processes=(*ours(), STRANGER))
    )
    assert found.bound is Bound.LINK_LATENCY


def test_gpus_that_take_no_part_do_not_count() -> None:
    """An engine on 4 of 8 GPUs: the other four idle, with links that trained down to save power."""
    asleep = {"gpu_util_pct": 0.0, "power_draw_w": 35.0, "pcie_gen": 1, "sm_clock_mhz": 180.0, "processes": ()}
    found = diagnose(seen(SPIN, lambda gpu, tick: replace(gpu, **asleep) if gpu.index > 3 else gpu))  # type: ignore[arg-type]
    assert found.bound is Bound.LINK_LATENCY and "261 of 600 W" in found.sentence


def test_a_lost_gpu_is_left_out() -> None:
    assert diagnose(seen(SPIN, only(1, lost=True, gpu_util_pct=None))).bound is Bound.LINK_LATENCY


def recorded_load() -> list[GpuSample]:
    text = gzip.decompress((DATA / "gpus" / "h200-load-probe.jsonl.gz").read_bytes()).decode()
    from console.telemetry.recorded import sample_of

    return [found for line in text.splitlines() if (found := sample_of(json.loads(line))) is not None]


def test_a_real_matrix_product_is_capped_by_power_and_computes() -> None:
    samples = recorded_load()
    found = diagnose(window(samples[:100]))
    assert found.bound is Bound.POWER_CAP and found.confidence is Confidence.HIGH
    assert [other.bound for other in found.also] == [Bound.COMPUTE]


def served() -> Iterator[tuple[float, Window]]:
    """Yield windows of 10 s through a recorded load of SGLang at concurrency 256 on one H200, both sides read."""
    rows = csv.DictReader(
        io.StringIO(gzip.decompress((DATA / "gpus" / "h200-sglang-c256-nvml.csv.gz").read_bytes()).decode())
    )
    samples = [
        GpuSample(
            float(row["epoch"]),
            "nvml",
            (
                GpuReading(
                    0,
                    power_draw_w=float(row["power_inst_w"]),
                    power_mean_w=float(row["power_w"]),
                    power_limit_w=700.0,
                    gpu_util_pct=float(row["gpu_util"]),
                    mem_util_pct=float(row["mem_util"]),
                    sm_clock_mhz=float(row["sm_mhz"]),
                    max_sm_clock_mhz=1980.0,
                    throttle=throttle_words(int(row["clock_reasons"])),
                ),
            ),
        )
        for row in rows
    ]
    text = gzip.decompress((DATA / "sglang" / "graph-c256-1hz.txt.gz").read_bytes()).decode()
    parts = re.split(r"^# ---- scrape at ([\d.]+).*\n", text, flags=re.M)[1:]
    speeds = Speeds()
    spoken: list[ThroughputSample] = [
        speeds.step(from_metrics(body, float(at))) for at, body in zip(parts[::2], parts[1::2], strict=True)
    ]
    for start in range(0, len(samples) - 100, 50):
        part = samples[start : start + 100]
        yield part[0].time, window(part, [one for one in spoken if part[0].time <= one.time <= part[-1].time])


def test_a_real_server_whose_client_was_the_limit_is_starved_and_idle_before() -> None:
    """The recording's own note: the streaming client and the Python front end were the limit; the GPU paused."""
    verdicts = [(each, diagnose(each)) for _, each in served()]
    busy = [found.bound for each, found in verdicts if (each.running or 0) > 75 and not each.idle]
    assert busy and set(busy[1:]) == {Bound.STARVED}
    assert busy[0] is Bound.UNKNOWN  # the load began less than three seconds before
    quiet = [found.bound for each, found in verdicts if each.util == 0 and each.speeds == 0]
    assert quiet and set(quiet) == {Bound.IDLE}


def test_the_instantaneous_peak_and_the_one_second_mean_are_both_kept() -> None:
    rows = [row for _, each in served() for row in each.gpus]
    assert max(row.watts.high for row in rows if row.watts) == pytest.approx(831.1)
    assert max(row.last.power_mean_w or 0 for row in rows) <= 532


def test_refused_peers_are_the_first_thing_to_try_against_waiting_on_links() -> None:
    gpus, speeds = series(SPIN)
    free, refused = (
        diagnose(window(gpus, speeds, session=SESSION, nvlink=False, refused=word)) for word in ("", "CNS")
    )
    assert free.bound is refused.bound is Bound.LINK_LATENCY
    assert refused.knobs[0].startswith("peer access between GPUs: CNS, not supported by the chipset")
    assert refused.knobs[1:] == free.knobs
