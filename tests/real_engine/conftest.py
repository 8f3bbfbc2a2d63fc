"""A host behind the real sshd on which real engines, installed below `.venvs`, serve tiny random models."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from console.config.profiles import load_profile
from console.domain.run import Run
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from console.remote.target import Target
from tests.conftest import require_sshd
from tests.needs import lacking
from tests.real_engine.gguf_model import write_gguf
from tests.real_engine.install import venv_of
from tests.real_engine.model import write_model
from tests.ssh_servers import SshServer, free_port, server_of

HERE = Path(__file__).parent
SHIMS = HERE / "shims"
SHIMS_VLLM = HERE / "shims_vllm"
ROOT = Path(__file__).parents[2]

READY_S = 420.0
"""A start takes 25 to 80 s on two cores; nobody measures here."""

PROFILE = """schema = 1
title = "Tiny random model on a processor"
[host]
ssh = "tiny-host"
[engine]
kind = "sglang"
python = "{python}"
[launch]
port = {port}
[launch.args]
model-path = "{model}"
device = "cpu"
dtype = "float32"
max-total-tokens = 32768
attention-backend = "torch_native"
sampling-backend = "flashinfer"
enable-metrics = true
served-model-name = "tiny"
log-level-http = "warning"
{args}
[launch.env]
OMP_NUM_THREADS = "1"
HF_HUB_OFFLINE = "1"
SGLANG_USE_CPU_ENGINE = "1"
PYTHONPATH = "{search_path}"
[bench]
concurrency = [1, 8]
input_tokens = 64
output_tokens = 32
"""

VLLM_PROFILE = """schema = 1
title = "Tiny random model on a processor"
[host]
ssh = "tiny-host"
[engine]
kind = "vllm"
python = "{python}"
[launch]
port = {port}
[launch.args]
model = "{model}"
served-model-name = "tiny"
dtype = "float32"
max-model-len = 2048
enforce-eager = true
host = "127.0.0.1"
{args}
[launch.env]
OMP_NUM_THREADS = "1"
HF_HUB_OFFLINE = "1"
VLLM_NO_USAGE_STATS = "1"
VLLM_CPU_KVCACHE_SPACE = "{kv_gb}"
VLLM_SERVER_DEV_MODE = "1"
PYTHONPATH = "{search_path}"
[bench]
concurrency = [1, 4]
input_tokens = 64
output_tokens = 32
"""

LLAMA_PROFILE = """schema = 1
title = "Tiny random model on a processor"
[host]
ssh = "tiny-host"
[engine]
kind = "{kind}"
command = {command}
[launch]
port = {port}
[launch.args]
model = "{model}"
host = "127.0.0.1"
{args}
"""


@dataclass
class Bay:
    """The host, and what a console needs to work on it."""

    server: SshServer
    folder: Path
    python: Path
    model: Path
    port: int
    package: Path | None = None
    """Folder on the search path whose copy of the engine goes before the installed one."""
    said: list[str] = field(default_factory=list)
    links: list[HostLink] = field(default_factory=list)

    def profile(self, name: str = "tiny", args: str = "", model: Path | None = None) -> Path:
        """Write a profile of the tiny model and return its file."""
        search_path = ":".join(map(str, filter(None, (SHIMS, self.package))))
        text = PROFILE.format(
            python=self.python, port=self.port, model=model or self.model, args=args, search_path=search_path
        )
        return self._write(name, text)

    def vllm_profile(self, name: str = "tiny", args: str = "", model: Path | None = None, kv_gb: int = 1) -> Path:
        """Write a profile of the tiny model under vLLM and return its file."""
        return self._write(
            name,
            VLLM_PROFILE.format(
                python=self.python,
                port=self.port,
                model=model or self.model,
                args=args,
                kv_gb=kv_gb,
                search_path=SHIMS_VLLM,
            ),
        )

    def llama_profile(
        self,
        name: str = "tiny",
        args: str = "metrics = true",
        model: Path | None = None,
        kind: str = "llamacpp",
        before: tuple[str, ...] = (),
    ) -> Path:
        """Write a profile of the tiny model under llama.cpp's server and return its file.

        Args:
            name: Of the profile.
            args: Further arguments as TOML.
            model: Another model.
            kind: Of the engine.
            before: Words that start the words that start it: limits, shells.
        """
        command = json.dumps([*before, str(self.python), str(HERE / "llamacpp_server.py")])
        text = LLAMA_PROFILE.format(kind=kind, command=command, port=self.port, model=model or self.model, args=args)
        return self._write(name, text)

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    async def desk(self, profile: Path, way: Target | None = None) -> Desk:
        """Return the desk of another console, which reaches the host by a way of its own where one is given."""
        link = HostLink(SshTransport(way or self.server.target))
        self.links.append(link)
        await link.connect()
        desk = Desk(link, profile=load_profile(profile), say=self.said.append)
        desk.store.update(host=link.host, facts=link.facts, profile=desk.profile)
        return desk

    def command(self, *words: str) -> list[str]:
        """Return a command line of the shell door; `environment` leads it to this host."""
        return [sys.executable, "-m", "console", *words]

    def environment(self) -> dict[str, str]:
        """Return what a console as a process of its own sees: a home whose ssh_config names the host."""
        target = self.server.target
        home = self.folder / "home"
        (home / ".ssh").mkdir(parents=True, exist_ok=True)
        (home / ".ssh/config").write_text(
            f"Host tiny-host\n  HostName {target.address}\n  Port {target.port}\n  User {target.user}\n"
            f"  IdentityFile {target.key_files[0]}\n  UserKnownHostsFile {target.known_hosts}\n"
        )
        return {**os.environ, "HOME": str(home), "PYTHONPATH": str(ROOT)}

    def shell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command line of the shell door to its end."""
        return subprocess.run(
            self.command(*words),
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=READY_S,
        )

    def runs(self) -> list[Path]:
        """Return the folders of runs on the host."""
        return sorted(self.folder.glob("ssh/state/tokwatt/runs/*"))


