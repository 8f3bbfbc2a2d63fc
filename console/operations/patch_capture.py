"""A patch out of what is there already: the host's uncommitted changes, or a diff file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from console.config.patches import DIFF_SUFFIXES, load_patch
from console.config.paths import config_home
from console.domain.diff import unified_bytes
from console.domain.patch import FileChange
from console.errors import AlreadySoError, UsageError
from console.operations import host, installed
from console.operations.desk import Desk
from console.operations.patch_theirs import without_ours
from console.patching.diffs import DiffReader, parted
from console.source.compare import patch_text

_HEADED = re.compile(rb'^((?:--- |\+\+\+ )"?[ab]/|(?:rename|copy) (?:from|to) "?)(.*)$')


async def capture(
    desk: Desk, name: str, files: Sequence[str] = (), *, changed: bool = False, wheels: Sequence[str] = ()
) -> Path:
    """Make a patch of the user's own out of changes on the host, or of local diff files.

    Args:
        desk: Whose host.
        name: Name of the new patch.
        files: Files of the engine package to limit it to, or local `.diff` files to take instead.
        changed: Take what differs from the package as it was installed; needed where there is no git.
        wheels: Where originals may be, beside the places that are looked into anyway.

    Returns:
        The new TOML file; its diff lies beside it.

    Raises:
        UsageError: The name is no name, or there is such a patch already: nothing is overwritten.
        AlreadySoError: There are no changes.
    """
    _must_be_free(name)
    diff, origin, versioned = await _found(desk, files, changed, wheels)
    return _kept(desk, name, diff, origin, versioned=versioned)


async def capture_split(
    desk: Desk, name: str, files: Sequence[str] = (), *, by: str, changed: bool = False, wheels: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Make a patch of every file or of every hunk, so that each can be switched by itself.

    Args:
        desk: Whose host.
        name: What the new patches' names begin with; a number follows.
        files: As for `capture`.
        by: `file` or `hunk`.
        changed: As for `capture`.
        wheels: As for `capture`.

    Raises:
        UsageError: The name is no name, or there is such a patch already: nothing is overwritten.
        AlreadySoError: There are no changes.
    """
    diff, origin, versioned = await _found(desk, files, changed, wheels)
    parts = parted(diff, by)
    if not parts:
        raise AlreadySoError("there are no changes to capture")
    names = [f"{name}-{number}" for number in range(1, len(parts) + 1)] if len(parts) > 1 else [name]
    for one in names:
        _must_be_free(one)
    pairs = zip(names, parts, strict=True)
    return tuple(_kept(desk, one, part, origin, versioned=versioned) for one, part in pairs)


def named(diff: bytes, package: str) -> bytes:
    """Return a diff of a package's files with the package's name in every path that lacks it.

    What a bare `a/utils.py` means could only be asked about.
    """
    out = []
    for part in parted(diff, "file"):
        lines = part.split(b"\n")
        end = next((at for at, line in enumerate(lines) if line.startswith(b"@@ ")), len(lines))
        paths = [match[2].rpartition(b"/")[0] for line in lines[:end] if (match := _HEADED.match(line))]
        if not any(package.encode() in path.split(b"/") for path in paths):
            lines[:end] = [_HEADED.sub(rb"\g<1>" + package.encode() + rb"/\g<2>", line) for line in lines[:end]]
            git = b"diff --git "
            lines[:end] = [_qualified(line, package) if line.startswith(git) else line for line in lines[:end]]
        out.append(b"\n".join(lines))
    return b"".join(out)


def _qualified(line: bytes, package: str) -> bytes:
    """Return git's first line of a file with the package's name in both paths."""
    return re.sub(rb'(^diff --git |" | )("?[ab]/)', rb"\g<1>\g<2>" + package.encode() + b"/", line)


async def _found(desk: Desk, files: Sequence[str], changed: bool, wheels: Sequence[str]) -> tuple[bytes, str, bool]:
    """Return the diff that is to be captured, where it comes from, and whether it is of this version."""
    local = [Path(file) for file in files if Path(file).suffix in DIFF_SUFFIXES and Path(file).is_file()]
    if local:
        return b"".join(path.read_bytes() for path in local), ", ".join(map(str, local)), False
    if changed:
        diff = await _since_install(desk, files, wheels)
        return diff, f"what was changed by hand on {desk.link.host.name}", True
    return await _uncommitted(desk, files), f"uncommitted changes on {desk.link.host.name}", True


async def capture_changes(desk: Desk, name: str, changes: Sequence[FileChange], origin: str) -> Path:
    """Make a patch of changes that were just written or planned.

    Raises:
        UsageError: The name is no name, or there is such a patch already.
    """
    _must_be_free(name)
    return _kept(desk, name, b"".join(unified_bytes(one.before, one.after, one.shown) for one in changes), origin)


