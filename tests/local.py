"""Desks for tests: on this machine, which needs no SSH, and over both SSH servers."""

from __future__ import annotations

import pytest

from console.operations.desk import Desk
from console.remote.link import HostLink


@pytest.fixture
async def desk(local_link: HostLink) -> Desk:
    """A desk on host `local`."""
    return _at(local_link)


@pytest.fixture
async def ssh_desk(link: HostLink) -> Desk:
    """A desk on this machine as an SSH host: in-process server, then the real sshd."""
    return _at(link)


def _at(link: HostLink) -> Desk:
    desk = Desk(link)
    desk.store.update(host=link.host, facts=link.facts)
    return desk
