"""A host without Python: the same operations by `sh`, compared with what the outpost answers."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from console.errors import RemoteError
from console.remote.link import HostLink
from console.remote.ssh import SshTransport
from tests.conftest import require_sshd
from tests.ssh_servers import InProcessServer, OpenSshServer

TOOLS = [
    "sh",
    "cat",
    "head",
    "tail",
    "cut",
    "tr",
    "sort",
    "stat",
    "sha256sum",
    "readlink",
    "dirname",
    "find",
    "grep",
    "git",
    "uname",
    "id",
    "date",
    "timeout",
    "printf",
    "cp",
    "mv",
    "rm",
    "sync",
    "true",
    "sleep",
]


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A PATH with everything that the scripts need, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        path = shutil.which(tool)
        assert path, f"{tool} is missing on this machine"
        (folder / tool).symlink_to(path)
    return folder


@pytest.fixture(params=["asyncssh", pytest.param("sshd", marks=pytest.mark.sshd)])
async def bare(request: pytest.FixtureRequest, tmp_path: Path, bin_folder: Path) -> AsyncIterator[HostLink]:
    """A link to a host without Python."""
    server: InProcessServer | OpenSshServer
    if request.param == "sshd":
        require_sshd()
        server = OpenSshServer(tmp_path / "ssh", extra=f"SetEnv PATH={bin_folder}\n")
    else:
        server = InProcessServer(tmp_path / "ssh", env={"PATH": str(bin_folder)})
    async with server:
        link = HostLink(SshTransport(server.target))
        await link.connect()
        yield link
        await link.close()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with odd names and odd bytes."""
    top = tmp_path / "repo"
    (top / "sub dir").mkdir(parents=True)
    (top / "a.py").write_bytes(b"one\ntwo\nthree")
    (top / "crlf.txt").write_bytes(b"x\r\ny\r\n")
    (top / "-weird name.py").write_bytes(b"def f():\n    return 1\n")
    (top / "sub dir" / "\u6a21\u578b.json").write_bytes(b"\x92\xff two\n")
    (top / "blob").write_bytes(b"\0\1\2")
    (top / "link").symlink_to("a.py")
    git = ["git", "-C", str(top), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-qb", "main"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "c"], check=True)
    (top / "a.py").write_bytes(b"one\nTWO\nthree")
    (top / "new").write_text("n\n")
    return top


async def _both(bare: HostLink, full: HostLink, op: str, args: dict[str, Any]) -> tuple[Any, Any]:
    return await bare.call(op, args), await full.call(op, args)


async def test_a_host_without_python_is_degraded_and_says_why(bare: HostLink) -> None:
    assert "python3" in bare.state.degraded
    assert bare.facts.python == ""
    assert bare.facts.home


@pytest.mark.parametrize(
    ("name", "first", "count"),
    [("a.py", 1, None), ("a.py", 2, 1), ("a.py", -1, None), ("crlf.txt", 1, None), ("blob", 1, None), ("link", 1, None),
     ("-weird name.py", 1, None), ("sub dir/\u6a21\u578b.json", 1, None)],
)  # fmt: skip
async def test_read_is_the_same(
    bare: HostLink, local_link: HostLink, checkout: Path, name: str, first: int, count: int | None
) -> None:
    args = {"path": str(checkout / name), "first": first, "count": count, "git": True}
    ours, theirs = await _both(bare, local_link, "read", args)
    assert ours.body == theirs.body
    for key in set(theirs.result) - {"mtime", "mtime_ns"}:
        assert ours.result[key] == theirs.result[key], key


async def test_list_hash_stat_and_git_are_the_same(bare: HostLink, local_link: HostLink, checkout: Path) -> None:
    ours, theirs = await _both(bare, local_link, "list", {"path": str(checkout)})
    rows = [sorted(json.loads(reply.body), key=lambda row: str(row["name"])) for reply in (ours, theirs)]
    for row in [*rows[0], *rows[1]]:
        row["mtime"] = int(row["mtime"])
    assert rows[0] == rows[1]
    paths = [str(checkout / "a.py"), str(checkout / "none"), str(checkout / "link")]
    for op in ("hash", "stat"):
        ours, theirs = await _both(bare, local_link, op, {"paths": paths})
        assert set(ours.result) == set(theirs.result)
        for path in paths:
            if isinstance(theirs.result[path], dict):
                shared = set(ours.result[path]) - {"mtime"}
                assert {k: ours.result[path][k] for k in shared} == {k: theirs.result[path][k] for k in shared}
            else:
                assert ours.result[path] == theirs.result[path]
    for op in ("git_state", "git_diff"):
        ours, theirs = await _both(bare, local_link, op, {"path": str(checkout)})
        assert (ours.result, ours.body) == (theirs.result, theirs.body)


async def test_grep_is_the_same(bare: HostLink, local_link: HostLink, checkout: Path) -> None:
    args = {"paths": [str(checkout)], "pattern": "TW[O]\\|return"}
    answers = []
    for link in (bare, local_link):
        parts = [reply async for reply in link.stream("grep", args)]
        answers.append((sorted(name for part in parts[:-1] for name in part.result["files"]), parts[-1].result["hits"]))
    assert answers[0] == answers[1]
    assert answers[0][1] >= 2
    with pytest.raises(RemoteError) as caught:
        await bare.call("grep", {"paths": [str(checkout)], "pattern": "a\\{"})
    assert caught.value.kind == "usage"


async def test_faults_have_the_same_kinds(bare: HostLink, local_link: HostLink, checkout: Path) -> None:
    for op, path in [("read", "none"), ("read", "sub dir"), ("list", "none"), ("list", "a.py")]:
        kinds = []
        for link in (bare, local_link):
            with pytest.raises(RemoteError) as caught:
                await link.call(op, {"path": str(checkout / path)})
            kinds.append(caught.value.kind)
        assert kinds[0] == kinds[1], (op, path)


async def test_a_file_is_swapped_only_when_it_is_as_seen(bare: HostLink, checkout: Path) -> None:
    path = checkout / "-weird name.py"
    path.chmod(0o750)
    before, after = path.read_bytes(), b"def f():\n    return 2\n"
    spec = {
        "path": path.name,
        "before": hashlib.sha256(before).hexdigest(),
        "after": hashlib.sha256(after).hexdigest(),
        "size": len(after),
    }
    args = {"root": str(checkout), "name": "p", "verb": "apply", "python": "", "files": [spec]}
    await bare.call("transaction", args, after)
    assert path.read_bytes() == after
    assert path.stat().st_mode & 0o777 == 0o750
    with pytest.raises(RemoteError) as caught:
        await bare.call("transaction", args, after)
    assert caught.value.kind == "changed"
    assert sorted(p.name for p in checkout.iterdir() if "tokwatt" in p.name) == []


async def test_what_needs_python_says_so(bare: HostLink) -> None:
    with pytest.raises(RemoteError) as caught:
        await bare.call("launch", {})
    assert caught.value.kind == "degraded"
    with pytest.raises(RemoteError):
        async with bare.program("console.telemetry.probe", "run"):
            pass
    done = await bare.run(["sh", "-c", "cat; exit 3"], input=b"\x92\xff\n")
    assert (done.status, done.output) == (3, b"\x92\xff\n")
