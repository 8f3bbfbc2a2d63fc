"""Measuring and keeping what won, against a pretend engine on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from console.config.profiles import load_profile
from console.domain.activity import Outcome
from console.domain.measurement import Measurement, Percentiles, SweepProgress
from console.domain.patch import DiskState, PatchStatus, WriteReceipt
from console.domain.run import FileHash, Run, RunPhase
from console.errors import ConsoleError, ReadOnlyError, RefusedError, UsageError
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations import winner
from console.operations.compare import compare
from console.operations.desk import Desk
from console.operations.measure import sweep
from console.operations.watch import watch_gpus, watch_throughput
from console.operations.winner import save_winner
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.bench.engine import Engine

ROOT = Path(__file__).parent.parent.parent
PROFILE = """# what we learned the hard way
schema = 1
title = "Small"
[host]
ssh = "local"
[engine]
kind = "sglang"  # not vLLM
[launch]
port = 9
[launch.args]
model-path = "/models/x"
tp-size = 8
[launch.env]
HF_TOKEN = { from = "env" }
[patches]
on = ["autotune"]
[bench]
concurrency = [2, 4]
input_tokens = 16
output_tokens = 8
[limits]
ttft_ms = 2000
"""


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(pace_s=0.002)
    server = await engine.start()
    yield engine
    server.close()


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> AsyncIterator[Desk]:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TOKWATT_GPU_SOURCE", "none")
    source = tmp_path / "small.toml"
    source.write_text(PROFILE)
    link = HostLink(LocalTransport())
    await link.connect()
    desk = Desk(link, profile=load_profile(source))
    run = Run(
        "2026-12-02-1", "small", "sglang", "/runs/1", "/runs/1/server.log", engine.port, 1000.0, phase=RunPhase.READY,
        hashes=(FileHash("/opt/sglang/srt/model_runner.py", "b" * 64),), patches_on=("autotune",),
        resolved={"model_path": "/models/x", "tp_size": 8, "nothing": None, "api_key": "very secret"}, versions={"sglang": "0.5.9"},
    )  # fmt: skip
    status = PatchStatus("autotune", "Autotune", DiskState.ON, files=("srt/model_runner.py",))
    desk.store.update(run=run, patches=(status,))
    yield desk
    await link.close()


def journal_text(path: Path) -> str:
    """Return all bytes of the journal's files as text."""
    return "".join(one.read_bytes().decode("latin-1") for one in path.parent.rglob("*") if one.is_file())


async def measured(desk: Desk, **more: object) -> SweepProgress:
    last = None
    async with asyncio.timeout(60), aclosing(sweep(desk, **more)) as steps:  # type: ignore[type-var, arg-type]
        async for progress in steps:
            last = progress
    assert last is not None
    return last


async def test_prompts_keep_to_the_vocabulary_of_the_served_model(desk: Desk, engine: Engine, tmp_path: Path) -> None:
    run = desk.store.snapshot.run
    assert run is not None
    for model, bounds in (("small", (256, 1024)), ("not-there", (1000, 9000))):
        if model == "small":
            (tmp_path / model).mkdir()
            (tmp_path / model / "config.json").write_text('{"text_config": {"vocab_size": 1024}}')
        engine.asked.clear()
        desk.store.update(run=replace(run, resolved={"model_path": str(tmp_path / model)}))
        done = await measured(desk, concurrency=(2,))
        ids = {token for asked in engine.asked for token in asked["input_ids"]}
        assert bounds[0] <= min(ids) and max(ids) < bounds[1] and len(ids) > 50
        assert done.done[0].protocol["token_range"] == list(bounds)


