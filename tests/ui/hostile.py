"""The cockpit over a host whose every word is hostile; run by `test_hostile` on a terminal of its own."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from console.domain.activity import Activity, Outcome
from console.domain.comparison import Comparison, FilePair
from console.domain.gpu import GpuReading, GpuSample
from console.domain.host import CommandRecord, GitState, Host, LinkState, Package
from console.domain.installed import ChangedFile, PackageCheck
from console.domain.patch import DiskState, PatchStatus
from console.domain.profile import Profile
from console.domain.run import Failure, LogKind, LogRecord, Run, RunPhase
from console.domain.source import Document, GrepHit, TreeEntry
from console.domain.text import SafeText, clean
from console.domain.throughput import ThroughputSample
from console.errors import ConsoleError
from console.source.documents import Folder
from console.source.names import Names
from console.ui.app import TokwattApp
from console.ui.options import Options
from tests.ui import fakes

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b]0;owned\x07\x9b31m\x00\u202e\u200b\x1b[31mhostile[bold]x[/oops][@click=app.quit]"
CONTROL = "harmless-control-text"


def evil(word: str) -> str:
    return f"{word}{EVIL}"


def safe(word: str) -> SafeText:
    return clean(evil(word))


def snapshot() -> Any:
    filled = fakes.snapshot()
    patch = PatchStatus(
        evil("patch"), evil("t"), DiskState.OFF, reason=evil("why"), files=(evil("f"),), diff=(safe("+"), safe("-"))
    )
    gpu = replace(fakes.gpu_sample().gpus[0], name=safe("gpu"), throttle=(evil("hot"),))
    failure = Failure(evil("cause"), (safe("line"),), evil("hint"))
    run = replace(fakes.run(), id=evil("run"), profile=evil("p"), phase=RunPhase.FAILED, failure=failure)
    return replace(
        filled,
        host=Host(evil("h"), badge=evil("B")),
        link=replace(filled.link, error=evil("link"), degraded=evil("sh")),
        package=Package(evil("sglang"), evil("/root"), evil("0.5.9")),
        git=GitState("/root", evil("abc"), safe("branch"), (evil("dirty"),)),
        profile=Profile(
            evil("profile"), title=evil("title"), target=replace(fakes.PROFILE.target, origin=evil("origin"))
        ),
        patches=(patch,),
        run=run,
        gpus=GpuSample(
            filled.gpus.time if filled.gpus else 0.0,
            evil("nvml"),
            (gpu, GpuReading(1, reasons={"x": EVIL})),
            reason=EVIL,
        ),
        throughput=ThroughputSample(fakes.NOW, evil("/metrics"), 1.0, reason=EVIL),
        activities=(Activity(1, "apply", safe("did"), Outcome.DONE, safe("detail"), ms=1.0),),
        sweep=replace(fakes.sweep(), run_id=evil("r"), step=evil("step"), error=evil("error")),
    )


class Hostile(fakes.Operations):
    """Operations that answer with hostile words."""

    async def source_page(self, desk: Any, path: str = "", *, offset: int = 0) -> Folder:
        entries = (
            TreeEntry(evil("dir"), "a", "dir"),
            TreeEntry(CONTROL, "b", "file"),
            TreeEntry(evil("link"), "c", "link", target=EVIL),
        )
        return Folder(evil("/root"), entries, 3)

    async def source_names(self, desk: Any, path: str = "") -> AsyncIterator[Names]:
        yield Names(evil("/root"), (evil("dir/") + "/x", evil("name"), f"found-{CONTROL}"), complete=True)

    async def installed_changed(self, desk: Any) -> AsyncIterator[PackageCheck]:
        package = Package(evil("package"), evil("/root"), evil("1"), evil("origin"))
        file = ChangedFile(evil("/root/x"), evil("x"), "changed", patch=evil("patch"), reason=evil("why"))
        yield PackageCheck(package, "RECORD", 3, (file,), evil("reason"), (evil("a"), evil("b")))
        yield PackageCheck(Package("p", "/p", "1"), reason=f"changed-{CONTROL}")

    async def installed_shadowed(self, desk: Any, path: str) -> str:
        return evil("another copy")

    async def source_open_document(self, desk: Any, path: str, *, line: int = 0) -> Document:
        lines = (
            f"file-{CONTROL}".encode(),
            EVIL.encode("utf-8", "replace"),
            b"x = '\x1b]52;c;AA\x07' # \xff\xfe\t\x00",
        )
        return Document(evil("/root/x.py"), 9, 0.0, "x", 1, lines, len(lines))

    def source_outline(self, document: Document) -> Any:
        return ()

    async def source_grep(
        self, desk: Any, pattern: str, paths: Sequence[str] = (), **asked: Any
    ) -> AsyncIterator[GrepHit]:
        yield GrepHit(evil("name"), 1, safe("hit "))
        yield GrepHit("name", 2, clean(f"grep-{CONTROL}"))

    async def comparing_with_head(self, desk: Any, path: str = "") -> Comparison:
        pair = FilePair(
            evil("name"), None, f"diff-{CONTROL}\n".encode() + EVIL.replace("\0", "").encode("utf-8", "replace")
        )
        return Comparison(evil("left"), evil("right"), (pair, replace(pair, note=evil("note"))), (evil("note"),))

    async def patches_toggle(self, desk: Any, name: str, **asked: Any) -> None:
        raise ConsoleError(evil("title"), evil("detail"), evil("hint"))

    async def server_blast_radius(self, desk: Any) -> str:
        return evil("blast")

    async def logs_follow(self, desk: Any, run: Run) -> AsyncIterator[tuple[LogRecord, ...]]:
        yield (
            LogRecord(LogKind.OTHER, evil("log")),
            LogRecord(LogKind.FAILURE, evil("bad"), severity="error"),
            LogRecord(LogKind.OTHER, "\x1b]52;c;unfinished"),
            LogRecord(LogKind.OTHER, f"log-{CONTROL}"),
        )
        async for batch in super().logs_follow(desk, run):
            if not batch:
                yield batch


def main() -> None:
    """Run it on this terminal."""
    patch = pytest.MonkeyPatch()
    desk = fakes.FakeDesk(snapshot())
    desk.link.state = LinkState(desk.link.state.link, 1.0, degraded=evil("sh"))
    desk.commands.append(CommandRecord(0.0, "h", safe("argv"), 1.0, 1, safe("error")))
    Hostile(desk).install(patch)
    os.environ["COLORTERM"] = "truecolor"
    TokwattApp(Options((evil("h"),))).run()


if __name__ == "__main__":
    main()
