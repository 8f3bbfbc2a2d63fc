"""One comparison for all: HEAD, two places, two hosts, two runs by the bytes each had loaded."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from console.errors import ConsoleError, UsageError
from console.operations import comparing
from console.operations.desk import Desk
from tests.conftest import require_sshd
from tests.local import desk, ssh_desk
from tests.ssh_servers import OpenSshServer
from tests.wheels import commit_all

__all__ = ["desk", "ssh_desk"]


async def test_head_in_one_round_trip_whatever_the_names(ssh_desk: Desk, tmp_path: Path) -> None:
    for name in ("a.py", "two words.py", "é.py", "gone.py"):
        (tmp_path / name).write_text("one\n")
    commit_all(tmp_path)
    for name in ("a.py", "two words.py", "é.py"):
        (tmp_path / name).write_text("two\n")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "untracked.py").touch()
    before = ssh_desk.link.round_trips
    found = await comparing.with_head(ssh_desk, str(tmp_path))
    assert ssh_desk.link.round_trips - before == 1
    assert [pair.name for pair in found.files] == ["a.py", "gone.py", "two words.py", "é.py"]
    assert [(pair.before, pair.after) for pair in found.files[:2]] == [(b"one\n", b"two\n"), (b"one\n", None)]


async def test_a_file_and_a_tree_beside_those_of_another_host(desk: Desk, ssh_desk: Desk, tmp_path: Path) -> None:
    for side, text in (("one", "a\n"), ("two", "b\n")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "x.py").write_text(text)
        (tmp_path / side / "same.py").write_text("same\n")
    (tmp_path / "two" / "new.py").write_text("")
    file = await comparing.two_places(desk, str(tmp_path / "one/x.py"), ssh_desk, str(tmp_path / "two/x.py"))
    assert [(pair.before, pair.after) for pair in file.files] == [(b"a\n", b"b\n")]
    assert (file.left, file.right) == (f"local:{tmp_path}/one/x.py", f"test-host:{tmp_path}/two/x.py")
    trees = await comparing.two_places(desk, str(tmp_path / "one"), ssh_desk, str(tmp_path / "two"))
    assert [(pair.name, pair.before, pair.after) for pair in trees.files] == [
        ("new.py", None, b""),
        ("x.py", b"a\n", b"b\n"),
    ]
    assert trees.same == 1
    with pytest.raises(UsageError, match="a file and a folder"):
        await comparing.two_places(desk, str(tmp_path / "one"), desk, str(tmp_path / "two/x.py"))
    with pytest.raises(ConsoleError, match="not there"):
        await comparing.two_places(desk, str(tmp_path / "one/no.py"), desk, str(tmp_path / "two/x.py"))


async def test_two_runs_by_their_bytes_and_what_is_lost_is_said(
    ssh_desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Path(ssh_desk.link.facts.state_home)
    folder = tmp_path / "sglang"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name in ("a.py", "lost.py", "same.py"):
        (folder / name).write_text("old\n")
    commit_all(tmp_path)
    (folder / "a.py").write_text("new\n")
    hashes = {
        "1": {"a.py": b"old\n", "lost.py": b"never kept\n", "same.py": b"old\n"},
        "2": {"a.py": b"new\n", "lost.py": b"old\n", "same.py": b"old\n"},
    }
    made = []
    for number, files in hashes.items():
        run = state / "runs" / f"1999-01-01-{number}"
        run.mkdir(parents=True)
        made.append(run)
        table = {str(folder / name): hashlib.sha256(data).hexdigest() for name, data in files.items()}
        (run / "launch.json").write_text(json.dumps({"id": run.name, "hashes": table, "engine": "sglang"}))
    try:
        found = await comparing.two_runs(ssh_desk, "1999-01-01-1", "1999-01-01-2")
    finally:
        for run in made:
            (run / "launch.json").unlink()
            run.rmdir()
    assert [(pair.name, pair.before, pair.after) for pair in found.files] == [
        ("a.py", b"old\n", b"new\n"),
        ("lost.py", None, b"old\n"),
    ]
    gone = hashlib.sha256(b"never kept\n").hexdigest()[:12]
    assert found.files[1].note == f"differs, and {gone} is no longer to be had"
    assert found.same == 1


@pytest.mark.sshd
async def test_diff_of_one_file_on_two_hosts_from_a_shell(tmp_path: Path) -> None:
    require_sshd()
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    config = []
    async with contextlib.AsyncExitStack() as servers:
        for name, text in (("left", "one = 1\n"), ("right", "one = 2\n")):
            package = tmp_path / name / "sglang"
            package.mkdir(parents=True)
            (package / "__init__.py").write_text("")
            (package / "x.py").write_text(text)
            (package / "same.py").write_text("same\n")
            where = f"SetEnv PYTHONPATH={package.parent} XDG_STATE_HOME={tmp_path / name}\n"
            server = await servers.enter_async_context(OpenSshServer(tmp_path / f"ssh-{name}", where))
            keys = tmp_path / f"ssh-{name}"
            config += [f"Host {name}", "HostName 127.0.0.1", f"Port {server.target.port}"]
            config += [f"User {server.target.user}", f"IdentityFile {keys / 'id_ed25519'}", "IdentitiesOnly yes"]
            config += [f"UserKnownHostsFile {keys / 'known_hosts'}"]
        (home / ".ssh" / "config").write_text("\n".join(config) + "\n")

        async def shell(*words: str) -> tuple[int, str, str]:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "console", *words),
                stdout=-1,
                stderr=-1,
                env={**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)},
            )
            output, complaint = await process.communicate()
            return process.returncode or 0, output.decode(), complaint.decode()

        both = ("--host", "left", "--host", "right", "diff")
        status, output, complaint = await shell(*both, "x.py")
        assert (status, complaint) == (0, "")
        assert output == "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-one = 1\n+one = 2\n"
        status, output, complaint = await shell("--json", *both, "x.py")
        told = json.loads(output)
        assert (told["left"], told["right"]) == (
            f"left:{tmp_path}/left/sglang/x.py",
            f"right:{tmp_path}/right/sglang/x.py",
        )
        status, output, complaint = await shell(*both, "same.py")
        assert (status, output) == (0, "")
        assert "no difference between left:" in complaint
        status, output, complaint = await shell("--host", "left", "--host", "nobody@127.0.0.1:1", "diff", "x.py")
        assert (status, output) == (4, "")
