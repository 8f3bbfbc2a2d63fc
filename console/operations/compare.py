"""Two runs side by side: what differs between them, and what it did; refused where they are not alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from console.bench.results import Imported, Result
from console.bench.results import import_results as _import_results
from console.domain.machine import changes, kept
from console.domain.measurement import Measurement
from console.domain.text import counted
from console.errors import RefusedError, UsageError
from console.experiments.statistics import Interval, interval
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.journal.remarks import remark as _remark
from console.journal.requests import requests_of as _requests_of
from console.operations.likeness import UNKNOWN, asked_for, model_of, unlike

__all__ = ["Comparison", "Imported", "Result", "asked_for", "compare", "find_run", "import_results", "listed"]


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
    a_ttft_p50_ms: float | None = None
    b_ttft_p50_ms: float | None = None
    a_itl_p50_ms: float | None = None
    b_itl_p50_ms: float | None = None
    a_power_mean_w: float | None = None
    b_power_mean_w: float | None = None
    interval: Interval | None = None
    """Of B over A in output tok/s, paired by repeat; `None` with fewer than three pairs."""
    ttft_p50_interval: Interval | None = None
    itl_p50_interval: Interval | None = None
    j_per_token_interval: Interval | None = None

    @property
    def ratio(self) -> float | None:
        """B over A."""
        return self.b_tok_s / self.a_tok_s if self.a_tok_s and self.b_tok_s is not None else None

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 1: then, and only then, one of them is faster."""
        return self.interval is not None and self.interval.clear

    @property
    def rows(self) -> tuple[Row, ...]:
        """What was measured of both, with its interval."""
        return (
            Row("output tok/s", 0, True, self.a_tok_s, self.b_tok_s, self.interval),
            Row("TTFT p50 ms", 0, False, self.a_ttft_p50_ms, self.b_ttft_p50_ms, self.ttft_p50_interval),
            Row("ITL p50 ms", 1, False, self.a_itl_p50_ms, self.b_itl_p50_ms, self.itl_p50_interval),
            Row("J/token", 3, False, self.a_j_per_token, self.b_j_per_token, self.j_per_token_interval),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of two runs at one concurrency."""

    what: str
    digits: int
    more_is_better: bool
    a: float | None
    b: float | None
    interval: Interval | None

    @property
    def change_pct(self) -> float | None:
        """B over A, in percent."""
        return 100 * (self.b / self.a - 1) if self.a and self.b is not None else None

    @property
    def better(self) -> bool | None:
        """Whether B is the better one; `None` where the interval leaves that open."""
        if self.interval is None or not self.interval.clear:
            return None
        return (self.interval.low > 1) == self.more_is_better


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs that may be compared."""

    a: RunEntry
    b: RunEntry
    differences: tuple[Difference, ...]
    rungs: tuple[Rung, ...]
    note: str = ""
    refused: str = ""
    """Why their numbers are not set against each other; there are no rungs then."""


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
    limit: int | None = None,
) -> tuple[RunEntry, ...]:
    """Return the journal's runs in brief: without measurements, and of their identity the patches alone.

    Args:
        host: Only runs of this host.
        tags: Only runs that have all of them.
        engine: Only runs of this kind of engine.
        find: Only runs whose `found_in` holds all its words, capitals and small letters alike.
        sort: `started` (the newest first), `best` (the fastest first), `profile` or `host`.
        limit: Only of the newest ones so many.
    """
    entries = [
        entry
        for entry in await Journal().listed(host=host, limit=limit)
        if set(tags) <= set(entry.tags) and (not engine or entry.engine == engine)
        if all(word in found_in(entry) for word in (find or "").lower().split())
    ]
    if sort == "best":
        entries.sort(key=lambda entry: -(entry.best_tok_s or 0.0))
    elif sort in ("profile", "host"):
        entries.sort(key=lambda entry: str(getattr(entry, sort)))
    return tuple(entries)


async def whole(entries: Sequence[RunEntry]) -> tuple[RunEntry, ...]:
    """Return runs with all that the journal has of them; what is whole already is not read again."""
    brief = [entry.key for entry in entries if entry.brief is not None]
    read = {entry.key: entry for entry in await Journal().whole(brief)} if brief else {}
    return tuple(read.get(entry.key, entry) for entry in entries)


def found_in(entry: RunEntry) -> str:
    """Return the words by which a run is found, in small letters."""
    patches = entry.identity.get("patches_on") or ()
    return " ".join(
        (entry.id, entry.host, entry.engine, entry.profile, entry.note, *entry.tags, *map(str, patches))
    ).lower()


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


async def find_run(name: str, journal: Journal | None = None, *, host: str = "") -> RunEntry:
    """Return a run of the journal by id, or by `HOST:ID`.

    Args:
        name: Which.
        journal: Where; else the operator's own.
        host: Whose it is when the name does not say.

    Raises:
        UsageError: There is none, or several hosts have one of that id.
    """
    book = journal or Journal()
    if ":" not in name:
        hosts = [host] if host else await book.hosts_of(name)
        if len(hosts) > 1:
            hint = f"say whose: {' or '.join(f'{one}:{name}' for one in hosts)}"
            raise UsageError(f"run {name}: {', '.join(hosts)} each have one", hint=hint)
        name = f"{hosts[0]}:{name}" if hosts else name
    entry = await book.run(name)
    if entry is None:
        raise UsageError(f"run {name}: not in the journal", hint="tokwatt runs list")
    return entry


