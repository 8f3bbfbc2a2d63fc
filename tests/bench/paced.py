"""A pretend engine that paces every stream by a clock, for clients of any make: `paced.py TTFT_S ITL_S [SPREAD]`.

One clock serves all streams, so that a thousand of them cost about a core at 80,000 tokens a second; tokens that are
late are sent together, as a real engine's are, and the next ones are due when they were. It prints its port.
`GET /paced` tells its processor time, how late it was and what it served since it was asked last, as means over the
answers: a number that was made by this program is none of the client's. With a spread the first tokens of requests that come together come apart, by so much
of the time at most: one pause of the machine meets few of them. The n-th request after a rest waits as long as ever.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

MODEL = "tiny"
HELD_BYTES = 262_144
"""A stream whose client is so far behind waits."""

WORD = " a"
"""One token however often it comes, in the tiny model's vocabulary and in usual ones: some clients count what they read."""

LEAST_TICK_S = 0.002
PLACES, STRIDE = 16, 7
"""First tokens are spread over so many places, neighbours far apart; as many requests have the mean of no spread."""


def chunk(payload: bytes) -> bytes:
    """Return an event as a chunk of HTTP."""
    data = b"data: " + payload + b"\n\n"
    return b"%x\r\n" % len(data) + data + b"\r\n"


def _completion(reason: str | None, chat: bool, word: str = WORD) -> bytes:
    says = {"delta": {"role": "assistant", "content": word}} if chat else {"text": word}
    kind = "chat.completion.chunk" if chat else "text_completion"
    choice = {"index": 0, **says, "logprobs": None, "finish_reason": reason}
    told = {"id": "cmpl-0", "object": kind, "created": 1_760_000_000, "model": MODEL, "choices": [choice]}
    return json.dumps(told, separators=(",", ":")).encode()


MIDDLE = {chat: chunk(_completion(None, chat)) for chat in (False, True)}
LAST = {chat: chunk(_completion("length", chat)) for chat in (False, True)}


@dataclass(slots=True, eq=False)
class Stream:
    """One answer under way."""

    transport: asyncio.Transport
    kind: str
    prompt: int
    count: int
    due: float
    """When its first token is."""
    usage: bool
    came_at: float = field(default_factory=time.perf_counter)
    first_at: float = 0.0
    sent: int = 0

    def events(self, upto: int) -> bytes:
        """Return the events up to a token, and the end after the last."""
        first, self.sent = self.sent, upto
        if self.kind == "generate":
            body = b"".join(chunk(self._native(place)) for place in range(first + 1, upto + 1))
        else:
            chat = self.kind == "chat"
            body = MIDDLE[chat] * (upto - first - (upto == self.count))
            if upto == self.count:
                body += LAST[chat]
                if self.usage:
                    body += chunk(self._usage(chat))
        return body + (chunk(b"[DONE]") + b"0\r\n\r\n" if upto == self.count else b"")

    def _native(self, place: int) -> bytes:
        reason = {"type": "length", "length": self.count} if place == self.count else None
        meta = {"prompt_tokens": self.prompt, "completion_tokens": place, "cached_tokens": 0, "finish_reason": reason}
        return json.dumps({"text": WORD * place, "meta_info": meta}, separators=(",", ":")).encode()

    def _usage(self, chat: bool) -> bytes:
        told = json.loads(_completion(None, chat))
        counts = {"prompt_tokens": self.prompt, "completion_tokens": self.count}
        usage = {**counts, "total_tokens": self.prompt + self.count, "prompt_tokens_details": {"cached_tokens": 0}}
        return json.dumps({**told, "choices": [], "usage": usage}, separators=(",", ":")).encode()


