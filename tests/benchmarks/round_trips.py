"""Round trips of open, grep and apply over a link with 50 ms added, beside `ssh` with ControlMaster.

`python -m tests.benchmarks.round_trips [--tree DIR] [--package DIR --patch NAME]`
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from console.operations import patches, source
from console.operations.desk import Desk
from console.operations.opening import open_desk
from console.remote.target import Target
from tests.benchmarks.delayed import delayed
from tests.ssh_servers import OpenSshServer

DELAY_S = 0.025
TIMES = 7


async def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", default=str(Path(__file__).parents[2] / "console"))
    parser.add_argument("--package", default="", help="engine package to patch, in a git checkout")
    parser.add_argument("--patch", default="flashinfer-cutlass-autotune")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with OpenSshServer(Path(folder) / "ssh") as server, delayed(server.target.port, DELAY_S) as port:
            await _measure(_through(server.target, port, Path(folder)), args, Path(folder))


def _through(target: Target, port: int, folder: Path) -> Target:
    line = Path(target.known_hosts).read_text().split(" ", 1)[1]
    known = folder / "known"
    known.write_text(f"[127.0.0.1]:{port} {line}")
    return replace(target, port=port, known_hosts=str(known))


async def _measure(target: Target, args: argparse.Namespace, folder: Path) -> None:
    began = time.monotonic()
    desk = await open_desk(target, package_dirs=(args.package,) if args.package else ())
    connect_ms = (time.monotonic() - began) * 1000
    rtt = min([await desk.link.measure() for _ in range(TIMES)])
    print(f"one small request: {rtt:.1f} ms; connect, log in and start the outpost: {connect_ms / rtt:.1f} round trips")
    ssh = Ssh(target, folder)
    await ssh.run("true")  # opens the master
    tree, file = args.tree, str(next(Path(args.tree).rglob("*.py")))
    word = "def "
    await _row(
        desk, rtt, "open a file", lambda: source.open_document(desk, file), lambda: ssh.run(f"sed -n 1,200p {file}")
    )
    await _row(desk, rtt, "grep a tree", lambda: _grep(desk, word, tree), lambda: ssh.run(f"grep -rn '{word}' {tree}"))
    if args.package:
        file = f"{args.package}/srt/model_executor/model_runner.py"
        copy = f"{folder}/it.diff"
        await patches.statuses(desk, [args.patch])

        async def there_and_back() -> None:
            await patches.apply(desk, args.patch)
            ssh.made_diff(args.package, file, copy)
            await patches.revert(desk, args.patch)

        async def git_apply() -> None:
            await ssh.run(f"git -C {args.package} apply {copy}")
            await ssh.run(f"git -C {args.package} apply -R {copy}")

        await _row(desk, rtt, "apply + revert, verified", there_and_back, git_apply)
    await ssh.close()
    await desk.link.close()


async def _row(
    desk: Desk, rtt: float, name: str, ours: Callable[[], Awaitable[object]], theirs: Callable[[], Awaitable[object]]
) -> None:
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    trips = 0
    for _ in range(TIMES):
        for key, act in (("ours", ours), ("theirs", theirs)):
            before, began = desk.link.round_trips, time.monotonic()
            await act()
            times[key].append((time.monotonic() - began) * 1000)
            if key == "ours":
                trips = desk.link.round_trips - before
    mine, other = statistics.median(times["ours"]), statistics.median(times["theirs"])
    print(
        f"{name:26} {trips} requests, {mine:7.1f} ms = {mine / rtt:4.1f} RTT | ssh {other:7.1f} ms = {other / rtt:4.1f} RTT"
    )


async def _grep(desk: Desk, word: str, tree: str) -> int:
    return len([hit async for hit in source.grep(desk, word, [tree], fixed=True)])


class Ssh:
    """The OpenSSH client with one master connection."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._base = ["ssh", "-F", "none", "-p", str(target.port), "-i", target.key_files[0]]
        self._base += ["-o", f"UserKnownHostsFile={target.known_hosts}", "-o", f"ControlPath={folder}/cm"]
        self._base += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", f"{target.user}@127.0.0.1"]

    async def run(self, command: str) -> None:
        """Run one command there."""
        process = await asyncio.create_subprocess_exec(
            *self._base, command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert await process.wait() in (0, 1), command

    async def close(self) -> None:
        """End the master."""
        process = await asyncio.create_subprocess_exec(*self._base, "-O", "exit", stderr=subprocess.DEVNULL)
        await process.wait()

    def made_diff(self, package: str, file: str, copy: str) -> None:
        """Keep the applied change as a diff that git can apply."""
        if not Path(copy).exists():
            done = subprocess.run(["git", "-C", package, "diff", "--", file], capture_output=True, check=True)
            Path(copy).write_bytes(done.stdout)


if __name__ == "__main__":
    asyncio.run(main())
