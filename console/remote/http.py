"""HTTP to an engine on the host, through the link and without a local port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from console.errors import ConnectError, RemoteError

if TYPE_CHECKING:
    import httpx

    from console.remote.link import HostLink


def http_client(
    link: HostLink,
    port: int,
    *,
    address: str = "127.0.0.1",
    timeout_s: float = 5.0,
    auth: Callable[[httpx.Request], httpx.Request] | None = None,
) -> httpx.AsyncClient:
    """Return an HTTP client whose connections start on the host.

    Paths are relative to `http://ADDRESS:PORT`. Proxies and certificates of the console's
    environment are not used. Faults are httpx's own (`ConnectError`, `ReadTimeout`, …); a link
    that is down is a `ConnectError`.

    Args:
        link: The host to speak from.
        port: TCP port there.
        address: Address to dial, as the host sees it.
        timeout_s: For connecting, reading and writing, each.
        auth: Gives each request what the server wants to see.
    """
    import httpx

    from console.remote.http_transport import LinkTransport

    shown = f"[{address}]" if ":" in address else address
    return httpx.AsyncClient(
        base_url=f"http://{shown}:{port}",
        transport=LinkTransport(link),
        timeout=timeout_s,
        auth=auth,
        trust_env=False,
        follow_redirects=False,
    )


async def must_be_linked(link: HostLink, fault: BaseException) -> None:
    """Raise `LinkLostError` where a fault is the link's, and not that of the server at its other end."""
    seen: BaseException | None = fault
    while seen is not None:
        if isinstance(seen, ConnectError):
            raise seen
        seen = seen.__cause__ or seen.__context__
    with contextlib.suppress(RemoteError):  # a stream that ended may be the first sign of a link that did
        await link.call("ping")
