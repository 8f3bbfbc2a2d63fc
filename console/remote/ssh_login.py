"""How a login is asked for, and how its faults are told."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from console.errors import ConnectError, ConsoleError, LoginRefusedError
from console.remote import hostkeys
from console.remote.identities import Identities
from console.remote.settings import Settings

if TYPE_CHECKING:
    import asyncssh

LOGIN_S = 20
KEEPALIVE_S = 5
KEEPALIVE_TRIES = 2
"""A dead link is noticed after interval × (tries + 1) = 15 s."""

CIPHERS = (
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr", "aes192-ctr", "aes128-ctr",
)  # fmt: skip
"""The first is half as fast again as the usual choice."""

KEY_ALGORITHMS = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip


def login_options(
    settings: Settings,
    tunnel: asyncssh.SSHClientConnection | None,
    known: list[str],
    name: str,
    port: int,
    connect_s: float,
) -> dict[str, Any]:
    """Return what asyncssh is told; nothing of ssh_config reaches it but what stands here."""
    keys = hostkeys.known_keys(known, name, port)
    authorities = [key for key in keys if key.marker == "cert-authority"]

    def trusted(_host: str, _addr: str, _port: int | None) -> tuple[list[asyncssh.SSHKey], ...]:
        # Plain keys are judged by the gate; asyncssh checks certificates against these.
        revoked = [_imported(key) for key in keys if key.marker == "revoked" and authorities]
        return [], [_imported(key) for key in authorities], revoked, [], [], [], []

    command = settings.one("proxycommand", "none")
    env = dict(word.partition("=")[::2] for word in settings.values.get("setenv", ()) if "=" in word)
    family = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(settings.one("addressfamily").lower())
    bind = settings.one("bindaddress")
    return {
        "config": None,
        "tunnel": tunnel or (),
        "proxy_command": ["/bin/sh", "-c", f"exec {settings.command(command)}"]
        if command.lower() != "none" and tunnel is None
        else (),
        "known_hosts": trusted,
        "host_key_alias": settings.one("hostkeyalias") or None,
        "server_host_key_algs": _key_order([key.key_type for key in keys if not key.marker], bool(authorities)),
        "username": settings.user,
        "client_keys": None,
        "agent_path": None,
        "password_auth": False,
        "kbdint_auth": False,
        "gss_auth": False,
        "gss_kex": False,
        "host_based_auth": False,
        "encryption_algs": list(CIPHERS),
        "compression_algs": ["zlib@openssh.com", "none"] if settings.flag("compression") else ["none"],
        "keepalive_interval": min(settings.time_s("serveraliveinterval") or KEEPALIVE_S, KEEPALIVE_S),
        "keepalive_count_max": KEEPALIVE_TRIES,
        "login_timeout": LOGIN_S + connect_s,
        "connect_timeout": connect_s,
        "env": env,
        **({"family": family} if family else {}),
        **({"local_addr": (bind, 0)} if bind else {}),
    }


def _imported(key: hostkeys.KnownKey) -> asyncssh.SSHKey:
    import base64

    """Return what asyncssh is told; nothing of ssh_config reaches it but what stands here."""
    import asyncssh

    return asyncssh.import_public_key(f"{key.key_type} {base64.b64encode(key.blob).decode()}")


def _key_order(known: list[str], certificates: bool) -> list[str]:
    """Return key algorithms with those first that the host is known by.

    All are offered: a host that offers only another kind than the known one must be seen as
    changed, not as a connection that broke.
    """
    kinds = {"rsa-sha2-512": "ssh-rsa", "rsa-sha2-256": "ssh-rsa"}
    order = sorted(KEY_ALGORITHMS, key=lambda name: kinds.get(name, name) not in known)
    return [f"{name}-cert-v01@openssh.com" for name in order] * certificates + order


@contextlib.asynccontextmanager
async def told_faults(
    settings: Settings, identities: Identities, wait_s: float, tunnelled: bool
) -> AsyncIterator[None]:
    """Turn the faults of connecting into sentences, the most special first."""
    import asyncssh

    where = f"{settings.alias}" if settings.alias == settings.host else f"{settings.alias} ({settings.host})"
    where = f"{where} port {settings.port}"
    try:
        yield
    except ConsoleError:
        raise
    except asyncssh.PermissionDenied as error:
        raise _refused(settings, identities, error.reason) from error
    except asyncssh.ChannelOpenError as error:
        raise ConnectError(f"{where}: the jump host cannot reach it", error.reason) from error
    except asyncssh.DisconnectError as error:
        if "authentication failures" in error.reason.lower():
            raise _refused(settings, identities, error.reason) from error
        if "login timeout" in error.reason.lower():
            raise ConnectError(f"{where}: no answer to the login within {wait_s + LOGIN_S:g} s") from error
        raise ConnectError(f"{where}: the connection ended during the login", error.reason) from error
    except TimeoutError as error:
        raise ConnectError(
            f"{where}: no answer within {wait_s:g} s", hint="is the host up, and the port right?"
        ) from error
    except socket.gaierror as error:
        raise ConnectError(f"{settings.host}: no such host name", error.strerror or str(error)) from error
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, ConnectionRefusedError):
            raise ConnectError(
                f"{where}: connection refused", hint="is sshd running there, and the port right?"
            ) from error
        raise ConnectError(f"{where}: cannot connect", reason) from error
    except (asyncssh.Error, ValueError) as error:
        raise ConnectError(f"{where}: cannot connect", str(error)) from error


def _refused(settings: Settings, identities: Identities, reason: str) -> LoginRefusedError:
    if identities.error is not None:
        return identities.error
    tried = ", ".join(identities.offered) or "no key was found to offer"
    wrong = "; ".join(identities.problems)
    return LoginRefusedError(
        f"{settings.user}@{settings.host}:{settings.port}: login refused",
        " · ".join(part for part in (f"offered: {tried}", wrong, reason) if part),
        f"only keys log in: ssh-copy-id {settings.alias}",
    )
