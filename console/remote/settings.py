"""What `ssh_config` says for one host: settings in force, what is not honoured, what is wrong."""

from __future__ import annotations

import fnmatch
import getpass
import hashlib
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from console.errors import FormatError
from console.remote.ssh_config import Block, Entry, problems, read_config, seconds

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
EXEC_DEADLINE_S = 10

_NOT_HONOURED = {
    "stricthostkeychecking": "host keys are always checked, and a new one is always shown and asked for",
    "controlmaster": "tokwatt keeps one connection of its own",
    "controlpath": "tokwatt keeps one connection of its own",
    "remotecommand": "programs are started without it, or every one of them would run it",
    "requesttty": "programs need no terminal",
    "localforward": "ports are reached through the connection without a local port",
    "remoteforward": "nothing on the host may reach back",
    "dynamicforward": "no proxy is opened",
    "forwardagent": "the agent stays here",
    "forwardx11": "no window is opened",
    "localcommand": "nothing is run here",
    "knownhostscommand": "only known_hosts files are asked",
    "pkcs11provider": "use the agent for keys on a token",
    "securitykeyprovider": "use the agent for keys on a token",
    "gssapiauthentication": "only keys log in",
    "canonicalizehostname": "names are taken as they are",
    "preferredauthentications": "only keys log in",
    "ciphers": "a fast, safe order of its own is used",
    "macs": "a safe order of its own is used",
    "kexalgorithms": "a safe order of its own is used",
    "hostkeyalgorithms": "known key types come first",
}


@dataclass(slots=True)
class Settings:
    """The settings of one host, first value wins."""

    alias: str
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    many: dict[str, list[str]] = field(default_factory=dict)
    """Settings that add up: `identityfile`, `certificatefile`, `sendenv`."""
    taken: list[Entry] = field(default_factory=list)
    user_files: frozenset[str] = frozenset()
    wrong: list[Entry] = field(default_factory=list)
    """Lines that OpenSSH refuses, of any host."""
    home: Path = field(default_factory=Path.home)

    def one(self, key: str, default: str = "") -> str:
        """Return the first word of a setting."""
        return self.values.get(key, (default,))[0]

    def flag(self, key: str) -> bool:
        """Whether a yes/no setting says yes."""
        return self.one(key).lower() in ("yes", "true")

    def time_s(self, key: str) -> int | None:
        """Return a time in seconds."""
        return seconds(self.one(key)) if key in self.values else None

    @property
    def host(self) -> str:
        """Name or address to dial."""
        name = self.one("hostname")
        return _expanded(name, {"h": self.alias, "n": self.alias}) if name else self.alias

    @property
    def port(self) -> int:
        """TCP port to dial."""
        return int(self.one("port", "22"))

    @property
    def user(self) -> str:
        """Login name there."""
        return self.one("user") or getpass.getuser()

    def path(self, text: str) -> str:
        """Return a file name with `~`, `%` tokens and `${VARIABLES}` filled in."""
        text = _expanded(text, self.tokens())
        return str(self.home / text[2:]) if text.startswith("~/") else os.path.expanduser(text)

    def tokens(self) -> dict[str, str]:
        """Return the `%` tokens of this host."""
        here = socket.gethostname()
        jump = self.one("proxyjump")
        mixed = "".join((here, self.host, str(self.port), self.user, "" if jump == "none" else jump))
        return {
            "h": self.host, "n": self.alias, "p": str(self.port), "r": self.user, "k": self.one("hostkeyalias") or self.alias,
            "u": getpass.getuser(), "d": str(self.home), "i": str(os.getuid()), "l": here, "L": here.partition(".")[0],
            "j": jump, "C": hashlib.sha1(mixed.encode(), usedforsecurity=False).hexdigest(),
        }  # fmt: skip

    def command(self, text: str) -> str:
        """Return a command line with `%` tokens filled in."""
        return _expanded(text, self.tokens(), environment=False)

    def files(self, key: str, default: Sequence[str]) -> list[str]:
        """Return file names of a list setting; `none` is no file."""
        names = self.values.get(key, tuple(default))
        return [] if names == ("none",) else [self.path(name) for name in names]

    def ignored(self) -> tuple[str, ...]:
        """Return what is not honoured or wrong, a sentence each."""
        said = []
        for entry in self.taken:
            why = _NOT_HONOURED.get(entry.key)
            if why and entry.file in self.user_files and entry.values[0].lower() not in ("no", "none", "false"):
                said.append(f"{entry.where}: {entry.keyword} {' '.join(entry.values)} is not honoured: {why}")
        for entry in self.wrong:
            said.append(f"{entry.where}: {entry.text}: {entry.problem}; OpenSSH refuses this line, it was left out")
        return tuple(said)


