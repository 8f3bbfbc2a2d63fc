"""Pictures of the real cockpit on the demo host: `python -m console.ui.screenshots [FOLDER]`."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from console.ui.app import TokwattApp
from console.ui.options import Options

Step = Callable[[Pilot[Any]], Awaitable[None]]

WIDE, MIDDLE, SMALL = (160, 45), (120, 40), (80, 24)

PATIENCE_S = 120.0


def _app(pilot: Pilot[Any]) -> TokwattApp:
    app = pilot.app
    assert isinstance(app, TokwattApp)
    return app


async def _until(pilot: Pilot[Any], true: Callable[[TokwattApp], object]) -> None:
    """Wait for what the demo host does in its own time."""
    app = _app(pilot)
    async with asyncio.timeout(PATIENCE_S):
        while not true(app):
            await asyncio.sleep(0.1)
    await pilot.pause(0.3)


def _phase(app: TokwattApp) -> str:
    return app.snapshot.run.phase.value if app.snapshot.run else "none"


class Album:
    """A folder of pictures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    async def take(self, pilot: Pilot[Any], name: str, *sizes: tuple[int, int]) -> None:
        """Take a picture in each size and leave the screen in the first one."""
        for columns, rows in (*sizes, sizes[0]) if len(sizes) > 1 else sizes:
            if (columns, rows) != tuple(pilot.app.size):
                await pilot.resize_terminal(columns, rows)
                await pilot.pause(0.8)
            path = self.folder / (f"{name}.svg" if (columns, rows) == WIDE else f"{name}-{columns}x{rows}.svg")
            if not path.exists():
                text = pilot.app.export_screenshot(title="tokwatt")
                # librsvg trims even no-break spaces at both ends of a text, and with them the columns
                text = text.replace("<svg ", '<svg xml:space="preserve" ', 1)
                path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
                sys.stderr.write(f"{path}\n")


async def _read(pilot: Pilot[Any], album: Album) -> None:
    """Find the commented-out backend and read the def around it whole."""
    app = _app(pilot)
    await _until(
        pilot, lambda app: app.cockpit.furnished and app.cockpit.patches.list.patches and app.snapshot.gpu_history
    )
    await pilot.pause(1)
    await album.take(pilot, "cockpit-idle", WIDE)
    await pilot.press("1", "f")
    await pilot.pause(0.3)
    await pilot.press(*"flashinfer_cutlass", "enter")
    await _until(
        pilot,
        lambda app: app.cockpit.source.views[-1] == "hits" and app.workers and app.cockpit.source.view.count() > 2,
    )
    await pilot.pause(0.5)
    await album.take(pilot, "grep", WIDE, SMALL)
    await pilot.press("1")
    hit = next(row for row in app.cockpit.source.view.rows if not isinstance(row, str) and "# " in row.text)  # type: ignore[attr-defined]
    app.cockpit.source.open(hit.file, hit.line)
    await _until(pilot, lambda app: app.cockpit.source.views[-1] == "code" and app.cockpit.source.symbols_known)
    await pilot.press("d")
    await pilot.pause(0.3)
    await album.take(pilot, "source", WIDE, MIDDLE)


async def _launch(pilot: Pilot[Any], album: Album, verb: str, name: str) -> None:
    """Start or restart the server, with a picture of the ladder."""
    await pilot.press("3", "x")
    await pilot.pause(0.3)
    await pilot.press(verb)
    await pilot.pause(1.5)
    await pilot.press("y")
    await _until(pilot, lambda app: _phase(app) == "starting" and app.snapshot.run and len(app.snapshot.run.ladder) > 2)
    await album.take(pilot, name, WIDE)
    await _until(pilot, lambda app: _phase(app) == "ready")


async def _patch(pilot: Pilot[Any], album: Album) -> None:
    """Switch the patch on while a server runs that has not loaded it."""
    app = _app(pilot)
    await pilot.press("2")
    names = [status.name for status in app.cockpit.patches.list.patches]
    app.cockpit.patches.list.cursor = names.index("flashinfer-cutlass-autotune")
    await pilot.pause(0.3)
    await pilot.press("space")
    await _until(pilot, lambda app: any(p.loaded.value == "needs_restart" for p in app.snapshot.patches))
    await _until(pilot, lambda app: app.cockpit.source.code.marked)
    await pilot.pause(0.5)
    await album.take(pilot, "patch-needs-restart", WIDE, SMALL, MIDDLE)


async def _measure(pilot: Pilot[Any], album: Album) -> None:
    """Measure the ladder, with pictures of the load and of the result."""
    await pilot.press("b")
    await _until(pilot, lambda app: app.snapshot.sweep is not None and app.snapshot.sweep.step == "measuring")
    await pilot.pause(3)
    await album.take(pilot, "measuring", WIDE)
    await pilot.press("escape")
    await _until(pilot, lambda app: app.snapshot.sweep is not None and app.snapshot.sweep.current == 1024)
    await _until(
        pilot, lambda app: app.snapshot.throughput is not None and (app.snapshot.throughput.running or 0) > 900
    )
    await pilot.pause(2)
    await pilot.press("2")
    await album.take(pilot, "cockpit", WIDE, SMALL, MIDDLE)
    await pilot.press("b")
    await _until(pilot, lambda app: app.snapshot.sweep is not None and app.snapshot.sweep.current is None)
    await pilot.pause(0.5)
    await album.take(pilot, "measured", WIDE, SMALL)
    await pilot.press("escape")