async def compare(a: str, b: str, journal: Journal | None = None, *, host: str = "") -> Comparison:
    """Compare two runs of the journal.

    Raises:
        RefusedError: They are not alike: another model, other lengths, another cache protocol, demo and real.
    """
    found = side_by_side(await find_run(a, journal, host=host), await find_run(b, journal, host=host))
    must_be_alike(found)
    return found


def must_be_alike(found: Comparison) -> None:
    """Refuse two runs whose numbers are not set against each other, with the reason."""
    if found.refused:
        raise RefusedError(
            f"runs {found.a.id} and {found.b.id} are not compared: {found.refused}",
            hint="name another one" if found.a.key == found.b.key else "measure both alike",
        )


def side_by_side(a: RunEntry, b: RunEntry) -> Comparison:
    """Return what differs between two runs, and what it did; their numbers only where they are alike."""
    refused = unlike(a, b)
    rungs = () if refused else _rungs(a.measurements, b.measurements)
    if not refused and a.key == b.key:
        refused, rungs = "they are one run", ()
    if not rungs and not refused:
        refused = "they were measured at no common concurrency"
    few = [rung for rung in rungs if rung.interval is None and not rung.note]
    notes = ["fewer than 3 repeats in common: no interval, so a small difference means nothing"] if few else []
    if rungs and model_of(a) == UNKNOWN:
        notes.append("the model of neither is known: they may be of different ones")
    if rungs and a.engine != b.engine:
        notes.append(f"another engine: {a.engine} against {b.engine}")
    return Comparison(a, b, _differences(a, b), rungs, "; ".join(notes), refused)


def _differences(a: RunEntry, b: RunEntry) -> tuple[Difference, ...]:
    found = [Difference("host", a.host, b.host)] if a.host != b.host else []
    if a.engine != b.engine:
        found.append(Difference("engine", a.engine, b.engine))
    for name in ("profile", "package", "patches_on", "loaded", "gpus", "git"):
        if a.identity.get(name) != b.identity.get(name):
            found.append(Difference(name, a.identity.get(name), b.identity.get(name)))
    found += _of_mapping("argument", asked_for(a), asked_for(b))
    found += [
        Difference(f"machine {one.what}" + (f" on {one.where}" if one.where else ""), one.before, one.after)
        for one in changes(kept(a.identity), kept(b.identity))
    ]
    resolved = [_steady(one.identity.get("resolved") or {}) for one in (a, b)]
    if a.engine == b.engine:
        found += _of_mapping("resolved", *resolved)
    elif any(resolved):  # each engine has names of its own: hundreds of lines that say nothing
        found.append(Difference("resolved", *(counted(len(one), "argument") if one else None for one in resolved)))
    for name in ("environment", "versions", "hashes", "caches"):
        found += _of_mapping(name, *(one.identity.get(name) or {} for one in (a, b)))
    return tuple(found)


def _steady(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return resolved arguments but those that every launch draws anew."""
    from console.experiments.arms import VOLATILE  # brings every engine: not for lists of runs

    return {name: value for name, value in resolved.items() if name not in VOLATILE}


def _of_mapping(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    keys = [*a, *(key for key in b if key not in a)]
    return [Difference(f"{name} {key}", a.get(key), b.get(key)) for key in keys if a.get(key) != b.get(key)]


def _rungs(a: Sequence[Measurement], b: Sequence[Measurement]) -> tuple[Rung, ...]:
    common = sorted({one.concurrency_limit for one in a} & {one.concurrency_limit for one in b})
    rungs = []
    for concurrency in common:
        mine, theirs = _fit(a, concurrency), _fit(b, concurrency)
        note = " and ".join(
            f"{side} tainted ({_reasons(of, concurrency)})"
            for side, of, fit in (("A", a, mine), ("B", b, theirs))
            if not fit
        )
        note += ": not compared" if note else ""
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
                _mean([one.ttft_ms.p50_ms for one in mine]),
                _mean([one.ttft_ms.p50_ms for one in theirs]),
                _mean([one.itl_ms.p50_ms for one in mine]),
                _mean([one.itl_ms.p50_ms for one in theirs]),
                _mean([one.power_mean_w for one in mine]),
                _mean([one.power_mean_w for one in theirs]),
                _paired(mine, theirs, lambda one: one.output_throughput_tok_s),
                _paired(mine, theirs, lambda one: one.ttft_ms.p50_ms),
                _paired(mine, theirs, lambda one: one.itl_ms.p50_ms),
                _paired(mine, theirs, lambda one: one.energy_j_per_token),
            )
        )
    return tuple(rungs)


def _reasons(measurements: Sequence[Measurement], concurrency: int) -> str:
    told = (reason for one in measurements if one.concurrency_limit == concurrency for reason in one.tainted)
    return "; ".join(dict.fromkeys(told))


def _fit(measurements: Sequence[Measurement], concurrency: int) -> list[Measurement]:
    return [one for one in measurements if one.concurrency_limit == concurrency and not one.tainted]


def _paired(
    a: Sequence[Measurement], b: Sequence[Measurement], value: Callable[[Measurement], float | None]
) -> Interval | None:
    """Return the interval of B over A over the repeats that both have: equal numbers had equal prompts."""
    mine, theirs = ({one.repeat: value(one) or 0.0 for one in side} for side in (a, b))
    pairs = [(mine[repeat], theirs[repeat]) for repeat in sorted(mine) if mine[repeat] and theirs.get(repeat)]
    return interval([one for one, _ in pairs], [other for _, other in pairs])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
