"""A pasted `sed -i` line: explained on the host's own files, and made a patch if it would have changed anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from console.config.patches import load_patch
from console.config.paths import config_home
from console.domain.patch import DiskState, Edit, Patch
from console.errors import UsageError
from console.operations.desk import Desk
from console.operations.patch_scene import Scene, read_scene
from console.patching import mapping
from console.patching.sed import SedLine, sed_lines
from console.patching.sed_edits import outcome


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a pasted line."""

    told: tuple[str, ...]
    """What each command would have done, or why it would have done nothing."""
    path: Path | None = None
    """The new patch file; `None` when nothing would have changed."""
    edits: tuple[Edit, ...] = ()


async def import_sed(desk: Desk, text: str, *, name: str = "", as_meant: bool = False) -> Imported:
    """Explain sed lines on the files of the engine package, and make a patch of what they would change.

    Args:
        desk: Whose host and package; nothing is written there.
        text: One or more lines as they would be pasted into a shell.
        name: Name of the new patch; made from the file's when empty.
        as_meant: Match patterns that hold `\\n` across lines, as sed itself never does.

    Raises:
        UsageError: It uses more of sed than can be followed exactly, names no file of the package,
            or a patch of that name is there.
    """
    lines = sed_lines(text)
    files = list(dict.fromkeys(file for line in lines for file in line.files))
    asked = Patch("sed", edits=tuple(Edit(_plain(file), "-", "+") for file in files))
    scene = await read_scene(desk, [asked])
    told: list[str] = []
    edits: list[Edit] = []
    for line in lines:
        for file in line.files:
            done = _done(scene, line, file, as_meant)
            told += done[0]
            edits += done[1]
    if not edits:
        return Imported((*told, "nothing would have changed: no patch was made"))
    patch = Patch("sed", edits=tuple(edits))
    plan = scene.planned(patch, scene.files)
    if plan.state is not DiskState.OFF or not plan.can_on:
        raise UsageError(
            f"these lines cannot be told apart as edits: {plan.reason}", "; ".join(told), "import them one by one"
        )
    path = _keep(desk, name or _named(edits), edits, text, scene)
    return Imported(tuple(told), path, tuple(edits))


def _done(scene: Scene, line: SedLine, file: str, as_meant: bool) -> tuple[Sequence[str], Sequence[Edit]]:
    present = {path for path, data in scene.files.items() if data is not None}
    shown = mapping.choose(_plain(file), scene.package.name, present)
    data = scene.files.get(shown) if shown else None
    if shown is None or data is None:
        return [f"{file}: no such file in {scene.package.folder}"], []
    found = outcome(line, shown, data, as_meant)
    notes = list(found.told)
    if not line.in_place:
        notes.insert(0, f"{file}: without -i sed prints the result and leaves the file alone")
    return notes, found.edits


def _plain(file: str) -> str:
    """Return a path without the variables of its shell: what is below them is looked for in the package."""
    return re.sub(r"\$\{?\w+\}?|~", "", file).lstrip("/") or file


def _named(edits: Sequence[Edit]) -> str:
    stem = Path(edits[0].file).stem
    taken = config_home() / "patches"
    name, number = f"sed-{stem}", 1
    while (taken / f"{name}.toml").exists():
        number += 1
        name = f"sed-{stem}-{number}"
    return name


def _keep(desk: Desk, name: str, edits: Sequence[Edit], text: str, scene: Scene) -> Path:
    import tomli_w

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f"{name!r}: not a name for a patch", hint="letters, digits, dot, dash and underscore")
    path = config_home() / "patches" / f"{name}.toml"
    if path.exists():
        raise UsageError(f"{path}: is there already", hint="choose another name with --name")
    applies = {"engine": scene.package.name}
    if scene.package.version:
        applies["version"] = f"=={scene.package.version.partition('+')[0]}"
    rows = []
    for edit in edits:
        row: dict[str, object] = {"file": edit.file, "find": edit.find, "replace": edit.replace}
        rows.append({**row, "count": edit.count} if edit.count > 1 else row)
    table = {
        "name": name,
        "title": name,
        "why": f"Imported from a sed line on {desk.link.host.name}:\n{text.strip()}\n",
        "applies_to": applies,
        "edit": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(tomli_w.dumps(table, multiline_strings=True))
    written = load_patch(path)
    if [replace(edit, line=0) for edit in written.edits] != list(edits):
        path.unlink()
        raise UsageError(f"{name}: blank lines at the end of an edit cannot be kept", hint="write the patch by hand")
    return path