PLANNED = """schema = 1
title = "Tuned kernels, then fused all-reduces"
base = "demo-wide"
[measure]
repeats = 4
[[arm]]
name = "cutlass"
hypothesis = "the kernels that FlashInfer tunes are quicker at this width"
args = { moe-runner-backend = "flashinfer_cutlass" }
patches = ["flashinfer-cutlass-autotune"]
[[arm]]
name = "autotune-alone"
hypothesis = "the patch is enough"
patches = ["flashinfer-cutlass-autotune"]
[[arm]]
name = "fusion"
hypothesis = "fewer all-reduce launches"
args = { enable-flashinfer-allreduce-fusion = true }
patches = ["allreduce-fusion-sm120"]
"""


WALKED = """schema = 1
title = "From 880 to the winner, one change at a time"
base = "demo-fast"
[measure]
concurrency = [128]
output_tokens = 8
repeats = 3
tolerate = ["the client was"]            # the camera takes its part of the processor
[[arm]]
name = "wide"
hypothesis = "64 running requests starve the batch"
args = { max-running-requests = 2048, disable-cuda-graph = true }
[[arm]]
name = "autotune"
extends = "wide"
hypothesis = "the patch is enough"
patches = ["flashinfer-cutlass-autotune"]
[[arm]]
name = "fusion"
extends = "wide"
hypothesis = "fewer all-reduce launches"
args = { enable-flashinfer-allreduce-fusion = true }
patches = ["allreduce-fusion-sm120"]
"""


async def _experiment(pilot: Pilot[Any], album: Album) -> None:
    """Walk an experiment, with pictures of it under way and of its verdicts, in both themes."""
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "tokwatt" / "experiments"
    (folder / "kernels.toml").unlink()
    (folder / "story.toml").write_text(WALKED)
    await pilot.press("X")
    await pilot.pause(1)
    await pilot.press("enter")
    await pilot.pause(2)
    await pilot.press("r")
    await pilot.pause(2)
    await pilot.press("y")
    await _until(pilot, lambda app: app.snapshot.experiment and app.snapshot.experiment.done > 2)
    await _until(pilot, lambda app: app.snapshot.experiment and app.snapshot.experiment.live_tok_s)
    await album.take(pilot, "experiment-running", WIDE, SMALL)
    await _until(pilot, lambda app: app.snapshot.experiment and app.snapshot.experiment.done > 8)
    await _until(pilot, lambda app: app.snapshot.experiment and app.snapshot.experiment.finished)
    await album.take(pilot, "experiment-done", WIDE, SMALL)
    await pilot.press("ctrl+t")
    await pilot.pause(0.6)
    await album.take(pilot, "light-experiment-done", WIDE)
    await pilot.press("escape")
    await pilot.pause(0.6)
    await album.take(pilot, "light-cockpit", WIDE)
    await pilot.press("6")
    await pilot.pause(0.6)
    await album.take(pilot, "light-runs", WIDE, SMALL)
    await pilot.press("escape", "ctrl+t")


async def _decide(pilot: Pilot[Any], album: Album) -> None:
    """Draw what was measured, and show what an experiment would cost."""
    for key, name in (("v", "plot-throughput"), ("v", "plot-pareto"), ("v", "plot-power")):
        if name == "plot-throughput":
            await pilot.press("6")
            await pilot.pause(0.6)
        await pilot.press(key)
        await pilot.pause(0.6)
        await album.take(pilot, name, WIDE, SMALL)
    await pilot.press("escape", "escape")
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "tokwatt" / "experiments"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernels.toml").write_text(PLANNED)
    await pilot.press("X")
    await pilot.pause(1)
    await pilot.press("enter")
    await pilot.pause(2)
    await album.take(pilot, "experiment-plan", WIDE, SMALL)
    await pilot.press("escape")


async def _rest(pilot: Pilot[Any], album: Album) -> None:
    """Help, and what was sent to the host."""
    for key, name in (("question_mark", "help"), ("at", "commands"), ("6", "runs")):
        await pilot.press(key)
        await pilot.pause(0.6)
        await album.take(pilot, name, WIDE)
        await pilot.press("escape")
        await pilot.pause(0.3)
    await pilot.press("x")
    await pilot.pause(0.3)
    await pilot.press("t")
    await pilot.pause(1.5)
    await pilot.press("y")
    await _until(pilot, lambda app: _phase(app) in ("exited", "failed", "lost"))
    await pilot.press("2", "space")
    await _until(pilot, lambda app: all(p.disk.value != "on" for p in app.snapshot.patches))


async def story(target: object, album: Album) -> None:
    """Live the loop once in front of the camera, and leave the host as it was."""
    app = TokwattApp(Options(("demo",), "demo-wide", target=target))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await _read(pilot, album)
        await _launch(pilot, album, "s", "starting")
        await _patch(pilot, album)
        await _launch(pilot, album, "r", "restarting")
        await _measure(pilot, album)
        await _decide(pilot, album)
        await _rest(pilot, album)
        await _experiment(pilot, album)
        await app.leave()


def main() -> None:
    """Take all pictures on a demo host of their own, which is ended again."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("screenshots")
    for old in folder.glob("*.svg"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="tokwatt-pictures-") as own:
        os.environ.update(XDG_STATE_HOME=f"{own}/state", XDG_CONFIG_HOME=f"{own}/config", TOKWATT_DATA=f"{own}/data")
        from console.operations.demo import join_demo, stop_demo

        async def all_of_it() -> None:
            try:
                await story(await join_demo(), Album(folder))
            finally:
                await stop_demo()

        asyncio.run(all_of_it())


if __name__ == "__main__":
    main()
