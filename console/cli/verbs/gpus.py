"""`tokwatt gpus`: GPU readings of a host, or of a file that somebody sent."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from console.cli.output import read_file
from console.domain.diagnosis import Bound, Diagnosis
from console.domain.gpu import GpuReading, GpuSample, HostLoad, lost_words
from console.domain.text import dash
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.operations.desk import Desk

VALUES = (
    "power_draw_w", "power_mean_w", "power_limit_w", "power_default_w", "gpu_util_pct", "mem_util_pct", "memory_used_mib",
    "memory_total_mib", "temperature_c", "sm_clock_mhz", "mem_clock_mhz", "max_sm_clock_mhz", "throttle", "fan_pct",
    "energy_j", "pcie_tx_mb_s", "pcie_rx_mb_s", "pcie_gen", "pcie_width", "pcie_gen_max", "pcie_width_max", "pcie_replays",
    "power_requested_w", "power_min_w", "power_max_w", "app_clock_mhz", "app_clock_default_mhz", "numa_node", "persistence",
    "ecc", "memory_temperature_c",
)  # fmt: skip
WHY_S = 6.0
"""So much is watched for a verdict."""

WHY_MORE_S = 10.0
"""So much longer while there is none: a load may come in bursts."""

SETTLE_S = 1.6
"""One sample waits so long for the slow values."""


class _FileAction(argparse.Action):
    """A file is read here: no host is needed."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, values)
        if values is not None:
            namespace.needs = "nothing"


