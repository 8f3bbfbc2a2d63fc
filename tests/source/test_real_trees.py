"""Ten patterns over real trees: the same lines as `grep -rnI`; and the round trips of reading."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from console.operations import source
from console.operations.desk import Desk
from tests.wheels import wheel

TREES = (("sglang", "0.5.9"), ("sglang", "0.5.23"), ("vllm", "0.33.0"))
PATTERNS = (
    "flashinfer_cutlass",
    "_should_run_flashinfer_autotune",
    "def forward",
    r"class .*Runner\b",
    "^import torch$",
    r"max_running_requests\|max_num_seqs",
    "TODO",
    r"\[a-z",
    "é",
    r"0x[0-9a-f]\{8\}",
)


@pytest.fixture(scope="module", params=TREES, ids=lambda tree: "-".join(tree))
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel's files; of the big one without the compiled libraries, which grep takes for binary anyway."""
    folder = tmp_path_factory.mktemp("-".join(request.param).replace(".", ""))
    with zipfile.ZipFile(wheel(request.config, *request.param)) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if not name.endswith(".so")])
    return folder


@pytest.mark.wheels
async def test_ten_patterns_are_grep_line_for_line(unpacked: Path, desk: Desk) -> None:
    for pattern in PATTERNS:
        command = ["grep", "-rnI", "-e", pattern, str(unpacked)]
        wanted = subprocess.run(command, capture_output=True).stdout.split(b"\n")[:-1]
        hits = [hit async for hit in source.grep(desk, pattern, [str(unpacked)], clip=1 << 24)]
        ours = [b"%s:%d:%s" % (os.fsencode(hit.file), hit.line, hit.raw) for hit in hits]
        assert sorted(ours) == sorted(wanted), pattern
        assert len(ours) == len(wanted)


@pytest.mark.wheels
async def test_open_grep_and_whole_def_cost_their_round_trips(sglang_059: Path, ssh_desk: Desk) -> None:
    link = ssh_desk.link
    before = link.round_trips
    document = await source.open_document(ssh_desk, str(sglang_059 / "sglang/srt/model_executor/model_runner.py"))
    assert (document.complete, document.sha256 != "", link.round_trips - before) == (True, True, 1)
    line = next(n for n, raw in enumerate(document.lines, 1) if b"def _should_run_flashinfer_autotune" in raw)
    whole = source.enclosing(document, line + 5)
    assert whole is not None and whole.first_line == line
    assert link.round_trips - before == 1
    assert [hit async for hit in source.grep(ssh_desk, "flashinfer_cutlass", [str(sglang_059)])]
    assert link.round_trips - before == 2


async def test_a_big_file_opens_at_any_line_in_one_round_trip(ssh_desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "big.log"
    with file.open("wb") as log:
        for number in range(1, 600_001):
            log.write(b"%07d %s\n" % (number, b"x" * 32))
    for line, wanted in ((300_000, 300_000), (-1, 600_000), (0, 1)):
        before = ssh_desk.link.round_trips
        document = await source.open_document(ssh_desk, str(file), line=line)
        assert ssh_desk.link.round_trips - before == 1
        assert not document.complete
        at = wanted - document.first_line
        assert document.lines[at] == b"%07d %s" % (wanted, b"x" * 32)
        assert sum(map(len, document.lines)) <= source.WINDOW


async def test_a_huge_folder_comes_page_by_page(desk: Desk, tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"f{number:03}").touch()
    (tmp_path / "zz").mkdir()
    names: list[str] = []
    while len(names) < 251:
        page = await source.page(desk, str(tmp_path), offset=len(names), limit=100)
        assert page.total == 251
        names += [entry.name for entry in page.entries]
    assert names == ["zz", *(f"f{number:03}" for number in range(250))]
