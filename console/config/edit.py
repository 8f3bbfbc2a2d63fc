"""Writing TOML: edits that keep people's comments, and new files, both whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import Table

from console.config.lines import read_toml
from console.errors import ConsoleError, FormatError, RefusedError


def set_values(path: Path, changes: Mapping[tuple[str, ...], Any]) -> None:
    """Set or remove (`None`) keys of a file that people wrote; every other byte stays.

    Args:
        path: The file.
        changes: Key path to new value, tables by their path.
    """
    text = edited(read_toml(path).text, changes, str(path))
    write_whole(path, text.encode())


def edited(text: str, changes: Mapping[tuple[str, ...], Any], path: str = "") -> str:
    """Return TOML text with keys set or removed (`None`); comments and order stay."""
    document = tomlkit.parse(text)
    for keys, value in changes.items():
        at: Any = document
        for key in keys[:-1]:
            if key not in at:
                at[key] = tomlkit.table()
            at = at[key]
            if not isinstance(at, (Table, tomlkit.TOMLDocument, dict)):
                raise FormatError(f"{path}: {'.'.join(keys)} cannot be set: {key} is not a table")
        if value is None:
            at.pop(keys[-1], None)
        else:
            at[keys[-1]] = value
    return tomlkit.dumps(document)


def write_new_text(path: Path, text: str) -> None:
    """Write a new file, whole or not at all; `RefusedError` when the name is taken, even a moment ago."""
    if path.is_symlink() or path.exists():
        raise RefusedError(f"{path} is there already, nothing is overwritten", hint="choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(beside).chmod(0o644)
            os.link(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already, nothing is overwritten", hint="choose another name") from error
    except OSError as error:
        raise ConsoleError(f"{path}: cannot be written", error.strerror or str(error)) from error


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by new content, whole or not at all; a symlink keeps leading where it led."""
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o644
        handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(beside).chmod(mode)
            Path(beside).replace(target)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConsoleError(f"{path}: cannot be written", error.strerror or str(error)) from error
