"""Which token ids a prompt may be made of: what every vocabulary has, or what this one has."""

from __future__ import annotations

from collections.abc import Mapping

USUAL = (1000, 9000)
"""Ids (the end excluded) where the size of the vocabulary is not told.

Above the control tokens, of which some tokenizers have a thousand, and inside the vocabulary of every
model that is worth serving.
"""


def size_in(config: Mapping[str, object]) -> int | None:
    """Return the vocabulary size of a model's `config.json`; models of several kinds of input keep it deeper."""
    for part in (config, config.get("text_config"), config.get("llm_config"), config.get("language_config")):
        if isinstance(part, Mapping) and isinstance(size := part.get("vocab_size"), int) and size > 0:
            return size
    return None


def size_told(models: object) -> int | None:
    """Return the vocabulary size in a reply of `/v1/models`; llama.cpp's server alone tells it."""
    entries = models.get("data") if isinstance(models, Mapping) else None
    meta = entries[0].get("meta") if isinstance(entries, list) and entries and isinstance(entries[0], Mapping) else None
    size = meta.get("n_vocab") if isinstance(meta, Mapping) else None
    return size if isinstance(size, int) and size > 0 else None


def token_range(size: int | None) -> tuple[int, int]:
    """Return the ids that prompts are drawn from: the upper three quarters of a small vocabulary."""
    if size is None or size >= USUAL[1]:
        return USUAL
    return size // 4, size
