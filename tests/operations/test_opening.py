"""Opening a desk: which words lead to which host, and what is said when none does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from console.domain.host import Link
from console.errors import ConnectError, UsageError
from console.operations.opening import open_desk
from console.remote.target import Target
from tests.ssh_servers import free_port


async def test_a_desk_shows_its_link_in_the_store_and_its_commands(ssh_host: Target) -> None:
    desk = await open_desk(ssh_host)
    snapshot = desk.store.snapshot
    assert snapshot.link.link is Link.UP
    assert snapshot.facts is not None
    assert (snapshot.host.address, snapshot.host.port) == ("127.0.0.1", ssh_host.port)
    await desk.link.run(["true"])
    assert desk.commands[-1].text == "true"
    await desk.link.close()
    assert desk.store.snapshot.link.link is Link.CLOSED


async def test_a_profile_says_the_host(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text('schema = 1\n[host]\nssh = "local"\n[engine]\nkind = "sglang"\n[launch]\nport = 1\n')
    desk = await open_desk(profile=str(profile))
    assert desk.link.host.name == "local"
    assert desk.profile is not None
    await desk.link.close()


async def test_no_host_and_no_such_word_are_usage_errors() -> None:
    for host in ("", "a b", "h:99999"):
        with pytest.raises(UsageError):
            await open_desk(host)


async def test_an_unreachable_host_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    with pytest.raises(ConnectError):
        await open_desk(Target("nobody", "127.0.0.1", free_port(), "me", read_config=False))
    assert asyncio.all_tasks() == before


async def test_the_home_folder_in_a_profile_is_the_hosts(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(
        'schema = 1\n[host]\nssh = "local"\n[engine]\npython = "~/env/bin/python3"\n[launch]\nworkdir = "~"\n'
    )
    desk = await open_desk(profile=str(profile))
    home = desk.link.facts.home
    assert desk.profile is not None
    assert (desk.profile.engine.python, desk.profile.launch.workdir) == (f"{home}/env/bin/python3", home)
    assert desk.store.snapshot.profile == desk.profile
    await desk.link.close()
