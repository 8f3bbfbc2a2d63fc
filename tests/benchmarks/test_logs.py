"""Following a log over sshd beside `ssh tail -F`, memory after ten million lines, a log of 1 GB at its end in the pane.

`FOLLOW_LINES` (1,000,000), `KEEP_LINES` (10,000,000) and `BIG_LOG_MB` (1,000) are the sizes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from console.domain.run import LogRecord, Run, RunPhase
from console.engines.records import LogParser
from console.engines.registry import engine
from console.operations import logs
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from console.ui.widgets.log_rows import LINES_KEPT, Book
from tests.benchmarks.terminal import Terminal
from tests.conftest import require_sshd
from tests.ssh_servers import OpenSshServer

FOLLOW_LINES = int(os.environ.get("FOLLOW_LINES", "1000000"))
KEEP_LINES = int(os.environ.get("KEEP_LINES", "10000000"))
LOG_MB = int(os.environ.get("BIG_LOG_MB", "1000"))


def decode_lines(count: int) -> Iterator[bytes]:
    """Yield decode lines as SGLang writes them, 5,000 in each second of its clock."""
    line = (
        b"[2026-01-20 %02d:%02d:%02d TP0] Decode batch, #running-req: %d, #token: %d, token usage: 0.31, cuda graph: True, "
        b"gen throughput (token/s): %d.00, #queue-req: 0\n"
    )
    for first in range(0, count, 5000):
        second = first // 5000
        clock = second // 3600 % 24, second // 60 % 60, second % 60
        yield b"".join(
            line % (*clock, number % 64, number, 1500 + number % 50)
            for number in range(first, min(count, first + 5000))
        )


def run_of(log: Path) -> Run:
    return Run("2026-01-20-1", "p", "sglang", str(log.parent), str(log), 30000, 0.0, phase=RunPhase.READY)


def rss_mb() -> float:
    """Return what this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def test_memory_after_ten_million_lines() -> None:
    """What the pane keeps is bounded, in lines and in bytes; the rest is gone."""
    parser, book = LogParser(engine("sglang").grammar()), Book()
    gc.collect()
    start, began = rss_mb(), time.perf_counter()
    at_full = 0.0
    for chunk in decode_lines(KEEP_LINES):
        for record in parser.feed(chunk):
            book.feed(record)
        if not at_full and book.fed > 2 * LINES_KEPT:
            at_full = rss_mb() - start
    took = time.perf_counter() - began
    print(f"\n{KEEP_LINES:,} lines read and kept in {took:,.0f} s ({KEEP_LINES / took:,.0f} lines/s):")
    print(
        f"  {len(book.shown):,} rows kept, {at_full:.0f} MB after {2 * LINES_KEPT:,} lines, {rss_mb() - start:.0f} MB at the end"
    )
    assert len(book.shown) <= LINES_KEPT


async def test_follow_beside_tail(tmp_path: Path) -> None:
    """Every line of a log that is behind by a million, kept as the pane keeps them; then the same by `ssh tail -F`."""
    require_sshd()
    log = tmp_path / "server.log"
    with log.open("wb") as file:
        file.writelines(decode_lines(FOLLOW_LINES))
    async with OpenSshServer(tmp_path / "ssh") as server:
        link = HostLink(SshTransport(server.target))
        await link.connect()
        book, kept = Book(), 0
        last: LogRecord | None = None
        began, used = time.perf_counter(), time.process_time()
        async with aclosing(logs.follow(Desk(link), run_of(log), from_offset=0)) as stream:
            async for records in stream:
                for last in records:
                    book.feed(last)
                kept += len(records)
                if kept >= FOLLOW_LINES:
                    break
        took, used = time.perf_counter() - began, time.process_time() - used
        await link.close()
        assert kept == FOLLOW_LINES and last is not None and last.values["tokens"] == FOLLOW_LINES - 1
        print(f"\nfollow over sshd, {FOLLOW_LINES:,} lines ({log.stat().st_size / 1e6:,.0f} MB) that wait:")
        print(
            f"  tokwatt, records in the pane {kept / took:10,.0f} lines/s  {used / kept * 1e6:6.1f} µs of processor a line"
        )
        folder, target = tmp_path / "ssh", server.target
        argv = ["ssh", "-F", "none", "-p", str(target.port), "-i", str(folder / "id_ed25519")]
        argv += [
            "-o",
            f"UserKnownHostsFile={folder / 'known_hosts'}",
            f"{target.user}@127.0.0.1",
            f"tail -F -n +1 {log}",
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        tail = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        assert tail.stdout is not None
        rest = log.stat().st_size
        while rest > 0:
            rest -= len(await tail.stdout.read(1 << 18))
        took = time.perf_counter() - began
        tail.terminate()
        await tail.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"  ssh tail -F, bytes only      {FOLLOW_LINES / took:10,.0f} lines/s  {used / FOLLOW_LINES * 1e6:6.1f} µs"
        )


