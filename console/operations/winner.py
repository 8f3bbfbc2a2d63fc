"""Keeping what won: the profile saved with the evidence that made it win."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.config.edit import edited, set_values, write_whole
from console.config.paths import config_home
from console.config.profiles import load_profile, parse_profile
from console.domain.activity import Activity, Outcome
from console.domain.measurement import SweepProgress
from console.domain.profile import VIA_TABLES, Profile, Secret
from console.domain.text import clean, counted, dash
from console.errors import RefusedError, UsageError
from console.operations.desk import Desk
from console.operations.winner_evidence import FRESH as FRESH
from console.operations.winner_evidence import FRESH_REPEATS, definition_of, toml_plain
from console.operations.winner_evidence import evidence as evidence_from
from console.operations.winner_evidence import is_fresh as is_fresh
from console.operations.winner_fit import as_planned, must_be_rebuildable

if TYPE_CHECKING:
    from console.journal.records import RunEntry


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a winner would be saved with."""

    run: str
    fresh: bool
    """Whether it was measured again after it was chosen: the best of several is too good by luck."""
    lines: tuple[str, ...]
    """In words: numbers, patches, install, GPUs."""


async def sealed(desk: Desk) -> Sealed:
    """Return what saving the desk's profile would seal.

    Raises:
        RefusedError: Nothing fit to be kept was measured.
    """
    from console.journal.book import Journal

    profile = desk.must_profile()
    entry = await _measured_run(desk, profile)
    files = await _patch_files(desk, entry)
    must_be_rebuildable(entry, (file for some in files.values() for file in some))
    found = evidence_from(files, entry, await Journal().writes(limit=1000), {})
    rows = [
        f"{row['concurrency']:>6,}  {dash(row['output_tok_s'])} tok/s, {counted(len(row['repeats_tok_s']), 'repeat')}"
        for row in found.get("measured", ())
    ]
    patches = [
        f"patch {one['name']}, {counted(len(one['files']), 'file')} with hashes" for one in found.get("patch", ())
    ]
    versions = f", {counted(len(found['versions']), 'package')}" if found.get("versions") else ""
    install = [f"{found['package']}{versions}"] if found.get("package") else []
    told = [f"run {entry.id} of {profile.name} on {entry.host}", *rows, *(patches or ["no patch"]), *install]
    return Sealed(entry.id, is_fresh(entry.measurements), (*told, *([found["gpus"]] if found.get("gpus") else ())))


async def is_measured_afresh(desk: Desk) -> bool:
    """Return whether the run that saving the desk's profile would seal was measured again after it was chosen.

    Raises:
        RefusedError: Nothing fit to be kept was measured.
    """
    return is_fresh((await _measured_run(desk, desk.must_profile())).measurements)


async def measure_afresh(desk: Desk) -> AsyncIterator[SweepProgress]:
    """Measure the server that runs once more, with prompts that it has not seen, before it is saved."""
    from console.operations import measure

    profile = desk.must_profile()
    entry = await _measured_run(desk, profile)
    ladder = sorted({one.concurrency_limit for one in entry.measurements})
    steps = measure.sweep(desk, concurrency=ladder, repeats=FRESH_REPEATS, first_repeat=FRESH)
    async with aclosing(steps) as sweep:  # type: ignore[type-var]
        async for progress in sweep:
            yield progress


async def save_winner(desk: Desk, name: str, *, overwrite: bool = False, dirty: bool = False) -> Path:
    """Save the desk's profile, with what its run measured, under the operator's own profiles.

    Uncommitted changes that no patch of the profile holds are refused; with `dirty` their hashes are sealed.

    An existing file is refused; with `overwrite` its tables are edited, and its comments and the
    keys that the profile does not have stay.

    Raises:
        UsageError: The name is no file name.
        RefusedError: Nothing fit to be kept was measured, it cannot be rebuilt, or the file is there.
    """
    _path_of(name, overwrite)
    profile = desk.must_profile()
    entry = await _measured_run(desk, profile)
    if not dirty:
        files = await _patch_files(desk, entry)
        must_be_rebuildable(entry, (file for some in files.values() for file in some))
    return await save_profile(desk, profile, entry, name, overwrite=overwrite)


async def save_profile(
    desk: Desk,
    profile: Profile,
    entry: RunEntry,
    name: str,
    *,
    overwrite: bool = False,
    evidence: Mapping[str, Any] | None = None,
) -> Path:
    """Save a profile with the evidence of a run, under the operator's own profiles.

    Args:
        desk: Whose host it was.
        profile: What was launched.
        entry: The run that was measured.
        name: Of the file.
        overwrite: Edit an existing file instead of refusing.
        evidence: More of it, such as what an experiment found.

    Raises:
        UsageError: The name is no file name.
        RefusedError: The file is there.
    """
    from console.journal.book import Journal

    path, more = _path_of(name, overwrite), evidence or {}
    files = await _patch_files(desk, entry)
    definitions = {one: definition_of(desk, one) for one in files}
    found = {
        **evidence_from(files, entry, await Journal().writes(limit=1000), definitions, more.get("tolerate", ())),
        **more,
    }
    number = desk.store.begin(Activity(0, "profile save", clean(f"save {path.name}"), started_at=time.time()))
    if path.exists():
        load_profile(path)  # a broken file is told of, not edited
        set_values(path, {**_changes(plain_profile(profile)), ("winner",): found})
    else:
        write_whole(path, _new_text(profile, found).encode())
    set_values(path, {("winner", "profile"): plain_profile(load_profile(path))})
    set_values(path, {("winner", "seal"): seal_of(load_profile(path))})
    desk.store.amend(number, outcome=Outcome.DONE, detail=clean(str(path)))
    return path


