"""Search: line for line what `grep -rnI` finds, streamed, stoppable, in bounded pieces."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.source import GrepHit
from console.errors import RemoteError, UsageError
from console.operations import source
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from console.remote.outpost.search import Splitter

PATTERNS = [
    "flashinfer_cutlass",
    "_should_run_flashinfer_autotune()",
    r"def .*autotune",
    r"^import torch$",
    r"torch\.cuda\.is_available",
    r"class [A-Z][a-zA-Z]*Backend",
    "TODO",
    r"os.environ\[",
    r"x\{2,\}",
    '"--disable-cuda-graph"',
]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A tree with what breaks parsers of grep's output."""
    files = {
        "a.py": b"needle one\nnothing\nneedle: two:3:\n",
        "no-newline.py": b"x\nneedle at the end",
        "crlf.py": b"needle\r\nother\r\nneedle\r\n",
        "with:12:colon.py": b"needle in a colon\n",
        "with-5-dash.py": b"one\ntwo needle\nthree\n",
        "-dash.py": b"needle after a dash\n",
        "new\nline.py": b"needle under two lines\n--\nneedle\n",
        "[markup] E=1,N=2.json": b'{"needle": "[red]x[/red]"}\n',
        "\u6a21\u578b.py": "needle \u6a21\u578b\n".encode(),
        ".hidden/.deep.py": b"needle hidden\n",
        ".gitignore": b"ignored/\n*.skip\n",
        "ignored/x.skip": b"needle ignored\n",
        "binary.bin": b"needle\n\0\n" + b"needle\n" * 10,
        "late-nul.bin": b"needle early\n" + b"y" * 200_000 + b"\n\0needle\n",
        "latin1.txt": b"needle \xe9\xe8\nneedle plain\n",
        "escape.log": b"\x1b[31mneedle\x1b[0m \x1b]52;c;aGk=\x07\n",
        "monster.log": b"a" * 500_000 + b"needle" + b"b" * 500_000 + b"\nneedle short\n",
        "tabs.cu": b"\tneedle\t// tab\n",
        "empty.py": b"",
        "pkg/deep/er/f.py": b"NEEDLE\nneedles\nneedle\n",
    }
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "folder-link").symlink_to("pkg")
    (tmp_path / "dangling").symlink_to("gone")
    return tmp_path


def theirs(*arguments: str | Path) -> list[bytes]:
    """What the tool itself prints, its NUL-separated form, as (file NUL line : text)."""
    done = subprocess.run(["grep", "-rnIZ", *map(str, arguments)], capture_output=True)
    return done.stdout.split(b"\n")[:-1]


def ours(hits: list[GrepHit]) -> list[bytes]:
    """Hits in the same form."""
    return [os.fsencode(hit.file) + b"\0%d:" % hit.line + hit.raw for hit in hits]


def joined(lines: list[bytes]) -> list[bytes]:
    """Put file names with newlines together again (a label always holds a NUL)."""
    whole = b"\n".join(lines).split(b"\n")
    out: list[bytes] = []
    pending = b""
    for line in whole:
        pending = pending + b"\n" + line if pending else line
        if b"\0" in pending:
            out.append(pending)
            pending = b""
    return sorted(out)


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ((), {}),
        (("-i",), {"ignore_case": True}),
        (("-w",), {"word": True}),
        (("-F",), {"fixed": True}),
        (("-E",), {"extended": True}),
        (("--include=*.py",), {"include": ["*.py"]}),
        (("--exclude=*.log", "--exclude-dir=pkg"), {"exclude": ["*.log", "pkg/"]}),
    ],
)
@pytest.mark.parametrize("pattern", ["needle", "needle$", "n[e]*dle", "(needle|x)", "needle+", "\u6a21", "-", "e: t"])
async def test_a_hostile_tree_gives_what_grep_gives(
    desk: Desk, hostile: Path, pattern: str, flags: tuple[str, ...], options: dict[str, object]
) -> None:
    hits = [hit async for hit in source.grep(desk, pattern, [str(hostile)], clip=2 << 20, **options)]  # type: ignore[arg-type]
    assert sorted(ours(hits)) == joined(theirs(*flags, "-e", pattern, "--", hostile))


@pytest.mark.wheels
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_the_real_tree_gives_what_grep_gives(desk: Desk, sglang_059: Path, pattern: str) -> None:
    hits = [hit async for hit in source.grep(desk, pattern, [str(sglang_059)], clip=2 << 20)]
    assert sorted(ours(hits)) == sorted(theirs("-e", pattern, "--", sglang_059))


@pytest.mark.wheels
async def test_the_line_that_started_it_all_is_found_in_one_round_trip(desk: Desk, sglang_059: Path) -> None:
    before = desk.link.round_trips
    folder = sglang_059 / "sglang"
    hits = [hit async for hit in source.grep(desk, '# "flashinfer_cutlass",', [str(folder)], fixed=True)]
    assert desk.link.round_trips - before == 1
    assert [(hit.file, hit.line) for hit in hits] == [(f"{folder}/srt/model_executor/model_runner.py", 1842)]
    document = await source.open_document(desk, hits[0].file)
    around = source.enclosing(document, hits[0].line)
    assert around is not None
    assert around.qualified == "ModelRunner._should_run_flashinfer_autotune"
    assert (around.first_line, around.last_line) == (1829, 1857)
    assert desk.link.round_trips - before == 2


