"""HTTP over the link's own sockets: an httpcore pool as a transport of httpx.

A module of its own, because its bases must not be imported before the first frame.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from console.errors import ConsoleError, RemoteError

if TYPE_CHECKING:
    from console.remote.channel import Socket
    from console.remote.link import HostLink

CONNECTIONS = 16
"""Sockets of one client; the console asks little, load is generated on the host."""

KEEPALIVE_S = 30.0
IPV4_LOOPBACK = "127.0.0.1"


class LinkStream(httpcore.AsyncNetworkStream):
    """A socket of the link as httpcore wants it."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes, at most `max_bytes`."""
        with _mapped(httpcore.ReadTimeout, httpcore.ReadError):
            async with asyncio.timeout(timeout):
                return await self._socket.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes."""
        with _mapped(httpcore.WriteTimeout, httpcore.WriteError):
            async with asyncio.timeout(timeout):
                if buffer:
                    await self._socket.write(buffer)

    async def aclose(self) -> None:
        """Close the socket."""
        with contextlib.suppress(ConsoleError, OSError):
            await self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        """Tell the pool whether an idle connection was hung up."""
        # The pool asks idle connections: readable while idle means that the server hung up.
        return self._socket.ended if info == "is_readable" else None


class LinkBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets through the link, whatever connection it stands on now."""

    def __init__(self, link: HostLink) -> None:
        self._link = link

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        """Open a stream from the host to one of its ports."""
        with _mapped(httpcore.ConnectTimeout, httpcore.ConnectError):
            async with asyncio.timeout(timeout):
                return LinkStream(await self._socket(host.strip("[]"), port))

    async def _socket(self, address: str, port: int) -> Socket:
        """Dial; this host's IPv6 loopback where nothing is at its IPv4 one: a uvicorn with `--host ::` is at that alone."""
        try:
            return await self._link.socket(address, port)
        except (RemoteError, ConnectionRefusedError):
            if address != IPV4_LOOPBACK:
                raise
            try:
                return await self._link.socket("::1", port)
            except (RemoteError, OSError):
                pass
            raise

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Body(httpx.AsyncByteStream):
    """The streamed body of a response."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for part in self._parts:
                yield part

    async def aclose(self) -> None:
        """Let the connection go back to the pool."""
        await self._parts.aclose()


class LinkTransport(httpx.AsyncBaseTransport):
    """An httpcore pool over the link."""

    def __init__(self, link: HostLink) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            max_connections=CONNECTIONS,
            keepalive_expiry=KEEPALIVE_S,
            network_backend=LinkBackend(link),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and return its answer, the body still to be read."""
        url = request.url
        wanted = httpcore.Request(
            method=request.method,
            url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = await self._pool.handle_async_request(wanted)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


@contextlib.contextmanager
def _mapped(late: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Turn a socket's faults into httpcore's."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except ConsoleError as error:
        raise failed(error.one_line()) from error
    except OSError as error:
        raise failed(str(error)) from error


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Turn httpcore's faults into httpx's, name by name."""
    try:
        yield
    except Exception as error:
        for kind in type(error).__mro__:
            if kind.__module__.startswith("httpcore") and hasattr(httpx, kind.__name__):
                raise getattr(httpx, kind.__name__)(str(error)) from error
        if isinstance(error, httpcore.ConnectionNotAvailable):
            raise httpx.ConnectError(str(error)) from error
        raise
