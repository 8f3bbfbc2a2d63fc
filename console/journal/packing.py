"""Packing: readings over time as few bytes, and fewer still for what is long past, its extremes kept."""

from __future__ import annotations

import json
import math
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import sub
from typing import Any

SCALES = {"power_w": 10, "limit_w": 10, "tok_s": 10, "input_tok_s": 10, "kv_usage": 10_000, "accept_length": 100}
"""Steps of a unit that are kept, by the first word of a column's name; all others are whole numbers."""

VERSION = 1

MIN, MAX, ROWS = ".min", ".max", "rows"
"""What a thinned block has beside each mean, and the column that says how many rows each one stands for."""

_CODES = (("b", 1 << 7), ("h", 1 << 15), ("i", 1 << 31), ("q", 1 << 63))

Column = list[int | None]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of readings in the order of time."""

    times: list[int]
    """Milliseconds since the epoch on the host's clock, rising."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """By name, in steps of `SCALES`; unknown is `None`."""
    step_s: float = 0.0
    """0 for rows as they came; else each row stands for what came within so many seconds."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What is the same in all rows."""

    def __len__(self) -> int:
        return len(self.times)

    def value(self, name: str, row: int) -> float | None:
        """Return one reading in its own unit."""
        found = self.columns.get(name)
        steps = found[row] if found is not None else None
        return None if steps is None else steps / scale_of(name)

    def after(self, time_ms: int) -> Block:
        """Return the rows that are later."""
        first = next((place for place, time in enumerate(self.times) if time > time_ms), len(self.times))
        if not first:
            return self
        return replace(
            self, times=self.times[first:], columns={name: column[first:] for name, column in self.columns.items()}
        )


def scale_of(name: str) -> int:
    """Return how many steps a column has a unit."""
    return SCALES.get(name.partition(".")[0], 1)


def steps(name: str, value: float | None) -> int | None:
    """Return a reading in the steps of its column; what is no number is unknown."""
    if value is None or not math.isfinite(value):
        return None
    return round(value * scale_of(name))


def joined(first: Block, second: Block) -> Block | None:
    """Return both as one block; `None` where they are not alike, or the second one does not come later."""
    if first.step_s != second.step_s or first.meta != second.meta:
        return None
    if first.times and second.times and second.times[0] <= first.times[-1]:
        return None
    names = dict.fromkeys((*first.columns, *second.columns))
    unknown: tuple[Column, Column] = [None] * len(first), [None] * len(second)
    columns = {name: [*first.columns.get(name, unknown[0]), *second.columns.get(name, unknown[1])] for name in names}
    return replace(first, times=first.times + second.times, columns=columns)


