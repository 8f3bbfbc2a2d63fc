"""A desk without a host: a link that is up, a store filled by hand, operations that only remember."""

from __future__ import annotations

import asyncio
import hashlib
import math
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from console.bench.knee import knee
from console.domain.activity import Activity, Outcome
from console.domain.comparison import Comparison, FilePair
from console.domain.gpu import GpuReading, GpuSample
from console.domain.host import CommandRecord, GitState, Host, HostFacts, Link, LinkState, Package
from console.domain.machine import GpuState, MachineState
from console.domain.measurement import Measurement, Percentiles, SweepProgress
from console.domain.patch import DiskState, PatchStatus, ProcessState
from console.domain.profile import BenchSection, EngineSection, LaunchSection, Profile, TargetSection
from console.domain.run import LogKind, LogRecord, ProcessId, Run, Rung, RunPhase
from console.domain.source import Document, GrepHit, Symbol, TreeEntry
from console.domain.text import SafeText, clean
from console.domain.throughput import ThroughputSample
from console.domain.topology import Topology
from console.operations.following import Batch
from console.source.documents import Folder
from console.source.names import Finder, Names, place
from console.state.store import Mark, Snapshot, Store

NOW = 1_796_200_000.0
"""Wall clock of every picture."""
MONO = 5_000.0

PROFILE = Profile(
    "glm5-nvfp4",
    engine=EngineSection("sglang", "/root/ml-env/bin/python3"),
    launch=LaunchSection(args={"tp-size": 8}),
    bench=BenchSection((256, 512, 1024), 1024, 256, 3),
    target=TargetSection(5816.0, "K2-Thinking on this host"),
)

