"""A desk on this machine, for tests that need an outpost and no SSH."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A connected desk on host `local`; its `said` collects narration."""
    link = HostLink(LocalTransport())
    await link.connect()
    desk = Desk(link)
    desk.store.update(host=link.host, facts=link.facts)
    yield desk
    await link.close()