def test_one_reading_for_three(tmp_path: Path) -> None:
    """Processor time of pane, ladder and speed together, beside one alone: the log is read once."""

    async def cost(listeners: int) -> float:
        from console.remote.local import LocalTransport

        link = HostLink(LocalTransport())
        await link.connect()
        desk, run = Desk(link), run_of(tmp_path / "server.log")

        async def listen() -> None:
            kept = 0
            async with aclosing(logs.follow(desk, run)) as stream:
                async for records in stream:
                    kept += len(records)
                    if kept >= 100_000:
                        return

        Path(run.log).write_bytes(b"")
        tasks = [asyncio.create_task(listen()) for _ in range(listeners)]
        await asyncio.sleep(1)
        used = time.process_time()
        with Path(run.log).open("ab") as file:
            file.writelines(decode_lines(100_000))
        await asyncio.gather(*tasks)
        used = time.process_time() - used
        await link.close()
        return used

    one, three = asyncio.run(cost(1)), asyncio.run(cost(3))
    print(f"\n100,000 lines: {one:.2f} s of processor for one listener, {three:.2f} s for three ({three / one:.2f} ×)")


def peak_mb(pid: int) -> float:
    """Return the most that a process held."""
    told = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in line)
    return int(told.split()[1]) / 1024


def opened(argv: list[str], last: bytes) -> tuple[float, float] | None:
    """Return seconds from the start of a viewer to a log's last line on its screen, and the MB that it held."""
    terminal = Terminal(argv, columns=160, rows=45)
    try:
        if terminal.wait_for(last, 120) is None:
            return None
        return time.perf_counter() - terminal.began, peak_mb(terminal.pid)
    finally:
        terminal.close()


def test_a_gigabyte_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the key that shows an earlier run's log of 1 GB to its last line on screen; beside viewers of files."""
    runs = tmp_path / "state/tokwatt/runs"
    last = b"the very last line"
    for number, started in ((1, 1.0), (2, 2.0)):
        folder = runs / f"2026-01-20-{number}"
        folder.mkdir(parents=True)
        told = {"id": folder.name, "engine": "sglang", "started_at": started, "port": 30999}
        (folder / "launch.json").write_text(json.dumps(told))
        (folder / "exit").write_text("0 2.0\n")
        (folder / "server.log").write_text("[2026-01-20 23:59:59 TP0] the later run\n")
    log = runs / "2026-01-20-1/server.log"
    block = b"".join(decode_lines(50_000))
    with log.open("wb") as file:
        while file.tell() < LOG_MB * 1_000_000:
            file.write(block)
        file.write(b"[2026-01-20 23:59:59 TP0] " + last + b"\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path / "data"))
    terminal = Terminal([sys.executable, "-m", "console", "--host", "local"], columns=160, rows=45)
    try:
        assert terminal.wait_for(b"following", 60) is not None
        terminal.read(5)
        terminal.key(b"3")
        terminal.read(1)
        before = peak_mb(terminal.pid)
        terminal.key(b"P")
        took = terminal.wait_for(last, 5)
        if took is None:  # another server lives on this machine: its log came first
            terminal.key(b"P")
            took = terminal.wait_for(last, 60)
        assert took is not None
        peak = peak_mb(terminal.pid)
    finally:
        terminal.close()
    print(f"\na log of {LOG_MB:,} MB at its end:")
    print(f"  tokwatt, in the cockpit    {took:6.2f} s  {peak - before:5.0f} MB more than the {before:,.0f} MB before")
    argv = [sys.executable, "-m", "console", "--host", "local", "logs", "2026-01-20-1"]
    told_to = {
        "tokwatt logs, started": argv,
        "lnav, started": [shutil.which("lnav") or "", str(log)],
        "toolong, started": [shutil.which("tl") or "", str(log)],
    }
    for name, command in told_to.items():
        figures = opened(command, last) if command[0] else None
        said = f"{figures[0]:6.2f} s  {figures[1]:5,.0f} MB" if figures else "not here"
        print(f"  {name:25} {said}")