def resolve(
    alias: str, *, files: Sequence[Path], home: Path, given: Mapping[str, str] | None = None, strict: bool = True
) -> Settings:
    """Return the settings of a host; blocking, since `Match exec` runs programs.

    Args:
        alias: The operator's word for it.
        files: Configuration files, the user's first.
        home: Folder of the login here.
        given: Settings that stand before the files (`user`, `port`).
        strict: Whether a wrong line in a block of this host is an error.

    Raises:
        FormatError: A line that concerns this host is wrong; OpenSSH would refuse it too.
    """
    blocks = tuple(block for file in files for block in read_config(file, home))
    settings = _reading(alias, blocks, home, given, final=False, strict=strict)
    if any("final" in word.lower() for block in _all(blocks) if block.head for word in block.head.values):
        settings = _reading(alias, blocks, home, given, final=True, strict=strict)
    settings.wrong = list(problems(blocks))
    settings.user_files = frozenset(b.head.file for b in _all(blocks) if b.head) | {str(file) for file in files}
    settings.user_files = frozenset(name for name in settings.user_files if not name.startswith("/etc/ssh/"))
    return settings


def _reading(
    alias: str, blocks: tuple[Block, ...], home: Path, given: Mapping[str, str] | None, *, final: bool, strict: bool
) -> Settings:
    settings = Settings(alias, home=home)
    settings.values.update({key: (value,) for key, value in (given or {}).items() if value})
    _take(settings, blocks, final, strict)
    return settings


def _all(blocks: tuple[Block, ...]) -> list[Block]:
    found = []
    for block in blocks:
        found.append(block)
        for entry in block.entries:
            found.extend(_all(entry.included))
    return found


def _take(settings: Settings, blocks: tuple[Block, ...], final: bool, strict: bool) -> None:
    for block in blocks:
        if block.head is not None and not _matches(settings, block.head, final):
            continue
        for entry in block.entries:
            if entry.included:
                _take(settings, entry.included, final, strict)
            elif entry.problem:
                if strict and block.head is not None and _names(block.head):
                    raise FormatError(
                        f"{entry.where}: {entry.keyword}: {entry.problem}", entry.text, "OpenSSH refuses this line too"
                    )
            else:
                _set(settings, entry)


def _names(head: Entry) -> bool:
    """Whether a block is about certain hosts, not about all."""
    return head.values != ("*",) and head.values != ("all",)


def _set(settings: Settings, entry: Entry) -> None:
    if entry.key in ("identityfile", "certificatefile", "sendenv"):
        settings.many.setdefault(entry.key, []).extend(entry.values)
        settings.taken.append(entry)
    elif entry.key not in settings.values:
        settings.values[entry.key] = entry.values
        settings.taken.append(entry)


def _matches(settings: Settings, head: Entry, final: bool) -> bool:
    if head.problem:
        return False
    if head.key == "host":
        return matches_patterns(settings.alias, head.values)
    words = list(head.values)
    while words:
        word = words.pop(0)
        negated = word.startswith("!")
        name, _, value = word.removeprefix("!").partition("=")
        name = name.lower()
        if name == "all":
            good = True
        elif name in ("final", "canonical"):
            good = final and name == "final"
        else:
            good = _holds(settings, name, value or words.pop(0))
        if good == negated:
            return False
    return True


def _holds(settings: Settings, name: str, value: str) -> bool:
    if name == "exec":
        command = settings.command(value)
        try:
            done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=EXEC_DEADLINE_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0
    looked = {
        "host": settings.host,
        "originalhost": settings.alias,
        "user": settings.user,
        "localuser": getpass.getuser(),
        "tagged": settings.one("tag"),
    }.get(name)
    return looked is not None and matches_patterns(looked, value.split(","))


def matches_patterns(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches a list with `*`, `?` and `!`; one negated match refuses."""
    good = False
    for pattern in patterns:
        plain = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatch.fnmatchcase(name.lower(), plain.lower()):
            if pattern.startswith("!"):
                return False
            good = True
    return good


def _expanded(text: str, tokens: Mapping[str, str], environment: bool = True) -> str:
    text = re.sub(r"%(.)", lambda match: "%" if match[1] == "%" else tokens.get(match[1], match[0]), text)
    if environment:
        text = re.sub(r"\$\{(\w+)\}", lambda match: os.environ.get(match[1], ""), text)
    return text
