"""The pretend host's identity: its host key, the key that may log in, and the marker of its processes."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Keys:
    """Key files of one demo folder; made once, so that the host stays the one that is known."""

    folder: Path
    marker: str

    @property
    def host_key(self) -> Path:
        """The host's private key."""
        return self.folder / "ssh_host_ed25519_key"

    @property
    def user_key(self) -> Path:
        """The private key that may log in."""
        return self.folder / "id_ed25519"

    @property
    def authorized(self) -> Path:
        """Public keys that may log in."""
        return self.folder / "authorized_keys"

    @property
    def known_hosts(self) -> Path:
        """What the client believes of the host's key."""
        return self.folder / "known_hosts"

    def trust(self, port: int) -> None:
        """Write the known_hosts line for the port that the host listens on."""
        public = self.host_key.with_name(f"{self.host_key.name}.pub").read_text().split()
        _write(self.known_hosts, f"[127.0.0.1]:{port} {public[0]} {public[1]}\n".encode())


def keys_in(folder: Path) -> Keys:
    """Return the keys of a folder, made now when there are none."""
    import asyncssh

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    marker = folder / "id"
    if not marker.is_file():
        for name in ("ssh_host_ed25519_key", "id_ed25519"):
            key = asyncssh.generate_private_key("ssh-ed25519", comment="tokwatt demo")
            _write(folder / name, key.export_private_key())
            _write(folder / f"{name}.pub", key.export_public_key())
        _write(folder / "authorized_keys", (folder / "id_ed25519.pub").read_bytes())
        _write(marker, uuid.uuid4().hex.encode())
    return Keys(folder, marker.read_text())


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    beside.replace(path)