async def test_context_is_inside_the_hit_and_neighbours_may_be_hits(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nX1\nX2\nb\nc\nd\ne\nX3")
    (tmp_path / "g").write_text("X4\n")
    hits = [hit async for hit in source.grep(desk, "X", [str(tmp_path)], context=2)]
    found = {hit.raw: (hit.before, hit.after) for hit in hits}
    assert found == {
        b"X1": (("a",), ("X2", "b")),
        b"X2": (("a", "X1"), ("b", "c")),
        b"X3": (("d", "e"), ()),
        b"X4": ((), ()),
    }


async def test_monster_lines_are_clipped_but_counted_and_shown_inertly(desk: Desk, hostile: Path) -> None:
    hits = [hit async for hit in source.grep(desk, "needle", [str(hostile)])]
    monster = next(hit for hit in hits if hit.file.endswith("monster.log") and hit.line == 1)
    assert monster.size == 1_000_006
    assert len(monster.raw) == 8192
    assert monster.text.endswith(f"[+{1_000_006 - 4096} bytes]")
    escape = next(hit for hit in hits if hit.file.endswith("escape.log"))
    assert escape.text.isprintable()
    assert "\x1b" not in escape.text


@pytest.mark.parametrize("pattern", ["[a-z", r"\(", "a**\\{"])
async def test_a_pattern_that_is_none_is_a_usage_error_in_greps_words(desk: Desk, tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="pattern not understood: "):
        _ = [hit async for hit in source.grep(desk, pattern, [str(tmp_path)])]


@pytest.mark.parametrize(
    ("program", "word"),
    [
        ("#!/bin/sh\necho \"grep: unrecognized option '--color=never'\" >&2\nexit 1\n", "not GNU"),
        ("#!/bin/sh\necho \"grep: invalid option -- 'Z'\" >&2\nexit 2\n", "not GNU"),
        ("", "no grep"),
    ],
)
async def test_a_host_without_gnu_grep_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, word: str
) -> None:
    if program:
        (tmp_path / "grep").write_text(program)
        (tmp_path / "grep").chmod(0o755)
    link = HostLink(LocalTransport(), python=sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    await link.connect()
    try:
        with pytest.raises(RemoteError, match=word) as caught:
            await link.call("grep", {"pattern": "x", "paths": ["/etc/hostname"]})
        assert caught.value.kind == "no_grep"
    finally:
        await link.close()


async def test_a_folder_that_is_not_there_is_named(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="gone") as caught:
        _ = [hit async for hit in source.grep(desk, "x", [str(tmp_path / "gone")])]
    assert caught.value.kind == "enoent"


async def test_what_cannot_be_read_is_told_and_the_rest_is_found(desk: Desk, tmp_path: Path) -> None:
    said: list[str] = []
    desk.say = said.append
    (tmp_path / "f").write_text("x\n")
    (tmp_path / "loop").symlink_to("loop")
    assert len([hit async for hit in source.grep(desk, "x", [str(tmp_path), str(tmp_path / "f")])]) == 2
    assert not said  # a link that leads nowhere is not searched by grep either
    hits = [hit async for hit in source.grep(desk, "^Name:", ["/proc/self/mem", "/proc/self/status"])]
    assert [hit.file for hit in hits] == ["/proc/self/status"]
    assert said and "/proc/self/mem" in said[0]


async def test_a_limit_ends_the_search(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x\n" * 100_000)
    assert len([hit async for hit in source.grep(desk, "x", [str(tmp_path)], limit=7)]) == 7


async def test_closing_the_search_ends_grep_on_the_host(desk: Desk, tmp_path: Path) -> None:
    """A pipe that nobody fills keeps grep waiting for ever, unless it is ended."""
    (tmp_path / "f").write_text("x\n")
    os.mkfifo(tmp_path / "pipe")
    pid = (await desk.link.call("hello")).result["pid"]
    hits = source.grep(desk, "x", [str(tmp_path / "f"), str(tmp_path / "pipe")])
    assert (await anext(hits)).line == 1
    assert _greps(pid)
    await hits.aclose()  # type: ignore[attr-defined]
    for _ in range(200):
        await desk.link.measure()
        if not _greps(pid):
            break
    assert not _greps(pid)


def _greps(parent: int) -> list[str]:
    """Return the greps of a process, whichever of its threads began them: that thread may end meanwhile."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            told = (entry / "stat").read_text() if entry.name.isdigit() else ""
            name, _, rest = told.partition("(")[2].rpartition(") ")
            if name == "grep" and int(rest.split()[1]) == parent:
                found.append(entry.name)
    return found


LABEL = st.tuples(
    st.sampled_from([b"f", b"a:1:b", b"new\nline", b"--", b"-5-"]),
    st.integers(1, 10**9),
    st.booleans(),
    st.binary(max_size=40).filter(lambda text: b"\n" not in text and b"\0" not in text),
)


@given(st.lists(LABEL, max_size=20), st.lists(st.integers(1, 9), max_size=30), st.integers(1, 20))
def test_output_cut_anywhere_is_split_into_the_same_lines(
    lines: list[tuple[bytes, int, bool, bytes]], sizes: list[int], clip: int
) -> None:
    output = b"".join(
        file + b"\0%d" % number + (b":" if hit else b"-") + text + b"\n" for file, number, hit, text in lines
    )
    got: list[tuple[bytes, int, bool, bytes, int]] = []
    splitter = Splitter(clip, lambda *fields: got.append(fields))
    at = 0
    for size in [*sizes, len(output)]:
        splitter.feed(output[at : at + size])
        at += size
    assert got == [(file, number, hit, text[:clip], len(text)) for file, number, hit, text in lines]
