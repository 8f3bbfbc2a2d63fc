"""What is asked: seeded prompts of an exact length, as each API wants them."""

from __future__ import annotations

import json
import os
import random
from typing import Any, Dict, List, Tuple

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
    def place(self) -> str:
        """Return host and port as an address has them."""
        return ("[%s]:%d" if ":" in self.host else "%s:%d") % (self.host, self.port)

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
            "Host: %s" % self.place,
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