async def capture_diff(desk: Desk, name: str, diff: bytes, origin: str) -> Path:
    """Make a patch of a unified diff of the engine package.

    Raises:
        UsageError: The name is no name, or there is such a patch already.
    """
    _must_be_free(name)
    return _kept(desk, name, diff, origin)


def _places(name: str) -> tuple[Path, Path]:
    folder = config_home() / "patches"
    return folder / f"{name}.toml", folder / f"{name}.diff"


def _must_be_free(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f"{name!r}: not a name for a patch", hint="letters, digits, dot, dash and underscore")
    for path in _places(name):
        if path.exists():
            raise UsageError(f"{path}: is there already", hint="choose another name")


def _kept(desk: Desk, name: str, diff: bytes, origin: str, *, versioned: bool = True) -> Path:
    if not diff.strip():
        raise AlreadySoError("there are no changes to capture")
    if versioned and desk.package is not None:
        diff = named(diff, desk.package.name)
    DiffReader(diff.decode("utf-8", "surrogateescape"), name).sections()
    target, beside = _places(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    _create(beside, diff)
    _create(target, _text(desk, name, beside.name, origin, versioned).encode())
    load_patch(target)
    return target


async def _since_install(desk: Desk, files: Sequence[str], wheels: Sequence[str]) -> bytes:
    """Return what differs from the engine package as installed, as a diff of files of the package."""
    package = await host.engine_package(desk)
    checks = [check async for check in installed.changed(desk, [package.name])]
    wanted = {file if file.startswith("/") else f"{package.folder}/{file}" for file in files}
    chosen = []
    for check in checks:
        inside = tuple(
            file
            for file in check.files
            if (file.path in wanted if wanted else file.path.startswith((f"{package.folder}/", f"{package.real}/")))
        )
        if not check.against:
            raise UsageError(f"{check.package.folder}: {check.reason}")
        chosen.append(replace(check, files=inside))
    found = await installed.differences(desk, chosen, wheels=wheels)
    lost = [pair.name for pair in found.files if pair.note]
    if lost:
        note = next(pair.note for pair in found.files if pair.note)
        raise UsageError(f"{', '.join(lost)}: {note}", hint="or name only files whose originals are to be had")
    start = f"{package.name}/"
    named = [
        replace(pair, name=pair.name[pair.name.index(start) + len(start) :])
        for pair in found.files
        if start in pair.name
    ]
    return patch_text(replace(found, files=tuple(named)))


async def _uncommitted(desk: Desk, files: Sequence[str]) -> bytes:
    """Return what git has no commit of, without what our own patches that are on changed.

    Files that git does not track are taken when they are named; others are told.
    """
    package = await host.engine_package(desk)
    folder = package.folder.rstrip("/")
    targets = [file if file.startswith("/") else f"{folder}/{file}" for file in files] or [folder]
    parts = [(await desk.link.call("git_diff", {"path": path}, deadline_s=60)).body for path in targets]
    diff = await without_ours(desk, b"".join(parts), targets)
    unknown = await _untracked(desk, folder)
    for name in [name for name in unknown if f"{folder}/{name}" in targets]:
        data = (await desk.link.call("read", {"path": f"{folder}/{name}", "hash": False, "git": False})).body
        diff += unified_bytes(None, data, f"{package.name}/{name}")
        unknown.remove(name)
    if unknown and not files:
        shown = ", ".join(unknown[:4]) + (" …" if len(unknown) > 4 else "")
        desk.say(f"not captured, since git does not track them: {shown}; name them to take them along")
    return diff


async def _untracked(desk: Desk, folder: str) -> list[str]:
    """Return the files of a package folder that git neither tracks nor ignores, but for those that our patches made."""
    argv = ["git", "-C", folder, "ls-files", "--others", "--exclude-standard", "-z", "--", "."]
    done = await desk.link.run(argv)
    names = done.output.decode("utf-8", "surrogateescape").split("\0") if done.status == 0 else []
    made = {file for status in desk.store.snapshot.patches if status.ours for file in status.files}
    return [name for name in names if name and name not in made]


def _text(desk: Desk, name: str, diff: str, origin: str, versioned: bool) -> str:
    import tomli_w

    package = desk.package
    table: dict[str, object] = {"name": name, "title": name, "why": f"Captured from {origin}.", "diff": diff}
    if package is not None:
        applies = {"engine": package.name}
        if package.version and versioned:
            applies["version"] = f"=={package.version.partition('+')[0]}"
        table["applies_to"] = applies
    return tomli_w.dumps(table)


def _create(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
