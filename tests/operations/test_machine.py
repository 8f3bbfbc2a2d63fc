"""A machine's state in words, and what changed between two."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from console.domain.gpu import GpuReading, GpuSample
from console.domain.host import Host, Link, LinkState
from console.domain.machine import GpuState, MachineState, changes, fingerprint, link_words, summary
from console.domain.measurement import Measurement, Percentiles
from console.domain.text import SafeText
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import machine as operations_machine
from console.operations.compare import side_by_side
from console.operations.desk import Desk
from console.operations.machine import base_of, filled, marked, moved_between, since_base, taint
from console.operations.machine_words import machine_lines
from console.telemetry.topology import parse_file, parse_topology

DATA = Path(__file__).parent.parent / "data" / "topology"

NONE = Percentiles(0)

GPU = GpuState(
    0, "GPU-0", SafeText("NVIDIA RTX PRO 6000"), pstate="P0", pcie_gen=5, pcie_gen_max=5, pcie_width=16, pcie_width_max=16,
    persistence=True, ecc=True, power_requested_w=600.0, power_enforced_w=600.0, power_default_w=600.0,
)  # fmt: skip


def machine(count: int = 8, **more: Any) -> MachineState:
    gpus = tuple(replace(GPU, index=index, uuid=f"GPU-{index}") for index in range(count))
    state = MachineState(source="nvidia-smi", driver="580.1", cuda="13.0", kernel="Linux 6.8", gpus=gpus)
    return replace(state, **more)


def with_gpu(state: MachineState, index: int, **more: Any) -> MachineState:
    gpus = tuple(replace(gpu, **more) if gpu.index == index else gpu for gpu in state.gpus)
    return replace(state, gpus=gpus)


def said(before: MachineState, after: MachineState) -> list[str]:
    return [change.said for change in changes(fingerprint(before), fingerprint(after))]


@pytest.mark.parametrize(
    ("gpu", "text", "below"),
    [
        (GPU, "x16 gen5", False),
        (replace(GPU, pcie_width=8), "x8 gen5, below its best (x16 gen5): 8 of 16 lanes", True),
        (replace(GPU, pcie_gen=3), "x16 gen3, below its best (x16 gen5): gen 3 of 5", True),
        (replace(GPU, pcie_gen=1, pstate="P8"), "x16 gen1 while idle, up to x16 gen5", False),
        (replace(GPU, pcie_gen=1, pcie_width=4, pstate="P8"), "x4 gen1, below its best (x16 gen5): 4 of 16 lanes", True),
        (replace(GPU, pcie_gen=4, pcie_gen_max=4, pcie_gen_gpu_max=5),
         "x16 gen4, all that the slot gives (the GPU could gen5)", False),
        (replace(GPU, pcie_gen=None, pcie_width=None), "link not told", False),
    ],
)  # fmt: skip
def test_a_link_below_its_best_is_told_but_not_one_that_sleeps(gpu: GpuState, text: str, below: bool) -> None:
    assert link_words(gpu) == (text, below)


def test_a_lowered_limit_is_one_change_in_words() -> None:
    before = machine()
    assert said(before, with_gpu(before, 3, power_enforced_w=450.0)) == ["power limit 600 → 450 W on GPU 3"]
    both = with_gpu(before, 3, power_enforced_w=450.0, power_requested_w=450.0)
    assert said(before, both) == ["power limit 600 → 450 W on GPU 3"]
    assert said(before, with_gpu(before, 3, power_requested_w=700.0)) == ["requested power limit 600 → 700 W on GPU 3"]
    lower = replace(before, gpus=tuple(replace(gpu, power_enforced_w=450.0) for gpu in before.gpus))
    assert said(before, lower) == ["power limit 600 → 450 W on all GPUs"]
    some = with_gpu(with_gpu(with_gpu(before, 2, ecc=False), 3, ecc=False), 6, ecc=False)
    assert said(before, some) == ["ECC on → off on GPUs 2-3, 6"]


def test_driver_governor_and_paths_are_the_hosts() -> None:
    before = machine(governor="performance")
    after = replace(before, driver="590.2", governor="powersave", kernel="Linux 6.9")
    found = changes(fingerprint(before), fingerprint(after))
    assert [(one.said, one.decides) for one in found] == [
        ("driver 580.1 → 590.2", True),
        ("kernel Linux 6.8 → Linux 6.9", False),
        ("processor governor performance → powersave", True),
    ]
    joined = parse_topology((DATA / "underlined.txt").read_text())
    other = parse_topology((DATA / "old-driver.txt").read_text())
    assert said(machine(topology=joined), machine(topology=other)) == [
        "paths between GPUs PIX, PXB, NODE, SYS → NV1, SOC"
    ]


def test_what_one_side_does_not_know_is_no_change() -> None:
    before = machine()
    unknown = with_gpu(replace(before, driver="", governor="performance"), 0, power_enforced_w=None, ecc=None)
    assert said(before, unknown) == said(unknown, before) == []
    assert changes({}, fingerprint(before)) == ()


def test_a_link_that_sleeps_is_no_state_of_the_machine() -> None:
    before = machine()
    asleep = replace(before, gpus=tuple(replace(gpu, pcie_gen=1, pstate="P8") for gpu in before.gpus))
    assert said(before, asleep) == []
    assert said(before, with_gpu(before, 5, pcie_width=8)) == ["link lanes 16 → 8 on GPU 5"]


def test_gpus_are_followed_by_uuid_and_a_missing_one_is_told() -> None:
    before = machine(4)
    swapped = replace(before, gpus=tuple(replace(before.gpus[3 - place], index=place) for place in range(4)))
    assert said(before, swapped)[:2] == ["number 3 → 0 on GPU 0", "number 2 → 1 on GPU 1"]
    assert said(before, replace(before, gpus=before.gpus[:3])) == ["GPUs 4 → 3"]
    other = with_gpu(before, 2, uuid="GPU-other")
    assert said(before, other) == ["card GPU-2 → GPU-other on GPU 2"]


def test_lines_fit_eighty_columns_and_say_what_is_wrong() -> None:
    topology = parse_topology((DATA / "underlined.txt").read_text())
    peers = parse_file((DATA / "peers.txt").read_text()).peers
    state = with_gpu(machine(6, topology=replace(topology, peers=peers)), 3, pcie_width=8, power_enforced_w=450.0)
    lines = machine_lines(state, 80)
    assert max(len(text) for text, _ in lines) <= 80
    told = [text for text, kind in lines if kind == "warn"]
    assert "GPU 3: link x8 gen5, below its best (x16 gen5): 8 of 16 lanes" in told
    assert "GPU 3: power limit 450 W in force, 600 W asked for" in told


def test_peers_refused_alike_are_one_sentence_and_mixed_ones_a_matrix() -> None:
    found = parse_file((DATA / "peers.txt").read_text())
    lines = [text for text, _ in machine_lines(MachineState(topology=found), 120)]
    refused = "peer write: GNS between all GPUs, not supported by the GPU: copies go through host memory"
    assert refused in lines and "peer read, from row to column:" in lines
    assert "GPU0      ·   OK  CNS  CNS" in lines and "peer access over NVLink: none" in lines


def test_a_matrix_too_wide_is_told_in_blocks() -> None:
    topology = parse_topology((DATA / "old-driver.txt").read_text())
    narrow = [text for text, kind in machine_lines(MachineState(topology=topology), 40) if kind == "head"]
    assert narrow == ["       GPU0 GPU1 GPU2 GPU3 GPU4 GPU5", "       GPU6 GPU7"]


def test_nothing_known_is_a_reason() -> None:
    lines = machine_lines(MachineState(reason="no nvidia-smi on this host"), 80)
    assert ("GPUs: no nvidia-smi on this host", "warn") in lines


# runs


def entry(run_id: str, state: MachineState, started_at: float = 1.0, **more: Any) -> RunEntry:
    identity = {"machine": fingerprint(state), "resolved": {"model_path": "/m"}, **more}
    protocol = {"input_tokens": 1024, "output_tokens": 256, "flushed": True}
    one = Measurement(
        run_id, 64, 0, 0.0, 10.0, 64, 64, 0, 65536, 8000, 800.0, 6.4, NONE, NONE, NONE, NONE, protocol=protocol
    )
    return RunEntry(run_id, "h", "p", "sglang", started_at, identity=identity, measurements=(one,))


def test_runs_on_another_machine_state_are_not_compared() -> None:
    before = machine()
    found = side_by_side(entry("a", before), entry("b", with_gpu(before, 3, power_enforced_w=450.0)))
    assert found.refused == "another machine state: power limit 600 → 450 W on GPU 3" and not found.rungs
    assert [(one.what, one.a, one.b) for one in found.differences] == [("machine power limit on GPU 3", "600", "450")]


def test_what_does_not_decide_is_told_and_compared() -> None:
    before = machine()
    other = replace(before, kernel="Linux 6.9", gpus=tuple(replace(g, uuid=f"GPU-x{g.index}") for g in before.gpus))
    found = side_by_side(entry("a", before), entry("b", other))
    assert not found.refused and found.rungs
    assert found.differences[0].what == "machine kernel" and len(found.differences) == 9
    old = replace(entry("c", before), identity={"resolved": {"model_path": "/m"}})
    assert not side_by_side(entry("a", before), old).refused


async def test_a_run_says_what_changed_since_the_base_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    before, journal = machine(), Journal()
    lower = with_gpu(before, 3, power_enforced_w=450.0)
    for one in (entry("r1", before, 1.0), entry("r2", lower, 2.0), replace(entry("r3", lower, 3.0), profile="other")):
        await journal.record_run(one)
    assert await since_base(entry("r2", lower, 2.0)) == ("r1", ("power limit 600 → 450 W on GPU 3",))
    assert await since_base(entry("r1", before, 1.0)) == ("", ())
    newest = await base_of("h", "p", "r2")
    assert newest is not None and newest.id == "r1"
    foreign = await base_of("h", "third")
    assert foreign is not None and foreign.id == "r3"
    for number in range(210):
        await journal.record_run(replace(entry(f"n{number}", before, 10.0 + number), identity={"machine": {}}))
    assert await since_base(entry("r2", lower, 2.0)) == ("r1", ("power limit 600 → 450 W on GPU 3",))
    assert (found := await base_of("h", "p")) is not None and found.id == "r2"


async def test_arms_on_another_machine_state_than_the_first_run_are_spoiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    before, journal = machine(), Journal()
    for one in (entry("r1", before), entry("r2", with_gpu(before, 3, power_enforced_w=450.0)), entry("r3", before)):
        await journal.record_run(one)
    assert await moved_between("h", "r1", "r1") == await moved_between("h", "r1", "r3") == ""
    assert await moved_between("h", "r1", "unknown") == ""
    said = await moved_between("h", "r1", "r2")
    assert said == "another machine state than run r1: power limit 600 → 450 W on GPU 3"


def test_a_measurement_after_a_change_since_launch_is_tainted() -> None:
    one = entry("a", machine()).measurements[0]
    decided = {"machine": {}, "machine_changes": [{"text": "driver 1 → 2", "decides": True}]}
    assert marked(one, decided, ()).tainted == ("another machine state than at launch: driver 1 → 2",)
    assert marked(one, {"machine_changes": [{"text": "kernel", "decides": False}]}, ()) is one


def test_a_limit_lowered_under_way_taints_and_is_told_once() -> None:
    identity = {"machine": fingerprint(machine())}

    def sample(*limits: float) -> GpuSample:
        gpus = tuple(GpuReading(i, uuid=f"GPU-{i}", power_limit_w=watts) for i, watts in enumerate(limits))
        return GpuSample(1.0, "nvml", gpus)

    steady, lowered = sample(*[600.0] * 8), sample(*[600.0] * 7, 300.0)
    assert taint(identity, [steady, steady]) == ""
    assert (
        taint(identity, [steady, lowered]) == "another machine state than at launch: power limit 600 → 300 W on GPU 7"
    )
    told = {**identity, "machine_changes": [{"text": "power limit 600 → 300 W on GPU 7", "decides": True}]}
    assert taint(told, [lowered]).count("600 → 300") == 1


def test_what_launch_did_not_know_is_filled_and_what_it_knew_stays() -> None:
    asleep = replace(machine(), gpus=tuple(replace(gpu, pcie_gen=1, pstate="P8") for gpu in machine().gpus))
    now = with_gpu(machine(nccl="2.27.3"), 0, power_enforced_w=450.0)
    whole = filled(fingerprint(asleep), fingerprint(now))
    assert whole["gpus"][1]["pcie_gen"] == 5 and whole["gpus"][0]["power_enforced_w"] == 600.0
    assert whole["nccl"] == "2.27.3"
    assert summary(whole) == "driver 580.1 · CUDA 13.0 · NCCL 2.27.3 · 8 × NVIDIA RTX PRO 6000 at 600 W, x16 gen5"


class UpLink:
    """A link that is up."""

    host = Host("h")
    state = LinkState(Link.UP)

    async def changes(self) -> AsyncIterator[LinkState]:
        yield self.state


async def test_a_limit_that_moves_while_it_is_watched_is_told_since_the_base_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    monkeypatch.setattr(operations_machine, "PERIOD_S", 0.01)
    looks = []

    async def looked(desk: Desk) -> MachineState:
        looks.append(1)
        desk.store.update(machine=machine())
        return machine()

    monkeypatch.setattr(operations_machine, "look_quietly", looked)
    await Journal().record_run(entry("base", machine()))
    desk = Desk(link=cast(Any, UpLink()))
    watching = asyncio.create_task(operations_machine.watch_machine(desk))

    async def until(said: tuple[str, ...]) -> None:
        async for snapshot in desk.store.changes():
            if snapshot.base_run == "base" and snapshot.machine_changes == said:
                return

    try:
        async with asyncio.timeout(10):
            await until(())
            limits = [600.0] * 3 + [450.0] + [600.0] * 4
            gpus = tuple(GpuReading(i, uuid=f"GPU-{i}", power_limit_w=watts) for i, watts in enumerate(limits))
            desk.store.update(gpus=GpuSample(1.0, "nvml", gpus))
            await until(("power limit 600 → 450 W on GPU 3",))
            assert len(looks) == 1  # sampled limits need no new look
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_journal_that_cannot_be_read_names_no_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal.sqlite").write_text("no database")
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))

    async def looked(desk: Desk) -> MachineState:
        desk.store.update(machine=machine())
        return machine()

    monkeypatch.setattr(operations_machine, "look_quietly", looked)
    desk = Desk(link=cast(Any, UpLink()))
    watching = asyncio.create_task(operations_machine.watch_machine(desk))
    try:
        async with asyncio.timeout(10):
            async for snapshot in desk.store.changes():
                if snapshot.machine is not None:
                    break
        done, _ = await asyncio.wait([watching], timeout=0.2)
        assert not done and desk.store.snapshot.base_run == ""
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
