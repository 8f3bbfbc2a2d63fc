"""The journal's file: opened for each entry, whole entries only, brought up to date by its version."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from console.domain.measurement import Measurement
from console.domain.patch import WriteReceipt
from console.journal.listing import listed
from console.journal.records import RunEntry, WriteEntry, entry_from, measurement_data, measurement_from
from console.journal.remarks import remarks_of
from console.journal.requests import packed
from console.journal.trouble import NewerError, cannot_be_written, trouble

T = TypeVar("T")

MIGRATIONS = (
    """
    CREATE TABLE runs (
        host TEXT NOT NULL, id TEXT NOT NULL, profile TEXT NOT NULL, engine TEXT NOT NULL, started_at REAL NOT NULL,
        badge TEXT NOT NULL, identity TEXT NOT NULL, PRIMARY KEY (host, id)
    );
    CREATE TABLE measurements (
        number INTEGER PRIMARY KEY, host TEXT NOT NULL, run_id TEXT NOT NULL, concurrency INTEGER NOT NULL,
        repeat INTEGER NOT NULL, started_at REAL NOT NULL, output_tok_s REAL, badge TEXT NOT NULL, data TEXT NOT NULL
    );
    CREATE INDEX measurements_of_run ON measurements (host, run_id);
    CREATE TABLE telemetry (number INTEGER PRIMARY KEY REFERENCES measurements, rows BLOB NOT NULL);
    CREATE TABLE writes (
        number INTEGER PRIMARY KEY, at REAL NOT NULL, host TEXT NOT NULL, operator TEXT NOT NULL,
        badge TEXT NOT NULL, receipt TEXT NOT NULL
    );
    """,
    """
    CREATE TABLE experiments (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, host TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL,
        digest TEXT NOT NULL, created_at REAL NOT NULL, badge TEXT NOT NULL, operator TEXT NOT NULL, plan TEXT NOT NULL,
        place TEXT NOT NULL, finished INTEGER NOT NULL
    );
    CREATE TABLE experiment_events (
        number INTEGER PRIMARY KEY, experiment INTEGER NOT NULL REFERENCES experiments, at REAL NOT NULL,
        kind TEXT NOT NULL, data TEXT NOT NULL
    );
    CREATE INDEX events_of_experiment ON experiment_events (experiment);
    """,
    """
    CREATE TABLE requests (number INTEGER PRIMARY KEY REFERENCES measurements, data BLOB NOT NULL);
    CREATE TABLE remarks (
        host TEXT NOT NULL, run_id TEXT NOT NULL, tags TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (host, run_id)
    );
    """,
    """
    CREATE TABLE recordings (
        number INTEGER PRIMARY KEY, host TEXT NOT NULL, run_id TEXT NOT NULL, began REAL NOT NULL, ended REAL NOT NULL,
        step_s REAL NOT NULL, rows INTEGER NOT NULL, data BLOB NOT NULL
    );
    CREATE INDEX recordings_of_run ON recordings (host, run_id, ended);
    CREATE INDEX recordings_by_age ON recordings (step_s, ended);
    CREATE TABLE run_marks (
        host TEXT NOT NULL, run_id TEXT NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (host, run_id, kind, time)
    );
    """,
)
"""Each brings the file from the version of its place to the next one."""

BUSY_S = 10.0

SYNCHRONOUS = "NORMAL"
"""A killed console loses nothing; only a power cut may lose the last entries, and whole ones."""


def default_path() -> Path:
    """Return where the journal lives: `$TOKWATT_DATA`, else the user's data folder."""
    told = os.environ.get("TOKWATT_DATA")
    if told:
        return Path(told) / "journal.sqlite"
    from platformdirs.unix import Unix

    return Path(Unix("tokwatt", appauthor=False).user_data_path) / "journal.sqlite"


