"""Rules about the work itself: computing, memory, links, too little to do, no room."""

from __future__ import annotations

from console.domain.diagnosis import Bound, Diagnosis
from console.domain.topology import PEERS
from console.telemetry.diagnosis.rule import at_least, at_most, facts, pct, sign, verdict
from console.telemetry.diagnosis.window import Window

BUSY_PCT = 90.0
SPIN_POWER = 60.0
"""Waiting in a kernel draws less than this much of the limit; work draws more."""

QUIET_LINK = 25.0
"""A link under this is not full: what crosses it waits for the way, not for room."""

FULL_LINK = 70.0
"""NVML's count is of payload; protocol takes the rest of the link."""

BUSY_MEMORY = 60.0
PAUSES_PCT = 70.0
"""Below this the SMs pause between steps so long that their work is not what binds."""

SCHEDULERS = ("sglang::scheduler", "VLLM::EngineCore", "VLLM::Worker")
"""These spin on a core of their own even when nothing is to be done: a full core of theirs proves nothing."""


def compute_bound(seen: Window) -> Diagnosis | None:
    """Judge whether the SMs' arithmetic binds."""
    signs = [
        at_least("SM", seen.util, BUSY_PCT, needed=True),
        at_least("power of the limit", pct(seen.power_share), 75, needed=True),
        at_most("memory busy", seen.mem_util, BUSY_MEMORY, needed=True),
        at_most("PCIe of its link", pct(seen.link_share), FULL_LINK),
        at_least("SM clock of the highest", pct(seen.clock_share), 90),
        at_least("prefill of all tokens", pct(seen.prefill_share), 50),
    ]
    return verdict(
        Bound.COMPUTE,
        f"{facts(seen)}: the SMs compute",
        signs,
        seen,
        refuted_by=(
            "more tok/s at the same clock from another batch size alone",
            "a lower SM clock that costs no tok/s",
        ),
        knobs=(
            "faster kernels: another moe-runner-backend or attention-backend, autotuned",
            "a lower precision (FP8, NVFP4)",
            "a smaller chunked-prefill-size where prefill starves decode",
        ),
    )


def hbm_bound(seen: Window) -> Diagnosis | None:
    """Judge whether reading weights and KV from memory binds."""
    signs = [
        at_least("memory busy", seen.mem_util, BUSY_MEMORY, needed=True),
        at_least("SM", seen.util, 80, needed=True),
        at_least("power of the limit", pct(seen.power_share), 40),
        at_most("PCIe of its link", pct(seen.link_share), QUIET_LINK),
        at_least("SM clock of the highest", pct(seen.clock_share), 90),
        at_most("prefill of all tokens", pct(seen.prefill_share), 50),
    ]
    return verdict(
        Bound.HBM,
        f"{facts(seen)}, memory busy {seen.mem_util or 0:.0f} %: reading weights and KV",
        signs,
        seen,
        refuted_by=("tok/s that does not rise with the batch", "a lower memory clock that costs no tok/s"),
        knobs=(
            "more requests in a step: weights are read once for all of them (max-running-requests, concurrency)",
            "kv-cache-dtype fp8, or a quantisation of the weights",
            "speculative decoding: several tokens for one reading of the weights",
        ),
    )


