"""An experiment over a real sshd whose link goes, or whose console is killed, at each step: a named state, and the same end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from console.journal import experiments as entries
from console.journal.book import Journal
from tests.bench import engine
from tests.conftest import require_sshd
from tests.ssh_servers import OpenSshServer, free_port

pytestmark = [pytest.mark.sshd, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
MARK = "TOKWATT_WALK"
KERNELS = "PACE_S = 0.02\n"
"""What the patch changes."""

SERVER = """
import argparse, asyncio, json, time
from sglang.engine import Engine, _plain
from sglang.kernels import PACE_S

parser = argparse.ArgumentParser()
for name in ("--model-path", "--port", "--tp-size"):
    parser.add_argument(name)
parser.add_argument("--fuse", action="store_true")
args = parser.parse_args()
told = {"model_path": args.model_path, "fuse": args.fuse}


def say(text):
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", flush=True)


class Server(Engine):
    async def _answer(self, method, path, body, writer):
        if path == "/v1/completions" and not json.loads(body).get("stream"):
            _plain(writer, 200, json.dumps({"choices": [{"text": "The sea was calm today."}]}).encode())
        elif path in ("/server_info", "/model_info"):
            _plain(writer, 200, json.dumps(told).encode())
        else:
            return await super()._answer(method, path, body, writer)
        await writer.drain()
        return True


async def main():
    async with await Server(pace_s=PACE_S).start(int(args.port)) as server:
        say("The server is fired up and ready to roll!")
        await server.serve_forever()


say(f"server_args=ServerArgs(model_path={args.model_path!r}, fuse={args.fuse}, port={args.port})")
asyncio.run(main())
"""
PROFILE = """schema = 1
[engine]
kind = "sglang"
python = "{python}"
[launch]
port = {port}
workdir = "{package}"
[launch.args]
model-path = "{package}"
"""
EXPERIMENT = """schema = 1
base = "base"
[measure]
concurrency = [2]
input_tokens = 4
output_tokens = 8
requests_per_stream = 1
repeats = 3
confirm = 0
tolerate = ["the client was"]
[[arm]]
name = "fused"
args = { fuse = true }
patches = ["pace"]
"""
PATCH = """name = "pace"
title = "Pace"
why = "To see what it does."
[applies_to]
engine = "sglang"
[[edit]]
file = "kernels.py"
find = "PACE_S = 0.02"
replace = "PACE_S = {pace}"
"""

STEPS = [
    "transaction fused", "note_stop", "launch", "ask", "load", "measured told", "transaction base", "verdict told",
    "rolled_back told", "left told",
]  # fmt: skip
"""Where it is cut, in whichever order; what wins is not rolled back, and its patch is taken off for the base's turn."""


class Walk:
    """A host, and a folder with an experiment on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "TOKWATT_DATA": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONPATH": str(ROOT),
        }
        self.kernels = folder / "package" / "sglang" / "kernels.py"

    async def begin(self, pace: float) -> None:
        """Write engine, profile, patch and experiment."""
        package = self.kernels.parent
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "launch_server.py").write_text(SERVER)
        shutil.copy(engine.__file__, package / "engine.py")
        self.kernels.write_text(KERNELS)
        words = {"python": sys.executable, "port": free_port(), "package": package.parent}
        (self.folder / "base.toml").write_text(PROFILE.format(**words))
        (self.folder / "x.toml").write_text(EXPERIMENT)
        patches = self.folder / "config" / "tokwatt" / "patches"
        patches.mkdir(parents=True)
        (patches / "pace.toml").write_text(PATCH.format(pace=pace))

    async def console(self, kind: str) -> tuple[int, str, str]:
        """Run a console to its end."""
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.experiments.cut_console", str(self.folder), kind,
            env=self.env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, said = await program.communicate()
        finally:
            with suppress(ProcessLookupError):
                program.kill()
        return program.returncode or 0, out.decode(), said.decode()[-2000:]

    def processes(self) -> list[tuple[int, str]]:
        """Return what runs on the host by our hand, but for logins."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{MARK}={self.folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        return found

    async def servers(self) -> int:
        """Return how many servers live, once everything else of ours has ended with its console."""
        async with asyncio.timeout(30):
            while True:
                found = [title for _, title in self.processes()]
                rest = [title for title in found if "launch_server" not in title and "tokwatt-run" not in title]
                if not rest:
                    return sum("launch_server" in title for title in found)
                await asyncio.sleep(0.05)

    async def entry(self) -> entries.ExperimentEntry:
        """Return the one experiment of the journal."""
        [entry] = await entries.listed(Journal(self.folder / "data" / "journal.sqlite"))
        return entry


@pytest.fixture
async def walk(tmp_path: Path) -> AsyncIterator[Walk]:
    """A host behind the real sshd."""
    require_sshd()
    found = Walk(tmp_path)
    extra = f"SetEnv XDG_STATE_HOME={tmp_path / 'state'} {MARK}={tmp_path}\n"
    async with OpenSshServer(tmp_path / "ssh", extra=extra) as server:
        way = {"sshd": server._process.pid, "target": asdict(server.target)}
        (tmp_path / "way.json").write_text(json.dumps(way))
        yield found
    for pid, _ in found.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("kind", "pace", "verdict"), [("console", 0.06, "REVERT"), ("link", 0.004, "KEEP")])
async def test_cut_at_each_step_it_comes_to_the_same_end(kind: str, pace: float, verdict: str, walk: Walk) -> None:
    await walk.begin(pace)
    for _ in range(40):
        status, out, said = await walk.console(kind)
        whole = {KERNELS, KERNELS.replace("0.02", str(pace))}
        assert walk.kernels.read_text() in whole, "all of a patch or nothing"
        assert await walk.servers() <= 1
        entry = await walk.entry()
        assert entry.where or len(entry.events) < 2, "the host's state has a name"
        if status != -signal.SIGKILL:
            break
    assert status == 0, said
    told, arm = json.loads(out), "fused" if verdict == "KEEP" else "base"
    assert (told["verdict"], told["winner"]) == (verdict, "fused" if verdict == "KEEP" else ""), said
    assert told["where"].startswith(f"{arm}: run ") and entry.finished
    assert walk.kernels.read_text() == (KERNELS if arm == "base" else KERNELS.replace("0.02", str(pace)))
    assert await walk.servers() == 1
    assert not (walk.folder / "state" / "tokwatt" / "hold" / "hold.json").exists()
    visits = Counter(
        tuple(event.data[name] for name in ("stage", "block", "arm"))
        for event in entry.events
        if event.kind == "measured"
    )
    assert set(visits.values()) == {1}
    cuts = (walk.folder / "cuts").read_text().splitlines()
    assert sorted(cuts) == sorted(step for step in STEPS if arm == "base" or step != "rolled_back told")
