"""The engines that are known, by the name that profiles use."""

from __future__ import annotations

from console.engines.openai.adapter import LlamaCpp, OpenAi
from console.engines.protocol import Engine
from console.engines.sglang.adapter import Sglang
from console.engines.vllm.adapter import Vllm
from console.errors import UsageError

ENGINES: dict[str, Engine] = {each.kind: each for each in (Sglang(), Vllm(), LlamaCpp(), OpenAi())}


def engine(kind: str) -> Engine:
    """Return the adapter of an engine; `UsageError` when there is none."""
    try:
        return ENGINES[kind or "sglang"]
    except KeyError:
        raise UsageError(f"engine {kind!r} is not known", hint=f"known: {', '.join(ENGINES)}") from None
