"""Asking a server the fixed prompts, greedily: whether what it serves is still text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from console.domain.run import Run
from console.errors import ConsoleError
from console.experiments.answers import PROMPTS, TOKENS
from console.operations.desk import Desk
from console.operations.keys import auth_of
from console.remote.http import http_client, must_be_linked

if TYPE_CHECKING:
    import httpx

PATH = "/v1/completions"
PATIENCE_S = 180.0
"""The first answer of a fresh server may compile kernels."""


async def ask(desk: Desk, run: Run) -> tuple[str, ...] | None:
    """Return the answer to each prompt; `None` where the engine has no completions.

    Raises:
        ConsoleError: The server does not answer, or answers with a fault.
    """
    import httpx

    async with http_client(desk.link, run.port, timeout_s=PATIENCE_S, auth=auth_of(desk, run)) as client:
        try:
            model = await _model(client)
            replies = await asyncio.gather(*(_one(client, prompt, model) for prompt in PROMPTS))
        except httpx.HTTPError as error:
            await must_be_linked(desk.link, error)
            raise ConsoleError(
                f"run {run.id}: no answer to a test prompt", str(error) or type(error).__name__
            ) from error
    if all(status in (404, 405) for status, _ in replies):
        return None
    for prompt, (status, text) in zip(PROMPTS, replies, strict=True):
        if status != 200:
            raise ConsoleError(f"run {run.id}: HTTP {status} to the test prompt {prompt.strip()!r}", text[:200])
    return tuple(text for _, text in replies)


async def _model(client: httpx.AsyncClient) -> str:
    reply = await client.get("/v1/models")
    try:
        return str(reply.json()["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        return "default"


async def _one(client: httpx.AsyncClient, prompt: str, model: str) -> tuple[int, str]:
    asked: dict[str, Any] = {"model": model, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "stream": False}
    reply = await client.post(PATH, json=asked)
    if reply.status_code != 200:
        return reply.status_code, reply.text
    try:
        return 200, str(reply.json()["choices"][0]["text"])
    except (ValueError, LookupError, TypeError):
        return 0, reply.text
