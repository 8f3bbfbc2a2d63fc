"""Rules about who is different: one rank among its peers, and processes that are not the engine's."""

from __future__ import annotations

from statistics import median

from console.domain.diagnosis import Bound, Confidence, Diagnosis, Sign
from console.telemetry.diagnosis.rule import facts, sign, verdict
from console.telemetry.diagnosis.window import GpuWindow, Window

HELD_MIB = 512.0
"""A context alone takes less; more than this is somebody's work."""

CLOCK_OFF = 0.07
POWER_OFF = 0.20


def straggler(seen: Window) -> Diagnosis | None:
    """Judge whether one GPU holds its peers up: an outlier against the median of the others."""
    if len(seen.working) < 3 or (seen.util or 0) < 50:
        return None
    worst: tuple[int, GpuWindow, list[Sign]] | None = None
    for gpu in seen.working:
        peers = [other for other in seen.working if other is not gpu]
        signs = _outlier_signs(gpu, peers)
        count = sum(one.met is True for one in signs)
        if count and (worst is None or count > worst[0]):
            worst = (count, gpu, signs)
    if worst is None:
        return None
    count, gpu, signs = worst
    hard = signs[0].met or signs[4].met  # the link itself is at fault: no load explains that
    found = [one.text for one in signs if one.met]
    return verdict(
        Bound.STRAGGLER,
        f"GPU {gpu.index} is not like its peers: {'; '.join(found)}",
        signs,
        seen,
        refuted_by=(
            "the same difference when the ranks are put on other GPUs (then it is the rank's work)",
            "peers that do not wait: their watts as high as the outlier's",
        ),
        knobs=(
            "a link that trained down: reseat the card, look at the riser; lspci -vv shows LnkSta",
            "heat of that slot: airflow, a swap of places",
            "leave it out with CUDA_VISIBLE_DEVICES and measure again",
        ),
        gpu=gpu.index,
        confidence=Confidence.HIGH if count >= 3 else Confidence.MEDIUM if count == 2 or hard else Confidence.LOW,
    )


def _outlier_signs(gpu: GpuWindow, peers: list[GpuWindow]) -> list[Sign]:
    return [
        _link_sign(gpu, peers),
        _clock_sign(gpu, peers),
        _power_sign(gpu, peers),
        _slowed_sign(gpu, peers),
        _replay_sign(gpu, peers),
        _heat_sign(gpu, peers),
    ]


def _link_sign(gpu: GpuWindow, peers: list[GpuWindow]) -> Sign:
    mine = gpu.capacity_mb_s
    theirs = [room for peer in peers if (room := peer.capacity_mb_s) is not None]
    if mine is None or not theirs:
        return sign("link: not read", None)
    best = [peer.last.link for peer in peers if peer.capacity_mb_s == median(theirs)]
    told = f"link {gpu.last.link}, peers {best[0] if best else 'several'}"
    return sign(told, mine < median(theirs) * 0.9)


def _clock_sign(gpu: GpuWindow, peers: list[GpuWindow]) -> Sign:
    theirs = [peer.clock.middle for peer in peers if peer.clock]
    if gpu.clock is None or not theirs:
        return sign("clock: not read", None)
    told = f"clock {gpu.clock.middle:,.0f} MHz, peers {median(theirs):,.0f}"
    return sign(told, gpu.clock.middle < median(theirs) * (1 - CLOCK_OFF))


def _power_sign(gpu: GpuWindow, peers: list[GpuWindow]) -> Sign:
    theirs = sorted(peer.watts.mean for peer in peers if peer.watts)
    if gpu.watts is None or not theirs:
        return sign("watts: not read", None)
    middle = median(theirs)
    off = abs(gpu.watts.mean - middle)
    apart = median([abs(watts - middle) for watts in theirs])
    told = f"{gpu.watts.mean:,.0f} W, peers {middle:,.0f}"
    return sign(told, off > max(POWER_OFF * middle, 4 * apart))


def _slowed_sign(gpu: GpuWindow, peers: list[GpuWindow]) -> Sign:
    words = ("power", "thermal", "hardware", "application clocks")
    mine = gpu.slowed_by(*words)
    theirs = [share for peer in peers if (share := peer.slowed_by(*words)) is not None]
    if mine is None or not theirs:
        return sign("clock reasons: not told", None)
    why = ", ".join(sorted(reason for reason, share in (gpu.throttle or {}).items() if share >= 0.3)) or "nothing"
    return sign(f"slowed by {why} in {mine * 100:.0f} % of the samples, peers {median(theirs) * 100:.0f} %",
                mine >= 0.3 and median(theirs) < 0.1)  # fmt: skip


def _replay_sign(gpu: GpuWindow, peers: list[GpuWindow]) -> Sign:
    theirs = [peer.replays for peer in peers if peer.replays is not None]
    if gpu.replays is None or not theirs:
        return sign("PCIe replays: not read", None)
    told = f"{gpu.replays} PCIe packets sent again, peers {median(theirs):.0f}"
    return sign(told, gpu.replays > 0 and gpu.replays > 2 * median(theirs))


def _heat_sign(gpu: GpuWindow, peers: list[GpuWindow]) -> Sign:
    theirs = [peer.temperature.middle for peer in peers if peer.temperature]
    if gpu.temperature is None or not theirs:
        return sign("temperature: not read", None)
    told = f"{gpu.temperature.middle:.0f} °C, peers {median(theirs):.0f}"
    return sign(told, gpu.temperature.middle >= median(theirs) + 12)


def other_tenant(seen: Window) -> Diagnosis | None:
    """Judge whether somebody else's process works on a GPU of the engine."""
    holding = [one for one in seen.foreign if (one[2] or 0) >= HELD_MIB]
    if not seen.foreign:
        return None
    index, process, held = max(holding or seen.foreign, key=lambda one: one[2] or 0)
    gpu = next((each for each in seen.gpus if each.index == index), None)
    share = gpu.last.shares_pct.get(process.pid) if gpu is not None and gpu.last.shares_pct else None
    busy = gpu.util.mean if gpu is not None and gpu.util else None
    works = share >= 5 if share is not None else (busy >= 20 if seen.idle and busy is not None else None)
    cpu = process.cpu_pct
    signs = [
        sign(f"pid {process.pid} of {process.user or 'another user'} holds {held or 0:,.0f} MiB of GPU {index}",
             bool(holding), needed=True),
        sign("its share of the SMs: not told" if works is None else f"SM {share if share is not None else busy:.0f} % are its own",
             works),
        sign(f"GPU {index} is busy" if (busy or 0) >= 20 else f"GPU {index} is not busy",
             None if busy is None else busy >= 20, needed=True),
        sign("its processor time: not read" if cpu is None else f"it takes {cpu:.0f} % of a core", None if cpu is None else cpu >= 5),
    ]  # fmt: skip
    if works is False:
        return None  # it only holds memory
    count = sum(one.met is True for one in signs)
    return verdict(
        Bound.OTHER_TENANT,
        f"{facts(seen)}: pid {process.pid} ({process.title[:60]}, {process.user or 'unknown user'}) is on GPU {index}"
        f" with {held or 0:,.0f} MiB",
        signs,
        seen,
        refuted_by=("its share of the SMs near 0 in nvidia-smi pmon", "the same speed once it has ended"),
        knobs=("ask its owner; measure when it is gone", "leave that GPU out with CUDA_VISIBLE_DEVICES"),
        gpu=index,
        confidence=Confidence.HIGH if works and count >= 3 else Confidence.MEDIUM if works or (cpu or 0) >= 5 else Confidence.LOW,
    )  # fmt: skip
