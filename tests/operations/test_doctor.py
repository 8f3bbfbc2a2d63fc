"""The doctor over SSH: what it looks at, and how a poor host comes out."""

from __future__ import annotations

import json
from pathlib import Path

from console.operations.doctor import Check, Health, examine
from console.operations.opening import open_desk
from console.remote.target import Target
from tests.ssh_servers import InProcessServer


async def _checks(target: Target) -> dict[str, Check]:
    desk = await open_desk(target)
    try:
        return {check.name: check async for check in examine(desk)}
    finally:
        await desk.link.close()


async def test_a_host_is_looked_over(ssh_host: Target) -> None:
    found = await _checks(ssh_host)
    assert found["connection"].health is Health.OK
    assert found["connection"].values["port"] == ssh_host.port
    assert found["connection"].values["login_round_trips"] > 0
    assert str(found["host key"].values["fingerprint"]).startswith("SHA256:")
    assert found["login shell"].values["noise"] == ""
    assert found["python"].health is Health.OK
    assert found["disk"].values["free_bytes"] > 0
    json.dumps([check.values for check in found.values()])


async def test_a_noisy_login_shell_is_a_warning_that_shows_the_noise(tmp_path: Path) -> None:
    shell = tmp_path / "noisy"
    shell.write_text('#!/bin/sh\necho "Welcome to gpu-a"\nexec /bin/sh "$@"\n')
    shell.chmod(0o755)
    async with InProcessServer(tmp_path / "ssh", shell=str(shell)) as server:
        shown = (await _checks(server.target))["login shell"]
    assert shown.health is Health.WARNING
    assert "Welcome to gpu-a" in shown.said
