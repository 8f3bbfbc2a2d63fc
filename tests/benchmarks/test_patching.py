"""Verified apply and revert of a patch of two files over 50 ms, beside unverified `ssh … git apply` with ControlMaster.

`python -m tests.benchmarks.test_patching [--times N] [--delay-ms MS]`: prints medians, as times and as round trips.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from console.operations import patches
from console.operations.opening import open_desk
from tests.benchmarks.delayed import delayed
from tests.benchmarks.round_trips import Ssh, _through
from tests.ssh_servers import OpenSshServer
from tests.wheels import commit_all

LINES = 3000


def prepare(folder: Path) -> tuple[Path, Path, Path]:
    """Make a checkout of two long files; return the package, the patch file and the same patch as a diff."""
    package = folder / "w/eng"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    text = ""
    for name in ("one.py", "two.py"):
        rows = [f"value_{number} = {number}" for number in range(LINES)]
        (package / name).write_text("\n".join(rows) + "\n")
        text += f'[[edit]]\nfile = "{name}"\nfind = "value_1500 = 1500"\nreplace = "value_1500 = -1"\n'
    commit_all(folder / "w")
    for name in ("one.py", "two.py"):
        file = package / name
        file.write_text(file.read_text().replace("value_1500 = 1500", "value_1500 = -1"))
    diff = folder / "two.diff"
    diff.write_bytes(subprocess.run(["git", "-C", str(folder / "w"), "diff"], capture_output=True, check=True).stdout)
    subprocess.run(["git", "-C", str(folder / "w"), "apply", "-R", str(diff)], check=True)
    patch = folder / "two.toml"
    patch.write_text(text)
    return package, patch, diff


async def measured(times: int, act: Callable[[], Awaitable[object]]) -> float:
    """Return the median milliseconds of one act."""
    found = []
    for _ in range(times):
        began = time.monotonic()
        await act()
        found.append((time.monotonic() - began) * 1000)
    return statistics.median(found)


async def test_verified_needs_two_round_trips_for_two_files() -> None:
    assert await compare(times=9, delay_ms=50.0) == [2, 2]


async def compare(times: int, delay_ms: float) -> list[int]:
    """Measure both, in turn, over one delayed port; return the requests of an apply and of a revert."""
    trips: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package, patch, diff = prepare(folder)
        async with (
            OpenSshServer(folder / "ssh") as server,
            delayed(server.target.port, delay_ms / 2000) as port,
        ):
            target = _through(server.target, port, folder)
            desk = await open_desk(target, package_dirs=(str(package),))
            ssh = Ssh(target, folder)
            await ssh.run("true")
            rtt = min([await desk.link.measure() for _ in range(7)])
            await patches.statuses(desk, [str(patch)])

            async def ours() -> None:
                on = await patches.apply(desk, str(patch))
                off = await patches.revert(desk, str(patch))
                trips[:] = [on.round_trips, off.round_trips]

            async def theirs() -> None:
                await ssh.run(f"git -C {package.parent} apply {diff}")
                await ssh.run(f"git -C {package.parent} apply -R {diff}")

            for who, act in (("tokwatt, verified", ours), ("ssh git apply, unverified", theirs)):
                ms = await measured(times, act)
                said = f", {trips[0]} + {trips[1]} requests" if act is ours else ""
                print(f"{who:26} apply + revert of 2 files {ms:7.1f} ms = {ms / rtt:4.1f} RTT of {rtt:.1f} ms{said}")
            await ssh.close()
            await desk.link.close()
    return trips


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--delay-ms", type=float, default=50.0)
    args = parser.parse_args()
    asyncio.run(compare(args.times, args.delay_ms))


if __name__ == "__main__":
    main()