def thinned(block: Block, step_s: float) -> Block:
    """Return a block with one row for each `step_s` in which there was any: mean, least and most of each column."""
    groups: dict[int, list[int]] = {}
    for row, time in enumerate(block.times):
        groups.setdefault(int(time // (step_s * 1000)), []).append(row)
    slices = [slice(rows[0], rows[-1] + 1) for rows in groups.values()]
    weights = block.columns.get(ROWS)
    columns: dict[str, Column] = {
        ROWS: [sum(w or 0 for w in weights[part]) if weights else part.stop - part.start for part in slices]
    }
    for name, column in block.columns.items():
        if name == ROWS or name.endswith((MIN, MAX)):
            continue
        columns[name] = [_mean(column[part], weights[part] if weights else None) for part in slices]
        for word, most in ((MIN, min), (MAX, max)):
            extremes = block.columns.get(name + word, column)
            columns[name + word] = [most(known, default=None) for known in _known(extremes, slices)]
    return Block([block.times[part.start] for part in slices], columns, step_s, block.meta)


def _known(column: Column, slices: Iterable[slice]) -> Iterable[list[int]]:
    return ([value for value in column[part] if value is not None] for part in slices)


def _mean(values: Sequence[int | None], weights: Sequence[int | None] | None) -> int | None:
    total = count = 0
    for place, value in enumerate(values):
        if value is not None:
            weight = (weights[place] or 1) if weights is not None else 1
            total, count = total + value * weight, count + weight
    return round(total / count) if count else None


def packed(block: Block) -> bytes:
    """Return a block as bytes: differences from row to row in as few bytes as hold them, compressed."""
    columns, parts = [], [_packed_whole(block.times)]
    for name, column in block.columns.items():
        whole, holes = _filled(column)
        code, data = _packed_whole(whole) if whole is not None else ("", b"")
        columns.append([name, code, bool(holes)])
        parts += [("", holes), (code, data)]
    head = {
        "version": VERSION,
        "rows": len(block),
        "times": parts[0][0],
        "columns": columns,
        "step_s": block.step_s,
        "meta": dict(block.meta),
    }
    body = b"".join(data for _, data in parts)
    return zlib.compress(json.dumps(head, separators=(",", ":")).encode() + b"\n" + body, 6)


def unpacked(data: bytes, only: Callable[[str], bool] = lambda name: True) -> Block:
    """Return the block that was packed.

    Args:
        data: What `packed` returned.
        only: Which columns are wanted, by name: the others cost next to nothing then.

    Raises:
        ValueError: The bytes are damaged, or were packed by a newer version.
    """
    try:
        plain = zlib.decompress(data)
        head, _, body = plain.partition(b"\n")
        said = json.loads(head)
        if said["version"] > VERSION:
            raise ValueError(f"packed by a newer version ({said['version']})")
        rows = said["rows"]
        times, place = _unpacked_whole(said["times"], rows, body, 0)
        columns: dict[str, Column] = {}
        for name, code, holed in said["columns"]:
            holes, place = (body[place : place + rows], place + rows) if holed else (b"", place)
            if not only(name):
                place += rows * array(code).itemsize if code else 0
                continue
            values, place = _unpacked_whole(code, rows, body, place) if code else ([], place)
            columns[name] = _with_holes(values, holes, rows)
        return Block(times, columns, said["step_s"], said["meta"])
    except (zlib.error, KeyError, TypeError, IndexError, UnicodeError) as error:
        raise ValueError(f"damaged: {error}") from error


def _filled(column: Column) -> tuple[list[int] | None, bytes]:
    """Return a column with its holes filled by what came before, and where they were; `None` when it is one hole."""
    if None not in column:
        return column, b""  # type: ignore[return-value]
    last = next((value for value in column if value is not None), None)
    if last is None:
        return None, b""
    filled: list[int] = []
    for value in column:
        last = last if value is None else value
        filled.append(last)
    return filled, bytes(value is None for value in column)


def _with_holes(values: list[int], holes: bytes, rows: int) -> Column:
    if not values:
        return [None] * rows
    return [None if hole else value for value, hole in zip(values, holes, strict=True)] if holes else list(values)


def _packed_whole(values: Sequence[int]) -> tuple[str, bytes]:
    if not values:
        return "b", b""
    changes = [values[0], *map(sub, values[1:], values)]
    low, high = min(changes), max(changes)
    code = next(code for code, most in _CODES if -most <= low and high < most)
    row = array(code, changes)
    if sys.byteorder == "big":
        row.byteswap()
    data, width = row.tobytes(), row.itemsize
    # Bytes of one weight side by side: the high ones of small changes are all alike.
    return code, b"".join(data[weight::width] for weight in range(width))


def _unpacked_whole(code: str, rows: int, body: bytes, place: int) -> tuple[list[int], int]:
    row = array(code)
    width = row.itemsize
    data = bytearray(rows * width)
    for weight in range(width):
        data[weight::width] = body[place + weight * rows : place + (weight + 1) * rows]
    row.frombytes(bytes(data))
    if sys.byteorder == "big":
        row.byteswap()
    if len(row) != rows:
        raise ValueError("damaged: cut short")
    return list(accumulate(row)), place + rows * width
