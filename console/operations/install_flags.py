"""The flags of the engine that a host has: asked of it once for each install, or read from its source."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from console.config.edit import write_whole
from console.config.paths import data_home
from console.config.secrecy import is_secret_name
from console.domain.profile import Profile
from console.engines import flags
from console.engines.registry import engine
from console.errors import ConsoleError, RemoteError
from console.operations.desk import Desk
from console.operations.host import engine_package

ASK_S = 180.0
"""An engine's imports take 14 s on an idle host, and minutes on a busy one."""

READ = """
import glob, json, os, sys
os.chdir(sys.argv[1])
found = {}
for pattern in sys.argv[2:]:
    for name in sorted(glob.glob(pattern)):
        with open(name, encoding="utf-8", errors="replace") as file:
            found[name] = file.read(2000000)
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class InstallFlags:
    """What an install takes."""

    known: Mapping[str, flags.Flag]
    install: str
    """Name and version, for people."""
    how: str = ""
    """`asked`, `read` from its source, or why neither."""


async def install_flags(desk: Desk, profile: Profile, *, ask: bool = True) -> InstallFlags:
    """Return the flags of the engine that the profile would launch.

    Args:
        desk: The host; its profile is this one.
        profile: Whose engine.
        ask: Whether the engine may be started for it; else what it said before, or its source.

    Raises:
        RemoteError: There is no such package, or it cannot be read.
    """
    adapter = engine(profile.engine.kind)
    if not adapter.package:
        return await _of_program(desk, profile, ask=ask)
    package = await engine_package(desk)
    install = f"{package.name} {package.version or 'of unknown version'}"
    sources = await _sources(desk, profile, package.folder)
    digest = hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()
    kept = data_home() / "flags" / f"{_plain(install)}-{digest[:16]}.txt"
    read = adapter.flags_in_source({name: text.encode() for name, text in sources.items()})
    if known := flags.told(_kept(kept)):
        return InstallFlags(flags.with_types(known, read), install, "asked")
    if ask:
        desk.say(f"asking {install} for its flags, once for this install …")
        if known := await _ask(desk, profile, kept):
            return InstallFlags(flags.with_types(known, read), install, "asked")
    return InstallFlags(read, install, "read" if read else "has a source of unknown shape: its flags were not compared")


async def _of_program(desk: Desk, profile: Profile, *, ask: bool) -> InstallFlags:
    command = engine(profile.engine.kind).help_command(profile)
    if not ask or not command:
        return InstallFlags({}, profile.engine.kind, "was not asked")
    known = await _ask(desk, profile, None)
    return InstallFlags(known, command[0].rsplit("/", 1)[-1], "asked" if known else "does not tell its flags")


async def _sources(desk: Desk, profile: Profile, folder: str) -> dict[str, str]:
    """Return the files that declare flags, in one round trip."""
    argv = [profile.engine.python or "python3", "-c", READ, folder, *engine(profile.engine.kind).flag_sources()]
    done = await desk.link.run(argv)
    try:
        found = json.loads(done.output)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        said = done.complaint.decode("utf-8", "replace").strip().splitlines()
        raise RemoteError(f"{desk.link.host.name}: {folder} cannot be read", said[-1] if said else "")
    return {str(name): str(text) for name, text in found.items()}


async def _ask(desk: Desk, profile: Profile, kept: Path | None) -> Mapping[str, flags.Flag]:
    """Make the install tell its flags, and keep what it said."""
    given = [
        f"{name}={value}"
        for name, value in profile.launch.env.items()
        if isinstance(value, str) and not is_secret_name(name)
    ]
    argv = ["env", *given, *engine(profile.engine.kind).help_command(profile)]
    try:
        done = await desk.link.run(argv, deadline_s=ASK_S)
    except ConsoleError as error:
        desk.say(f"not asked: {error.one_line()}")
        return {}
    output = done.output.decode("utf-8", "replace")
    known = flags.told(output)
    if known and kept is not None:
        with contextlib.suppress(ConsoleError):  # a cache that cannot be written costs the next question only
            write_whole(kept, output.encode())
    elif not known:
        said = done.complaint.decode("utf-8", "replace").strip().splitlines()
        desk.say(f"it does not tell: {said[-1] if said else 'nothing was printed'}")
    return known


def _kept(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", text)
