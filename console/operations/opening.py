"""Opening a desk: which host, over which transport, under which profile."""

from __future__ import annotations

from collections.abc import Callable

from console.errors import UsageError
from console.operations.desk import Desk
from console.remote.link import HostLink


async def open_desk(
    *,
    host: str = "",
    profile: str | None = None,
    readonly: bool = False,
    accept_key: str | None = None,
    package_dirs: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda text: None,
    connect: bool = True,
) -> Desk:
    """Return a desk for a host, connected unless `connect` is false.

    Args:
        host: ssh alias, `user@host:port`, `local` or `demo`; empty takes the profile's.
        profile: Name or path.
        readonly: Refuse whatever would change the host.
        accept_key: Fingerprint of a new host's key that may be accepted.
        package_dirs: `--package` folders.
        say: Where narration goes.
        connect: Whether to bring the link up first.
    """
    if host != "local":
        raise UsageError(f"host {host!r}: not implemented yet")
    from console.remote.local import LocalTransport

    link = HostLink(LocalTransport())
    desk = Desk(link, readonly=readonly, package_dirs=package_dirs, say=say)
    if connect:
        await link.connect()
        desk.store.update(host=link.host, facts=link.facts, readonly=readonly)
    return desk
