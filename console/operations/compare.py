"""Two runs side by side: what differs between them, and what it did; refused where they are not alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from console.bench.results import Imported, Result
from console.bench.results import import_results as _import_results
from console.domain.measurement import Measurement
from console.errors import RefusedError, UsageError
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.journal.remarks import remark as _remark
from console.journal.requests import requests_of as _requests_of

__all__ = ["Comparison", "Imported", "Result", "compare", "find_run", "import_results", "listed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same in two runs."""

    what: str
    a: object
    b: object


@dataclass(frozen=True, slots=True)
class Rung:
    """Two runs at one concurrency; means over untainted repeats."""

    concurrency: int
    a_tok_s: float | None
    b_tok_s: float | None
    a_repeats: int
    b_repeats: int
    a_j_per_token: float | None = None
    b_j_per_token: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """B over A."""
        return self.b_tok_s / self.a_tok_s if self.a_tok_s and self.b_tok_s is not None else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs that may be compared."""

    a: RunEntry
    b: RunEntry
    differences: tuple[Difference, ...]
    rungs: tuple[Rung, ...]
    note: str = ""


def import_results(data: bytes) -> Imported:
    """Read a result file of an engine's own benchmark client."""
    return _import_results(data)


async def listed(
    *,
    host: str | None = None,
    tags: Sequence[str] = (),
    engine: str | None = None,
    find: str | None = None,
    sort: str = "started",
) -> tuple[RunEntry, ...]:
    """Return the journal's runs.

    Args:
        host: Only runs of this host.
        tags: Only runs that have all of them.
        engine: Only runs of this kind of engine.
        find: Only runs whose id, profile, note, tags or patches hold it, capitals and small letters alike.
        sort: `started` (the newest first), `best` (the fastest first) or `profile`.
    """
    entries = [
        entry
        for entry in await Journal().runs(host=host)
        if set(tags) <= set(entry.tags) and (not engine or entry.engine == engine)
        if not find or find.lower() in _found_in(entry)
    ]
    if sort == "best":
        entries.sort(key=lambda entry: -(entry.best_tok_s or 0.0))
    elif sort == "profile":
        entries.sort(key=lambda entry: entry.profile)
    return tuple(entries)


def _found_in(entry: RunEntry) -> str:
    patches = entry.identity.get("patches_on") or ()
    return " ".join((entry.id, entry.host, entry.profile, entry.note, *entry.tags, *map(str, patches))).lower()


async def remark(
    entry: RunEntry, *, tags: Sequence[str] = (), untag: Sequence[str] = (), note: str | None = None
) -> dict[str, Any]:
    """Add and take tags of a run, and set its note unless it is `None`; return what stands there now."""
    return await _remark(Journal(), entry.host, entry.id, tags=tags, untag=untag, note=note)


async def requests_of(entry: RunEntry) -> list[dict[str, Any]]:
    """Return a flat row for each request of a run, with its measurement's concurrency and repeat."""
    return [
        {
            "host": entry.host,
            "badge": entry.badge,
            "run_id": entry.id,
            "concurrency_limit": one["concurrency"],
            "repeat": one["repeat"],
            **dict(zip(one["columns"], row, strict=True)),
        }
        for one in await _requests_of(Journal(), entry.host, entry.id)
        for row in one["rows"]
    ]


async def find_run(name: str) -> RunEntry:
    """Return a run of the journal by id, or by `HOST:ID`.

    Raises:
        UsageError: There is none.
    """
    entry = await Journal().run(name)
    if entry is None:
        raise UsageError(f"run {name}: not in the journal", hint="tokwatt runs list")
    return entry


async def compare(a: str, b: str) -> Comparison:
    """Compare two runs of the journal.

    Raises:
        RefusedError: They are not alike: another model, other lengths, another cache protocol, demo and real.
    """
    first, second = await find_run(a), await find_run(b)
    _must_be_alike(first, second)
    rungs = _rungs(first.measurements, second.measurements)
    if not rungs:
        raise RefusedError(f"runs {a} and {b} were measured at no common concurrency")
    few = min(min(rung.a_repeats, rung.b_repeats) for rung in rungs)
    note = "" if few >= 3 else "fewer than 3 repeats: no interval, so a small difference means nothing"
    return Comparison(first, second, _differences(first, second), rungs, note)


def _must_be_alike(a: RunEntry, b: RunEntry) -> None:
    for what, one, other in (
        ("badge", a.badge or "none", b.badge or "none"),
        ("model", _model(a), _model(b)),
        ("lengths", _protocol(a, "input_tokens", "output_tokens"), _protocol(b, "input_tokens", "output_tokens")),
        ("cache protocol", _protocol(a, "flushed"), _protocol(b, "flushed")),
        ("load", _protocol(a, "api"), _protocol(b, "api")),
    ):
        if one != other:
            raise RefusedError(
                f"runs {a.id} and {b.id} are not compared: {what} {_words(one)} against {_words(other)}",
                hint="measure both alike",
            )


def _model(entry: RunEntry) -> str:
    resolved = entry.identity.get("resolved") or {}
    return str(resolved.get("model_path") or resolved.get("model") or "unknown")


def _protocol(entry: RunEntry, *names: str) -> tuple[tuple[object, ...], ...]:
    found = {tuple(one.protocol.get(name) for name in names) for one in entry.measurements}
    return tuple(sorted(found, key=str))


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return (
            " and ".join("/".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value) or "nothing"
        )
    return str(value)


def _differences(a: RunEntry, b: RunEntry) -> tuple[Difference, ...]:
    found = [Difference("host", a.host, b.host)] if a.host != b.host else []
    for name in ("package", "patches_on", "gpus", "git"):
        if a.identity.get(name) != b.identity.get(name):
            found.append(Difference(name, a.identity.get(name), b.identity.get(name)))
    for name in ("resolved", "versions", "hashes"):
        found += _of_mapping(name, a.identity.get(name) or {}, b.identity.get(name) or {})
    return tuple(found)


def _of_mapping(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    keys = [*a, *(key for key in b if key not in a)]
    return [Difference(f"{name} {key}", a.get(key), b.get(key)) for key in keys if a.get(key) != b.get(key)]


def _rungs(a: Sequence[Measurement], b: Sequence[Measurement]) -> tuple[Rung, ...]:
    common = sorted({one.concurrency_limit for one in a} & {one.concurrency_limit for one in b})
    rungs = []
    for concurrency in common:
        mine, theirs = _fit(a, concurrency), _fit(b, concurrency)
        tainted = [side for side, fit in (("A", mine), ("B", theirs)) if not fit]
        note = f"{' and '.join(tainted)} tainted: not compared" if tainted else ""
        rungs.append(
            Rung(
                concurrency,
                _mean([one.output_throughput_tok_s for one in mine]),
                _mean([one.output_throughput_tok_s for one in theirs]),
                len(mine),
                len(theirs),
                _mean([one.energy_j_per_token for one in mine]),
                _mean([one.energy_j_per_token for one in theirs]),
                note,
            )
        )
    return tuple(rungs)


def _fit(measurements: Sequence[Measurement], concurrency: int) -> list[Measurement]:
    return [one for one in measurements if one.concurrency_limit == concurrency and not one.tainted]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
