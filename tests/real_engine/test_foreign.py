"""Real servers that somebody started by hand: found, attached, adopted, and ended only once their pid was typed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from console.domain.run import LogKind, RunPhase
from console.operations import foreign, logs, server
from console.remote.http import http_client
from tests.real_engine.conftest import HERE, SHIMS, Bay, until

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class ByHand:
    """A server as a shell starts it: in a session of its own, its output redirected to a file."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def told(self) -> str:
        """Return what it has written."""
        return self.log.read_text(errors="replace")

    async def says(self, line: str) -> None:
        """Return when its log has a line; fail with the log when it dies before."""
        await until(lambda: line in self.told() or self.process.poll() is not None)
        assert self.process.poll() is None, self.told()


@contextlib.contextmanager
def by_hand(bay: Bay, *command: str, env: Mapping[str, str] | None = None) -> Iterator[ByHand]:
    log = bay.folder / "by-hand.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=bay.folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield ByHand(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def llama_by_hand(bay: Bay) -> Iterator[ByHand]:
    """Start it as the program that people call: its title is that of any installed one."""
    program = llama_server(bay)
    program.write_text(f"#!{bay.python}\n{(HERE / 'llamacpp_server.py').read_text()}")
    program.chmod(0o755)
    words = ("--model", str(bay.model), "--port", str(bay.port), "--parallel", "2", "--metrics", "--slots")
    with by_hand(bay, str(program), *words) as started:
        yield started


def llama_server(bay: Bay) -> Path:
    return bay.folder / "llama-server"


def on_host(bay: Bay, *words: str) -> tuple[int, dict[str, Any], str]:
    """Run a verb; return its exit status, its document and what it narrated."""
    done = bay.shell("--host", "tiny-host", "--json", *words)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def found_on(bay: Bay, started: ByHand) -> dict[str, Any]:
    """Return what `serve status --all` tells of a server."""
    code, told, _ = on_host(bay, "serve", "status", "--all")
    assert code == 0 and not told["left_over"] and not told["embedded"]
    [mine] = [each for each in told["servers"] if each["pid"] == started.pid]
    return dict(mine)


def free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_llama_server_of_somebody_else(llama_bay: Bay) -> None:
    bay = llama_bay
    with llama_by_hand(bay) as started:
        await started.says("listening on")
        mine = found_on(bay, started)
        assert (mine["engine"], mine["port"], mine["answers"], mine["role"]) == (
            "llamacpp", bay.port, "ready", "server",
        )  # fmt: skip
        assert (mine["ours"], mine["run"], mine["may_signal"]) == (False, None, True)
        assert (mine["log"], mine["model"]) == (str(started.log), str(bay.model))
        code, told, said = on_host(bay, "serve", "attach", str(started.pid))
        assert code == 0 and (told["run"]["phase"], told["run"]["id"]) == ("ready", None)
        assert told["run"]["log"] == str(started.log) and told["resolved"]["parallel"] == 2
        rows = {row["name"]: row for row in told["arguments"]}
        assert (rows["parallel"]["asked"], rows["parallel"]["in_force"]) == (2, 2)
        assert (rows["metrics"]["asked"], rows["metrics"]["in_force"]) == (True, True)
        assert told["differences"] == [] and not said
        with somebody_on(bay.port) as (peer, client):
            its_end_is_refused(bay, started, peer, client)
        its_end_is_proven(bay, started)


CLIENT = """import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as way:
    print("%s:%d" % way.getsockname(), flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def somebody_on(port: int) -> Iterator[tuple[str, int]]:
    """Hold a connection from another process than the tests', which the sshd is a child of; address and pid."""
    words = (sys.executable, "-c", CLIENT, str(port))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        yield client.stdout.readline().strip(), client.pid


def its_end_is_refused(bay: Bay, started: ByHand, peer: str, client: int) -> None:
    """Whom it would hit is shown all the same: owner, command, connections."""
    for confirm in ((), ("--confirm", str(started.pid + 1))):
        code, told, said = on_host(bay, "serve", "stop", "--pid", str(started.pid), *confirm)
        assert code == 3 and not told["stopped"] and started.process.poll() is None
        assert f"pid {started.pid} was not started by tokwatt and is not stopped" in said
        assert f"--confirm {started.pid} in a script" in said
        assert f"owner        {told['server']['user']}, not ours" in said
        assert f"command      {bay.python} {llama_server(bay)} --model {bay.model}" in said
        assert f"connections  1: {peer} (pid {client}: " in said
        assert f"processes    1: {started.pid} python llama-server" in said and told["requests_in_flight"] == 0
        [theirs] = [each for each in told["connections"] if not each["ours"]]
        assert (theirs["peer"], theirs["pid"]) == (peer, client)