def link_latency(seen: Window) -> Diagnosis | None:
    """Judge whether the GPUs spin in small all-reduces: busy by their own account, with the watts of waiting."""
    watts = [gpu.watts.mean for gpu in seen.working if gpu.watts]
    spread = (max(watts) - min(watts)) / max(watts) * 100 if len(watts) > 1 and max(watts) else None
    slowed = [gpu.slowed_by("power", "thermal", "hardware") for gpu in seen.working]
    calm = None if any(share is None for share in slowed) or not slowed else all((share or 0) < 0.1 for share in slowed)
    signs = [
        sign(f"{len(seen.working)} GPUs take part, looked for 2 or more", len(seen.working) >= 2, needed=True),
        at_least("SM", seen.util, BUSY_PCT, needed=True),
        at_most("power of the limit", pct(seen.power_share), SPIN_POWER, needed=True),
        at_most("PCIe of its link", pct(seen.link_share), QUIET_LINK),
        at_most("memory busy", seen.mem_util, 40),
        at_least("SM clock of the highest", pct(seen.clock_share), 90),
        sign("no clock is held down" if calm else "clocks: not read" if calm is None else "a clock is held down", calm),
        at_most("watts apart from each other", spread, 15),
    ]
    if any(one.needed and one.met is not True for one in signs) or signs[3].met is False or signs[4].met is False:
        return None  # a full link or a busy memory is another story
    return verdict(
        Bound.LINK_LATENCY,
        f"{facts(seen)}: waiting on all-reduce latency",
        signs,
        seen,
        refuted_by=(
            "PCIe that fills as concurrency rises (then it is bandwidth)",
            "one rank with other watts than its peers (then they wait for that rank)",
            "tok/s that does not move when more requests share a step",
        ),
        knobs=(
            *_peer_knobs(seen),
            "more requests in a step: the all-reduces of a layer cost nearly the same (max-running-requests, concurrency)",
            "fewer GPUs in a group: a smaller tp-size with dp-size or dp-attention",
            "fewer or fused all-reduces, where the fused one is made for this link",
            "CUDA graphs, so that launching adds nothing to the waiting",
        ),
    )


def _peer_knobs(seen: Window) -> tuple[str, ...]:
    """Return what to try where GPUs may not reach each other: then every all-reduce goes through the host's memory."""
    if not seen.refused:
        return ()
    why = PEERS.get(seen.refused, seen.refused)
    return (f"peer access between GPUs: {seen.refused}, {why} (key 8); IOMMU and ACS off, or a driver that allows it",)


def link_bandwidth(seen: Window) -> Diagnosis | None:
    """Judge whether a PCIe link is full."""
    signs = [
        at_least("PCIe of its link", pct(seen.link_share), FULL_LINK, needed=True),
        at_most("power of the limit", pct(seen.power_share), 75),
        at_most("memory busy", seen.mem_util, BUSY_MEMORY),
        sign("no NVLink" if seen.nvlink is False else "NVLink: not read" if seen.nvlink is None else "NVLink",
             None if seen.nvlink is None else not seen.nvlink),
    ]  # fmt: skip
    return verdict(
        Bound.LINK_BANDWIDTH,
        f"{facts(seen)}: the link is full",
        signs,
        seen,
        refuted_by=("tok/s that rises with the batch at the same traffic", "traffic that is no all-reduce: offloading"),
        knobs=(
            *_peer_knobs(seen),
            "fewer bytes: quantised all-reduce, dp-attention, expert parallelism instead of tensor parallelism",
            "no CPU offloading, no hierarchical cache over this link",
            "the link at its best: gen and width of every GPU (tokwatt gpus --why)",
        ),
    )


def host_bound(seen: Window) -> Diagnosis | None:
    """Judge whether a single core of the host holds the GPUs up."""
    ours = [
        process
        for process in seen.processes
        if process.cpu_pct is not None
        and not process.title.startswith(SCHEDULERS)
        and (not seen.session or process.session == seen.session)
    ]
    hottest = max(ours, key=lambda process: process.cpu_pct or 0.0, default=None)
    pinned = [(pct_, core) for core, pct_ in enumerate(seen.cores_pct) if pct_ >= 95]
    if hottest is not None:
        met: bool | None = (hottest.cpu_pct or 0) >= 90
        what = (
            f"pid {hottest.pid} ({hottest.title[:40]}) takes {hottest.cpu_pct:.0f} % of a core, looked for 90 or more"
        )
        who = f"{hottest.title.split()[0][:40]} (pid {hottest.pid}) fills a core"
    else:
        met = len(pinned) > len(seen.working) if seen.cores_pct else None
        what = f"{len(pinned)} cores full, looked for more than one a scheduler"
        who = f"core {max(pinned)[1]} of {len(seen.cores_pct)} is full" if pinned else ""
    spare = None if not seen.cores_pct else sum(seen.cores_pct) / len(seen.cores_pct) < 90
    signs = [
        sign(what, met, needed=True),
        at_most("SM", seen.util, 85, needed=True),
        at_most("power of the limit", pct(seen.power_share), 65),
        sign("other cores are free" if spare else "cores: not read" if spare is None else "all cores are full", spare),
        sign(f"running {seen.running or 0:.0f}", None if seen.running is None else seen.running > 0),
    ]
    return verdict(
        Bound.HOST,
        f"{facts(seen)}: the host holds the GPUs up, {who}",
        signs,
        seen,
        refuted_by=("SM that stays as low without streaming clients", "the same tok/s on a faster core"),
        knobs=(
            "fewer events: stream-interval, clients that do not stream",
            "more front: tokenizer-worker-num, a second server behind a router",
            "CUDA graphs and the overlapping scheduler, so that launching costs less",
            "cores of the GPU's own NUMA node (numactl, SGLANG_SET_CPU_AFFINITY)",
        ),
    )


