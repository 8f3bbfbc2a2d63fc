"""The git state around a folder, and what differs from HEAD; nothing there is locked or run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from console.errors import RemoteError
from console.operations import host, source
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.wheels import commit_all, git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A checkout with three files."""
    folder = tmp_path / "repo"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text("one\ntwo\nthree\n")
    (folder / "pkg" / "b.py").write_bytes(b"one\r\ntwo\r\n")
    (folder / "c d [x].py").write_text("c\n")
    commit_all(folder)
    return folder


async def test_a_clean_checkout(desk: Desk, repo: Path) -> None:
    state = await host.git_state(desk, str(repo / "pkg"))
    assert state is not None
    assert (state.top, state.branch, state.dirty, state.untracked) == (str(repo), "main", (), 0)
    assert state.commit == git(repo, "rev-parse", "HEAD").strip()


async def test_every_way_of_being_changed(desk: Desk, repo: Path) -> None:
    (repo / "pkg" / "a.py").write_text("one\nTWO\nthree\n")
    git(repo, "mv", "c d [x].py", "moved name.py")
    (repo / "staged.py").write_text("s\n")
    git(repo, "add", "staged.py")
    (repo / "pkg" / "b.py").unlink()
    (repo / "untracked 1").write_text("u\n")
    (repo / "untracked 2").write_text("u\n")
    state = await host.git_state(desk, str(repo))
    assert state is not None
    assert sorted(state.dirty) == ["moved name.py", "pkg/a.py", "pkg/b.py", "staged.py"]
    assert state.untracked == 2


async def test_a_detached_head_and_a_checkout_without_commits(desk: Desk, repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    state = await host.git_state(desk, str(repo))
    assert state is not None and state.branch == ""
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    state = await host.git_state(desk, str(fresh))
    assert state is not None and (state.commit, state.branch) == ("", "main")


async def test_no_checkout_is_no_state(desk: Desk, tmp_path: Path) -> None:
    assert await host.git_state(desk, str(tmp_path)) is None


async def test_a_checkout_that_ignores_the_folder_does_not_speak_for_it(desk: Desk, repo: Path) -> None:
    """A virtual environment inside somebody's project."""
    (repo / ".gitignore").write_text(".venv/\n")
    (repo / ".venv" / "lib" / "sglang").mkdir(parents=True)
    assert await host.git_state(desk, str(repo / ".venv" / "lib" / "sglang")) is None


async def test_another_logins_checkout_is_explained(desk: Desk, repo: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    said: list[str] = []
    desk.say = said.append
    os.chown(repo, 12345, 12345)
    os.chown(repo / ".git", 12345, 12345)
    assert await host.git_state(desk, str(repo)) is None
    assert "safe.directory" in said[0] and str(repo) in said[0]
    with pytest.raises(RemoteError) as caught:
        await source.diff_head(desk, str(repo))
    assert caught.value.kind == "git_ownership"
    assert (await source.open_document(desk, str(repo / "pkg" / "a.py"))).git == ""


async def test_asking_takes_no_lock_and_runs_nothing_of_the_checkout(desk: Desk, repo: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "diff.trap.textconv", "core.pager"):
        git(repo, "config", key, str(trap))
    (repo / ".gitattributes").write_text("*.py diff=trap\n")
    (repo / "pkg" / "a.py").write_text("changed\n")
    index = repo / ".git" / "index"
    before = (index.stat().st_mtime_ns, index.read_bytes())
    (repo / ".git" / "index.lock").write_text("")
    assert await host.git_state(desk, str(repo)) is not None
    assert (await source.open_document(desk, str(repo / "pkg" / "a.py"))).git == "M"
    assert await source.diff_head(desk, str(repo))
    await source.tree(desk, str(repo))
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
    assert not (tmp_path / "sprung").exists()


async def test_the_diff_against_head_shows_what_cannot_be_seen(desk: Desk, repo: Path) -> None:
    (repo / "pkg" / "a.py").write_bytes(b"one\ntwo\x1b[31m\nthree")
    (repo / "pkg" / "b.py").write_bytes(b"one\ntwo\r\n")
    lines = await source.diff_head(desk, str(repo / "pkg" / "a.py"))
    assert "-two" in lines and "+two␛[31m" in lines
    assert lines[-1] == "\\ No newline at end of file"
    assert not any("b.py" in line for line in lines)
    both = await source.diff_head(desk, str(repo / "pkg"))
    assert "-one␍" in both and "+one" in both
    assert await source.diff_head(desk, str(repo / "c d [x].py")) == ()


async def test_a_removed_file_still_has_a_diff_and_its_old_bytes(desk: Desk, repo: Path) -> None:
    (repo / "pkg" / "a.py").unlink()
    lines = await source.diff_head(desk, str(repo / "pkg" / "a.py"))
    assert "+++ /dev/null" in lines
    old = await desk.link.call("git_show", {"path": str(repo / "pkg" / "a.py")})
    assert old.body == b"one\ntwo\nthree\n"
    with pytest.raises(RemoteError):
        await desk.link.call("git_show", {"path": str(repo / "pkg" / "a.py"), "rev": "--output=/tmp/x"})


async def test_a_host_without_git_still_reads(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = HostLink(LocalTransport(), python=sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    await link.connect()
    desk = Desk(link)
    desk.store.update(host=link.host, facts=link.facts)
    try:
        assert await host.git_state(desk, str(repo)) is None
        assert (await source.open_document(desk, str(repo / "pkg" / "a.py"))).git == ""
        assert len(await source.tree(desk, str(repo))) == 3
        with pytest.raises(RemoteError) as caught:
            await source.diff_head(desk, str(repo))
        assert caught.value.kind == "no_git_program"
    finally:
        await link.close()


async def test_the_logins_git_variables_do_not_lead_astray(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    link = HostLink(LocalTransport())
    await link.connect()
    try:
        assert (await link.call("git_state", {"path": str(repo)})).result["top"] == str(repo)
    finally:
        await link.close()