def its_end_is_proven(bay: Bay, started: ByHand) -> None:
    words = ("serve", "stop", "--pid", str(started.pid), "--confirm", str(started.pid))
    code, told, said = on_host(bay, *words)
    assert code == 0 and told["stopped"] and told["run"]["phase"] == "exited", said
    assert f"every process gone · port {bay.port} free · GPU memory not checked (no nvidia-smi)" in said
    assert started.process.wait(timeout=5) == 0 and free(bay.port) and "SIGKILL" not in said
    code, _, said = on_host(bay, *words)
    assert code == 6 and f"no process has pid {started.pid}" in said


async def test_a_llama_server_that_is_adopted_is_a_run_from_then_on(llama_bay: Bay) -> None:
    bay = llama_bay
    with llama_by_hand(bay) as started:
        await started.says("listening on")
        written = started.log.read_bytes()
        code, told, _ = on_host(bay, "serve", "adopt", str(started.pid))
        run = told["run"]
        assert code == 0 and (run["adopted"], run["launched"], run["phase"]) == (True, False, "ready")
        assert (run["pid"], run["log"], run["port"]) == (started.pid, str(started.log), bay.port)
        code, _, said = on_host(bay, "serve", "adopt", str(started.pid))
        assert code == 6 and f"pid {started.pid} is run {run['id']} already" in said
        assert found_on(bay, started)["run"] == run["id"]
        code, told, said = on_host(bay, "serve", "stop", run["id"])
        assert code == 0 and (told["run"]["phase"], told["run"]["failure"]) == ("exited", None)
        assert "every process gone" in said and started.process.wait(timeout=5) == 0 and free(bay.port)
        assert started.log.read_bytes().startswith(written)


async def test_an_sglang_of_somebody_else_is_found_attached_adopted_and_stopped(bay: Bay) -> None:
    command = [
        str(bay.python), "-m", "sglang.launch_server", "--model-path", str(bay.model), "--port", str(bay.port),
        "--device", "cpu", "--dtype", "float32", "--max-total-tokens", "32768", "--sampling-backend", "flashinfer",
        "--attention-backend", "torch_native", "--enable-metrics", "--served-model-name", "tiny",
    ]  # fmt: skip
    env = {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "PYTHONPATH": str(SHIMS),
    }
    with by_hand(bay, *command, env=env) as started:
        await started.says("fired up and ready to roll")
        mine = found_on(bay, started)
        assert (mine["engine"], mine["port"], mine["answers"], mine["version"]) == (
            "sglang", bay.port, "ready", "0.5.23",
        )  # fmt: skip
        assert (mine["ours"], mine["log"], mine["model"]) == (False, str(started.log), str(bay.model))
        titles = {each["title"].split(" ")[0] for each in mine["processes"]}
        assert {"sglang::scheduler", "sglang::detokenizer"} <= titles
        desk = await bay.desk(bay.profile())
        run = await foreign.attach(desk, started.pid)
        assert (run.phase, run.adopted, run.log) == (RunPhase.READY, False, str(started.log))
        assert run.resolved["max_total_tokens"] == 32768  # out of the log alone
        rungs = [rung.name for rung in run.ladder]
        assert rungs[-1] == "ready" and {"arguments", "weights", "kv cache"} <= set(rungs)
        code, told, _ = on_host(bay, "serve", "attach", str(started.pid))
        assert code == 0 and len(told["resolved"]) > 300
        assert [(each["name"], each["requested"], each["resolved"]) for each in told["differences"]] == [
            ("sampling-backend", "flashinfer", "pytorch")
        ]
        adopted = await foreign.adopt(desk, started.pid)
        [package] = bay.python.parents[1].glob("lib/python3*/site-packages/sglang")
        assert adopted.loaded.startswith(f"{package} unchanged since before it started (")
        assert adopted.adopted and not adopted.launched and adopted.phase is RunPhase.READY
        async with http_client(desk.link, adopted.port, timeout_s=120.0) as client:
            body = {"model": "tiny", "prompt": "Once", "max_tokens": 5, "ignore_eos": True}
            assert (await client.post("/v1/completions", json=body)).status_code == 200
        kinds = {record.kind async for record in logs.past(desk, adopted)}
        assert {LogKind.PREFILL, LogKind.PHASE} <= kinds and LogKind.FAILURE not in kinds
        stopped = await server.stop(desk, adopted, grace_s=120)
        assert (stopped.phase, stopped.failure) == (RunPhase.EXITED, None)
        assert f"every process gone · port {bay.port} free · GPU memory not checked (no nvidia-smi)" in bay.said
        assert started.process.wait(timeout=5) is not None