def add(verbs: Any, parents: Sequence[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    gpus = verbs.add_parser("gpus", parents=parents, help="GPU readings of the host, or of a file")
    gpus.add_argument("file", nargs="?", metavar="FILE", action=_FileAction, help="nvidia-smi output: CSV, XML, table")
    gpus.add_argument("--follow", action="store_true", help="go on, one object a sample with --json")
    gpus.add_argument("--hz", type=float, default=1.0, help="samples a second, at most 10 (default: %(default)g)")
    gpus.add_argument("--why", action="store_true", help="say what binds the server, with its signs and what to try")
    gpus.add_argument(
        "--topology",
        action="store_true",
        help="how the GPUs are joined, their links, limits, clocks and ECC; of a FILE of nvidia-smi topo, too",
    )
    gpus.add_argument("--fields", metavar="NAMES", help="columns of a FILE without a header, as --query-gpu names them")
    gpus.set_defaults(act=act, needs="host")


async def act(args: argparse.Namespace, desk: Desk | None, out: Output) -> int:
    """Print samples; 1 when there was no GPU in any."""
    if not 0 < args.hz <= 10:
        raise UsageError(f"--hz {args.hz:g}: must be over 0 and at most 10")
    if args.topology:
        from console.cli.machine_text import topology_of

        return await topology_of(args, desk, out)
    if args.file is not None:
        return _from_file(args, out)
    from console.operations.watch import gpu_samples

    assert desk is not None
    if args.why:
        return await _why(args, desk, out)
    found = False
    samples = gpu_samples(desk, hz=args.hz if args.follow else 10)
    async with aclosing(samples if args.follow else _settled(samples)) as stream:  # type: ignore[type-var]
        async for sample in stream:
            found = found or bool(sample.gpus)
            _print(sample, out, desk.link.host.name)
    return 0 if found else 1


async def _why(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    """Watch GPUs and engine for some seconds, and print the verdict; go on with --follow."""
    from console.operations import server
    from console.operations.diagnosis import judged
    from console.operations.watch import gpu_samples

    with contextlib.suppress(ConsoleError):  # a host without a server of ours is judged by its GPUs
        await server.status(desk)
    until, due, seen = time.monotonic() + WHY_S, 0.0, False
    async with aclosing(judged(desk, gpu_samples(desk, hz=10))) as stream:
        async for sample, found in stream:
            seen = seen or bool(sample.gpus)
            clear = found is not None and found.bound is not Bound.UNKNOWN
            late = time.monotonic() > until + (0 if clear else WHY_MORE_S) or not sample.gpus
            if late and time.monotonic() >= due:
                due = time.monotonic() + 1 / args.hz
                _print(sample, out, desk.link.host.name, found)
                if not args.follow:
                    break
    return 0 if seen else 1


def _from_file(args: argparse.Namespace, out: Output) -> int:
    from console.operations.watch import parse_gpu_file

    samples = parse_gpu_file(read_file(args.file), tuple(args.fields.split(",")) if args.fields else ())
    if args.why:
        from console.operations.diagnosis import of_samples

        judged = of_samples(samples)
        for sample, found in judged if out.json else judged[-1:]:
            _print(sample, out, args.file, found)
    else:
        for sample in samples:
            _print(sample, out, args.file)
    if not samples:
        out.say(f"{args.file}: no GPU readings in it")
    return 0 if any(sample.gpus for sample in samples) else 1


async def _settled(samples: AsyncIterator[GpuSample]) -> AsyncIterator[GpuSample]:
    """Yield the one sample that has the slow values too, or the reason why there is none."""
    until = time.monotonic() + SETTLE_S
    async with aclosing(samples) as stream:  # type: ignore[type-var]
        async for sample in stream:
            whole = any(gpu.energy_j is not None or gpu.pcie_tx_mb_s is not None for gpu in sample.gpus)
            if sample.reason or sample.source != "nvml" or whole or time.monotonic() > until:
                yield sample
                return


def _print(sample: GpuSample, out: Output, whose: str, found: Diagnosis | None = None) -> None:
    if out.json:
        out.record(plain(sample) | ({"diagnosis": plain_diagnosis(found)} if found is not None else {}))
        return
    if sample.reason:
        out.say(f"{whose}: no GPU readings: {sample.reason}")
    for gpu in sample.gpus:
        out.line(_line(gpu))
    if len(sample.gpus) > 1:
        told = (
            ""
            if sample.reporting == len(sample.gpus)
            else f" ({sample.reporting} of {len(sample.gpus)} GPUs reporting)"
        )
        mean = "" if sample.power_mean_w is None else f", 1 s mean {sample.power_mean_w:,.0f} W"
        out.line(f"all  {dash(sample.power_w)} of {dash(sample.limit_w)} W{mean}{told}")
    for gpu in sample.gpus:
        if gpu.lost:
            out.say(f"GPU {gpu.index}: {lost_words(gpu, sample)}")
    if found is not None:
        for line in why_lines(found):
            out.line(line)


def why_lines(found: Diagnosis) -> list[str]:
    """Return a verdict as lines of text."""
    marks = {True: "+", False: "-", None: "?"}
    lines = [found.said]
    lines += [f"  {marks[sign.met]} {sign.text}" for sign in found.signs]
    lines += [f"  wrong if: {line}" for line in found.refuted_by]
    lines += [f"  try: {line}" for line in found.knobs]
    return [*lines, *(f"  also: {other.said}" for other in found.also)]


def plain_diagnosis(found: Diagnosis) -> dict[str, Any]:
    """Return a verdict as the shell's JSON has it."""
    return {
        "verdict": found.bound.value,
        "sentence": found.sentence,
        "confidence": found.confidence.value,
        "signs_met": found.met,
        "signs": [{"text": sign.text, "met": sign.met, "needed": sign.needed} for sign in found.signs],
        "refuted_by": list(found.refuted_by),
        "knobs": list(found.knobs),
        "gpu": found.gpu,
        "window_s": found.window_s,
        "also": [plain_diagnosis(other) for other in found.also],
    }


def plain(sample: GpuSample) -> dict[str, Any]:
    """Return a sample as the shell's JSON has it."""
    when = datetime.fromtimestamp(sample.time, UTC).isoformat(timespec="milliseconds") if sample.time else None
    found: dict[str, Any] = {"time": when, "source": sample.source, "gpus": [_plain_gpu(gpu) for gpu in sample.gpus]}
    if sample.clock:
        found["clock"] = sample.clock
    if sample.reason:
        found["reason"] = sample.reason
    if sample.host is not None:
        found["host"] = _plain_host(sample.host)
    found |= {"power_w": sample.power_w, "limit_w": sample.limit_w, "reporting": sample.reporting}
    found |= {"power_mean_w": sample.power_mean_w, "headroom_w": sample.headroom_w}
    if engine_gpus := sample.engine_gpus:
        found["engine_gpus"] = list(engine_gpus)
    return found


def _plain_host(host: HostLoad) -> dict[str, Any]:
    return {
        "cores_pct": list(host.cores_pct),
        "load_1m": host.load_1m,
        "memory_used_mib": host.memory_used_mib,
        "memory_total_mib": host.memory_total_mib,
        "numa": {str(node): cores for node, cores in host.numa.items()},
        "processes": [
            {
                "pid": one.pid,
                "title": one.title,
                "cpu_pct": one.cpu_pct,
                "session": one.session,
                "user": one.user,
                "rss_mib": one.rss_mib,
                "visible_devices": one.visible_devices,
            }
            for one in host.processes
        ],
        "reason": host.reason or None,
    }


def _plain_gpu(gpu: GpuReading) -> dict[str, Any]:
    values = {name: getattr(gpu, name) for name in VALUES}
    reasons = {name: gpu.reasons.get(name) or "not read" for name, value in values.items() if value is None}
    return {
        "index": gpu.index,
        "uuid": gpu.uuid or None,
        "name": gpu.name or None,
        **values,
        "pstate": gpu.pstate or None,
        "pci_bus_id": gpu.pci_bus_id or None,
        "compute_capability": gpu.compute_capability or None,
        "processes": None if gpu.processes is None else [{"pid": p, "memory_mib": mib} for p, mib in gpu.processes],
        "mig": gpu.mig or None,
        "shares_pct": {str(pid): share for pid, share in gpu.shares_pct.items()},
        "unified_memory": gpu.unified_memory,
        "lost": gpu.lost,
        "lost_at": datetime.fromtimestamp(gpu.lost_at, UTC).isoformat(timespec="seconds") if gpu.lost_at else None,
        "reasons": {**reasons, **({"gpu": gpu.reasons["gpu"]} if "gpu" in gpu.reasons else {})},
    }


def _line(gpu: GpuReading) -> str:
    memory = f"{dash(gpu.memory_used_mib)} / {dash(gpu.memory_total_mib)} MiB"
    if gpu.unified_memory:
        memory = gpu.reasons.get("memory_used_mib", "unified memory")
    parts = [
        f"{gpu.index:>3}  {gpu.name or '—'}",
        f"{dash(gpu.power_draw_w)} of {dash(gpu.power_limit_w)} W"
        + ("" if gpu.power_mean_w is None else f" (1 s mean {gpu.power_mean_w:,.0f})"),
        f"{dash(gpu.gpu_util_pct)} %",
        memory,
        f"{dash(gpu.temperature_c)} °C",
        f"{dash(gpu.sm_clock_mhz)} MHz",
        ", ".join(gpu.throttle or ()),
        "LOST" if gpu.lost else "",
    ]
    return "  ".join(part for part in parts if part)