class Journal:
    """Entries of this user, on this machine.

    Args:
        path: File; the default is `default_path()`.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()

    async def record_run(self, entry: RunEntry) -> None:
        """Keep a run, or what is newly known of it."""
        row = (entry.host, entry.id, entry.profile, entry.engine, entry.started_at, entry.badge, _json(entry.identity))
        await self.transact(lambda db: db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row))

    async def record_measurement(
        self,
        host: str,
        one: Measurement,
        *,
        badge: str = "",
        telemetry: Sequence[Sequence[Any]] = (),
        load: Mapping[str, Any] | None = None,
    ) -> int:
        """Keep a measurement with the power of its window and its requests, and return its number."""
        data = _json(measurement_data(one))
        rows = zlib.compress(_json(list(telemetry)).encode())

        def write(db: sqlite3.Connection) -> int:
            cursor = db.execute(
                "INSERT INTO measurements (host, run_id, concurrency, repeat, started_at, output_tok_s, badge, data)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    host,
                    one.run_id,
                    one.concurrency_limit,
                    one.repeat,
                    one.started_at,
                    one.output_throughput_tok_s,
                    badge,
                    data,
                ),
            )
            number = int(cursor.lastrowid or 0)
            if telemetry:
                db.execute("INSERT INTO telemetry VALUES (?, ?)", (number, rows))
            if load:
                db.execute("INSERT INTO requests VALUES (?, ?)", (number, packed(load)))
            return number

        return await self.transact(write)

    async def record_write(self, host: str, receipt: WriteReceipt, *, operator: str = "", badge: str = "") -> None:
        """Keep what a verified write did."""
        names = ("name", "verb", "files", "compiled_by", "round_trips", "ms", "notes")
        data = _json({name: getattr(receipt, name) for name in names})
        row = (time.time(), host, operator, badge, data)
        await self.transact(
            lambda db: db.execute("INSERT INTO writes (at, host, operator, badge, receipt) VALUES (?, ?, ?, ?, ?)", row)
        )

    async def runs(self, *, host: str | None = None, limit: int = 200) -> tuple[RunEntry, ...]:
        """Return runs with their measurements, the newest first."""

        def read(db: sqlite3.Connection) -> tuple[RunEntry, ...]:
            where, values = ("WHERE host = ?", (host,)) if host is not None else ("", ())
            found = db.execute(f"SELECT * FROM runs {where} ORDER BY started_at DESC LIMIT ?", (*values, limit))
            return tuple(_run(db, row) for row in found.fetchall())

        return await self.read(read)

    async def listed(self, *, host: str | None = None, limit: int | None = None) -> tuple[RunEntry, ...]:
        """Return every run for a list, the newest first: what was measured in brief, of its identity the patches."""
        return await self.read(lambda db: listed(db, host, limit))

    async def whole(self, keys: Sequence[tuple[str, str]]) -> tuple[RunEntry, ...]:
        """Return runs by host and id, in the order they are asked for; one that is not there is left out."""

        def read(db: sqlite3.Connection) -> tuple[RunEntry, ...]:
            rows = (db.execute("SELECT * FROM runs WHERE host = ? AND id = ?", key).fetchone() for key in keys)
            return tuple(_run(db, row) for row in rows if row is not None)

        return await self.read(read)

    async def run(self, name: str) -> RunEntry | None:
        """Return the newest run of an id, or of `HOST:ID`."""
        host, _, run_id = name.rpartition(":")

        def read(db: sqlite3.Connection) -> RunEntry | None:
            query = "SELECT * FROM runs WHERE id = ? AND (? = '' OR host = ?) ORDER BY started_at DESC LIMIT 1"
            row = db.execute(query, (run_id, host, host)).fetchone()
            return None if row is None else _run(db, row)

        return await self.read(read)

    async def base(self, host: str, profile: str, *, but: str = "", before: float | None = None) -> RunEntry | None:
        """Return the newest run of a host whose machine was kept, of a profile if there is one, else of any.

        Args:
            host: Whose.
            profile: Name of the profile.
            but: A run that is not meant.
            before: Only runs that were launched earlier.
        """
        order = (
            "SELECT rowid FROM runs WHERE host = ? AND id <> ? AND started_at < ?"
            " ORDER BY profile = ? DESC, started_at DESC"
        )
        one = "SELECT * FROM runs WHERE rowid = ? AND json_extract(identity, '$.machine') <> '{}'"

        def read(db: sqlite3.Connection) -> RunEntry | None:
            asked = (host, but, math.inf if before is None else before, profile)
            found = (db.execute(one, tuple(place)).fetchone() for place in db.execute(order, asked))
            return next((_run(db, row) for row in found if row is not None), None)

        return await self.read(read)

    async def hosts_of(self, run_id: str) -> list[str]:
        """Return the hosts that have a run of this id, the newest run's first."""

        def read(db: sqlite3.Connection) -> list[str]:
            found = db.execute("SELECT host FROM runs WHERE id = ? ORDER BY started_at DESC", (run_id,))
            return [str(row["host"]) for row in found]

        return await self.read(read)

    async def ids_of(self, host: str, limit: int = 200) -> list[str]:
        """Return the ids of a host's newest runs."""
        newest = "SELECT id FROM runs WHERE host = ? ORDER BY started_at DESC LIMIT ?"
        return await self.read(lambda db: [str(row["id"]) for row in db.execute(newest, (host, limit))])

    async def telemetry(self, number: int) -> list[list[Any]]:
        """Return the rows kept with a measurement."""

        def read(db: sqlite3.Connection) -> list[list[Any]]:
            row = db.execute("SELECT rows FROM telemetry WHERE number = ?", (number,)).fetchone()
            return [] if row is None else list(json.loads(zlib.decompress(row["rows"])))

        return await self.read(read)

    async def writes(self, *, limit: int = 200) -> tuple[WriteEntry, ...]:
        """Return writes, the newest first."""

        def read(db: sqlite3.Connection) -> tuple[WriteEntry, ...]:
            found = db.execute("SELECT * FROM writes ORDER BY number DESC LIMIT ?", (limit,)).fetchall()
            return tuple(
                WriteEntry(row["at"], row["host"], row["operator"], row["badge"], json.loads(row["receipt"]))
                for row in found
            )

        return await self.read(read)

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some reading or writing as one transaction."""
        return await asyncio.to_thread(self._transaction, work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some reading; what cannot be written, on a full disk or in a folder of others, is read all the same."""
        return await asyncio.to_thread(self._reading, work)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._open() as db, db:
                return work(db)
        except (sqlite3.Error, OSError) as error:
            raise trouble(self.path, error) from error

    def _reading(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._open() as db, db:
                db.execute("BEGIN")  # all that is read is of one moment, whoever writes meanwhile
                return work(db)
        except (sqlite3.Error, OSError) as error:
            if cannot_be_written(error) and self.path.is_file():
                try:
                    with self._open_to_read() as db:
                        return work(db)
                except NewerError as newer:
                    raise trouble(self.path, newer) from newer
                except sqlite3.Error:
                    pass  # what writing met says more
            raise trouble(self.path, error) from error

    @contextlib.contextmanager
    def _open_to_read(self) -> Iterator[sqlite3.Connection]:
        """Open the file as it is, an older one as a copy in memory; without its log only where that holds nothing."""
        log = self.path.with_name(f"{self.path.name}-wal")
        still = "" if log.exists() and log.stat().st_size else "&immutable=1"
        db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro{still}", uri=True, timeout=BUSY_S)
        try:
            if _version(db) < len(MIGRATIONS):
                file, db = db, sqlite3.connect(":memory:")
                with contextlib.closing(file):
                    file.backup(db)
                _migrate(db)
            db.row_factory = sqlite3.Row
            yield db
        finally:
            db.close()

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, timeout=BUSY_S)
        try:
            db.row_factory = sqlite3.Row
            _version(db)  # a newer file is refused before anything is written, its mode included
            _write_ahead(db)
            db.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            _migrate(db)
            yield db
        finally:
            db.close()


