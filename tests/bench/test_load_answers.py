"""What one answer comes to, from its last events alone: the server's counts, its faults by name, never a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.bench.load.answers import Answer, finish, refusal
from console.bench.load.http import Events

DONE = b"data: [DONE]\n\n"
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(
            ["error", "choices", "usage", "meta_info", "finish_reason", "completion_tokens", "prompt_tokens_details", "type"]
        ), inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


def answered(*events: Any, end: bytes = DONE) -> Answer:
    taken = Events(lambda count, now: None)
    for place, event in enumerate(events):
        taken.take(b"data: " + json.dumps(event).encode() + b"\n\n", float(place))
    taken.take(end, float(len(events)))
    answer = Answer(0.0)
    finish(answer, taken)
    return answer


def token(reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"text": "a", "finish_reason": reason}]}


def counts(made: int, **more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": made, **more}}


def test_counts_are_the_servers_and_a_message_of_counts_is_no_token() -> None:
    cached = {"prompt_tokens_details": {"cached_tokens": 5}}
    answer = answered(token(), token("length"), counts(4, **cached))
    assert (answer.output_tokens, answer.input_tokens, answer.cached, answer.told) == (4, 7, 5, True)
    assert (answer.error, answer.reason, answer.stamps) == ("", "length", [0.0, 1.0])


@pytest.mark.parametrize(
    ("events", "end", "error"),
    [
        ([token("abort"), counts(1)], DONE, "the server aborted the request"),
        ([token("abort")], DONE, "the server aborted the request"),
        (
            [{"meta_info": {"completion_tokens": 1, "finish_reason": {"type": "abort", "message": "too long"}}}],
            DONE,
            "the server aborted the request: too long",
        ),
        ([token("length"), counts(0)], DONE, "the server counted no tokens in an answer that had some"),
        ([token("length"), counts(1)], b"", "the stream ended before its [DONE]"),
        ([token(), {"error": {"message": "out of\n memory"}}], DONE, "server: out of memory"),
        ([token(), {"error": "gone"}, counts(1)], DONE, "server: gone"),
        ([counts(3)], DONE, "the stream had no tokens"),
        ([7], DONE, "the stream ended without a readable last event"),
        ([], b"<html>hello\n there", "HTTP 200 without a stream: <html>hello there"),
        ([], b"", "HTTP 200 without a stream, an empty answer"),
    ],
)
def test_faults_have_names(events: list[Any], end: bytes, error: str) -> None:
    assert answered(*events, end=end).error == error


@given(st.lists(junk, min_size=1, max_size=3))
def test_no_event_is_a_crash(events: list[Any]) -> None:
    answer = answered(*events)
    assert answer.error or (answer.stamps and answer.output_tokens > 0)


@pytest.mark.parametrize(
    ("status", "headers", "body", "said"),
    [
        (401, {}, b'{"error": {"message": "no key", "code": 401}}', "HTTP 401: no key"),
        (404, {}, b'{"object": "error", "message": "no model x"}', "HTTP 404: no model x"),
        (429, {"retry-after": "30"}, b"slow\n down", "HTTP 429, to be tried again after 30: slow down"),
        (307, {"location": "http://b/v1"}, b"", "HTTP 307 to http://b/v1"),
        (503, {}, b"[1, 2]", "HTTP 503: [1, 2]"),
        (500, {}, b"\xff", "HTTP 500: \ufffd"),
    ],
)
def test_a_refusal_says_what_the_server_said(status: int, headers: dict[str, str], body: bytes, said: str) -> None:
    assert refusal(status, headers, body) == said
