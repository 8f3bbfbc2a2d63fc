"""What is asked: seeded prompts of an exact length, and how each API's answer is read."""

from __future__ import annotations

import json
import random
from typing import Any, Dict, List, Optional, Tuple

from .http import Events


class Plan:
    """What to ask, read from the JSON line that the console sent."""

    def __init__(self, said: Dict[str, Any]) -> None:
        self.host = str(said.get("host", "127.0.0.1"))
        self.port = int(said["port"])
        self.api = str(said.get("api", "generate"))
        self.model = str(said.get("model", ""))
        self.concurrency = int(said["concurrency"])
        self.requests = int(said["requests"])
        self.warmup = int(said.get("warmup", 0))
        self.input_tokens = int(said["input_tokens"])
        self.output_tokens = int(said["output_tokens"])
        self.seed = int(said.get("seed", 0))
        low, high = said.get("token_range") or (1000, 9000)
        self.tokens = range(int(low), int(high))
        self.timeout_s = float(said.get("timeout_s", 600))
        self.headers: Dict[str, str] = dict(said.get("headers") or {})

    @property
    def path(self) -> str:
        """Return the path that is asked."""
        return "/generate" if self.api == "generate" else "/v1/completions"

    def prompt(self, number: int) -> List[int]:
        """Return the token ids of one request: the same for the same seed, different for each number."""
        source = random.Random("%d/%d" % (self.seed, number))
        return source.choices(self.tokens, k=self.input_tokens)

    def request(self, number: int) -> bytes:
        """Return the whole HTTP request of one number."""
        body = json.dumps(self._body(number), separators=(",", ":")).encode()
        lines = [
            "POST %s HTTP/1.1" % self.path,
            "Host: %s:%d" % (self.host, self.port),
            "Content-Type: application/json",
            "Accept: text/event-stream",
            "Content-Length: %d" % len(body),
        ]
        lines += ["%s: %s" % (name, value) for name, value in self.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def _body(self, number: int) -> Dict[str, Any]:
        if self.api == "generate":
            sampling = {"max_new_tokens": self.output_tokens, "temperature": 0.0, "ignore_eos": True}
            return {"input_ids": self.prompt(number), "sampling_params": sampling, "stream": True}
        return {
            "model": self.model,
            "prompt": self.prompt(number),
            "max_tokens": self.output_tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


class Answer:
    """What one request came to."""

    __slots__ = ("cached", "error", "input_tokens", "output_tokens", "sent_at", "stamps", "told")

    def __init__(self, sent_at: float) -> None:
        self.sent_at = sent_at
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
