"""A stub NVML library, and this machine as a host."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.remote.link import HostLink
from console.remote.local import LocalTransport


@pytest.fixture(scope="session")
def stub_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a `libnvidia-ml.so.1` of 8 GPUs, built from C."""
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("stub_nvml.c")
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(folder / "libnvidia-ml.so.1"), str(source)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def nvml(stub_nvml: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stub in force for programs started from here; `STUB_NVML` scripts it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stub_nvml))
    monkeypatch.delenv("STUB_NVML", raising=False)
    return monkeypatch


@pytest.fixture
async def link() -> AsyncIterator[HostLink]:
    """A link to this machine."""
    link = HostLink(LocalTransport())
    await link.connect()
    yield link
    await link.close()
