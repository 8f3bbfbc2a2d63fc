"""`profile import`: a launch command as it was pasted becomes a profile of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from console.config import paths
from console.config.commands.flags import settings
from console.config.commands.imported import Imported, import_text
from console.config.commands.written import toml_text
from console.config.edit import write_new_text
from console.config.profiles import parse_profile
from console.domain.profile import Profile
from console.errors import FormatError, UsageError
from console.operations import profiles

SIZE_LIMIT = 1 << 20
"""Longer than any launch command; what is longer is another file."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class ProfileImport:
    """What became of a pasted command."""

    found: Imported
    toml: str
    place: str
    """What the text is called in faults."""
    path: Path | None = None
    """The new file; `None` while nothing was written."""

    @property
    def profile(self) -> Profile:
        """Return the profile."""
        return self.found.profile


def read_command(place: str) -> str:
    """Return the text of a file.

    Raises:
        FormatError: It cannot be read, or is no text.
    """
    path = Path(place).expanduser()
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise FormatError(f"{place}: cannot be read", error.strerror or str(error)) from error
    return decoded(raw, place)


def decoded(raw: bytes, place: str) -> str:
    """Return bytes as text; `FormatError` with the line where they are none."""
    if len(raw) > SIZE_LIMIT:
        raise FormatError(f"{place}: longer than 1 MiB, no launch command")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{place}:{line}: not UTF-8 (byte {raw[error.start]:#04x})") from error
    if "\0" in text:
        raise FormatError(f"{place}:{text.count(chr(10), 0, text.index(chr(0))) + 1}: holds a NUL, no text")
    return text


def import_command(
    text: str,
    *,
    place: str = "the text",
    name: str = "",
    known: Mapping[str, str] | None = None,
    pick: int = 1,
    repair: bool = False,
    shell: bool = True,
) -> ProfileImport:
    """Return the profile of a launch command; nothing is executed or written.

    Args:
        text: As it was pasted.
        place: What to call the text in faults.
        name: Name of the profile; made of the model where empty.
        known: Variables that the operator gives.
        pick: Which launch, where the text has several.
        repair: Take what was probably meant.
        shell: Whether a shell would read the text.

    Raises:
        UsageError: Nothing in it starts an engine that is known.
    """
    if name and not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a profile", hint="letters, digits, - _ and .")
    found = import_text(text, name=name, place=place, known=known, pick=pick, repair=repair, shell=shell)
    return ProfileImport(found, toml_text(found, place), place)


def keep(made: ProfileImport, output: str = "") -> ProfileImport:
    """Write an import as a new file, by default among the user's own profiles.

    Args:
        made: The import.
        output: File or folder to write to.

    Raises:
        FormatError: The command does not say what was meant.
        RefusedError: There is such a file: nothing is overwritten.
    """
    if made.found.wrong:
        first = made.found.wrong[0]
        hint = f"meant: {first.offer}; --repair takes that" if first.offer else "correct the text"
        raise FormatError(f"{made.place}:{first.line}: {first.text}", hint=hint)
    path = _target(made.profile.name, output)
    parse_profile(made.toml, str(path))  # what is written can be read
    write_new_text(path, made.toml)
    return replace(made, path=path)


def _target(name: str, output: str) -> Path:
    if not output:
        return paths.config_home() / "profiles" / f"{name}.toml"
    path = Path(output).expanduser()
    if path.is_dir() or output.endswith("/"):
        return path / f"{name}.toml"
    if path.suffix != ".toml":
        raise UsageError(f"{output}: a profile's file ends in .toml", hint=f"--output {output}.toml")
    return path


def fields(made: ProfileImport) -> dict[str, object]:
    """Return an import as JSON."""
    found = made.found
    profile = found.profile
    return {
        "profile": profiles.fields(profile),
        "path": str(made.path) if made.path is not None else None,
        "toml": made.toml,
        "ok": not found.wrong,
        "engine": profile.engine.kind,
        "argv": list(_argv(profile)),
        "command": _command(profile),
        "env": profiles.shown_env(profile),
        "unset": list(profile.launch.unset),
        "settings": settings(profile.launch.args),
        "flags": found.flags,
        "lines": [found.first_line, found.last_line],
        "launch_lines": list(found.launches),
        "log": found.log or None,
        "role": found.role or None,
        "nodes": found.nodes,
        "node_rank": found.node_rank,
        "notes": [
            {
                "severity": note.severity,
                "line": note.line or None,
                "key": note.key or None,
                "text": note.text,
                "meant": note.offer or None,
            }
            for note in found.notes
        ],
    }


def _command(profile: Profile) -> str | None:
    try:
        return profiles.shell_command(profile)
    except UsageError:
        return None


def _argv(profile: Profile) -> Sequence[str]:
    try:
        return profiles.argv(profile)
    except UsageError:
        return ()
