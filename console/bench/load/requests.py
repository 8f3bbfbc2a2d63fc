"""What is asked: seeded prompts of an exact length, and how each API's answer is read."""

from __future__ import annotations

import json
import os
import random
from typing import Any, Dict, List, Optional, Tuple

from .http import Events

PATHS = {"generate": "/generate", "completions": "/v1/completions", "chat": "/v1/chat/completions"}

WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand"
    " part place case week company system program question work number night point home water room mother area money"
    " story fact month lot right study book eye job word business issue side kind head house service friend father power"
    " hour game line end member law car city name team minute idea body back parent face level office door health person"
    " art war history party result change morning reason research girl guy moment air teacher force education"
).split()
"""Common words, nearly all of which are one token in the usual vocabularies."""


class Plan:
    """What to ask, read from the JSON line that the console sent."""

    def __init__(self, said: Dict[str, Any]) -> None:
        self.host = str(said.get("host", "127.0.0.1"))
        self.port = int(said["port"])
        self.api = str(said.get("api", "generate"))
        if self.api not in PATHS:
            raise ValueError("no such API: %s" % self.api)
        self.model = str(said.get("model", ""))
        self.concurrency = int(said["concurrency"])
        self.requests = int(said["requests"])
        self.warmup = int(said.get("warmup", 0))
        self.input_tokens = int(said["input_tokens"])
        self.output_tokens = int(said["output_tokens"])
        self.input_spread = float(said.get("input_spread", 0.0))
        self.output_spread = float(said.get("output_spread", 0.0))
        """Share of the length by which a request may be shorter, uniformly."""
        self.ignore_eos = bool(said.get("ignore_eos", True))
        self.rate = float(said.get("rate") or 0.0)
        """Requests a second of an open loop; 0 is a closed one."""
        self.arrival = str(said.get("arrival", "poisson"))
        self.burst = max(1, int(said.get("burst", 1)))
        self.seed = int(said.get("seed", 0))
        self.mark = "tokwatt-%s" % os.urandom(6).hex()
        """Begins the id of each request, so that those of this load alone can be aborted."""
        low, high = said.get("token_range") or (1000, 9000)
        self.tokens = range(int(low), int(high))
        self.timeout_s = float(said.get("timeout_s", 600))
        self.headers: Dict[str, str] = dict(said.get("headers") or {})

    @property
    def path(self) -> str:
        """Return the path that is asked."""
        return PATHS[self.api]

    def lengths(self, number: int) -> Tuple[int, int]:
        """Return how many tokens one request sends and asks for: the same for the same seed."""
        source = random.Random("%d/%d lengths" % (self.seed, number))
        shares = (source.random() * self.input_spread, source.random() * self.output_spread)
        return (
            max(1, round(self.input_tokens * (1.0 - shares[0]))),
            max(1, round(self.output_tokens * (1.0 - shares[1]))),
        )

    def prompt(self, number: int) -> List[int]:
        """Return the token ids of one request: the same for the same seed, different for each number."""
        source = random.Random("%d/%d" % (self.seed, number))
        return source.choices(self.tokens, k=self.lengths(number)[0])

    def words(self, number: int) -> str:
        """Return a prompt of about the asked length for an API that takes no token ids."""
        source = random.Random("%d/%d" % (self.seed, number))
        return " ".join(source.choices(WORDS, k=self.lengths(number)[0]))

    def rid(self, number: int) -> str:
        """Return the id of one request."""
        return "%s-%d" % (self.mark, number)

    def arrivals(self, count: int) -> List[float]:
        """Return when each request of an open loop is due, in seconds after the start, the first at 0."""
        source = random.Random("%d arrivals" % self.seed)
        due, times = 0.0, []
        for number in range(count):
            times.append(due)
            if self.arrival == "poisson":
                due += source.expovariate(self.rate)
            elif self.arrival == "constant":
                due += 1.0 / self.rate
            elif (number + 1) % self.burst == 0:
                due += self.burst / self.rate
        return times

    def request(self, number: int) -> bytes:
        """Return the whole HTTP request of one number."""
        body = json.dumps(self._body(number), separators=(",", ":")).encode()
        return self.head(self.path, len(body)) + body

    def head(self, path: str, size: int) -> bytes:
        """Return the head of a request with a JSON body of `size` bytes."""
        lines = [
            "POST %s HTTP/1.1" % path,
            "Host: %s:%d" % (self.host, self.port),
            "Content-Type: application/json",
            "Accept: text/event-stream",
            "Content-Length: %d" % size,
        ]
        lines += ["%s: %s" % (name, value) for name, value in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def _body(self, number: int) -> Dict[str, Any]:
        length = self.lengths(number)[1]
        if self.api == "generate":
            sampling = {"max_new_tokens": length, "temperature": 0.0, "ignore_eos": self.ignore_eos}
            asked = {"input_ids": self.prompt(number), "rid": self.rid(number)}
            return {**asked, "sampling_params": sampling, "stream": True}
        asked = {"messages": [{"role": "user", "content": self.words(number)}]} if self.api == "chat" else {}
        return {
            "model": self.model,
            **(asked or {"prompt": self.prompt(number)}),
            "max_tokens": length,
            "temperature": 0.0,
            "ignore_eos": self.ignore_eos,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


class Answer:
    """What one request came to."""

    __slots__ = ("asked", "cached", "due_at", "error", "input_tokens", "output_tokens", "sent_at", "stamps", "told")

    def __init__(self, sent_at: float) -> None:
        self.sent_at = sent_at
        self.due_at = sent_at
        """When it should have been sent."""
        self.asked = 0
        """How many output tokens were asked for."""
        self.stamps: List[float] = []
        self.output_tokens = 0
        self.input_tokens: Optional[int] = None
        self.cached: Optional[int] = None
        self.told = False
        """Whether the server told the token counts."""
        self.error = ""


def finish(answer: Answer, events: Events) -> None:
    """Read counts and faults from the last events of an answer."""
    answer.stamps = events.stamps
    try:
        last = json.loads(events.last) if events.last else None
    except ValueError:
        last = None
    if not isinstance(last, dict):
        answer.error = "the stream ended without a readable last event"
        return
    if last.get("error"):
        answer.error = "server: %s" % _words(last["error"])
        return
    usage = _usage(last)
    if "choices" in last and not last["choices"]:
        answer.stamps = events.stamps[:-1]  # a message of counts only is no token
    if usage is None:
        answer.output_tokens = len(answer.stamps)
    else:
        answer.told = True
        answer.output_tokens, answer.input_tokens, answer.cached = usage
    reason = _finish_reason(last)
    if reason == "abort":
        answer.error = "the server aborted the request"
    elif not answer.stamps:
        answer.error = "the stream had no tokens"
    elif not events.done:
        answer.error = "the stream ended before its [DONE]"


def _usage(last: Dict[str, Any]) -> Optional[Tuple[int, Optional[int], Optional[int]]]:
    meta = last.get("meta_info")
    if isinstance(meta, dict) and isinstance(meta.get("completion_tokens"), int):
        return meta["completion_tokens"], meta.get("prompt_tokens"), meta.get("cached_tokens")
    usage = last.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
        details = usage.get("prompt_tokens_details") or {}
        return usage["completion_tokens"], usage.get("prompt_tokens"), details.get("cached_tokens")
    return None


def _finish_reason(last: Dict[str, Any]) -> str:
    meta = last.get("meta_info")
    reason = meta.get("finish_reason") if isinstance(meta, dict) else None
    if reason is None and last.get("choices"):
        reason = last["choices"][0].get("finish_reason")
    return str(reason.get("type", "")) if isinstance(reason, dict) else str(reason or "")


def _words(error: Any) -> str:
    text = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(text).split())[:200]