def starved(seen: Window) -> Diagnosis | None:
    """Judge whether the GPUs pause since nothing waits for them."""
    signs = [
        sign(f"running {seen.running or 0:.0f}", None if seen.running is None else seen.running > 0, needed=True),
        at_most("SM", seen.util, PAUSES_PCT, needed=True),
        at_most("queued", seen.queued, 0.5, "requests", needed=True),
        at_most("power of the limit", pct(seen.power_share), 65),
        at_most("KV used", pct(seen.kv), 85),
        at_most("PCIe of its link", pct(seen.link_share), FULL_LINK),
    ]
    return verdict(
        Bound.STARVED,
        f"{facts(seen)}, running {seen.running or 0:.0f}, nothing queued: the GPUs wait for work",
        signs,
        seen,
        refuted_by=("a queue that forms while SM stays low", "SM that stays low at twice the concurrency"),
        knobs=(
            "more load: a higher concurrency, a client that is not the limit",
            "a front that keeps up: fewer events a token (stream-interval), tokenizer-worker-num",
            "CUDA graphs and the overlapping scheduler, against pauses between steps",
        ),
    )


def held_back(seen: Window) -> Diagnosis | None:
    """Judge whether the scheduler lets requests wait although there is room."""
    signs = [
        at_least("queued", seen.queued, 1, "requests", needed=True),
        at_most("KV used", pct(seen.kv), 75, needed=True),
        sign(f"running stays at {seen.running or 0:.0f}" if seen.running_steady else "running moves",
             seen.running_steady if seen.running is not None else None, needed=True),
        sign("none is retracted", None if seen.retracting is None else not seen.retracting),
    ]  # fmt: skip
    return verdict(
        Bound.STARVED,
        f"{seen.queued or 0:,.0f} queued while {seen.running or 0:,.0f} run and KV is {(seen.kv or 0) * 100:.0f} % used:"
        " the scheduler admits no more",
        signs,
        seen,
        refuted_by=("running that does not rise with max-running-requests", "KV that fills once they are admitted"),
        knobs=("max-running-requests (max-num-seqs)", "cuda-graph-max-bs beside it", "schedule-conservativeness"),
    )


def kv_bound(seen: Window) -> Diagnosis | None:
    """Judge whether KV memory keeps requests out."""
    pressed = None if seen.queued is None and seen.retracting is None else bool(seen.queued or seen.retracting)
    signs = [
        at_least("KV used", pct(seen.kv), 90, needed=True),
        sign(
            f"queued {seen.queued or 0:.0f}" + (", some are retracted" if seen.retracting else ""), pressed, needed=True
        ),
        sign("some are retracted" if seen.retracting else "none is retracted", seen.retracting),
    ]
    return verdict(
        Bound.KV,
        f"KV {(seen.kv or 0) * 100:.0f} % used, {seen.queued or 0:,.0f} queued: no room for more requests",
        signs,
        seen,
        refuted_by=("KV that stays full when fewer requests come", "a queue that stays when KV is freed"),
        knobs=(
            "more room: mem-fraction-static, kv-cache-dtype fp8, fewer graphs",
            "shorter contexts, or fewer at once (max-running-requests) where retractions cost more than waiting",
            "more GPUs in the group",
        ),
    )