_SIDES = {(a, b): "NODE" if a // 4 == b // 4 else "SYS" for a in range(8) for b in range(8) if a != b}
MACHINE = MachineState(
    source="nvidia-smi",
    driver="580.105.08",
    cuda="13.0",
    kernel="Linux 6.8.0",
    governor="performance",
    gpus=tuple(
        GpuState(
            index, f"GPU-{index}", SafeText("NVIDIA RTX PRO 6000"), pstate="P0", pcie_gen=5, pcie_gen_max=5,
            pcie_width=8 if index == 6 else 16, pcie_width_max=16, numa_node=index // 4, persistence=True, ecc=True,
            ecc_corrected=0, ecc_uncorrected=0, power_requested_w=600.0, power_enforced_w=450.0 if index == 3 else 600.0,
            power_default_w=600.0, sm_clock_mhz=2370.0, sm_clock_max_mhz=2430.0,
        )
        for index in range(8)
    ),
    topology=Topology(
        gpus=tuple(range(8)),
        paths={(f"GPU{a}", f"GPU{b}"): word for (a, b), word in _SIDES.items()},
        peers={"read": dict.fromkeys(_SIDES, "OK"), "write": dict.fromkeys(_SIDES, "OK"), "nvlink": dict.fromkeys(_SIDES, "NS")},
        source="nvidia-smi",
    ),
)  # fmt: skip
"""A host of two sockets whose GPU 3 was given fewer watts, and whose GPU 6 trained down."""

CODE = b'''"""Runs the model."""

import logging

logger = logging.getLogger(__name__)


class ModelRunner:
    """One rank."""

    def _should_run_flashinfer_autotune(self) -> bool:
        """Check if flashinfer autotune should be run."""
        if self.server_args.disable_flashinfer_autotune:
            return False

        backend_str = self.server_args.moe_runner_backend

        if backend_str not in [
            "flashinfer_trtllm",
            "flashinfer_mxfp4",
            # TODO: flashinfer_cutlass will cause some flashinfer compilation errors. To be fixed.
            # "flashinfer_cutlass",
        ]:
            return False

        major, _ = torch.cuda.get_device_capability()
        return major >= 9 and 1 + 2.5 > 3

    def kernel_warmup(self):
        if self.device != "cuda":
            return
'''

ON = (
    "--- srt/model_executor/model_runner.py",
    "+++ srt/model_executor/model_runner.py",
    "@@ -19,7 +19,7 @@ def _should_run_flashinfer_autotune(self) -> bool:",
    '             "flashinfer_trtllm",',
    '             "flashinfer_mxfp4",',
    "             # TODO: flashinfer_cutlass will cause some flashinfer compilation errors. To be fixed.",
    '-            # "flashinfer_cutlass",',
    '+            "flashinfer_cutlass",',
    "         ]:",
    "             return False",
    "",
)
FUSION = (
    "--- srt/layers/communicator.py",
    "+++ srt/layers/communicator.py",
    "@@ -41,3 +41,5 @@",
    " def apply_flashinfer_allreduce_fusion(batch_size: int):",
    "     return (",
    "-        (_is_sm90_supported or _is_sm100_supported)",
    "+        (_is_sm90_supported or _is_sm100_supported or _is_sm120_supported)",
    "@@ -90,2 +92,3 @@",
    " _is_sm100_supported = is_sm100_supported()",
    "+_is_sm120_supported = is_sm120_supported()",
)


def safe(lines: Sequence[str]) -> tuple[SafeText, ...]:
    return tuple(clean(line) for line in lines)


def patches() -> tuple[PatchStatus, ...]:
    model = ("srt/model_executor/model_runner.py",)
    return (
        PatchStatus(
            "flashinfer-cutlass-autotune",
            "Autotune",
            DiskState.OFF,
            ProcessState.NOT_LOADED,
            files=model,
            diff=safe(ON),
        ),
        PatchStatus(
            "allreduce-fusion-sm120",
            "All-reduce fusion",
            DiskState.ON,
            ProcessState.NEEDS_RESTART,
            process_reason="communicator.py changed after the server started",
            files=("srt/layers/communicator.py",),
            diff=safe(FUSION),
        ),
        PatchStatus(
            "pcie-p2p-threshold",
            "P2P",
            DiskState.ON,
            ProcessState.PROVEN,
            files=("srt/distributed/parallel.py",),
            diff=safe(FUSION),
        ),
        PatchStatus(
            "moe-tile-256", "Tiles", DiskState.CONFLICT, ProcessState.UNKNOWN, reason="found twice, lines 210 and 871"
        ),
    )


def gpu_sample(watts: float = 250.0, time: float = NOW, received: float = MONO - 0.1, count: int = 8) -> GpuSample:
    gpus = tuple(
        GpuReading(
            i,
            name=SafeText("NVIDIA RTX PRO 6000 Blackwell"),
            power_draw_w=watts + 7 * math.sin(i * 1.7),
            power_limit_w=600.0,
            gpu_util_pct=98.0,
            memory_used_mib=71.4 * 1024,
            memory_total_mib=96 * 1024,
            temperature_c=60.0 + i % 4,
            sm_clock_mhz=2610.0 - 15 * (i % 3),
            throttle=() if i != 5 else ("power cap",),
        )
        for i in range(count)
    )
    return GpuSample(time, "nvml", gpus, received=received)


def run(phase: RunPhase = RunPhase.READY) -> Run:
    return Run(
        "2026-12-02-7",
        "glm5-nvfp4",
        "sglang",
        "/root/.local/state/tokwatt/runs/2026-12-02-7",
        "/root/.local/state/tokwatt/runs/2026-12-02-7/server.log",
        30000,
        NOW - 2_540,
        ProcessId(41822, 12345, 41822),
        ("python3", "-m", "sglang.launch_server"),
        phase,
        ready_at=NOW - 2_460 if phase is RunPhase.READY else None,
    )


def starting() -> Run:
    ladder = (
        Rung("arguments", 0.0, 0.4),
        Rung("distributed", 0.4, 2.5),
        Rung("weights", 2.5, 40.7),
        Rung("KV cache", 40.7, 41.8, SafeText("404,777 tokens")),
        Rung("autotune", 41.8, None, SafeText("11/22"), 0.5),
        Rung("graphs"),
    )
    from dataclasses import replace

    return replace(run(RunPhase.STARTING), started_at=NOW - 417, ladder=ladder)


def snapshot(**changes: Any) -> Snapshot:
    history = tuple((NOW - 60 + i, tuple(200 + 50 * math.sin(i / 9 + g) for g in range(8))) for i in range(61))
    speeds = tuple((NOW - 60 + i, 3000 + 12 * i + 90 * math.sin(i / 3)) for i in range(61))
    fields: dict[str, Any] = {
        "host": Host("blackwell", "10.0.0.7", 22, "root"),
        "link": LinkState(Link.UP, 12.2, MONO - 0.3),
        "facts": HostFacts(
            SafeText("blackwell"),
            "root",
            0,
            "/root",
            "Linux 6.8",
            "3.11 /usr/bin/python3",
            "/root/.local/state/tokwatt",
            clock_offset_s=0.0,
        ),
        "profile": PROFILE,
        "profile_edited": True,
        "package": Package("sglang", "/root/sglang/python/sglang", "0.5.9", "editable", "/root/ml-env/bin/python3"),
        "git": GitState(
            "/root/sglang", "3f2a91cbeef", SafeText("main"), ("python/sglang/srt/layers/communicator.py", "x.py")
        ),
        "patches": patches(),
        "run": run(),
        "gpus": gpu_sample(),
        "gpu_history": history,
        "throughput": ThroughputSample(NOW, "/v1/loads", 3740.0, None, 1024, 0, 0.61, 0.0, 0, received=MONO - 0.4),
        "tok_s_history": speeds,
        "best_tok_s": 3802.0,
        "marks": (Mark(NOW - 45, "patch", "x"), Mark(NOW - 30, "restart", "x"), Mark(NOW - 12, "measurement", "x")),
    }
    return Snapshot(**{**fields, **changes})


def log_records(count: int = 40) -> tuple[LogRecord, ...]:
    made = [
        LogRecord(
            LogKind.OTHER, "[2026-12-02 14:01:00] server_args=ServerArgs(model_path='/models/GLM-5-NVFP4', tp_size=8)"
        ),
        LogRecord(
            LogKind.OTHER,
            "[2026-12-02 14:01:02 TP0] Attention backend not set. Use [flashinfer] by default.",
            severity="warning",
        ),
        LogRecord(LogKind.PHASE, "[2026-12-02 14:01:09 TP0] Load weight begin. avail mem=94.31 GB"),
    ]
    for i in range(count):
        made.append(
            LogRecord(
                LogKind.DECODE,
                f"[2026-12-02 14:02:{i % 60:02} TP0] Decode batch, #running-req: 1024, #token: {240_000 + i}, token usage: 0.61, "
                f"cuda graph: False, gen throughput (token/s): {3700 + i % 50}.00, #queue-req: 0",
            )
        )
        if i % 9 == 0:
            made.append(LogRecord(LogKind.ACCESS, 'INFO:     127.0.0.1:45494 - "POST /generate HTTP/1.1" 200 OK'))
    return tuple(made)


class FakeLink:
    """A link that is up, or as a test says."""

    def __init__(self) -> None:
        self.host = Host("blackwell", "10.0.0.7", 22, "root")
        self.state = LinkState(Link.UP, 12.2, MONO - 0.3)
        self.closed = False

    async def measure(self) -> float:
        return 12.2

    async def connect(self) -> None:
        self.state = LinkState(Link.UP, 12.2, MONO)

    async def close(self) -> None:
        self.closed = True


class FakeDesk:
    """What the panes ask for."""

    def __init__(self, filled: Snapshot) -> None:
        self.link = FakeLink()
        self.store = Store()
        self.store.update(**{name: getattr(filled, name) for name in Snapshot.__slots__})
        self.profile = filled.profile
        self.readonly = False
        self.package = filled.package
        self.commands: deque[CommandRecord] = deque(
            [
                CommandRecord(NOW - 9, "blackwell", clean("connected, outpost started"), 210.4, 0),
                CommandRecord(NOW - 3, "blackwell", clean("read path='srt/model_executor/model_runner.py'"), 14.2, 0),
                CommandRecord(NOW - 1, "blackwell", clean("grep pattern='x'"), 120.9, 1, clean("no such folder")),
            ]
        )
        self.calls: list[tuple[Any, ...]] = []

    def must_profile(self) -> Profile:
        assert self.profile is not None
        return self.profile

    def must_write(self, what: str) -> None:
        from console.errors import ReadOnlyError

        if self.readonly:
            raise ReadOnlyError(f"{what}: refused, the console was started with --readonly")


TREE = {
    "": (
        TreeEntry("srt", "srt", "dir"),
        TreeEntry("version.py", "version.py", "file", 20),
        TreeEntry("bench.py", "bench.py", "file", git="M"),
    ),
    "srt": (TreeEntry("model_executor", "srt/model_executor", "dir"), TreeEntry("utils.py", "srt/utils.py", "file")),
    "srt/model_executor": (TreeEntry("model_runner.py", "srt/model_executor/model_runner.py", "file"),),
}


def document(path: str, data: bytes = CODE) -> Document:
    lines = tuple(data.splitlines())
    return Document(path, len(data), NOW, hashlib.sha256(data).hexdigest(), 1, lines, len(lines))


class Operations:
    """Fake operations over one fake desk; tests replace single functions."""

    def __init__(self, desk: FakeDesk) -> None:
        self.desk = desk
        self.records: tuple[LogRecord, ...] = log_records()
        self.error: Exception | None = None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from console.operations import comparing, holds, machine

        monkeypatch.setattr(holds, "holder", self.holds_holder)
        monkeypatch.setattr(comparing, "with_head", self.comparing_with_head)
        monkeypatch.setattr(machine, "watch_machine", self.machine_watch_machine)
        monkeypatch.setattr(machine, "look", self.machine_look)
        for name in (
            "source",
            "installed",
            "host",
            "patches",
            "server",
            "logs",
            "watch",
            "recording",
            "measure",
            "winner",
            "opening",
        ):
            module = ModuleType(f"console.operations.{name}")
            for key in dir(self):
                if key.startswith(f"{name}_"):
                    setattr(module, key.removeprefix(f"{name}_"), getattr(self, key))
            import console.operations

            monkeypatch.setattr(console.operations, name, module, raising=False)
            monkeypatch.setitem(sys.modules, f"console.operations.{name}", module)

    async def holds_holder(self, desk: FakeDesk) -> Mapping[str, Any]:
        return {}

    async def opening_open_desk(self, **asked: Any) -> FakeDesk:
        self.desk.calls.append(("open_desk", asked))
        if self.error is not None:
            raise self.error
        return self.desk

    async def comparing_with_head(self, desk: FakeDesk, path: str = "") -> Comparison:
        before = b"one\ntwo = [1]\nthree\n"
        return Comparison(
            "HEAD 3f2a91c", "working tree", (FilePair("srt/[b]x[/]", before, before.replace(b"1", b"2")),)
        )

    async def source_page(self, desk: FakeDesk, path: str = "", *, offset: int = 0) -> Folder:
        entries = TREE.get(path, ())
        return Folder(path, entries, len(entries))

    source_Finder = Finder
    source_place_wanted = staticmethod(place)

    async def source_names(self, desk: FakeDesk, path: str = "") -> AsyncIterator[Names]:
        files = sorted(entry.path for entries in TREE.values() for entry in entries if entry.kind == "file")
        yield Names("/root/sglang/python/sglang", tuple(files), complete=True)

    async def installed_shadowed(self, desk: FakeDesk, path: str) -> str:
        return ""

    async def source_open_document(self, desk: FakeDesk, path: str, *, line: int = 0) -> Document:
        desk.calls.append(("open", path))
        return document(f"/root/sglang/python/sglang/{path}" if not path.startswith("/") else path)

    def source_outline(self, document: Document) -> tuple[Symbol, ...]:
        return (
            Symbol("ModelRunner", "class", 8, 31, "ModelRunner"),
            Symbol("_should_run_flashinfer_autotune", "def", 11, 27, "ModelRunner._should_run_flashinfer_autotune", 1),
        )

    async def source_grep(
        self, desk: FakeDesk, pattern: str, paths: Sequence[str] = (), **asked: Any
    ) -> AsyncIterator[GrepHit]:
        for number, file in enumerate(
            ("srt/model_executor/model_runner.py", "srt/server_args.py", "test/[bold]x[/oops].py")
        ):
            for line in range(3):
                yield GrepHit(file, 22 + line + number * 40, SafeText(f'            # "{pattern}", to be fixed'))

    async def host_engine_package(self, desk: FakeDesk) -> Package | None:
        return desk.package

    async def host_git_state(self, desk: FakeDesk) -> None:
        return None

    async def patches_statuses(self, desk: FakeDesk) -> tuple[PatchStatus, ...]:
        return desk.store.snapshot.patches

    async def patches_toggle(self, desk: FakeDesk, name: str, **asked: Any) -> None:
        desk.calls.append(("toggle", name, asked.get("force"), asked.get("accept_fuzz")))
        if self.error is not None:
            raise self.error
        said = clean("model_runner.py 1 line, be071c15 → 4c9e02d1, compiled by /root/ml-env/bin/python3, 2 round trips")
        desk.store.begin(Activity(0, "apply", clean(f"applied {name}"), Outcome.DONE, said, NOW, 118.0, "z"))

    async def patches_undo(self, desk: FakeDesk) -> None:
        desk.calls.append(("undo",))

    async def server_status(self, desk: FakeDesk) -> Run | None:
        return desk.store.snapshot.run

    async def server_watch_run(self, desk: FakeDesk) -> None:
        await asyncio.Event().wait()

    async def server_blast_radius(self, desk: FakeDesk) -> str:
        return "1,024 requests in flight would be lost; about 8 min until ready again"

    async def server_start(self, desk: FakeDesk, *, force: bool = False) -> None:
        desk.calls.append(("start", force) if force else ("start",))

    async def server_stop(self, desk: FakeDesk, run: Run | None = None) -> None:
        desk.calls.append(("stop", run.id if run else ""))

    async def server_restart(self, desk: FakeDesk, *, agreed: str | None = None) -> None:
        desk.calls.append(("restart", agreed))

    async def logs_follow(self, desk: FakeDesk, run: Run) -> AsyncIterator[tuple[LogRecord, ...]]:
        yield self.records
        await asyncio.Event().wait()

    async def logs_followed(self, desk: FakeDesk, run: Run) -> AsyncIterator[Batch]:
        async for records in self.logs_follow(desk, run):
            yield Batch(records)

    async def watch_watch_gpus(self, desk: FakeDesk) -> None:
        await asyncio.Event().wait()

    async def watch_watch_throughput(self, desk: FakeDesk) -> None:
        await asyncio.Event().wait()

    async def machine_watch_machine(self, desk: FakeDesk) -> None:
        await asyncio.Event().wait()

    async def machine_look(self, desk: FakeDesk) -> MachineState:
        return desk.store.snapshot.machine or MACHINE

    async def recording_record_runs(self, desk: FakeDesk) -> None:
        await asyncio.Event().wait()

    measure_knee = staticmethod(knee)

    async def measure_sweep(self, desk: FakeDesk) -> AsyncIterator[SweepProgress]:
        desk.calls.append(("measure",))
        progress = sweep()
        desk.store.update(sweep=progress)
        yield progress
        await asyncio.Event().wait()

    fresh = False

    async def winner_sealed(self, desk: FakeDesk) -> Any:
        return SimpleNamespace(run="2026-12-02-7", fresh=self.fresh, lines=("run 2026-12-02-7", "1,024  3,741 tok/s"))

    async def winner_measure_afresh(self, desk: FakeDesk) -> AsyncIterator[None]:
        desk.calls.append(("afresh",))
        self.fresh = True
        yield None

    async def winner_save_winner(self, desk: FakeDesk, name: str, *, overwrite: bool = False) -> Path:
        desk.calls.append(("save", name, overwrite))
        return Path(f"/home/ada/.config/tokwatt/profiles/{name}.toml")


def measured(concurrency: int, repeat: int, tok_s: float, tainted: tuple[str, ...] = ()) -> Measurement:
    return Measurement(
        "2026-12-02-7",
        concurrency,
        repeat,
        NOW - 300,
        60.0,
        concurrency * 4,
        concurrency * 4 - len(tainted),
        len(tainted),
        1024 * concurrency,
        256 * concurrency,
        tok_s,
        tok_s / 256,
        Percentiles(900, 400.0, 310.0 * concurrency / 256, None, 920.0 * concurrency / 256),
        Percentiles(9000, 120.0, 118.0, None, 164.0),
        Percentiles(900, 119.0, 118.0, None, 150.0),
        Percentiles(900, 30_000.0, 30_000.0, None, 33_000.0),
        power_mean_w=1986.0,
        energy_j_per_token=1986.0 / tok_s,
        tainted=tainted,
        protocol={"flushed": True, "warmed_up": True},
    )


def sweep(*, finished: bool = False) -> SweepProgress:
    done = [measured(256, r, 1950.0 + 14 * r) for r in range(3)] + [measured(512, r, 2800.0 + 20 * r) for r in range(3)]
    if finished:
        done += [measured(1024, r, 3740.0 + 9 * r, ("2 requests failed",) if r == 1 else ()) for r in range(3)]
        return SweepProgress("2026-12-02-7", (256, 512, 1024), 3, tuple(done))
    return SweepProgress("2026-12-02-7", (256, 512, 1024), 3, tuple(done), 1024, 2, "measuring", 0.62, 3741.0)
