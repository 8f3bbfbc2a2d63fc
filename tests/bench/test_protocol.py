"""What comes before a measurement."""

from __future__ import annotations

import httpx
import pytest

from console.bench.protocol import flush


def client_of(status: int, text: str = "") -> httpx.AsyncClient:
    answer = httpx.MockTransport(lambda request: httpx.Response(status, text=text))
    return httpx.AsyncClient(transport=answer, base_url="http://engine")


@pytest.mark.parametrize(
    ("kind", "status", "done", "answer"),
    [
        ("sglang", 200, True, "HTTP 200: Cache flushed."),
        ("sglang", 404, False, "HTTP 404: Cache flushed."),
        (
            "vllm",
            404,
            False,
            "HTTP 404: Cache flushed.; vllm has it only with VLLM_SERVER_DEV_MODE=1 under [launch.env]",
        ),
        ("llamacpp", 200, False, "llamacpp has no call that empties it"),
    ],
)
async def test_a_flush_that_is_not_there_says_what_would_bring_it(
    kind: str, status: int, done: bool, answer: str
) -> None:
    async with client_of(status, "Cache flushed.") as client:
        told = await flush(client, kind)
    assert (told.done, told.answer) == (done, answer)
