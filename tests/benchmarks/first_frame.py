"""First frame and key to paint, beside the tools that a user would pick instead; `python -m tests.benchmarks.first_frame` or `make bench`.

Budgets: first frame ≤ 400 ms and ≤ 1.6 × importing `textual.app`; key to paint p50 ≤ 16 ms, p99 ≤ 50 ms with 8 GPUs at
10 Hz and 5,000 log lines a second arriving.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time

from tests.benchmarks.terminal import Terminal

ROUNDS = 7

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("fired up")
Minimal().run()
"""


def imported() -> float:
    """Return the time of `import textual.app` in a fresh interpreter, in ms."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import textual.app"], check=True)
    return (time.perf_counter() - began) * 1000


def painted(argv: list[str], text: bytes) -> float | None:
    """Return how long from exec until a text is on the terminal, in ms."""
    terminal = Terminal(argv)
    try:
        after = terminal.wait_for(text, 10)
        return None if after is None else (time.perf_counter() - terminal.began) * 1000
    finally:
        terminal.close()


def keys_under_load(presses: int = 200) -> list[float]:
    """Return key-to-paint times in ms: `j` moves a counter that the loaded cockpit shows."""
    terminal = Terminal([sys.executable, "-m", "tests.benchmarks.loaded"])
    times: list[float] = []
    try:
        if terminal.wait_for(b"KEY", 15) is None:
            raise SystemExit("the loaded cockpit did not start")
        terminal.read(3)
        for number in range(1, presses + 1):
            terminal.key(b"j")
            after = terminal.wait_for(f"KEY{number:04}".encode(), 5)
            if after is None:
                raise SystemExit(f"key {number} was never painted")
            times.append(after * 1000)
            terminal.read(0.04)
    finally:
        terminal.close()
    return times


def best(values: list[float | None]) -> str:
    """Return best and median."""
    known = sorted(value for value in values if value is not None)
    return f"{known[0]:7.0f} ms best, {statistics.median(known):7.0f} ms median" if known else "      —"


def test_first_frame_and_keys_stay_within_their_budgets() -> None:
    ratio, p50, p99 = main()
    assert ratio <= 1.6
    assert p50 <= 16
    assert p99 <= 50


def main() -> tuple[float, float, float]:
    """Print the table; return first frame over import, and key to paint in ms at p50 and p99."""
    console = [sys.executable, "-m", "console", "--host", "local"]
    rows: dict[str, list[float | None]] = {
        "import textual.app": [],
        "minimal Textual app": [],
        "tokwatt, first frame": [],
        "tokwatt, all panes": [],
    }
    harlequin = shutil.which("harlequin")
    if harlequin:
        rows["harlequin, first frame"] = []
    for _ in range(ROUNDS):
        rows["import textual.app"].append(imported())
        rows["minimal Textual app"].append(painted([sys.executable, "-c", MINIMAL], b"fired up"))
        rows["tokwatt, first frame"].append(painted(console, b"patches"))
        rows["tokwatt, all panes"].append(painted(console, b"Patches"))
        if harlequin:
            rows["harlequin, first frame"].append(painted([harlequin], b"Data Catalog"))
    for name, values in rows.items():
        print(f"{name:26} {best(values)}")
    if not harlequin:
        print(f"{'harlequin':26}       — (not installed on PATH)")
    base = min(value for value in rows["import textual.app"] if value is not None)
    ours = min(value for value in rows["tokwatt, first frame"] if value is not None)
    print(f"{'tokwatt / import':26} {ours / base:7.2f} ×  (budget 1.6)")
    times = sorted(keys_under_load())
    p50, p99 = statistics.median(times), times[int(len(times) * 0.99) - 1]
    print(f"{'key to paint, loaded':26} {p50:7.1f} ms p50, {p99:.1f} ms p99, {times[-1]:.1f} ms max  (budget 16, 50)")
    return ours / base, p50, p99


if __name__ == "__main__":
    main()
