"""Writes on the host: all or none, whatever cuts them short, and nothing of a file lost but its bytes."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.remote.outpost import recovery, snapshot, transaction
from console.remote.outpost.calls import Call, Fault
from console.remote.outpost.keep import Keep
from tests import needs
from tests.patching.many_cuts import must_hold
from tests.wheels import commit_all, git

AS_NOBODY = """
import codecs, sys, json, os
codecs.lookup("ascii")  # an ordinary login may not reach this interpreter's own library
from console.remote.outpost import transaction
from console.remote.outpost.calls import Call, Fault
args = json.loads(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    transaction.transaction(Call(args, sys.argv[2].encode(), lambda result, body: None))
    print("done")
except Fault as fault:
    print(fault.kind, fault.facts.get("path"))
except OSError as error:
    print(error.errno)
"""


def sha(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def arguments(root: Path, changes: dict[str, tuple[bytes | None, bytes | None]], **more: Any) -> dict[str, Any]:
    files = [
        {"path": path, "before": sha(before), "after": sha(after), "size": len(after or b"")}
        for path, (before, after) in changes.items()
    ]
    return {"root": str(root), "name": "p", "verb": "apply", "operator": "ada", "python": "", "files": files, **more}


def write(root: Path, changes: dict[str, tuple[bytes | None, bytes | None]], **more: Any) -> dict[str, Any]:
    body = b"".join(after for _, after in changes.values() if after is not None)
    return transaction.transaction(Call(arguments(root, changes, **more), body, lambda result, body: None))[0]


def snap(root: Path, **more: Any) -> dict[str, Any]:
    return snapshot.snapshot(Call({"root": str(root), **more}, b"", lambda result, body: None))[0]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "a.py").write_bytes(b"a = 1\n")
    return folder


@pytest.fixture
def open_package() -> Iterator[Path]:
    """A package that an ordinary login can reach."""
    base = Path(tempfile.mkdtemp(prefix="tokwatt-"))
    base.chmod(0o755)
    (base / "pkg").mkdir(mode=0o755)
    (base / "pkg/a.py").write_bytes(b"a = 1\n")
    yield base / "pkg"
    shutil.rmtree(base)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["kill", "full", "full-once"])
def test_cut_at_every_step_no_file_is_torn_and_the_next_start_knows(tmp_path: Path, mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.patching.cuts", str(tmp_path), mode], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows.pop()["total"] == len(rows) > 80
    for row in rows:
        must_hold(row, mode)


def test_owner_mode_and_other_names_stay(package: Path) -> None:
    file = package / "a.py"
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
    before = file.stat()
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_mtime > before.st_mtime
    assert sorted(os.listdir(package)) == ["a.py"]


def test_a_link_stays_a_link_and_its_target_is_written(package: Path) -> None:
    (package / "real.py").write_bytes(b"x = 1\n")
    (package / "link.py").symlink_to("real.py")
    write(package, {"link.py": (b"x = 1\n", b"x = 2\n")})
    assert (package / "link.py").is_symlink()
    assert (package / "real.py").read_bytes() == b"x = 2\n"


@pytest.mark.parametrize("path", ["../out.py", "link.py", "/etc/hostname"])
def test_nothing_outside_the_package_is_written(package: Path, path: str) -> None:
    out = package.parent / "out.py"
    out.write_bytes(b"x = 1\n")
    (package / "link.py").symlink_to(out)
    with pytest.raises(Fault) as caught:
        write(package, {path: (b"x = 1\n", b"x = 2\n")})
    assert caught.value.kind == "outside"
    assert out.read_bytes() == b"x = 1\n"


def test_a_file_that_changed_since_refuses_the_whole_set(package: Path) -> None:
    (package / "b.py").write_bytes(b"b = 9\n")
    with pytest.raises(Fault) as caught:
        write(package, {"a.py": (b"a = 1\n", b"a = 2\n"), "b.py": (b"b = 1\n", b"b = 2\n")})
    assert (caught.value.kind, caught.value.facts["path"]) == ("changed", "b.py")
    assert (package / "a.py").read_bytes() == b"a = 1\n"
    assert not (package.parent / ".tokwatt").exists()


def test_a_change_between_temporary_and_rename_refuses(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def somebody_else(name: str) -> None:
        if name == "compare":
            (package / "a.py").write_bytes(b"theirs\n")

    monkeypatch.setattr(transaction, "on_step", somebody_else)
    with pytest.raises(Fault, match="last seen"):
        write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    assert (package / "a.py").read_bytes() == b"theirs\n"
    assert sorted(os.listdir(package)) == ["a.py"]


def test_what_would_not_compile_never_lands(package: Path) -> None:
    with pytest.raises(Fault) as caught:
        write(package, {"a.py": (b"a = 1\n", b"a = (\n")}, python=sys.executable)
    assert caught.value.kind == "syntax"
    assert "line 1" in caught.value.facts["detail"]
    assert sorted(os.listdir(package.parent)) == ["pkg"]


def test_a_template_that_never_compiled_may_be_changed(package: Path) -> None:
    (package / "t.py").write_bytes(b"{{ name }} = = 1\n")
    said = write(package, {"t.py": (b"{{ name }} = = 1\n", b"{{ name }} = = 2\n")})
    assert said["compiled_by"] == sys.executable


def test_a_missing_interpreter_is_told_not_guessed(package: Path) -> None:
    said = write(package, {"a.py": (b"a = 1\n", b"a = 2\n")}, python="/nonexistent/python3")
    assert said["compiled_by"] == ""
    assert "/nonexistent/python3" in said["compile_note"]


def test_who_holds_the_lock_is_told(package: Path) -> None:
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    with open(package.parent / ".tokwatt/lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(json.dumps({"owner": "bob@desk as root", "since": 0}).encode())
        lock.flush()
        with pytest.raises(Fault) as caught:
            write(package, {"a.py": (b"a = 2\n", b"a = 3\n")})
    assert (caught.value.kind, caught.value.facts["owner"]) == ("locked", "bob@desk as root")
    assert (package / "a.py").read_bytes() == b"a = 2\n"


def test_bytecode_of_the_same_second_and_size_is_not_reused(package: Path) -> None:
    file = package / "a.py"
    py_compile.compile(str(file), doraise=True)
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    done = subprocess.run([sys.executable, "-c", "import a; print(a.a)"], cwd=package, capture_output=True, text=True)
    assert done.stdout == "2\n"


def test_bytecode_that_python_would_not_check_is_removed_and_told(package: Path) -> None:
    py_compile.compile(str(package / "a.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    said = write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    assert "unchecked" in said["notes"][0]
    done = subprocess.run([sys.executable, "-c", "import a; print(a.a)"], cwd=package, capture_output=True, text=True)
    assert done.stdout == "2\n"


def test_recovery_never_touches_what_somebody_changed_since(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (package / "b.py").write_bytes(b"b = 1\n")

    class Cut(BaseException):
        pass

    def cut(name: str) -> None:
        if name == "sync":
            raise Cut

    monkeypatch.setattr(transaction, "on_step", cut)
    with pytest.raises(Cut):
        write(package, {"a.py": (b"a = 1\n", b"a = 2\n"), "b.py": (b"b = 1\n", b"b = 2\n")})
    (package / "b.py").write_bytes(b"theirs\n")
    monkeypatch.setattr(transaction, "on_step", None)
    said = snap(package, recover=True, operator="bob")
    assert [(item["outcome"], item["foreign"]) for item in said["recovered"]] == [("undone", ["pkg/b.py"])]
    assert (package / "a.py").read_bytes() == b"a = 1\n"
    assert (package / "b.py").read_bytes() == b"theirs\n"


def test_a_console_that_may_only_look_recovers_nothing(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    keep = Keep(str(package))
    keep.append({"id": "x", "phase": "begin", "name": "p", "verb": "apply", "files": [], "made": []})
    assert len(snap(package)["pending"]) == 1
    assert recovery.recover(keep, "bob")[0]["outcome"] == "undone"


def test_a_torn_last_line_of_the_journal_is_passed_over(package: Path) -> None:
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    journal = package.parent / ".tokwatt/journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"id":"torn","pha')
    write(package, {"a.py": (b"a = 2\n", b"a = 3\n")}, name="q")
    assert set(snap(package)["ours"]) == {"p", "q"}


def test_journal_and_originals_last_as_long_as_the_patch(package: Path) -> None:
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    said = snap(package, contents=["p"])
    assert {item["sha256"] for item in said["kept"]} == {sha(b"a = 1\n"), sha(b"a = 2\n")}
    assert said["ours"]["p"]["operator"] == "ada"
    write(package, {"a.py": (b"a = 2\n", b"a = 1\n")}, verb="revert")
    assert snap(package)["ours"] == {}
    write(package, {"a.py": (b"a = 1\n", b"a = 5\n")}, name="q")
    assert sorted(os.listdir(package.parent / ".tokwatt/originals")) == sorted([sha(b"a = 1\n"), sha(b"a = 5\n")])  # type: ignore[type-var]


def test_git_overlooks_our_folder(package: Path) -> None:
    commit_all(package.parent)
    write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    assert git(package.parent, "status", "--short") == " M pkg/a.py\n"


@pytest.mark.parametrize("what", ["file", "folder", "beside"])
def test_an_ordinary_login_without_the_right_is_told_which(open_package: Path, what: str) -> None:
    needs.root("to become an ordinary login")
    for path in (open_package.parent, open_package, open_package / "a.py"):
        os.chown(path, 65534, 65534)
    closed = {"file": open_package / "a.py", "folder": open_package, "beside": open_package.parent}[what]
    os.chown(closed, 0, 0)
    before = sorted(str(path) for path in open_package.parent.rglob("*"))
    args = arguments(open_package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, json.dumps(args), "a = 2\n"], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["eacces", str(closed)], done.stderr
    assert (open_package / "a.py").read_bytes() == b"a = 1\n"
    assert sorted(str(path) for path in open_package.parent.rglob("*")) == before


def test_an_owner_that_cannot_be_kept_refuses(open_package: Path) -> None:
    needs.root("to become an ordinary login")
    for path in (open_package.parent, open_package):
        os.chown(path, 65534, 65534)
    (open_package / "a.py").chmod(0o666)
    args = arguments(open_package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, json.dumps(args), "a = 2\n"], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("eperm"), done.stdout + done.stderr
    assert (open_package / "a.py").read_bytes() == b"a = 1\n"
    assert sorted(os.listdir(open_package)) == ["a.py"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB."""
    folder = tmp_path / "disk"
    needs.mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", at=folder)
    yield folder
    needs.unmount(folder)


def test_an_immutable_file_is_told_before_anything(package: Path) -> None:
    file = package / "a.py"
    needs.root("to set the attribute")
    if (done := subprocess.run(["chattr", "+i", str(file)], capture_output=True, text=True)).returncode:
        needs.lacking(f"a file system with an immutable attribute: {done.stderr.strip()}")
    try:
        with pytest.raises(Fault) as caught:
            write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    finally:
        subprocess.run(["chattr", "-i", str(file)], check=True)
    assert (caught.value.kind, caught.value.facts["path"]) == ("immutable", str(file))
    assert sorted(os.listdir(package.parent)) == ["pkg"]


def test_a_really_full_disk_changes_nothing(small_disk: Path) -> None:
    package = small_disk / "pkg"
    package.mkdir()
    old, new = b"a = 1\n" * 3000, b"a = 2\n" * 6000
    (package / "a.py").write_bytes(old)
    with pytest.raises(OSError, match="No space left") as caught:
        write(package, {"a.py": (old, new)})
    assert str(caught.value.filename).startswith(str(small_disk))
    assert (package / "a.py").read_bytes() == old
    assert sorted(path.name for path in small_disk.rglob("*")) == ["a.py", "pkg"]


def test_a_read_only_file_system_is_told_before_anything(small_disk: Path) -> None:
    package = small_disk / "pkg"
    package.mkdir()
    (package / "a.py").write_bytes(b"a = 1\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(Fault) as caught:
        write(package, {"a.py": (b"a = 1\n", b"a = 2\n")})
    assert caught.value.kind == "erofs"
    assert "read-only" in snap(package, paths=["a.py"])["files"]["a.py"]["refusal"]


def test_on_an_overlay_the_lower_layer_stays_and_the_file_is_written(tmp_path: Path) -> None:
    for name in ("lower/pkg", "upper", "work"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lower/pkg/a.py").write_bytes(b"a = 1\n")
    merged = tmp_path / "merged"
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    backing = tmp_path
    try:
        needs.mounted("-t", "overlay", "-o", layers, "overlay", at=merged)
    except (pytest.skip.Exception, pytest.fail.Exception):
        # a container's own overlay cannot be a layer of another: take memory as the backing store
        backing = tmp_path / "memory"
        needs.mounted("-t", "tmpfs", "tmpfs", at=backing)
        for name in ("lower/pkg", "upper", "work"):
            (backing / name).mkdir(parents=True)
        (backing / "lower/pkg/a.py").write_bytes(b"a = 1\n")
        layers = f"lowerdir={backing}/lower,upperdir={backing}/upper,workdir={backing}/work"
        needs.mounted("-t", "overlay", "-o", layers, "overlay", at=merged)
    try:
        write(merged / "pkg", {"a.py": (b"a = 1\n", b"a = 2\n"), "new/b.py": (None, b"b = 1\n")})
        assert (merged / "pkg/a.py").read_bytes() == b"a = 2\n"
        assert (backing / "lower/pkg/a.py").read_bytes() == b"a = 1\n"
        write(merged / "pkg", {"a.py": (b"a = 2\n", b"a = 1\n"), "new/b.py": (b"b = 1\n", None)}, verb="revert")
        assert sorted(path.name for path in (merged / "pkg").iterdir()) == ["a.py"]
    finally:
        needs.unmount(merged)
        if backing != tmp_path:
            needs.unmount(backing)
