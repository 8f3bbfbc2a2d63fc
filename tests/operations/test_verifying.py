"""Winners held against a host, and numbers that come again or do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from console.config.edit import set_values
from console.config.profiles import load_profile, parse_profile
from console.domain.machine import GpuState, MachineState, compact, fingerprint
from console.domain.measurement import Measurement
from console.errors import UsageError
from console.inventory.git import git_state
from console.journal.records import RunEntry
from console.operations import machine
from console.operations.desk import Desk
from console.operations.drifts import Found, check_machine, check_seal, check_uncommitted
from console.operations.identity import uncommitted
from console.operations.verifying import (
    Conclusion,
    again,
    concluded,
    evidence_of,
)
from console.operations.winner import seal_of
from console.operations.winner_evidence import CLEAN, evidence
from tests.bench.test_foreign import MINE
from tests.journal.test_book import ONE
from tests.local import desk
from tests.wheels import commit_all

__all__ = ["desk"]

TEXT = """\
# a comment
[launch.args]
tp-size = 8
[winner]
run = "2026-12-02-1"
measured = [{ concurrency = 8, output_tok_s = 100.0, repeats_tok_s = [99.0, 100.0, 101.0] }]
"""
ROW = {"concurrency": 8, "output_tok_s": 100.0, "repeats_tok_s": [99.0, 100.0, 101.0]}


def test_a_seal_holds_what_is_launched_and_its_evidence_and_no_comments(tmp_path: Path) -> None:
    path = tmp_path / "won.toml"
    path.write_text(TEXT)
    seal = seal_of(load_profile(path))
    set_values(path, {("winner", "seal"): seal})
    assert seal_of(load_profile(path)) == seal
    path.write_text(path.read_text().replace("# a comment", "# another one\n\n"))
    assert seal_of(load_profile(path)) == seal
    for old, new in (("tp-size = 8", "tp-size = 4"), ("100.0, repeats", "130.0, repeats")):
        assert seal_of(parse_profile(path.read_text().replace(old, new), str(path))) != seal


def test_a_broken_seal_is_a_drift_and_so_is_one_that_was_taken_off(tmp_path: Path) -> None:
    profile = parse_profile(TEXT, str(tmp_path / "won.toml"))
    found = Found()
    check_seal(profile, evidence_of(profile), found)
    assert [(one.what, one.saved) for one in found.drifts] == [("seal of the file", "missing")] and not found.unknown
    found = Found()
    check_seal(profile, {**evidence_of(profile), "seal": "0" * 64}, found)
    assert [drift.what for drift in found.drifts] == ["seal of the file"]


def test_a_profile_that_won_nothing_is_told() -> None:
    with pytest.raises(UsageError, match=r"has no \[winner\]"):
        evidence_of(parse_profile("", "/x/p.toml"))


def measured(*speeds: float, **more: object) -> list[Measurement]:
    return [
        replace(MINE, repeat=place, output_throughput_tok_s=speed, **more)  # type: ignore[arg-type]
        for place, speed in enumerate(speeds)
    ]


@pytest.mark.parametrize(
    ("speeds", "verdict"),
    [
        ((99.5, 100.2, 100.9), "reproduced"),
        ((80.0, 80.5, 79.5), "slower"),
        ((130.0, 131.0, 129.0), "faster"),
        ((98.0,), "reproduced"),  # too few for an interval: within 3 %
        ((95.0,), "slower"),
        ((), "not measured"),
    ],
)
def test_a_number_comes_again_within_its_noise(speeds: tuple[float, ...], verdict: str) -> None:
    told = again(ROW, measured(*speeds))
    assert told.verdict == verdict
    assert (told.low_pct is None) == (len(speeds) < 3)


def test_tainted_measurements_prove_nothing() -> None:
    warm = measured(100.0, 100.0, 100.0, tainted=("warm cache", "idle not known"))
    told = again(ROW, warm)
    assert (told.verdict, told.why) == ("not measured", "warm cache; idle not known")
    assert again(ROW, warm, ("warm",)).why == "idle not known"
    assert again(ROW, warm, ("warm", "not known")).verdict == "reproduced", "so it was won"


async def test_a_machine_that_changed_since_it_won_is_a_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = GpuState(0, "GPU-0", power_enforced_w=600.0, pcie_width=16, ecc=True)
    then = MachineState(source="nvidia-smi", driver="580.1", governor="performance", gpus=(gpu,))
    now = replace(then, driver="590.2", gpus=(replace(gpu, uuid="GPU-1", pcie_width=8, power_enforced_w=450.0),))

    async def looked(desk: object) -> MachineState:
        return now

    async def sampled(desk: object) -> None:
        return None

    monkeypatch.setattr(machine, "look_quietly", looked)
    monkeypatch.setattr("console.operations.drifts._sample", sampled)
    saved = {"machine": compact(fingerprint(then))}
    assert "uuid" not in saved["machine"]["gpus"][0] and None not in saved["machine"]["gpus"][0].values()
    found = Found()
    await check_machine(cast(Any, None), saved, found)
    assert [(one.what, one.saved, one.now) for one in found.drifts] == [
        ("driver", "580.1", "590.2"),
        ("power limit on GPU 0", "600 W", "450 W"),
        ("link lanes on GPU 0", "16", "8"),
    ]
    old = Found()
    await check_machine(cast(Any, None), {}, old)
    assert set(old.unknown) == {"GPUs and power limits", "machine's state", "clocks held down"} and not old.drifts


async def test_an_edit_by_hand_is_a_drift_and_kept_with_its_diff_without_secrets(desk: Desk, tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "patched.py"):
        (tmp_path / name).write_text("one\n")
    commit_all(tmp_path)
    desk.store.update(git=await git_state(desk.link, str(tmp_path)))
    assert await uncommitted(desk) == ({}, "")
    token = "hf_" + "a" * 24
    (tmp_path / "a.py").write_text(f"two {token}\n")
    (tmp_path / "b.py").unlink()
    (tmp_path / "patched.py").write_text("ours\n")
    desk.store.update(git=await git_state(desk.link, str(tmp_path)))
    before = desk.link.round_trips
    told = await uncommitted(desk)
    assert told is not None and desk.link.round_trips - before == 1
    hashes, diff = told
    assert sorted(hashes) == ["a.py", "b.py", "patched.py"] and hashes["b.py"] == "deleted"
    assert "+two " in diff and token not in diff
    for then, drifted in ((CLEAN, ["uncommitted a.py", "uncommitted b.py"]), (hashes, []), (None, [])):
        found = Found()
        await check_uncommitted(desk, {} if then is None else {"uncommitted": then}, ("patched.py",), found)
        assert [one.what for one in found.drifts] == drifted
        assert list(found.unknown) == (["uncommitted changes"] if then is None else [])
        assert found.checked == (["uncommitted changes"] if then is hashes else [])


def test_noise_alone_reproduces_nothing() -> None:
    row = {"concurrency": 8, "output_tok_s": 443.2, "repeats_tok_s": [208.8, 560.3, 560.4]}
    done = [
        replace(ONE, concurrency_limit=8, repeat=n, tainted=(), output_throughput_tok_s=450.0 + n) for n in range(3)
    ]
    told = again(row, done)
    assert told.verdict == "too noisy" and concluded([told]) is Conclusion.NONE


def test_what_a_winner_was_won_with_is_in_its_evidence() -> None:
    done = tuple(measured(100.0, 101.0, 102.0, tainted=("idle not known",)))
    entry = RunEntry("r-1", "local", "p", "openai", 1.0, measurements=done)
    assert "measured" not in evidence({}, entry, (), {})
    (row,) = evidence({}, entry, (), {}, ("idle",))["measured"]
    assert row["output_tok_s"] == 101.0