def _version(db: sqlite3.Connection) -> int:
    """Return the version of a file; that of a newer tokwatt is refused."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise NewerError(f"written by a newer tokwatt (version {version}, known {len(MIGRATIONS)})")
    return version


def _migrate(db: sqlite3.Connection) -> None:
    """Bring a file up to date, a version in a transaction."""
    version = _version(db)
    while version < len(MIGRATIONS):
        # BEGIN IMMEDIATE lets a second console wait here, and find the work done.
        db.execute("BEGIN IMMEDIATE")
        with db:
            found = _version(db)
            if found == version:
                for statement in filter(str.strip, MIGRATIONS[version].split(";")):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {version + 1}")
            version = max(found, version + 1)


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch the write-ahead log on; SQLite does not wait for a lock there, whatever the time-out of the connection."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _run(db: sqlite3.Connection, row: sqlite3.Row) -> RunEntry:
    found = db.execute(
        "SELECT data FROM measurements WHERE host = ? AND run_id = ? ORDER BY number", (row["host"], row["id"])
    )
    return entry_from(
        row,
        identity=json.loads(row["identity"]),
        measurements=tuple(measurement_from(json.loads(one["data"])) for one in found.fetchall()),
        **remarks_of(db, row["host"], row["id"]),
    )


def _json(value: Mapping[str, Any] | list[Any]) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