async def test_a_ladder_is_idle_flushed_warm_measured_and_journalled(desk: Desk, engine: Engine) -> None:
    done = await measured(desk)
    assert [(one.concurrency_limit, one.completed, one.output_tokens) for one in done.done] == [
        (2, 8, 64),
        (4, 16, 128),
    ]
    assert not any(one.tainted for one in done.done) and engine.flushed == 2
    assert all(one.protocol["flush_answer"] == "HTTP 200: Cache flushed." for one in done.done)
    assert all(
        one.goodput_req_s is not None and one.goodput_req_s <= (one.request_throughput_req_s or 0) for one in done.done
    )
    (entry,) = await Journal().runs()
    assert entry.measurements == done.done and entry.identity["hashes"] == {"/opt/sglang/srt/model_runner.py": "b" * 64}
    assert "very secret" not in journal_text(Journal().path) and entry.identity["resolved"]["api_key"] == "•••"
    assert entry.identity["patches_on"] == ["autotune"] and entry.identity["resolved"]["tp_size"] == 8
    assert desk.store.snapshot.sweep == done and desk.store.snapshot.activities[-1].outcome is Outcome.DONE
    assert [mark.kind for mark in desk.store.snapshot.marks] == ["measurement", "measurement"]
    assert desk.store.snapshot.sweep.current is None and desk.store.snapshot.sweep.step == ""


async def test_readonly_puts_no_load_on_a_server(desk: Desk, engine: Engine) -> None:
    desk.readonly = True
    with pytest.raises(ReadOnlyError, match="bench run"):
        await measured(desk)
    assert (engine.flushed, engine.asked) == (0, [])


async def test_repeats_have_other_prompts(desk: Desk, engine: Engine) -> None:
    await measured(desk, repeats=2)
    ids = [tuple(asked["input_ids"]) for asked in engine.asked]
    assert len(ids) == 2 * (10 + 20) == len(set(ids))


async def test_failures_and_a_warm_cache_taint(desk: Desk, engine: Engine) -> None:
    engine.cached_tokens, engine.fault, engine.spared, engine.faulty = 15, "refuse", 2, 3
    first, second = (await measured(desk)).done
    assert any(reason.startswith("warm prefix cache: ") for reason in second.tainted)
    assert any("requests failed: HTTP 503" in reason for reason in first.tainted)
    with pytest.raises(RefusedError, match="nothing fit to keep"):
        await save_winner(desk, "won")


async def test_without_a_ready_server_nothing_is_measured(desk: Desk, engine: Engine) -> None:
    assert desk.store.snapshot.run is not None
    desk.store.update(run=replace(desk.store.snapshot.run, phase=RunPhase.FAILED))
    with pytest.raises(ConsoleError):
        await measured(desk)
    with pytest.raises(UsageError):
        async for _ in sweep(desk, concurrency=(0,)):
            pass
    assert not engine.asked and not await Journal().runs()


