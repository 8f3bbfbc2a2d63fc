"""Opening and searching over a link with 50 ms added, beside what one would type instead."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from console.operations import source
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from tests.benchmarks.delayed import delayed
from tests.conftest import require_sshd
from tests.ssh_servers import OpenSshServer
from tests.wheels import sglang_059

__all__ = ["sglang_059"]

RTT_S = 0.05
ROUNDS = 5


async def _median_ms(act: Callable[[], Awaitable[object]]) -> float:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await act()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def test_open_and_grep_over_50_ms(sglang_059: Path, tmp_path: Path) -> None:
    require_sshd()
    file = sglang_059 / "sglang/srt/model_executor/model_runner.py"
    async with OpenSshServer(tmp_path / "ssh") as server, delayed(server.target.port, RTT_S / 2) as port:
        folder = tmp_path / "ssh"
        known = (folder / "known_hosts").read_text().replace(str(server.target.port), str(port))
        (folder / "known_far").write_text(known)
        link = HostLink(SshTransport(replace(server.target, port=port, known_hosts=str(folder / "known_far"))))
        await link.connect()
        desk = Desk(link)
        desk.store.update(host=link.host, facts=link.facts)
        ssh = ["ssh", "-F", "none", "-p", str(port), "-i", str(folder / "id_ed25519")]
        ssh += ["-o", f"UserKnownHostsFile={folder / 'known_far'}", f"{server.target.user}@127.0.0.1"]
        warm = [*ssh[:1], "-o", f"ControlPath={tmp_path / 'cm'}", *ssh[1:]]

        async def run(*argv: str) -> bytes:
            process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
            output, complaint = await process.communicate()
            assert process.returncode == 0, complaint
            return output

        async def hits() -> int:
            return len([hit async for hit in source.grep(desk, "flashinfer_cutlass", [str(sglang_059)])])

        await run(*warm[:1], "-o", "ControlMaster=yes", "-o", "ControlPersist=60", *warm[1:], "true")
        try:
            start = link.round_trips
            rows = {
                "open lines 1829-1857, hash and git": await _median_ms(
                    lambda: source.open_document(desk, str(file), first=1829, count=29)
                ),
                "  ssh host sed -n, ControlMaster": await _median_ms(
                    lambda: run(*warm, "sed", "-n", "1829,1857p", str(file))
                ),
                "  ssh host sed -n, cold": await _median_ms(lambda: run(*ssh, "sed", "-n", "1829,1857p", str(file))),
                "grep the SGLang tree": await _median_ms(hits),
                "  ssh host grep -rn, ControlMaster": await _median_ms(
                    lambda: run(*warm, "grep", "-rnI", "flashinfer_cutlass", str(sglang_059))
                ),
            }
            trips = link.round_trips - start
        finally:
            await run(*warm[:1], "-O", "exit", *warm[1:])
        await link.close()
    print(f"\nover {RTT_S * 1000:.0f} ms:")
    for name, ms in rows.items():
        print(f"  {name:40} {ms:7.0f} ms  {ms / (RTT_S * 1000):4.1f} round trips' time")
    print(f"  round trips counted: {trips / (2 * ROUNDS):.1f} per operation")
    assert trips == 2 * ROUNDS
