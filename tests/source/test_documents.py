"""Opening files: whole, by lines, whatever they hold and however they are named."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.text import clean
from console.errors import RemoteError
from console.operations import source
from console.operations.desk import Desk
from console.remote.outpost import reading
from console.source.documents import content
from tests.wheels import commit_all

HOSTILE_NAMES = [
    "E=512,N=128,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json",
    "-weird name.py",
    "模型",
    "with:12",
    "new\nline",
    "[bold] $HOME `x` 'q' \"q\" \\",
    "~tilde",
]


@pytest.mark.parametrize(
    ("data", "lines", "crlf", "mixed", "final"),
    [
        (b"a\nb\n", (b"a", b"b"), False, False, True),
        (b"a\nb", (b"a", b"b"), False, False, False),
        (b"a\r\nb\r\n", (b"a", b"b"), True, False, True),
        (b"a\r\nb", (b"a", b"b"), True, False, False),
        (b"a\r\nb\n", (b"a\r", b"b"), False, True, True),
        (b"", (), False, False, True),
        (b"\n", (b"",), False, False, True),
        (b"\xff\xfe\n\x1b[31m\n", (b"\xff\xfe", b"\x1b[31m"), False, False, True),
        ("模型\n".encode(), ("模型".encode(),), False, False, True),
    ],
)
async def test_a_file_is_told_byte_for_byte(
    desk: Desk, tmp_path: Path, data: bytes, lines: tuple[bytes, ...], crlf: bool, mixed: bool, final: bool
) -> None:
    file = tmp_path / "f.txt"
    file.write_bytes(data)
    document = await source.open_document(desk, str(file))
    assert document.lines == lines
    assert (document.crlf, document.mixed_ends, document.final_newline) == (crlf, mixed, final)
    assert document.total_lines == len(lines)
    assert document.complete
    assert document.sha256 == hashlib.sha256(data).hexdigest()
    assert content(document) == data


@pytest.mark.parametrize("name", HOSTILE_NAMES)
async def test_any_name_opens_lists_and_hashes(desk: Desk, tmp_path: Path, name: str) -> None:
    data = b"three\n\xe6\xa8\xa1\nlines\n"
    (tmp_path / name).write_bytes(data)
    entries = await source.tree(desk, str(tmp_path))
    assert [entry.name for entry in entries] == [name]
    document = await source.open_document(desk, entries[0].path)
    assert content(document) == data
    hashes = (await desk.link.call("hash", {"paths": [entries[0].path]})).result
    assert hashes == {entries[0].path: hashlib.sha256(data).hexdigest()}


async def test_a_name_that_is_not_utf8_opens(desk: Desk, tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/caf\xe9.py"
    with open(raw, "wb") as file:
        file.write(b"x = 1\n")
    entry = (await source.tree(desk, str(tmp_path)))[0]
    assert os.fsencode(entry.path) == raw
    assert (await source.open_document(desk, entry.path)).lines == (b"x = 1",)
    assert clean(entry.name) == "caf\N{REPLACEMENT CHARACTER}.py"


async def test_an_open_is_one_round_trip_with_content_hash_and_git_letter(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("a\n")
    (tmp_path / "changed.py").write_text("a\n")
    commit_all(tmp_path)
    (tmp_path / "changed.py").write_text("b\n")
    (tmp_path / "new.py").write_text("c\n")
    letters = {}
    for name in ("clean.py", "changed.py", "new.py"):
        before = desk.link.round_trips
        document = await source.open_document(desk, str(tmp_path / name))
        assert desk.link.round_trips - before == 1
        assert document.sha256 and document.lines
        letters[name] = document.git
    assert letters == {"clean.py": "", "changed.py": "M", "new.py": "?"}


async def test_a_place_is_one_round_trip_wherever_the_file_turns_out_to_be(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("".join(f"{n}\n" for n in range(1, 101)))
    (tmp_path / "f.py:7").write_text("a file of that name\n")
    before = desk.link.round_trips
    some = await source.open_place(desk, source.parse_place(f"{tmp_path}/f.py:40-42"))
    assert (some.first_line, some.lines, some.total_lines) == (40, (b"40", b"41", b"42"), 100)
    literal = await source.open_place(desk, source.parse_place(f"{tmp_path}/f.py:7"))
    assert literal.lines == (b"a file of that name",)
    around = await source.open_place(desk, source.parse_place(f"{tmp_path}/f.py:3"), around=10)
    assert (around.first_line, len(around.lines)) == (1, 13)
    with pytest.raises(RemoteError, match=r"/gone\.py: No such file"):
        await source.open_place(desk, source.parse_place(f"{tmp_path}/gone.py:3"))
    assert desk.link.round_trips - before == 4


async def test_ten_megabytes_open_whole_and_by_range(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "big.py"
    line = b"    value = compute(left, right)  # a line of fifty bytes\n"
    file.write_bytes(line * 180_000)
    whole = await source.open_document(desk, str(file))
    assert whole.complete and whole.total_lines == 180_000
    assert whole.sha256 == hashlib.sha256(line * 180_000).hexdigest()
    some = await source.open_document(desk, str(file), first=179_990, count=500)
    assert (some.first_line, len(some.lines), some.total_lines) == (179_990, 11, 180_000)
    assert content(some) == line * 11


async def test_a_huge_log_opens_at_any_line_without_being_loaded(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    block = b"".join(b"[2026-01-20 02:41:%02d TP0] Decode batch, #running-req: 1\n" % (n % 60) for n in range(20_000))
    rounds = 200_000_000 // len(block)
    with file.open("wb") as log:
        for _ in range(rounds):
            log.write(block)
    total = rounds * 20_000
    pid = (await desk.link.call("hello")).result["pid"]
    middle = await source.open_document(desk, str(file), first=total // 2 + 1, count=3)
    assert content(middle) == b"".join(block.splitlines(keepends=True)[:3])
    assert (middle.sha256, middle.total_lines) == ("", None)
    last = await source.open_document(desk, str(file), first=-5)
    assert (last.first_line, last.total_lines) == (total - 4, total)
    assert content(last) == b"".join(block.splitlines(keepends=True)[-5:])
    from_start = await source.open_document(desk, str(file))
    assert not from_start.complete
    assert len(content(from_start)) <= 16 << 20
    peak_kib = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert int(peak_kib.split()[1]) < 150_000


async def test_one_endless_line_is_cut_and_says_so(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "monster.log"
    file.write_bytes(b"input_ids=[" + b"1, " * 700_000 + b"]\nnext\n")
    reply = await desk.link.call("read", {"path": str(file), "max_bytes": 4096})
    assert len(reply.body) == 4096
    assert reply.result["cut"] is True
    document = await source.open_document(desk, str(file))
    assert clean(document.lines[0]).endswith("bytes]")
    assert document.total_lines == 2


async def test_binary_files_come_as_their_head(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    data = bytes(range(256)) * 4096
    file.write_bytes(data)
    document = await source.open_document(desk, str(file))
    assert document.binary and not document.complete
    assert content(document) == data[: reading.HEAD]
    assert document.sha256 == hashlib.sha256(data).hexdigest()


async def test_files_of_proc_that_say_they_are_empty_are_read(desk: Desk) -> None:
    document = await source.open_document(desk, "/proc/self/status")
    assert document.lines[0].startswith(b"Name:")


async def test_what_is_no_file_is_refused_with_a_reason(desk: Desk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.symlink(tmp_path / "gone", tmp_path / "dangling")
    kinds = {}
    for name in ("missing", "pipe", "dangling", "."):
        with pytest.raises(RemoteError) as caught:
            await source.open_document(desk, str(tmp_path / name))
        kinds[name] = caught.value.kind
        assert str(tmp_path) in caught.value.title
    assert kinds == {"missing": "enoent", "pipe": "special", "dangling": "enoent", ".": "eisdir"}
    with pytest.raises(RemoteError, match="NUL"):
        await source.open_document(desk, "/a\0b")


async def test_folders_show_links_hidden_files_and_letters(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "mod.py").write_text("a\n")
    (tmp_path / ".hidden").write_text("h\n")
    os.symlink("pkg", tmp_path / "to-folder")
    os.symlink("nowhere", tmp_path / "to-nothing")
    commit_all(tmp_path)
    (tmp_path / "pkg" / "mod.py").write_text("b\n")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "x").write_text("x\n")
    entries = {entry.name: entry for entry in await source.tree(desk, str(tmp_path))}
    assert set(entries) == {".git", ".hidden", "pkg", "new", "to-folder", "to-nothing"}
    assert {name: entry.git for name, entry in entries.items() if entry.git} == {"pkg": "M", "new": "?"}
    link = entries["to-folder"]
    assert (link.kind, link.target, link.target_kind) == ("link", "pkg", "dir")
    assert (entries["to-nothing"].kind, entries["to-nothing"].target_kind) == ("link", "")
    inner = await source.tree(desk, str(tmp_path / "pkg"))
    assert [(entry.name, entry.git) for entry in inner] == [("mod.py", "M")]


async def test_a_huge_folder_is_cut_and_says_so(desk: Desk, tmp_path: Path) -> None:
    said: list[str] = []
    desk.say = said.append
    name = "\u6a21" * 80
    for number in range(20_001):
        (tmp_path / f"{number}{name}").touch()
    assert len(await source.tree(desk, str(tmp_path))) == 20_000
    assert "20,000 of 20,001" in said[0]


async def test_raw_bytes_come_whole_in_one_round_trip(desk: Desk, tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    (tmp_path / "blob").write_bytes(data)
    before = desk.link.round_trips
    got = b"".join([part async for part in source.raw_bytes(desk, source.parse_place(str(tmp_path / "blob")))])
    assert got == data
    assert desk.link.round_trips - before == 1


@given(
    data=st.lists(st.sampled_from([b"\n", b"\r\n", b"ab", b"c", b"\r"]), max_size=60).map(b"".join),
    first=st.integers(-8, 12),
    count=st.none() | st.integers(0, 8),
    chunk=st.integers(1, 7),
)
def test_any_window_is_what_splitting_the_whole_file_gives(
    data: bytes, first: int, count: int | None, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "window"
    file.write_bytes(data)
    lines = data.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    size, reading.CHUNK = reading.CHUNK, chunk
    fd = os.open(file, os.O_RDONLY)
    try:
        facts, body = reading.read_lines(fd, first, count, 1 << 20, True)
    finally:
        os.close(fd)
        reading.CHUNK = size
    if first < 0:
        expected = lines[first:]
        assert facts["first"] == len(lines) - len(expected) + 1
    else:
        start = max(first, 1) - 1
        expected = lines[start:] if count is None else lines[start : start + count]
    assert body == b"".join(expected)
    assert facts["total_lines"] == len(lines)
    assert facts["sha256"] == hashlib.sha256(data).hexdigest()
    ended = [line for line in lines if line.endswith(b"\n")]
    carriage = [line for line in ended if line.endswith(b"\r\n")]
    assert facts["crlf"] == (bool(ended) and len(carriage) == len(ended))
    assert facts["mixed_ends"] == (0 < len(carriage) < len(ended))
