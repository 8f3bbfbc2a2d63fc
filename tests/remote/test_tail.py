"""Following a log: nothing lost, nothing doubled, no faster than it is read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.operations.desk import Desk
from console.operations.logs import Part, parts
from console.remote.link import HostLink
from tests.ssh_servers import SshServer


async def take(source: AsyncIterator[Part], size: int) -> tuple[bytes, list[str]]:
    """Read until `size` bytes came; return them and the events on the way."""
    data, events = b"", []
    async with asyncio.timeout(30):
        while len(data) < size:
            part = await anext(source)
            data += part.data
            events += [part.event] if part.event else []
    return data, events


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(b"")
    return path


async def test_the_last_lines_and_what_comes_after(local_link: HostLink, log: Path) -> None:
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(10_000)))
    source = parts(Desk(local_link), str(log), lines=3)
    assert (await take(source, 27))[0] == b"line 9997\nline 9998\nline 9999\n"[:30]
    with log.open("ab") as file:
        file.write(b"half")
    assert (await take(source, 4))[0] == b"half"
    with log.open("ab") as file:
        file.write(b" a line\n")
    assert (await take(source, 8))[0] == b" a line\n"
    await source.aclose()


@pytest.mark.parametrize(
    ("content", "lines", "want"), [(b"a\nb", 1, b"b"), (b"a\nb\n", 5, b"a\nb\n"), (b"a\n\n", 1, b"\n")]
)
async def test_where_the_last_lines_begin(
    local_link: HostLink, log: Path, content: bytes, lines: int, want: bytes
) -> None:
    log.write_bytes(content)
    source = parts(Desk(local_link), str(log), lines=lines)
    assert (await take(source, len(want)))[0] == want
    await source.aclose()


async def test_a_big_log_opens_at_its_end(local_link: HostLink, log: Path) -> None:
    with log.open("wb") as file:
        file.seek(1 << 30)
        file.write(b"\nthe end\n")
    source = parts(Desk(local_link), str(log), lines=1)
    assert (await take(source, 8))[0] == b"the end\n"
    await source.aclose()


async def test_truncation_and_rotation(local_link: HostLink, log: Path) -> None:
    log.write_bytes(b"one\ntwo\n")
    source = parts(Desk(local_link), str(log), lines=10)
    assert await take(source, 8) == (b"one\ntwo\n", ["start"])
    log.write_bytes(b"new\n")
    assert await take(source, 4) == (b"new\n", ["truncated"])
    log.write_bytes(b"longer than before\n")
    assert await take(source, 19) == (b"longer than before\n", ["truncated"])
    with log.open("ab") as file:
        file.write(b"last words\n")
        os.rename(log, log.with_suffix(".1"))
        log.write_bytes(b"fresh\n")
    assert await take(source, 17) == (b"last words\nfresh\n", ["rotated"])
    await source.aclose()


async def test_more_than_the_window_comes_whole_and_other_calls_pass(local_link: HostLink, log: Path) -> None:
    content = b"".join(b"%07d\n" % number for number in range(400_000))
    log.write_bytes(content)
    source = parts(Desk(local_link), str(log), offset=0)
    first = await anext(source)
    assert await local_link.measure() >= 0, "an answer passes a follower that nobody reads"
    data, _ = await take(source, len(content) - len(first.data))
    assert first.data + data == content
    await source.aclose()


async def test_nothing_is_lost_or_doubled_over_a_lost_connection(
    link: HostLink, ssh_server: SshServer, log: Path
) -> None:
    source = parts(Desk(link), str(log), offset=0)
    want = b""
    got = b""
    for number in range(3):
        lines = b"".join(b"%d-%05d\n" % (number, line) for line in range(2000))
        with log.open("ab") as file:
            file.write(lines)
        want += lines
        got += (await take(source, 100))[0]
        await ssh_server.drop()
        with log.open("ab") as file:
            file.write(b"while away\n")
        want += b"while away\n"
    got += (await take(source, len(want) - len(got)))[0]
    assert got == want
    await source.aclose()


async def test_a_log_rotated_while_away_is_read_to_its_end(link: HostLink, ssh_server: SshServer, log: Path) -> None:
    log.write_bytes(b"one\n")
    source = parts(Desk(link), str(log), lines=10)
    assert (await take(source, 4))[0] == b"one\n"
    await ssh_server.drop()
    with log.open("ab") as file:
        file.write(b"two\n")
    os.rename(log, log.with_suffix(".1"))
    log.write_bytes(b"three\n")
    data, events = await take(source, 10)
    assert (data, events[-1]) == (b"two\nthree\n", "rotated")
    await source.aclose()
