"""Hosts to test against: the same over an SSH server in this process and over the real sshd."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from console.remote.link import HostLink
from console.remote.local import LocalTransport
from console.remote.ssh import SshTransport
from console.remote.target import Target
from tests.ssh_servers import SSHD, SshServer, server_of

# Timing never decides a unit test: a busy machine makes slow inputs, not wrong ones.
settings.register_profile("tokwatt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tokwatt")


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the journal of whoever runs the tests out of them."""
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path / "tokwatt-data"))


def require_sshd() -> None:
    """Skip without an OpenSSH server; under CI that is a failure."""
    if not SSHD.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{SSHD} is missing: apt-get install openssh-server")
        pytest.skip(f"{SSHD} is missing")


@pytest.fixture(params=["asyncssh", pytest.param("sshd", marks=pytest.mark.sshd)])
async def ssh_server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SshServer]:
    """An SSH server that really runs commands, with faults as methods."""
    if request.param == "sshd":
        require_sshd()
    async with server_of(request.param, tmp_path / "ssh") as server:
        yield server


@pytest.fixture
async def ssh_host(ssh_server: SshServer) -> Target:
    """What to dial to reach it."""
    return ssh_server.target


@pytest.fixture
async def link(ssh_host: Target) -> AsyncIterator[HostLink]:
    """A connected link over SSH."""
    link = HostLink(SshTransport(ssh_host))
    await link.connect()
    yield link
    await link.close()


@pytest.fixture
async def local_link() -> AsyncIterator[HostLink]:
    """A connected link to this machine, without SSH."""
    link = HostLink(LocalTransport())
    await link.connect()
    yield link
    await link.close()
