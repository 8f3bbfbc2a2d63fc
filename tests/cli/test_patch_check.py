"""`patch check` over several versions and hosts: a table, and a sentence a patch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.cli.main import run
from console.domain.patch import DiskState, PatchStatus
from console.operations.patch_table import Checked, sentence, spans

PATCH = """
name = "p"
[applies_to]
engine = "eng"
version = ">=0.5.7,<0.5.13"
upstream_from = "0.5.13"
[[edit]]
file = "m.py"
find = "x = 1"
replace = "x = 2"
"""


def at(version: str | None, disk: DiskState) -> Checked:
    return Checked("h", "", PatchStatus("p", "p", disk, version=version))


def test_versions_in_a_row_are_one_span() -> None:
    rows = [
        at("0.5.13", DiskState.ALREADY_UPSTREAM),
        at("0.5.9", DiskState.ON),
        at("0.5.12", DiskState.OFF),
        at("0.5.7", DiskState.OFF),
        at("0.5.6", DiskState.NOT_APPLICABLE),
        at("0.5.14", DiskState.ALREADY_UPSTREAM),
    ]
    assert sentence(rows) == "applies to 0.5.7–0.5.12, upstream from 0.5.13, not written for 0.5.6"
    assert [span.versions for span in spans(rows)][1] == ("0.5.7", "0.5.9", "0.5.12")


def test_a_gap_and_an_unknown_version_are_told() -> None:
    rows = [at("1.0", DiskState.OFF), at("1.1", DiskState.CONFLICT), at("1.2", DiskState.OFF), at(None, DiskState.OFF)]
    assert sentence(rows) == "applies to 1.0, applies to 1.2, applies to an unknown version, conflicts on 1.1"


@pytest.fixture
def packages(tmp_path: Path) -> list[str]:
    folders = []
    for version, line in (("0.5.7", "x = 1"), ("0.5.12", "x = 1"), ("0.5.13", "x = 2")):
        folder = tmp_path / version / "eng"
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "m.py").write_text(line + "\n")
        info = folder.parent / f"eng-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: eng\nVersion: {version}\n")
        folders += ["--package", str(folder)]
    return folders


def shell(*argv: str) -> int:
    return run(argv, lambda args: 0)


def test_several_packages_make_a_table(tmp_path: Path, packages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text(PATCH)
    assert shell("patch", "check", str(tmp_path / "p.toml"), *packages) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and "(0.5.7)" in lines[0]
    assert lines[-1] == "p  applies to 0.5.7–0.5.12, upstream from 0.5.13"


def test_several_hosts_are_asked_and_one_that_fails_is_told(
    tmp_path: Path, packages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.toml").write_text(PATCH)
    hosts = ["--host", "local", "--host", "nobody@127.0.0.1:1"]
    assert shell("--json", *hosts, "patch", "check", str(tmp_path / "p.toml"), *packages) == 4
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert [row["host"] for row in document["patches"]] == ["local"] * 3
    assert document["table"][0]["told"] == "applies to 0.5.7–0.5.12, upstream from 0.5.13"
    assert "127.0.0.1:1" in told.err
