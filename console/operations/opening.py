"""Opening a desk: which host, over which transport, under which profile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from console.domain.host import LinkState
from console.domain.profile import DOCKER_RUN, Profile
from console.errors import UsageError
from console.operations.desk import Desk
from console.remote.link import HostLink

if TYPE_CHECKING:
    from console.remote.channel import Transport
    from console.remote.identities import AskPassphrase
    from console.remote.target import Target

LOCAL = "local"


async def open_desk(
    host: str | Target = "",
    *,
    profile: str | None = None,
    readonly: bool = False,
    accept_key: str | None = None,
    package_dirs: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda text: None,
    connect: bool = True,
    target: Target | None = None,
    ask_passphrase: AskPassphrase | None = None,
) -> Desk:
    """Return a desk for a host, connected unless `connect` is false.

    Args:
        host: ssh alias, `user@host:port` or `local`; empty takes the profile's. Or a target.
        profile: Name or path.
        readonly: Refuse whatever would change the host.
        accept_key: Fingerprint of a new host's key that may be accepted and remembered.
        package_dirs: `--package` folders.
        say: Where narration goes.
        connect: Whether to bring the link up first.
        target: What to dial, when that is known already; goes before `host`.
        ask_passphrase: How the passphrase of a key file is asked for; `None`: nobody can be asked.

    Raises:
        UsageError: No host is named, or no such profile.
        ConnectError: Unreachable, login refused, host key unknown or changed.
    """
    read = await asyncio.to_thread(_profile, profile) if profile else None
    wanted = target or host or (read.host.ssh if read else "")
    if not wanted:
        raise UsageError(
            "no host",
            "neither --host nor the profile's [host] ssh names one",
            "--host ALIAS, user@host:port, local or demo",
        )
    desk = Desk(
        HostLink(
            await _transport(wanted, accept_key, ask_passphrase),
            prefix=_prefix(read),
            python=read.engine.python if read else "",
            on_command=lambda record: desk.commands.append(record),
            on_state=lambda state: _follow(desk, state),
        ),
        profile=read,
        readonly=readonly,
        package_dirs=package_dirs,
        say=say,
    )
    desk.store.update(host=desk.link.host, link=desk.link.state, profile=read, readonly=readonly)
    if connect:
        try:
            await desk.link.connect()
        except BaseException:
            await desk.link.close()
            raise
        if desk.link.state.degraded:
            say(f"shell mode: {desk.link.state.degraded}")
    return desk


async def ask_in_terminal(file: str) -> str | None:
    """Ask for a passphrase on the terminal; `None` where there is none to ask on."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    return await asyncio.to_thread(getpass.getpass, f"Passphrase of {file}: ", sys.stderr)


def _follow(desk: Desk, state: LinkState) -> None:
    facts = desk.link.known_facts
    if facts is not None and desk.profile is not None:
        there = at_home(desk.profile, facts.home)
        if there != desk.profile:
            desk.profile = there
            desk.store.update(profile=there)
    desk.store.update(host=desk.link.host, link=state, facts=facts)


def at_home(profile: Profile, home: str) -> Profile:
    """Return the profile with `~/` in its paths made the home folder on the host: no shell reads them there."""

    def there(path: str) -> str:
        return home.rstrip("/") + path[1:] if path == "~" or path.startswith("~/") else path

    launch = profile.launch
    docker = replace(launch.docker, options=tuple(there(word) for word in launch.docker.options))
    if launch.via == DOCKER_RUN:  # its other paths are the container's, whose home is not known
        return replace(profile, launch=replace(launch, docker=docker))
    args = {name: there(value) if isinstance(value, str) else value for name, value in launch.args.items()}
    env = {name: there(value) if isinstance(value, str) else value for name, value in launch.env.items()}
    return replace(
        profile,
        engine=replace(profile.engine, python=there(profile.engine.python)),
        launch=replace(launch, workdir=there(launch.workdir), args=args, env=env),
    )


def _profile(name_or_path: str) -> Profile:
    from console.config.paths import find_profile
    from console.config.profiles import load_profile

    return load_profile(find_profile(name_or_path))


def _prefix(profile: Profile | None) -> tuple[str, ...]:
    if profile is None or not profile.host.container:
        return ()
    return (profile.host.runtime or "docker", "exec", "-i", profile.host.container)


async def _transport(wanted: str | Target, accept_key: str | None, ask: AskPassphrase | None) -> Transport:
    if wanted == LOCAL:
        from console.remote.local import LocalTransport

        return LocalTransport()
    from console.remote.ssh import SshTransport, destination

    if isinstance(wanted, str):
        try:
            wanted = destination(wanted)
        except ValueError as error:
            raise UsageError(f"host {wanted!r}: {error}", hint="ALIAS, user@host:port, local or demo") from error
    return SshTransport(wanted, accept_key=accept_key, ask_passphrase=ask)