async def test_a_measurement_that_cannot_be_kept_is_shown_before_the_fault(
    desk: Desk, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> int:
        raise ConsoleError("the journal cannot be used", "the disk is full")

    monkeypatch.setattr(Journal, "record_measurement", full)
    shown: list[int] = []
    with pytest.raises(ConsoleError, match="cannot be used"):
        async for progress in sweep(desk):
            shown = [one.completed for one in progress.done]
    assert shown == [8] and len(engine.asked) == 10  # no further rung
    assert desk.store.snapshot.activities[-1].outcome is Outcome.FAILED


async def test_closing_ends_the_load_and_says_cancelled(desk: Desk, engine: Engine) -> None:
    engine.pace_s = 0.5
    async with asyncio.timeout(30), aclosing(sweep(desk, concurrency=(4,))) as steps:  # type: ignore[type-var]
        async for progress in steps:
            assert progress.current == 4
            if engine.open == 4:
                break
    async with asyncio.timeout(10):
        while engine.open:
            await asyncio.sleep(0.02)
    last = desk.store.snapshot.sweep
    assert last is not None and last.current is None and last.error == "cancelled"
    assert desk.store.snapshot.activities[-1].outcome is Outcome.FAILED


async def test_a_winner_is_a_profile_with_its_evidence(desk: Desk) -> None:
    await measured(desk)
    receipt = WriteReceipt("autotune", "apply", (("srt/model_runner.py", "a" * 64, "b" * 64, 1, 1),), "", 3, 1.0)
    await Journal().record_write("local", receipt)
    path = await save_winner(desk, "won")
    text = path.read_text()
    assert text.startswith("# what we learned the hard way\n") and 'kind = "sglang"  # not vLLM' in text
    profile = load_profile(path)
    assert desk.profile is not None and profile.winner is not None
    assert replace(profile, name="small", path=desk.profile.path, winner=None) == desk.profile
    assert profile.winner["run"] == "2026-12-02-1" and profile.winner["host"] == "local"
    patch = {"file": "srt/model_runner.py", "before_sha256": "a" * 64, "at_launch_sha256": "b" * 64}
    assert profile.winner["patch"] == [{"name": "autotune", "files": [patch]}]
    assert profile.winner["versions"] == {"sglang": "0.5.9"} and "badge" not in profile.winner
    assert [row["concurrency"] for row in profile.winner["measured"]] == [2, 4]  # type: ignore[attr-defined]


async def test_a_winner_measured_afresh_is_sealed_with_its_fresh_numbers_alone(desk: Desk, engine: Engine) -> None:
    first = await measured(desk)
    shown = await winner.sealed(desk)
    assert not shown.fresh and any("patch autotune, 1 file with hashes" in line for line in shown.lines)
    before = len(engine.asked)
    progress = [step async for step in winner.measure_afresh(desk)]
    fresh = progress[-1].done
    assert {one.repeat for one in fresh} == {winner.FRESH, winner.FRESH + 1, winner.FRESH + 2}
    seen = [{tuple(asked["input_ids"]) for asked in part} for part in (engine.asked[:before], engine.asked[before:])]
    assert not seen[0] & seen[1]  # prompts that it did not win with
    assert winner.is_fresh((*first.done, *fresh)) and not winner.is_fresh(first.done)
    assert (await winner.sealed(desk)).fresh
    evidence = load_profile(await save_winner(desk, "won")).winner
    assert evidence is not None and evidence["fresh"] is True
    row = evidence["measured"][0]  # type: ignore[index]
    assert row["repeats_tok_s"] == [
        round(one.output_throughput_tok_s or 0, 2) for one in fresh if one.concurrency_limit == row["concurrency"]
    ]


async def test_an_existing_file_is_refused_then_edited_with_its_comments(desk: Desk) -> None:
    await measured(desk)
    path = await save_winner(desk, "won")
    mine = "# mine\n[bench]\nconcurrency = [9]  # nine\n[target]\noutput_tok_s = 5816.0  # K2\n"
    path.write_text(mine)
    with pytest.raises(RefusedError, match="is there already"):
        await save_winner(desk, "won")
    assert path.read_text() == mine
    assert await save_winner(desk, "won", overwrite=True) == path
    text = path.read_text()
    assert text.startswith("# mine\n") and "output_tok_s = 5816.0  # K2" in text and "# nine" in text
    data = tomllib.loads(text)
    assert data["bench"]["concurrency"] == [2, 4] and data["launch"]["args"]["tp-size"] == 8
    assert data["launch"]["env"]["HF_TOKEN"] == {"from": "env"} and data["winner"]["run"] == "2026-12-02-1"


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x y"])
async def test_a_winner_has_a_plain_name(desk: Desk, name: str) -> None:
    with pytest.raises(UsageError):
        await save_winner(desk, name)


async def test_unlike_runs_are_not_compared(desk: Desk) -> None:
    await measured(desk)
    journal = Journal()
    (entry,) = await journal.runs()
    await journal.record_run(
        replace(entry, id="other", identity={**entry.identity, "resolved": {"model_path": "/models/y"}})
    )
    await journal.record_run(replace(entry, id="alike", identity={**entry.identity, "patches_on": []}))
    for one in entry.measurements:
        await journal.record_measurement("local", replace(one, run_id="other"))
        doubled = 2 * (one.output_throughput_tok_s or 0)
        await journal.record_measurement("local", replace(one, run_id="alike", output_throughput_tok_s=doubled))
    with pytest.raises(RefusedError, match="model"):
        await compare(entry.id, "other")
    found = await compare(entry.id, "alike")
    assert [rung.ratio for rung in found.rungs] == [2, 2] and "interval" in found.note
    assert ("patches_on", ["autotune"], []) in [(one.what, one.a, one.b) for one in found.differences]
    with pytest.raises(UsageError, match="not in the journal"):
        await compare(entry.id, "nowhere")


async def test_three_common_repeats_give_an_interval_and_other_machines_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    gpus = [{"name": "X", "power_limit_w": 600.0}]
    for name, gain, identity in (("a", 1.0, {"gpus": gpus}), ("b", 1.1, {"gpus": gpus}), ("c", 1.0, {"gpus": []})):
        await journal.record_run(RunEntry(name, "h", "p", "sglang", 1.0, "", identity))
        for repeat, noise in enumerate((1.0, 1.01, 0.99, 1.005)):
            await journal.record_measurement("h", made(name, repeat, 100.0 * gain * noise))
    await journal.record_run(
        RunEntry("d", "h", "p", "sglang", 1.0, "", {"gpus": [{"name": "X", "power_limit_w": 450.0}]})
    )
    await journal.record_measurement("h", made("d", 0, 90.0))
    (rung,) = (await compare("a", "b", journal)).rungs
    assert rung.interval is not None and rung.clear and rung.interval.low < 1.1 < rung.interval.high + 1e-9
    (same,) = (await compare("a", "c", journal)).rungs  # what is not known excludes nothing
    assert same.interval is not None and not same.clear
    with pytest.raises(RefusedError, match="GPUs 1 × X at 600 W against 1 × X at 450 W"):
        await compare("a", "d", journal)


def made(run: str, repeat: int, tok_s: float) -> Measurement:
    none = Percentiles(0)
    return Measurement(run, 8, repeat, 1.0, 10.0, 32, 32, 0, 1, 1, tok_s, 1.0, none, none, none, none)


async def test_watching_fills_the_store(desk: Desk, engine: Engine) -> None:
    tasks = [asyncio.create_task(watch_gpus(desk)), asyncio.create_task(watch_throughput(desk))]
    try:
        async with asyncio.timeout(30):
            async for snapshot in desk.store.changes():
                if snapshot.throughput is not None and len(snapshot.tok_s_history) >= 2:
                    break
        assert snapshot.throughput is not None and snapshot.throughput.source == "/server_info"
        assert snapshot.throughput.idle and snapshot.throughput.running == 0
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


CONSOLE = """
import asyncio, sys
from console.domain.run import Run, RunPhase
from console.operations.desk import Desk
from console.operations.measure import sweep
from console.remote.link import HostLink
from console.remote.local import LocalTransport

async def main():
    link = HostLink(LocalTransport())
    await link.connect()
    desk = Desk(link)
    run = Run("killed", "p", "sglang", "/r", "/r/log", int(sys.argv[1]), 1.0, phase=RunPhase.READY, resolved={"a": 1})
    desk.store.update(run=run)
    async for progress in sweep(desk, concurrency=(2, 3, 4), repeats=50):
        print(len(progress.done), flush=True)

asyncio.run(main())
"""


async def test_kill_in_mid_sweep_leaves_the_server_and_whole_measurements(desk: Desk, engine: Engine) -> None:
    engine.pace_s = 0.0
    console = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CONSOLE, str(engine.port), stdout=subprocess.PIPE, cwd=ROOT, env=dict(os.environ)
    )
    assert console.stdout is not None
    done = 0
    async with asyncio.timeout(90):
        while done < 2:
            done = int(await console.stdout.readline())
    os.kill(console.pid, signal.SIGKILL)
    await console.wait()
    async with asyncio.timeout(15):
        while engine.open:
            await asyncio.sleep(0.02)
    entry = await Journal().run("killed")
    assert entry is not None and [one.concurrency_limit for one in entry.measurements][:2] == [2, 3]
