"""A pretend engine and this machine as a host."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.bench.engine import Engine


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """A pretend engine on a port of its own."""
    engine = Engine(pace_s=0.002)
    server = await engine.start()
    yield engine
    server.close()


@pytest.fixture
async def link() -> AsyncIterator[HostLink]:
    """A link to this machine."""
    link = HostLink(LocalTransport())
    await link.connect()
    yield link
    await link.close()