def python_of(engine: str) -> Path:
    """Return the interpreter of an installed engine."""
    python = venv_of(engine) / "bin/python"
    if not python.exists():
        lacking(f"{python}: make test-engines installs it")
    return python


@pytest.fixture(scope="session")
def engine_python() -> Path:
    """The interpreter of the installed SGLang."""
    return python_of("sglang")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def copied_package(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of SGLang that may be patched: the venv itself is never written to."""
    [installed] = engine_python.parents[1].glob("lib/python3*/site-packages/sglang")
    folder = tmp_path_factory.mktemp("package")
    for source in (installed, *installed.parent.glob("sglang-*.dist-info")):
        shutil.copytree(source, folder / source.name)
    return folder


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model in one file."""
    return write_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture
async def bay(engine_python: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bay]:
    """A host with SGLang and without a server."""
    async with bay_at(tmp_path, monkeypatch, engine_python, model) as bay:
        yield bay


@pytest.fixture
async def vllm_bay(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bay]:
    """A host with vLLM and without a server."""
    async with bay_at(tmp_path, monkeypatch, python_of("vllm"), model) as bay:
        yield bay


@pytest.fixture
async def llama_bay(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bay]:
    """A host with llama.cpp and without a server."""
    async with bay_at(tmp_path, monkeypatch, python_of("llamacpp"), gguf) as bay:
        yield bay


@contextlib.asynccontextmanager
async def bay_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: Path, model: Path) -> AsyncIterator[Bay]:
    """A host without a server; what a test leaves running is ended by the numbers in its run folders."""
    require_sshd()
    for name in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("TOKWATT_GPU_SOURCE", "none")
    monkeypatch.chdir(tmp_path)
    async with server_of("sshd", tmp_path / "ssh") as server:
        bay = Bay(server, tmp_path, python, model, free_port())
        try:
            yield bay
        finally:
            for link in bay.links:
                await link.close()
            for run in bay.runs():
                _end(run)


def _end(run: Path) -> None:
    with contextlib.suppress(OSError, IndexError):
        session = int((run / "pid").read_text().split()[2])
        if session:  # an adopted server has none of ours, and 0 would be this very process group
            os.killpg(session, signal.SIGKILL)


async def until(true: Callable[[], bool], limit_s: float = READY_S) -> None:
    """Wait for something that another process does."""
    async with asyncio.timeout(limit_s):
        while not true():
            await asyncio.sleep(0.1)


def alive(run: Run) -> Iterator[int]:
    """Yield the processes of this machine that are in the session of a run."""
    assert run.process is not None
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == run.process.session and fields[0] not in "ZX":
                yield int(folder.name)