@dataclass(slots=True)
class Clock:
    """All streams, and when their tokens are due."""

    ttft_s: float
    itl_s: float
    spread: float = 0.0
    streams: set[Stream] = field(default_factory=set)
    late_s: float = 0.0
    """The longest that the clock itself was late."""
    asked: int = 0
    """Since there was no stream."""
    served: list[tuple[float, float]] = field(default_factory=list)
    """Of the answers: from request to first token, and the mean gap between tokens."""

    def due(self) -> float:
        """Return when the first token of a request that has just come is due."""
        self.asked = self.asked + 1 if self.streams else 0
        part = (self.asked * STRIDE % PLACES + 0.5) / PLACES - 0.5
        return time.perf_counter() + self.ttft_s * (1 + self.spread * part)

    async def run(self) -> None:
        """Send what is due, tick by tick."""
        tick = max(LEAST_TICK_S, min(self.itl_s / 8, 0.002) if self.itl_s > 0.016 else self.itl_s / 2)
        due = time.perf_counter()
        while True:
            due = max(due + tick, time.perf_counter() - tick)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.late_s = max(self.late_s, time.perf_counter() - due)
            for stream in [*self.streams]:
                self._serve(stream, time.perf_counter())

    def _serve(self, stream: Stream, now: float) -> None:
        if stream.transport.is_closing():
            self.streams.discard(stream)
            return
        waited = now - stream.due
        if waited < 0 or stream.transport.get_write_buffer_size() > HELD_BYTES:
            return
        upto = stream.count if not self.itl_s else min(stream.count, 1 + int(waited / self.itl_s))
        if upto > stream.sent:
            stream.first_at = stream.first_at or now
            stream.transport.write(stream.events(upto))
            if upto == stream.count:
                self.streams.discard(stream)
                gap_s = (now - stream.first_at) / max(1, stream.count - 1)
                self.served.append((stream.first_at - stream.came_at, gap_s))


class Door(asyncio.Protocol):
    """One connection: requests in, streams out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").lower().split("\r\n")
            size = next((int(line[15:]) for line in lines if line.startswith("content-length:")), 0)
            if len(rest) < size:
                return
            self._buffer = rest[size:]
            self._answer(lines[0].split(" ")[1], rest[:size])

    def _answer(self, path: str, body: bytes) -> None:
        assert self._transport is not None
        kind = {"/generate": "generate", "/v1/completions": "completions", "/v1/chat/completions": "chat"}.get(path)
        if kind is None:
            self._transport.write(_plain(json.dumps(self._told(path)).encode()))
            return
        asked = json.loads(body)
        stream = self._stream(kind, asked)
        if asked.get("stream"):
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            self._transport.write(head)
            self._clock.streams.add(stream)
        else:
            stream.sent = stream.count
            self._transport.write(_plain(_completion("length", kind == "chat", WORD * stream.count)))

    def _stream(self, kind: str, asked: dict[str, Any]) -> Stream:
        assert self._transport is not None
        sampling = asked.get("sampling_params") or {}
        limits = (asked.get("max_completion_tokens"), asked.get("max_tokens"), sampling.get("max_new_tokens"))
        given = asked.get("input_ids") or asked.get("prompt") or asked.get("text") or asked.get("messages")
        if asked.get("messages"):
            given = " ".join(str(message["content"]) for message in asked["messages"])
        prompt = len(given) if isinstance(given, list) else len(str(given).split())
        count = next((limit for limit in limits if limit), 16)
        usage = bool((asked.get("stream_options") or {}).get("include_usage"))
        return Stream(self._transport, kind, prompt, count, self._clock.due(), usage)

    def _told(self, path: str) -> object:
        if path == "/paced":
            clock = self._clock
            late_s, clock.late_s = clock.late_s, 0.0
            served, clock.served = clock.served, []
            ttft_s, itl_s = (sum(times) / len(served) for times in zip(*served, strict=True)) if served else (0.0, 0.0)
            told = {"processor_s": time.process_time(), "late_s": late_s, "answers": len(served)}
            return {**told, "ttft_s": ttft_s, "itl_s": itl_s}
        if path == "/v1/models":
            return {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 4096, "root": MODEL}]}
        return {"model_path": MODEL, "served_model_name": MODEL, "internal_states": [{}]}


def _plain(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


async def main(ttft_s: float, itl_s: float, spread: float = 0.0) -> None:
    """Serve until ended."""
    clock = Clock(ttft_s, itl_s, spread)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Door(clock), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await clock.run()


if __name__ == "__main__":
    asyncio.run(main(*map(float, sys.argv[1:])))
