"""A patch out of what is there already: the host's uncommitted changes, or a diff file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from console.config.patches import DIFF_SUFFIXES, load_patch
from console.config.paths import config_home
from console.errors import AlreadySoError, UsageError
from console.operations import host
from console.operations.desk import Desk
from console.patching.diffs import DiffReader


async def capture(desk: Desk, name: str, files: Sequence[str] = ()) -> Path:
    """Make a patch of the user's own out of uncommitted changes on the host, or of local diff files.

    Args:
        desk: Whose host.
        name: Name of the new patch.
        files: Files of the engine package to limit it to, or local `.diff` files to take instead.

    Returns:
        The new TOML file; its diff lies beside it.

    Raises:
        UsageError: The name is no name, or there is such a patch already: nothing is overwritten.
        AlreadySoError: There are no uncommitted changes.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f"{name!r}: not a name for a patch", hint="letters, digits, dot, dash and underscore")
    folder = config_home() / "patches"
    target, beside = folder / f"{name}.toml", folder / f"{name}.diff"
    for path in (target, beside):
        if path.exists():
            raise UsageError(f"{path}: is there already", hint="choose another name")
    local = [Path(file) for file in files if Path(file).suffix in DIFF_SUFFIXES and Path(file).is_file()]
    diff = b"".join(path.read_bytes() for path in local) if local else await _uncommitted(desk, files)
    if not diff.strip():
        raise AlreadySoError("there are no uncommitted changes to capture")
    DiffReader(diff.decode("utf-8", "surrogateescape"), name).sections()
    folder.mkdir(parents=True, exist_ok=True)
    _create(beside, diff)
    _create(target, _text(desk, name, beside.name, local).encode())
    load_patch(target)
    return target


async def _uncommitted(desk: Desk, files: Sequence[str]) -> bytes:
    package = await host.engine_package(desk)
    targets = [file if file.startswith("/") else f"{package.folder}/{file}" for file in files] or [package.folder]
    parts = [(await desk.link.call("git_diff", {"path": path}, deadline_s=60)).body for path in targets]
    return b"".join(parts)


def _text(desk: Desk, name: str, diff: str, local: Sequence[Path]) -> str:
    import tomli_w

    package = desk.package
    origin = ", ".join(map(str, local)) or f"uncommitted changes on {desk.link.host.name}"
    table: dict[str, object] = {"name": name, "title": name, "why": f"Captured from {origin}.", "diff": diff}
    if package is not None:
        applies = {"engine": package.name}
        if package.version and not local:
            applies["version"] = f"=={package.version.partition('+')[0]}"
        table["applies_to"] = applies
    return tomli_w.dumps(table)


def _create(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
