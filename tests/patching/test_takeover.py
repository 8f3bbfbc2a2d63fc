"""A lock whose holder is stuck: ended when it is that very process, and what it left is closed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.remote.outpost import takeover
from console.remote.outpost.caches import stale
from console.remote.outpost.calls import Fault
from tests.patching.test_transaction import package, snap, write

__all__ = ["package"]

STUCK = """
import sys, time
sys.path.insert(0, "")
from console.remote.outpost import transaction
from tests.patching.test_transaction import write
from pathlib import Path
def wait(name):
    if name == sys.argv[2]:
        print("stuck", flush=True)
        time.sleep(600)
transaction.on_step = wait
write(Path(sys.argv[1]), {"a.py": (b"a = 2\\n", b"a = 3\\n")}, name="q", operator="bob@desk as root")
"""


def stuck_at(package: Path, step: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", STUCK, str(package), step], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "stuck\n"
    process.stdout.close()
    return process


@pytest.fixture(params=["compare", "swap", "sync"])
def stuck(package: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A writer that holds the lock and does not go on."""
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    process = stuck_at(package, request.param)
    yield process
    process.kill()
    process.wait()


def aged(package: Path, **more: object) -> None:
    """Let the holder have begun an hour ago."""
    lock = package.parent / ".tokwatt/lock"
    mark = json.loads(lock.read_bytes())
    lock.write_bytes(json.dumps({**mark, "since": time.time() - 3600, **more}).encode())


def test_a_stuck_writer_is_ended_and_what_it_left_is_closed(package: Path, stuck: subprocess.Popen[str]) -> None:
    present = (package / "a.py").read_bytes()
    aged(package)
    with pytest.raises(Fault, match="bob@desk as root is writing here for 36"):
        write(package, {"a.py": (present, b"a = 4\n")})
    before = present
    said = None
    try:
        said = write(package, {"a.py": (before, b"a = 4\n")}, take_over=True)
    except Fault as fault:  # closing it may have finished its write: then what was looked at is not there any more
        assert fault.kind == "changed"
        found = snap(package)
        assert not found["pending"]
        assert (package / "a.py").read_bytes() == b"a = 3\n"
    assert stuck.wait(10) == -9
    if said is not None:
        assert [item["name"] for item in said["recovered"]] == ["q"]
        assert (package / "a.py").read_bytes() == b"a = 4\n"
    assert sorted(path.name for path in package.iterdir() if path.is_file()) == ["a.py"]


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ({"since": None}, "since 0 s only"),
        ({"space": "pid:[1]"}, "another container"),
        ({"boot": "another"}, "another container or machine"),
        ({"start_ticks": 1}, "another process holds it"),
        ({"pid": None}, "did not say"),
    ],
)
def test_whoever_is_not_surely_the_stuck_one_is_left_alone(package: Path, mark: dict[str, object], told: str) -> None:
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    process = stuck_at(package, "compare")
    try:
        aged(package, **({"since": time.time()} if mark == {"since": None} else mark))
        with pytest.raises(Fault, match=told) as caught:
            write(package, {"a.py": (b"a = 2\n", b"a = 4\n")}, take_over=True)
        assert caught.value.kind == "locked" and process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_free_lock_needs_no_taking_over(package: Path) -> None:
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    write(package, {"a.py": (b"a = 2\n", b"a = 3\n")}, take_over=True)
    assert takeover.YOUNG_S > 0


def test_caches_that_a_change_feeds_are_named_when_they_are_there(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "USER": "ada"}
    triton = b"import triton\n@triton.jit\ndef k(): pass\n"
    assert stale([("/p/k.py", triton, triton + b"# x\n")], env) == []
    for place in (".triton/cache", "inductor", ".cache/flashinfer", ".cache/sglang/flashinfer/autotune"):
        (tmp_path / place).mkdir(parents=True)
    (said,) = stale([("/p/k.py", triton, triton + b"# x\n")], env)
    assert said.startswith(f"k.py: Triton cache ({tmp_path}/.triton/cache)")
    (said,) = stale([("/p/m.py", b"torch.compile(f)\n", b"")], env)
    assert "Inductor cache" in said
    runner = b"if flashinfer_autotune: pass\n"
    assert [row.split(" (")[0] for row in stale([("/p/r.py", runner, runner)], env)] == [
        "r.py: FlashInfer cache",
        "r.py: SGLang's autotune cache",
    ]
    assert stale([("/p/x.py", b"x = 1\n", b"x = 2\n")], env) == []
