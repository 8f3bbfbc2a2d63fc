"""`tokwatt patch` in a shell: data, narration, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PATCH = '[applies_to]\nengine = "eng"\nversion = ">=1,<2"\nupstream_from = "2"\n[[edit]]\nfile = "m.py"\nfind = "x = 1"\nreplace = "x = 2"\n'


class Shell:
    """A command line of its own: own home, own folder, package `eng` of some version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "profiles/patches").mkdir(parents=True)
        (folder / "profiles/patches/p.toml").write_text(PATCH)
        self.package = self.make("eng", "1.5")

    def make(self, where: str, version: str) -> Path:
        package = self.folder / f"site-{version}" / "eng"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "m.py").write_text("x = 1\n")
        info = package.parent / f"eng-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: eng\nVersion: {version}\n")
        return package

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        argv = [sys.executable, "-m", "console", "patch", *args]
        return subprocess.run(argv, cwd=self.folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_check_apply_revert_with_their_exit_codes(shell: Shell) -> None:
    here = ("--package", str(shell.package))
    said = shell("check", "p", *here, "--json")
    assert said.returncode == 0 and said.stderr == ""
    document = json.loads(said.stdout)
    assert document["schema"] == 1
    row = document["patches"][0]
    assert (row["name"], row["state"], row["files"]) == ("p", "off", ["m.py"])
    assert {"loaded", "reason"} <= row.keys()
    done = shell("apply", "p", *here, "--json")
    assert done.returncode == 0, done.stderr
    write = json.loads(done.stdout)["writes"][0]
    assert (write["files"][0]["file"], write["files"][0]["lines_added"]) == ("m.py", 1)
    assert "round trips" in done.stderr and "compiled by" in done.stderr
    assert (shell.package / "m.py").read_text() == "x = 2\n"
    assert shell("apply", "p", *here).returncode == 6
    assert shell("revert", "p", *here).returncode == 0
    assert shell("revert", "p", *here).returncode == 6
    assert (shell.package / "m.py").read_text() == "x = 1\n"


def test_refusals_are_one_line_on_stderr_with_exit_3(shell: Shell) -> None:
    (shell.package / "m.py").write_text("x = 1\nx = 1\n")
    done = shell("apply", "p", "--package", str(shell.package))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1 and "lines 1 and 2" in done.stderr
    assert shell("check", "p", "--package", str(shell.package)).returncode == 0
    readonly = shell("apply", "p", "--package", str(shell.package), "--readonly")
    assert readonly.returncode == 3 and "--readonly" in readonly.stderr


def test_several_packages_make_a_table_by_version(shell: Shell) -> None:
    newer, older = shell.make("eng", "2.0"), shell.make("eng", "0.9")
    folders = [str(shell.package), str(newer), str(older)]
    said = shell("check", "p", "--json", *(part for folder in folders for part in ("--package", folder)))
    rows = json.loads(said.stdout)["patches"]
    assert [(row["package"], row["version"], row["state"]) for row in rows] == [
        (folders[0], "1.5", "off"),
        (folders[1], "2.0", "already_upstream"),
        (folders[2], "0.9", "not_applicable"),
    ]
    assert shell("apply", "p", "--package", str(newer)).returncode == 6
    assert shell("apply", "p", "--package", str(older)).returncode == 3


def test_usage_and_format_faults_are_exit_2(shell: Shell) -> None:
    assert shell("apply", "nothing", "--package", str(shell.package)).returncode == 2
    assert shell("frobnicate").returncode == 2
    (shell.folder / "bad.toml").write_text(PATCH.replace("find", "search"))
    done = shell("apply", "bad.toml", "--package", str(shell.package))
    assert done.returncode == 2 and "bad.toml:7: edit[1].search" in done.stderr
    said = shell("check", "bad.toml", "--json", "--package", str(shell.package))
    assert said.returncode == 0 and json.loads(said.stdout)["patches"][0]["state"] == "invalid"


def test_list_and_show_need_no_host(shell: Shell) -> None:
    assert "p" in [row["name"] for row in json.loads(shell("list", "--json").stdout)["patches"]]
    shown = shell("show", "p")
    assert shown.returncode == 0 and "-x = 1" in shown.stdout and "+x = 2" in shown.stdout


def test_undo_and_capture(shell: Shell) -> None:
    here = ("--package", str(shell.package))
    shell("apply", "p", *here)
    assert shell("undo", *here).returncode == 0
    assert (shell.package / "m.py").read_text() == "x = 1\n"
    diff = shell.folder / "x.diff"
    diff.write_text("--- a/eng/m.py\n+++ b/eng/m.py\n@@ -1 +1 @@\n-x = 1\n+x = 3\n")
    done = shell("capture", "mine", "x.diff", *here)
    assert done.returncode == 0, done.stderr
    assert shell("apply", "mine", *here).returncode == 0
    assert (shell.package / "m.py").read_text() == "x = 3\n"
