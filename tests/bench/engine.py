"""A pretend engine for load tests: real HTTP, real server-sent events, faults by name.

`python tests/bench/engine.py PORT [PACE_S]` runs it as a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Engine:
    """What it was asked, and how it shall behave."""

    pace_s: float = 0.0
    """Pause between tokens."""
    fault: str = ""
    """`refuse` (503), `cut` (hangs up in mid-stream), `error` (an error event), `short` (half the tokens),
    `silent` (no usage), `hang` (never answers)."""
    faulty: int = 0
    """How many requests meet the fault; the rest are served."""
    spared: int = 0
    """How many requests are served before the fault begins."""
    cached_tokens: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    open: int = 0
    peak: int = 0
    dropped: int = 0
    """Requests whose client went away."""
    flushed: int = 0
    port: int = 0
    aborted: list[str] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    """When each request came, `time.perf_counter`."""

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> asyncio.Server:
        server = await asyncio.start_server(self._serve, host, port, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = next(
                    (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0
                )
                body = await reader.readexactly(size)
                method, path, _ = head.split(" ", 2)
                if not await self._answer(method, path, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes, writer: asyncio.StreamWriter) -> bool:
        if method == "POST" and path in ("/generate", "/v1/completions", "/v1/chat/completions"):
            self.arrived.append(time.perf_counter())
            return await self._stream(path, json.loads(body), writer)
        answers: dict[str, Any] = {
            "/get_load": [{"dp_rank": 0, "num_reqs": self.open, "num_waiting_reqs": 0, "num_tokens": 0}],
            "/v1/models": {"data": [{"id": "pretend"}]},
            "/server_info": {"version": "0.5.9", "internal_states": [{"last_gen_throughput": 0.0}]},
        }
        if path == "/abort_request":
            self.aborted.append(json.loads(body)["rid"])
            _plain(writer, 200, b"")
        elif path == "/flush_cache":
            self.flushed += 1
            _plain(writer, 200, b"Cache flushed.")
        elif path in answers:
            _plain(writer, 200, json.dumps(answers[path]).encode())
        else:
            _plain(writer, 404, b'{"detail":"Not Found"}')
        await writer.drain()
        return True

    async def _stream(self, path: str, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        self.asked.append(asked)
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            self.spared -= 1
            fault = self.fault if self.faulty > 0 and self.spared < 0 else ""
            self.faulty -= bool(fault)
            return await self._tokens(path, asked, fault, writer)
        except ConnectionError:
            self.dropped += 1
            return False
        finally:
            self.open -= 1

    async def _tokens(self, path: str, asked: dict[str, Any], fault: str, writer: asyncio.StreamWriter) -> bool:
        if fault == "refuse":
            _plain(writer, 503, b"The queue is full.")
            await writer.drain()
            return True
        native = path == "/generate"
        count = asked["sampling_params"]["max_new_tokens"] if native else asked["max_tokens"]
        prompt = len(asked["input_ids"] if native else asked.get("prompt") or asked["messages"][0]["content"].split())
        if fault == "short":
            count //= 2
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        while fault == "hang":
            await asyncio.sleep(0.05)
            if writer.is_closing():
                raise ConnectionResetError
        for place in range(1, count + 1):
            if fault == "cut" and place == 3:
                return False
            if fault == "error" and place == 3:
                _event(writer, b'{"error": {"message": "CUDA error: out of luck"}}')
                break
            _event(writer, self._native(place, count, prompt, fault) if native else self._completion(place, count))
            if self.pace_s:
                await asyncio.sleep(self.pace_s)
            if self.pace_s or place % 64 == 0:
                await writer.drain()
            if writer.is_closing():
                raise ConnectionResetError
        if not native and fault != "silent":
            usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": count}
            if self.cached_tokens:
                usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
            _event(writer, json.dumps({"choices": [], "usage": usage}).encode())
        _event(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _native(self, place: int, count: int, prompt: int, fault: str) -> bytes:
        meta: dict[str, Any] = {"finish_reason": {"type": "length", "length": count} if place == count else None}
        if fault != "silent":
            meta |= {"prompt_tokens": prompt, "completion_tokens": place, "cached_tokens": self.cached_tokens}
        return json.dumps({"text": "ke", "meta_info": meta}).encode()

    def _completion(self, place: int, count: int) -> bytes:
        reason = "length" if place == count else None
        return json.dumps({"choices": [{"index": 0, "text": "ke", "finish_reason": reason}]}).encode()


def _plain(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body)


def _event(writer: asyncio.StreamWriter, payload: bytes) -> None:
    data = b"data: " + payload + b"\n\n"
    writer.write(b"%x\r\n" % len(data) + data + b"\r\n")


async def _forever() -> None:
    engine = Engine(pace_s=float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
    server = await engine.start(int(sys.argv[1]))
    print(engine.port, flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_forever())
