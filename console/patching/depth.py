"""Blocks of lines at another indentation than they were written for."""

from __future__ import annotations

from collections.abc import Iterator

from console.domain.patch import Edit


def shifts(edit: Edit, data: bytes, limits: list[tuple[int, int]]) -> Iterator[int]:
    """Return by how many columns the edit's block may have moved, nearest first.

    Only blocks of whole lines with known indentation move: a `find` of one line that does not
    begin with blanks is found at any depth as it is.
    """
    wanted: dict[bytes, int] = {}
    for text in (edit.find, edit.replace):
        for number, line in enumerate(text.split("\n")):
            if line.strip() and (number or line[:1] == " "):
                wanted.setdefault(line.strip().encode("utf-8", "surrogateescape"), _depth(line))
    found: set[int] = set()
    for low, high in limits:
        for raw in data[low:high].split(b"\n"):
            line = raw.decode("utf-8", "surrogateescape")
            depth = wanted.get(raw.strip())
            if depth is not None and not line[: len(line) - len(line.lstrip())].strip(" "):
                found.add(_depth(line) - depth)
    least = min((_depth(line) for line in _movable(edit)), default=0)
    yield from sorted((by for by in found if by and by >= -least), key=lambda by: (abs(by), by))


def shifted(text: str, by: int) -> str:
    """Return a block moved by some columns; a first line without blanks in front stays as it is."""
    lines = text.split("\n")
    return "\n".join(
        line if not line.strip() or (not number and line[:1] != " ") else _moved(line, by)
        for number, line in enumerate(lines)
    )


def _movable(edit: Edit) -> list[str]:
    return [
        line
        for text in (edit.find, edit.replace)
        for number, line in enumerate(text.split("\n"))
        if line.strip() and (number or line[:1] == " ")
    ]


def _moved(line: str, by: int) -> str:
    return " " * by + line if by > 0 else line[-by:]


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
