"""The same reading and searching at the other end of SSH: exact bytes, any name, counted round trips."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.domain.profile import EngineSection, LaunchSection, Profile
from console.errors import RemoteError, UsageError
from console.operations import host, source
from console.operations.desk import Desk
from tests.wheels import commit_all

NAMES = [
    "E=512,N=128,device_name=NVIDIA_H20,dtype=fp8_w8a8,block_shape=[128, 128].json",
    "-weird name.py",
    "\u6a21\u578b config.json",
    "q'u\"o`t$e\\s",
    "new\nline",
]


async def test_bytes_and_names_arrive_unchanged(ssh_desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    blobs = {name: os.urandom(100_000) + name.encode() for name in NAMES}
    for name, data in blobs.items():
        (folder / name).write_bytes(data)
    entries = await source.tree(ssh_desk, str(folder))
    assert sorted(entry.name for entry in entries) == sorted(NAMES)
    for entry in entries:
        place = source.parse_place(entry.path)
        assert b"".join([part async for part in source.raw_bytes(ssh_desk, place)]) == blobs[entry.name]
        document = await source.open_document(ssh_desk, entry.path)
        assert document.sha256 == hashlib.sha256(blobs[entry.name]).hexdigest()


async def test_opening_and_searching_cost_one_round_trip_each(ssh_desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "big.py").write_bytes(b"def f():\n" + b"    x = 'needle'  # a line of some forty bytes\n" * 200_000)
    commit_all(folder)
    start = ssh_desk.link.round_trips
    document = await source.open_document(ssh_desk, str(folder / "big.py"))
    assert (document.complete, document.total_lines, document.git) == (True, 200_001, "")
    assert ssh_desk.link.round_trips - start == 1
    around = source.enclosing(document, 100_000)
    assert around is not None and around.last_line == 200_001
    assert ssh_desk.link.round_trips - start == 1
    hits = [hit.line async for hit in source.grep(ssh_desk, "needle", [str(folder)])]
    assert hits == list(range(2, 200_002))
    assert ssh_desk.link.round_trips - start == 2


async def test_a_search_gives_what_grep_gives_and_can_be_left(ssh_desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    for number in range(200):
        (folder / f"d{number % 7}").mkdir(parents=True, exist_ok=True)
        (folder / f"d{number % 7}" / f"f{number} [x].py").write_bytes(b"one\n\xff two\nneedle %d\n" % number * 50)
    theirs = subprocess.run(["grep", "-rnI", "needle 1", folder], capture_output=True, check=True).stdout.split(b"\n")[
        :-1
    ]
    hits = [hit async for hit in source.grep(ssh_desk, "needle 1", [str(folder)])]
    assert sorted(os.fsencode(hit.file) + b":%d:" % hit.line + hit.raw for hit in hits) == sorted(theirs)
    leaving = source.grep(ssh_desk, "e", [str(folder)])
    await anext(leaving)
    await leaving.aclose()  # type: ignore[attr-defined]
    assert (await source.open_document(ssh_desk, hits[0].file)).lines
    with pytest.raises(UsageError, match="pattern not understood"):
        await anext(source.grep(ssh_desk, "[a-z", [str(folder)]))
    with pytest.raises(RemoteError) as caught:
        await source.open_document(ssh_desk, str(folder / "gone"))
    assert caught.value.kind == "enoent"


async def test_the_package_and_its_checkout(ssh_desk: Desk, tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "python" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError\n")
    (package / "version.py").write_text('__version__ = "0.5.9"\n')
    commit_all(tmp_path / "checkout")
    launch = LaunchSection(env={"PYTHONPATH": str(package.parent)})
    ssh_desk.profile = Profile("p", engine=EngineSection(python=sys.executable), launch=launch)
    found = await host.engine_package(ssh_desk)
    assert (found.folder, found.version, found.origin) == (str(package), "0.5.9", "path")
    state = await host.git_state(ssh_desk)
    assert state is not None and (state.top, state.dirty) == (str(tmp_path / "checkout"), ())
    document = await source.open_document(ssh_desk, "version.py")
    assert document.path == str(package / "version.py")
    assert (await source.open_document(ssh_desk, "python/sglang/version.py")).path == document.path
