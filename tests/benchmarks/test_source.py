"""A big Python file and a big log in the source pane, beside lnav and toolong on the same log.

lnav comes from apt, toolong from PyPI into an environment of its own (`TOOLONG=/path/to/tl`); what is not there is skipped.
`BIG_LOG_MB` (1,000) is the size of the log.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from pathlib import Path

import pytest

from console.operations import source
from console.operations.desk import Desk
from console.ui.app import TokwattApp
from console.ui.options import Options
from console.ui.panes.source_search import _find
from tests.benchmarks.terminal import Terminal
from tests.local import desk
from tests.ui.waiting import until

__all__ = ["desk"]

LOG_MB = int(os.environ.get("BIG_LOG_MB", "1000"))
LAST = b"the very last line of this log"
WIDE = (160, 45)


def python_file(path: Path, mb: int) -> int:
    """Write a Python file of some size; return its number of lines."""
    code = Path(source.__file__).read_bytes()
    lines = 0
    with path.open("wb") as file:
        while file.tell() < mb << 20:
            file.write(code)
            lines += code.count(b"\n")
        file.write(b"def needle_at_the_end(): ...\n")
    return lines + 1


async def test_a_python_file_of_10_mb(tmp_path: Path) -> None:
    lines = python_file(tmp_path / "big.py", 10)
    app = TokwattApp(Options(("local",)))
    rows = {}
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: app.cockpit.furnished and app.desk is not None, seconds=30)
        pane = app.cockpit.source
        began = time.perf_counter()
        await pane.read_file(str(tmp_path / "big.py"), lines // 2)
        await pilot.pause()
        rows["open at its middle, painted plain"] = time.perf_counter() - began
        await until(pilot, lambda: pane.symbols_known, seconds=60)
        rows["  and its defs known (a thread)"] = time.perf_counter() - began
        pane.code.focus()
        pages = []
        for _ in range(40):
            began = time.perf_counter()
            pane.code.action_page(1)
            await pilot.pause()
            pages.append(time.perf_counter() - began)
        rows["page, median"], rows["page, slowest of 40"] = statistics.median(pages), max(pages)
        pane.code.place_line(1)
        began = time.perf_counter()
        await _find(pane, "needle_at_the_end")
        await pilot.pause()
        rows["find what is in its last line"] = time.perf_counter() - began
        assert pane.code.line_number == lines
        began = time.perf_counter()
        pane.code.toggle_wrap()
        await pilot.pause()
        rows["wrap"] = time.perf_counter() - began
        assert app.desk is not None
        await app.desk.link.close()
    print(f"\n10 MB of Python, {lines:,} lines:")
    for name, seconds in rows.items():
        print(f"  {name:40} {seconds * 1000:7.0f} ms")


@pytest.fixture(scope="module")
def big_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log as SGLang writes one."""
    path = tmp_path_factory.mktemp("log") / "server.log"
    line = "[2026-12-02 14:02:%02d TP0] Decode batch, #running-req: %d, token usage: 0.61, gen throughput (token/s): 3741.00\n"
    block = "".join(line % (number % 60, number) for number in range(20_000)).encode()
    with path.open("wb") as file:
        while file.tell() < LOG_MB * 1_000_000:
            file.write(block)
        file.write(LAST + b"\n")
    path.read_bytes()[:1]  # into the page cache, for everybody
    return path


def peak_mb(pid: int) -> float:
    """Return the most memory a process and its children held."""
    total = 0.0
    status = Path(f"/proc/{pid}/status").read_text()
    total += next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM")) / 1024
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        total += peak_mb(int(child))
    return total


def beside(argv: list[str], log: Path) -> tuple[float, float] | None:
    """Return the seconds until a program shows the last line, and its memory in MB."""
    terminal = Terminal([*argv, str(log)], columns=WIDE[0], rows=WIDE[1])
    try:
        took = terminal.wait_for(LAST, 120)
        return None if took is None else (took, peak_mb(terminal.pid))
    finally:
        terminal.close()


async def test_a_log_of_a_gigabyte_at_its_end(big_log: Path, desk: Desk) -> None:
    began = time.perf_counter()
    document = await source.open_document(desk, str(big_log), line=-1)
    took = time.perf_counter() - began
    assert document.lines[-1] == LAST
    assert document.total_lines is not None
    outposts = [peak_mb(int(pid)) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    print(f"\na log of {LOG_MB:,} MB at its end, {document.total_lines:,} lines:")
    print(f"  {'tokwatt, outpost':30} {took * 1000:7.0f} ms  {max(outposts):6.0f} MB on the host")
    began = time.perf_counter()
    hits = [hit async for hit in source.grep(desk, LAST.decode(), [str(big_log)])]
    print(f"  {'tokwatt, find in it by grep':30} {(time.perf_counter() - began) * 1000:7.0f} ms  {len(hits)} hit")
    for name, program in (("lnav", shutil.which("lnav")), ("toolong", os.environ.get("TOOLONG") or shutil.which("tl"))):
        if program is None:
            print(f"  {name:30} is not installed here")
            continue
        found = beside([program], big_log)
        said = "did not show it within 120 s" if found is None else f"{found[0] * 1000:7.0f} ms  {found[1]:6.0f} MB"
        print(f"  {name:30} {said}")


def test_key_to_paint_while_paging(tmp_path: Path) -> None:
    python_file(tmp_path / "big.py", 10)
    terminal = Terminal([sys.executable, "-m", "console", "--host", "local"], columns=WIDE[0], rows=WIDE[1])
    try:
        assert terminal.wait_for(b"Source", 20) is not None
        terminal.read(2)
        terminal.key(b":")
        terminal.read(0.5)
        terminal.key(f"{tmp_path / 'big.py'}:1\r".encode())
        assert terminal.wait_for(b"Reading code on the host", 20) is not None
        terminal.read(2)
        took = []
        for _ in range(60):
            terminal.key(b"\x04")
            first = terminal.wait_for(b"\x1b[", 1.0)
            took.append(first if first is not None else 1.0)
            terminal.read(0.1)
        took.sort()
    finally:
        terminal.close()
    print(f"\nkey to paint while paging 10 MB of Python: p50 {took[30] * 1000:.1f} ms, p99 {took[-1] * 1000:.1f} ms")
