"""A demo host in this process, and the engine of one on its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio

from console.demo import control, layout
from console.demo.server import DemoServer
from tests.ssh_servers import free_port

SPEED = "40"
ROLL = "The server is fired up and ready to roll!"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a demo host that nobody changes."""
    folder = tmp_path_factory.mktemp("demo-built")
    layout.build(folder)
    return folder


@pytest_asyncio.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DemoServer]:
    """A demo host with its faults."""
    monkeypatch.setenv("TOKWATT_DEMO_SPEED", SPEED)
    async with control.demo_server(tmp_path / "demo") as host:
        yield host


@contextlib.asynccontextmanager
async def login(server: DemoServer) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Log in as an asyncssh client that checks the host's key."""
    async with asyncssh.connect(
        "127.0.0.1",
        server.port,
        username="demo",
        client_keys=[str(server.keys.user_key)],
        known_hosts=str(server.keys.known_hosts),
        config=None,
        agent_path=None,
    ) as connection:
        yield connection


@dataclass(slots=True)
class Engine:
    """A launched stand-in and its log."""

    process: subprocess.Popen[bytes]
    log: Path
    port: int

    def text(self) -> str:
        """Return the log so far."""
        return self.log.read_text("utf-8", "replace")

    def wait_for(self, pattern: str, within_s: float = 30.0) -> str:
        """Return the log once it holds a pattern; fail with it when it never does."""
        until = time.monotonic() + within_s
        while not re.search(pattern, self.text()):
            if time.monotonic() > until or (self.process.poll() is not None and not re.search(pattern, self.text())):
                raise AssertionError(f"{pattern!r} is not in the log:\n{self.text()}")
            time.sleep(0.02)
        return self.text()

    def children(self) -> list[int]:
        """Return the pids of its children."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    def end(self) -> int:
        """Ask it to end and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


Launch = Callable[..., Engine]


@pytest.fixture
def launch(built: Path, tmp_path: Path) -> Iterator[Launch]:
    """Start engine stand-ins as a login on the demo host would; they end with the test."""
    begun: list[Engine] = []

    def start(*args: str, folder: Path = built, port: int = 0, **env: str) -> Engine:
        port = port or free_port()
        log = tmp_path / f"engine-{len(begun)}.log"
        argv = [str(folder / "home" / "ml-env" / "bin" / "python3"), "-m", "sglang.launch_server"]
        argv += ["--model-path", layout.MODEL, "--tp-size", "8", "--port", str(port), *args]
        environment = {**layout.environment(folder, "test"), "TOKWATT_DEMO_SPEED": SPEED, **env}
        with log.open("wb") as out:
            process = subprocess.Popen(argv, env=environment, stdout=out, stderr=out, cwd="/", start_new_session=True)
        begun.append(Engine(process, log, port))
        return begun[-1]

    yield start
    for engine in begun:
        if engine.process.poll() is None:
            os.killpg(engine.process.pid, signal.SIGKILL)
            engine.process.wait(10)
