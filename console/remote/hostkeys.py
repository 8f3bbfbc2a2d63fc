"""Host keys: is the one offered trusted, unknown, changed or revoked; and how one is accepted."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from console.errors import ConnectError, HostKeyChangedError, HostKeyUnknownError
from console.remote.settings import matches_patterns


class Trust(StrEnum):
    """What the known_hosts files say of a key."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file that is about the host asked for."""

    key_type: str
    blob: bytes
    marker: str
    """Empty, `cert-authority` or `revoked`."""
    file: str
    line: int

    @property
    def where(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one offered key."""

    trust: Trust
    entry: KnownKey | None = None
    """The line that decided, if one did."""
    hint: str = ""


def fingerprint(blob: bytes) -> str:
    """Return `SHA256:…` of a public key, as OpenSSH prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def name_of(host: str, port: int) -> str:
    """Return a host as known_hosts names it."""
    return host if port == 22 else f"[{host}]:{port}"


def line_of(host: str, port: int, key_type: str, blob: bytes) -> str:
    """Return the line that makes a key known."""
    return f"{name_of(host, port)} {key_type} {base64.b64encode(blob).decode()}"


def known_keys(files: Sequence[str], host: str, port: int) -> list[KnownKey]:
    """Return the lines about a host; files that cannot be read and lines that are none are passed over."""
    name = name_of(host, port)
    found = []
    for file in files:
        try:
            text = Path(file).read_text("utf-8", "surrogateescape")
        except OSError:
            continue
        found += [key for pattern, key in _lines(text, file) if _about(pattern, name)]
    return found


def judge(files: Sequence[str], host: str, port: int, blob: bytes) -> Verdict:
    """Return what the known_hosts files say of a key that a host offers."""
    known = known_keys(files, host, port)
    for key in known:
        if key.marker == "revoked" and key.blob == blob:
            return Verdict(Trust.REVOKED, key)
    plain = [key for key in known if not key.marker]
    for key in plain:
        if key.blob == blob:
            return Verdict(Trust.TRUSTED, key)
    if plain:
        return Verdict(Trust.CHANGED, plain[0])
    if port != 22:  # as OpenSSH: the same key of the same host at its usual port
        for key in known_keys(files, host, 22):
            if not key.marker and key.blob == blob:
                return Verdict(Trust.TRUSTED, key)
    return Verdict(Trust.UNKNOWN, hint=_elsewhere(files, blob))


def refusal(verdict: Verdict, host: str, port: int, key_type: str, blob: bytes, file: str) -> ConnectError:
    """Return the error that tells a verdict other than trusted.

    Args:
        verdict: The judgement.
        host: Name as known_hosts has it.
        port: TCP port.
        key_type: Algorithm of the offered key.
        blob: The offered key.
        file: Where accepting would append.
    """
    offered = fingerprint(blob)
    name = name_of(host, port)
    if verdict.trust is Trust.REVOKED and verdict.entry is not None:
        return HostKeyChangedError(
            f"{host}:{port}: the key that this host offers is revoked",
            f"{key_type} {offered}, @revoked at {verdict.entry.where}",
            "do not log in; ask who runs the host",
        )
    if verdict.trust is Trust.CHANGED and verdict.entry is not None:
        known = verdict.entry
        return HostKeyChangedError(
            f"{host}:{port}: the host key has changed, refused",
            f"offered {key_type} {offered}, known {known.key_type} {fingerprint(known.blob)} at {known.where}",
            f"another machine may answer; if it was re-installed: ssh-keygen -R '{name}' -f {known.file}",
        )
    error = HostKeyUnknownError(host, port, offered, key_type, line_of(host, port, key_type, blob))
    if verdict.hint:
        error.detail += f"; {verdict.hint}"
    error.known_hosts = file
    return error


def accept(line: str, path: str | Path) -> None:
    """Append a line to a known_hosts file, which is made when missing (folder 0700, file 0600)."""
    target = Path(path)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" * torn + line.encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


def _lines(text: str, file: str) -> Iterator[tuple[str, KnownKey]]:
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0)[1:] if words[0].startswith("@") else ""
        if len(words) < 3:
            continue
        try:
            blob = base64.b64decode(words[2], validate=True)
        except (ValueError, binascii.Error):
            continue
        yield words[0], KnownKey(words[1], blob, marker, file, number)


def _about(pattern: str, name: str) -> bool:
    if not pattern.startswith("|"):
        return matches_patterns(name, pattern.split(","))
    try:
        _, magic, salt, digest = pattern.split("|")
        mac = hmac.new(base64.b64decode(salt), name.encode(), "sha1").digest()
        return magic == "1" and hmac.compare_digest(mac, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False


def _elsewhere(files: Sequence[str], blob: bytes) -> str:
    """Say under which other name a key is known; a help for the eye, never a reason to trust."""
    for file in files:
        try:
            text = Path(file).read_text("utf-8", "surrogateescape")
        except OSError:
            continue
        for pattern, key in _lines(text, file):
            if key.blob == blob and not key.marker:
                shown = "a hashed name" if pattern.startswith("|") else pattern
                return f"the same key is known for {shown} ({key.where})"
    return ""