def _path_of(name: str, overwrite: bool) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
        raise UsageError(f"{name!r} is no name for a profile", "letters, digits and . _ + - only")
    path = config_home() / "profiles" / f"{name.removesuffix('.toml')}.toml"
    if path.exists() and not overwrite:
        raise RefusedError(f"{path} is there already", hint="choose another name, or overwrite (comments stay)")
    return path


async def _measured_run(desk: Desk, profile: Profile) -> RunEntry:
    """Return the run whose numbers the winner carries."""
    from console.journal.book import Journal

    snapshot = desk.store.snapshot
    wanted = snapshot.run.id if snapshot.run is not None else (snapshot.sweep.run_id if snapshot.sweep else "")
    host = desk.link.host.name
    runs: Sequence[RunEntry] = await Journal().runs(host=host)
    entry = next((run for run in runs if (run.id == wanted if wanted else run.profile == profile.name)), None)
    if entry is not None and entry.profile in ("", profile.name):
        entry = as_planned(entry, profile.bench)
    if entry is None or entry.best_tok_s is None:
        what = f"run {wanted}" if wanted else f"profile {profile.name}"
        raise RefusedError(
            f"{host}: nothing fit to keep was measured of {what}", hint="measure first: tokwatt bench run"
        )
    if entry.profile and entry.profile != profile.name:
        raise RefusedError(
            f"run {entry.id} was launched from profile {entry.profile}, not {profile.name}",
            hint=f"tokwatt --profile {entry.profile} profile save …",
        )
    return entry


async def _patch_files(desk: Desk, entry: RunEntry) -> dict[str, tuple[str, ...]]:
    """Return the files of each patch that was on; asked of the host where they are not known yet."""
    from console.operations import patches

    names = [str(name) for name in entry.identity.get("patches_on") or ()]
    known = {status.name: status for status in desk.store.snapshot.patches}
    if missing := [name for name in names if name not in known]:
        known |= {status.name: status for status in await patches.statuses(desk, missing)}
    return {name: tuple(known[name].files) for name in names}


def seal_of(profile: Profile, tables: Mapping[str, Any] | None = None) -> str:
    """Return the SHA-256 over a winner: what it launches and its evidence, whatever its comments and layout.

    Args:
        profile: The winner.
        tables: What it launches, instead of what the file says now.
    """
    evidence = {name: value for name, value in (profile.winner or {}).items() if name != "seal"}
    whole = {**(plain_profile(profile) if tables is None else tables), "winner": evidence}
    text = json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _new_text(profile: Profile, evidence: Mapping[str, Any]) -> str:
    """Return the profile's own text with the evidence; what it extends is written out."""
    source = Path(profile.path) if profile.path else None
    text = source.read_text() if source is not None and source.is_file() else ""
    if text and "extends" not in text and parse_profile(text, str(source)) == profile:
        return edited(text, {("winner",): evidence})
    return edited("", {**_changes(plain_profile(profile)), ("winner",): evidence})


def plain_profile(profile: Profile) -> dict[str, Any]:
    """Return a profile as its TOML tables, defaults left out."""
    base = Profile(profile.name)
    tables: dict[str, Any] = {"schema": 1, "title": profile.title}
    tables["host"] = _differing(profile.host, base.host)
    tables["engine"] = {"kind": profile.engine.kind, **_differing(profile.engine, base.engine)}
    launch: dict[str, Any] = {"port": profile.launch.port, "workdir": profile.launch.workdir}
    if profile.launch.via != base.launch.via:
        launch["via"] = profile.launch.via
    for name in VIA_TABLES.values():
        launch[name] = _differing(getattr(profile.launch, name), getattr(base.launch, name))
    secret_args = {name: _told_secret(value) for name, value in profile.launch.secret_args.items()}
    launch["args"] = {**toml_plain(profile.launch.args), **secret_args}
    launch["env"] = {name: _told_secret(value) for name, value in profile.launch.env.items()}
    launch["env"] |= dict.fromkeys(profile.launch.unset, False)
    tables["launch"] = {name: value for name, value in launch.items() if value not in ("", {})}
    tables["patches"] = {"on": list(profile.patches_on)}
    tables["bench"] = _differing(profile.bench, base.bench)
    tables["limits"] = _differing(profile.limits, base.limits)
    target = {"output_tok_s": profile.target.output_tok_s, "from": profile.target.origin}
    tables["target"] = {name: value for name, value in target.items() if value not in (None, "")}
    return {name: value for name, value in tables.items() if value not in ({}, "", None)}


def _told_secret(value: str | Secret) -> Any:
    """Return a variable as a file has it: a secret by its source."""
    if not isinstance(value, Secret):
        return value
    return {"from": value.source, "name": value.name} if value.name else {"from": value.source}


def _differing(section: Any, base: Any) -> dict[str, Any]:
    values = {
        name: getattr(section, name) for name in section.__slots__ if getattr(section, name) != getattr(base, name)
    }
    return {name: toml_plain(value) for name, value in values.items() if value is not None}


def _changes(tables: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return a change for each key, so that an existing file keeps its comments between them."""
    found: dict[tuple[str, ...], Any] = {}
    for name, value in tables.items():
        if not isinstance(value, Mapping):
            found[(name,)] = value
            continue
        for key, inner in value.items():
            if name == "launch" and key in ("args", "env", *VIA_TABLES.values()):
                found.update({(name, key, one): argument for one, argument in inner.items()})
            else:
                found[(name, key)] = inner
    return found
