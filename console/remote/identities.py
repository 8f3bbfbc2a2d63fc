"""The keys that log in: the agent's and the login's files, in a good order, passphrases asked last."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from console.errors import LoginRefusedError

if TYPE_CHECKING:
    import asyncssh

AskPassphrase = Callable[[str], Awaitable[str | None]]
"""Asked with a key file's name; `None` means that nobody answers."""

DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
PASSPHRASE_TRIES = 3


class Identities:
    """Offers one key after the other to a server that asks.

    Keys of the agent that are named by an identity file come first, then readable files, then the
    agent's other keys, and files with a passphrase at the end: nobody is asked without need.

    Args:
        where: Host for messages.
        files: Private key files, named by the operator or ssh_config; may not exist.
        explicit: Whether these were named (else they are the usual ones).
        only: Offer nothing but these (`IdentitiesOnly`).
        agent_path: Socket of the agent, empty for none.
        ask: How a passphrase is asked for.
        unlocked: Keys whose passphrase was given before: a reconnect must not ask again.
    """

    def __init__(
        self,
        where: str,
        files: list[str],
        *,
        explicit: bool,
        only: bool,
        agent_path: str,
        ask: AskPassphrase | None,
        unlocked: dict[str, asyncssh.SSHKeyPair] | None = None,
    ) -> None:
        self._where = where
        self._files = files
        self._explicit = explicit
        self._only = only
        self._agent_path = agent_path
        self._ask = ask
        self._unlocked_before = {} if unlocked is None else unlocked
        self._agent: asyncssh.SSHAgentClient | None = None
        self._waiting: list[asyncssh.SSHKeyPair] | None = None
        self._locked: list[str] = []
        self.offered: list[str] = []
        """What was offered, for the message when all is refused."""
        self.problems: list[str] = []
        self.error: LoginRefusedError | None = None

    async def next_key(self) -> asyncssh.SSHKeyPair | None:
        """Return the next key to offer, `None` when there is none left."""
        if self._waiting is None:
            self._waiting = await self._gathered()
        if self._waiting:
            return self._waiting.pop(0)
        while self._locked:
            if (pair := await self._unlocked(self._locked.pop(0))) is not None:
                return pair
        return None

    def close(self) -> None:
        """Let the agent go."""
        if self._agent is not None:
            self._agent.close()
            self._agent = None

    async def _gathered(self) -> list[asyncssh.SSHKeyPair]:
        agent_keys = await self._agent_keys()
        named = {blob for file in self._files if (blob := _public_blob(file)) is not None}
        first = [key for key in agent_keys if key.public_data in named]
        others = [] if self._only else [key for key in agent_keys if key.public_data not in named]
        held = {key.public_data for key in first}
        files = [pair for file in self._files if (pair := self._from_file(file, held)) is not None]
        self.offered += [f"agent key {_comment(key)}" for key in first]
        if self._explicit:
            return [*first, *files, *others]
        return [*first, *others, *files]

    async def _agent_keys(self) -> list[asyncssh.SSHKeyPair]:
        import asyncssh

        if not self._agent_path:
            return []
        try:
            self._agent = await asyncssh.connect_agent(self._agent_path)
            keys = list(await self._agent.get_keys())
        except (OSError, ValueError, asyncssh.Error) as error:
            self.problems.append(f"agent {self._agent_path}: {error}")
            return []
        self.offered += [f"{len(keys)} agent keys"] if keys and not self._only else []
        return keys

    def _from_file(self, file: str, held: set[bytes]) -> asyncssh.SSHKeyPair | None:
        import asyncssh

        if not Path(file).is_file():
            if self._explicit:
                self.problems.append(f"{file}: no such key file")
            return None
        if _public_blob(file) in held:
            return None
        try:
            pair = _pair(file, None)
        except asyncssh.KeyEncryptionError:
            self._locked.append(file)
        except asyncssh.KeyImportError as error:
            if "passphrase" in str(error).lower():
                self._locked.append(file)
            else:
                self.problems.append(f"{file}: {error}")
        except OSError as error:
            self.problems.append(f"{file}: {error.strerror}")
        else:
            self.offered.append(file)
            return pair
        return None

    async def _unlocked(self, file: str) -> asyncssh.SSHKeyPair | None:
        import asyncssh

        if file in self._unlocked_before:
            self.offered.append(file)
            return self._unlocked_before[file]
        for _ in range(PASSPHRASE_TRIES):
            passphrase = await self._ask(file) if self._ask is not None else None
            if passphrase is None:
                self.problems.append(f"{file}: needs its passphrase")
                self.error = LoginRefusedError(
                    f"{self._where}: the key {file} needs its passphrase, and nobody could be asked",
                    hint=f"ssh-add {file}, or start tokwatt in a terminal",
                )
                return None
            try:
                pair = _pair(file, passphrase)
            except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError):
                continue
            self.offered.append(file)
            self._unlocked_before[file] = pair
            return pair
        self.problems.append(f"{file}: wrong passphrase, {PASSPHRASE_TRIES} times")
        self.error = LoginRefusedError(f"{self._where}: the passphrase of {file} was wrong {PASSPHRASE_TRIES} times")
        return None


def usual_key_files(home: Path) -> list[str]:
    """Return the key files that OpenSSH tries by itself."""
    return [str(home / ".ssh" / name) for name in DEFAULT_KEYS if (home / ".ssh" / name).exists()]


def agent_socket(setting: str) -> str:
    """Return the agent's socket under an `IdentityAgent` setting."""
    if setting.lower() == "none":
        return ""
    if not setting or setting == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    return os.environ.get(setting[1:], "") if setting.startswith("$") else setting


def _pair(file: str, passphrase: str | None) -> asyncssh.SSHKeyPair:
    import asyncssh

    return asyncssh.load_keypairs([file], passphrase)[0]


def _public_blob(file: str) -> bytes | None:
    import asyncssh

    for name in (f"{file}.pub", file):
        try:
            return asyncssh.read_public_key(name).public_data
        except (OSError, ValueError, asyncssh.Error):
            continue
    return None


def _comment(key: asyncssh.SSHKeyPair) -> str:
    return key.get_comment() or "without a name"
