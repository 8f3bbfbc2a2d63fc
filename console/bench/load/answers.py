"""What became of one request, read from the last events of its answer: counts of the server's, faults by name."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from .http import Events

WORDS_KEPT = 200


class Answer:
    """What one request came to."""

    __slots__ = (
        "asked", "cached", "due_at", "error", "input_tokens", "output_tokens", "reason", "sent_at", "stamps", "told",
    )  # fmt: skip

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
        self.reason = ""
        """Why it ended, in the server's word: `length`, `stop`."""
        self.error = ""


def finish(answer: Answer, events: Events) -> None:
    """Read counts and faults from the last events of an answer, whatever they hold."""
    answer.stamps = events.stamps
    if not events.stamps:
        said = shortened(events.unread)
        answer.error = "HTTP 200 without a stream%s" % (": %s" % said if said else ", an empty answer")
        return
    last = _read(events.error or events.last)
    if last is None:
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
    answer.reason, why = _end(last)
    if not answer.reason:  # the counts come in a message of their own, behind the one that ends the text
        answer.reason, why = _end(_read(events.before_last) or {})
    if answer.reason == "abort":
        answer.error = "the server aborted the request" + (": %s" % why if why else "")
    elif not answer.stamps:
        answer.error = "the stream had no tokens"
    elif answer.output_tokens < 1:
        answer.error = "the server counted no tokens in an answer that had some"
    elif not events.done:
        answer.error = "the stream ended before its [DONE]"


def refusal(status: int, headers: Dict[str, str], body: bytes) -> str:
    """Return what a server said that answered with another status than 200."""
    told = "HTTP %d" % status
    if headers.get("location"):
        told += " to %s" % headers["location"][:WORDS_KEPT]
    if headers.get("retry-after"):
        told += ", to be tried again after %s" % headers["retry-after"][:40]
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if isinstance(said, dict) and (said.get("error") or said.get("message")):
        text = _words(said.get("error") or said)
    else:
        text = shortened(body)
    return "%s: %s" % (told, text) if text else told


def shortened(body: bytes) -> str:
    """Return the beginning of a body as one line."""
    return " ".join(body.decode("utf-8", "replace").split())[:WORDS_KEPT]


def _read(event: bytes) -> Optional[Dict[str, Any]]:
    try:
        said = json.loads(event)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _usage(last: Dict[str, Any]) -> Optional[Tuple[int, Optional[int], Optional[int]]]:
    meta = _part(last, "meta_info")
    if (made := _count(meta, "completion_tokens")) is not None:
        return made, _count(meta, "prompt_tokens"), _count(meta, "cached_tokens")
    usage = _part(last, "usage")
    if (made := _count(usage, "completion_tokens")) is not None:
        return made, _count(usage, "prompt_tokens"), _count(_part(usage, "prompt_tokens_details"), "cached_tokens")
    return None


def _part(of: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _count(of: Dict[str, Any], name: str) -> Optional[int]:
    found = of.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _end(event: Dict[str, Any]) -> Tuple[str, str]:
    """Return why an answer ended by one of its events, and the server's words to it."""
    reason = _part(event, "meta_info").get("finish_reason")
    choices = event.get("choices")
    if reason is None and isinstance(choices, list) and choices and isinstance(choices[0], dict):
        reason = choices[0].get("finish_reason")
    if isinstance(reason, dict):
        return str(reason.get("type") or ""), " ".join(str(reason.get("message") or "").split())[:WORDS_KEPT]
    return str(reason or ""), ""


def _words(error: Any) -> str:
    text = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(text).split())[:WORDS_KEPT]
