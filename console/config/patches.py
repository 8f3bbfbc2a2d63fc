"""Patches: TOML to `Patch`, every fault with file, line and key.

An edit replaces the text `find` by `replace`. Line ends in them: TOML itself drops a newline right
behind the opening quotes; of what is left, **one newline at the end of `find` and of `replace` does
not count**, so that a block of lines means the same with and without it. Inside, newlines count
and stand for the file's own line ends (CRLF in a CRLF file). To add a blank line at the end of
`replace`, write two. `insert_before` and `insert_after` stand for whole lines above the line where
`find` begins, or below the one where it ends. `create` is a whole new file, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from console.config import paths
from console.config.lines import KeyPath, TomlFile, read_toml
from console.domain.patch import Applies, Edit, EditKind, Patch, Requires
from console.errors import ConsoleError, FormatError

DIFF_SUFFIXES = (".diff", ".patch")
"""A patch file with one of these is a bare diff."""

_HINTS = {"search": "find", "path": "file", "replacement": "replace", "description": "why"}
"""Words of other tools for what we call otherwise."""


class _Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    find: str = ""
    replace: str | None = None
    insert_before: str | None = None
    insert_after: str | None = None
    create: str | None = None
    delete: bool = False
    within: str = ""
    count: int = 1


class _Applies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    engine: str = ""
    version: str = ""
    upstream_from: str = ""
    compute_capability: tuple[str, ...] = ()


class _Requires(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    args: dict[str, Any] = {}
    absent: tuple[str, ...] = ()


class _Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    log: str = ""


class _Patch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""
    title: str = ""
    why: str = ""
    applies_to: _Applies = _Applies()
    requires: _Requires = _Requires()
    evidence: _Evidence = _Evidence()
    edit: tuple[_Edit, ...] = ()
    diff: str = ""
    skip: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    conflicts_with: tuple[str, ...] = ()


def load_patch(path: Path) -> Patch:
    """Read a patch file: TOML, with its diff beside it, or a bare diff.

    Raises:
        FormatError: The file is wrong; the title names file, line and key.
    """
    if path.suffix in DIFF_SUFFIXES:
        return Patch(name=path.stem, path=str(path), diff=_text(path, str(path)), diff_path=str(path))
    file = read_toml(path)
    part = _convert(file)
    name = part.name or path.stem
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise file.fault(("name",), f"= {name!r}: letters, digits, dot, dash and underscore only")
    if bool(part.edit) == bool(part.diff):
        what = "has both [[edit]] and diff" if part.edit else "has neither [[edit]] nor diff"
        raise FormatError(f"{file.path}:1: {what}", hint="a patch has one of them")
    _check_versions(part.applies_to, file)
    diff_path = path.parent / part.diff if part.diff else None
    return Patch(
        name=name,
        path=str(path),
        title=part.title,
        why=part.why,
        applies_to=Applies(
            part.applies_to.engine,
            part.applies_to.version,
            part.applies_to.upstream_from,
            part.applies_to.compute_capability,
        ),
        requires=Requires(part.requires.args, part.requires.absent),
        evidence_log=part.evidence.log,
        edits=tuple(_edit(index, edit, part.edit, file) for index, edit in enumerate(part.edit)),
        diff=_text(diff_path, f"{file.path}:{file.line(('diff',))}: diff = {part.diff!r}") if diff_path else None,
        diff_path=str(diff_path or ""),
        skip=part.skip,
        after=part.after,
        conflicts_with=part.conflicts_with,
    )


def load_or_fault(path: Path) -> Patch:
    """Read a patch file; one that is wrong becomes a patch that says so."""
    try:
        return load_patch(path)
    except ConsoleError as error:
        return Patch(name=path.stem, path=str(path), fault=error.one_line())


def _convert(file: TomlFile) -> _Patch:
    try:
        return msgspec.convert(file.data, _Patch, strict=True)
    except msgspec.ValidationError as error:
        raise _told(str(error), file) from error


def _told(said: str, file: TomlFile) -> FormatError:
    what, _, place = said.partition(" - at `$")
    key: KeyPath = tuple(
        int(index) if index else name for name, index in re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]", place)
    )
    if unknown := re.search(r"unknown field `([^`]*)`", what):
        name, known = unknown[1], _known(key)
        near = f"did you mean {_HINTS[name]}?" if _HINTS.get(name) in known else paths.nearest(name, known)
        return file.fault((*key, name), "is not a known key", near or f"known here: {', '.join(known)}")
    if missing := re.search(r"missing required field `([^`]*)`", what):
        return file.fault(key, f"has no {missing[1]}")
    if wrong := re.match(r"Expected `([^`]*)`, got `([^`]*)`", what):
        words = {"str": "a string", "int": "an integer", "object": "a table", "array": "an array"}
        expected = wrong[1].removesuffix(" | null")
        return file.fault(key, f"must be {words.get(expected, expected)}, not {words.get(wrong[2], wrong[2])}")
    return file.fault(key, what)


def _known(key: KeyPath) -> list[str]:
    tables: Mapping[str, type[msgspec.Struct]] = {
        "edit": _Edit,
        "applies_to": _Applies,
        "requires": _Requires,
        "evidence": _Evidence,
    }
    struct = tables.get(str(key[0]), _Patch) if key else _Patch
    return [field.encode_name for field in msgspec.structs.fields(struct)]


def _edit(index: int, part: _Edit, all_parts: tuple[_Edit, ...], file: TomlFile) -> Edit:
    where: KeyPath = ("edit", index)
    kind, text = _kind(part, file, where)
    find, replace = part.find.removesuffix("\n"), text.removesuffix("\n")
    if part.file.startswith("/") or ".." in part.file.split("/") or "\0" in part.file or not part.file.strip("/"):
        raise file.fault((*where, "file"), f"= {part.file!r}: must stay inside the engine package")
    if kind in (EditKind.CREATE, EditKind.DELETE):
        _check_whole(part, all_parts, file, where, kind)
        return Edit(part.file, "", text, line=file.line(where), kind=kind)
    if not find:
        raise file.fault((*where, "find"), "is empty")
    if not replace:
        hint = "keep a neighbouring line in both, or on could not be told from not found"
        raise file.fault((*where, kind.value), "is empty", hint)
    if kind is EditKind.REPLACE and find == replace:
        raise file.fault((*where, "replace"), "is the same as find")
    if part.count < 1:
        raise file.fault((*where, "count"), f"is {part.count}; it must be 1 or more")
    for earlier in all_parts[:index]:
        same_place = (earlier.file, earlier.within, _kind(earlier, file, where)[0]) == (part.file, part.within, kind)
        if same_place and earlier.find.removesuffix("\n") == find:
            raise file.fault((*where, "find"), "is the same as in an earlier edit", "use count")
    return Edit(part.file, find, replace, part.within, part.count, file.line(where), kind)


def _kind(part: _Edit, file: TomlFile, where: KeyPath) -> tuple[EditKind, str]:
    """Return what the edit does, and its text."""
    given = {kind: text for kind in EditKind if isinstance(text := getattr(part, kind.value), str)}
    if part.delete:
        given[EditKind.DELETE] = ""
    if len(given) != 1:
        said = f"has {' and '.join(given)}" if given else "has no replace"
        raise file.fault(where, said, f"an edit has one of {', '.join(EditKind)}")
    return next(iter(given.items()))


def _check_whole(part: _Edit, all_parts: tuple[_Edit, ...], file: TomlFile, where: KeyPath, kind: EditKind) -> None:
    for name, empty in (("find", ""), ("within", ""), ("count", 1)):
        if getattr(part, name) != empty:
            raise file.fault((*where, name), f"has no meaning beside {kind}, which is about the whole file")
    if kind is EditKind.CREATE and not part.create:
        raise file.fault((*where, "create"), "is empty", "write one line at least, or on could not be told")
    if sum(other.file == part.file for other in all_parts) > 1:
        raise file.fault(
            (*where, "file"), f"= {part.file!r}: another edit is about this file, and this one about all of it"
        )


def _check_versions(part: _Applies, file: TomlFile) -> None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        SpecifierSet(part.version)
    except InvalidSpecifier:
        hint = 'such as ">=0.5.7,<0.5.13"'
        raise file.fault(("applies_to", "version"), f"= {part.version!r}: not a version range", hint) from None
    try:
        if part.upstream_from:
            Version(part.upstream_from)
    except InvalidVersion:
        raise file.fault(("applies_to", "upstream_from"), f"= {part.upstream_from!r}: not a version") from None
    for index, value in enumerate(part.compute_capability):
        if not re.fullmatch(r"\d+\.\d+", value):
            raise file.fault(("applies_to", "compute_capability", index), f"= {value!r}: write it as 12.0")


def _text(path: Path, where: str) -> str:
    """Return a diff's text with its line ends, and its odd bytes, as they are."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise FormatError(f"{where}: cannot be read", error.strerror or str(error)) from error
