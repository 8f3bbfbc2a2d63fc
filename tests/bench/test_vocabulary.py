"""Prompts must be made of ids that the served model has."""

from __future__ import annotations

import pytest

from console.bench.vocabulary import USUAL, size_in, size_told, token_range


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"vocab_size": 151_936}, 151_936),
        ({"text_config": {"vocab_size": 1024}, "vision_config": {"vocab_size": 7}}, 1024),
        ({"vocab_size": "many"}, None),
        ({"text_config": None}, None),
        ({}, None),
    ],
)
def test_the_size_is_found_where_models_keep_it(config: dict[str, object], size: int | None) -> None:
    assert size_in(config) == size


def test_a_small_vocabulary_bounds_the_ids() -> None:
    assert token_range(1024) == (256, 1024)
    assert token_range(4) == (1, 4)
    assert token_range(None) == token_range(32_000) == token_range(9000) == USUAL


@pytest.mark.parametrize(
    ("reply", "size"),
    [
        ({"object": "list", "data": [{"id": "tiny", "meta": {"n_vocab": 1024, "n_ctx": 512}}]}, 1024),
        ({"data": [{"id": "tiny", "meta": None}]}, None),
        ({"data": [{"id": "tiny", "max_model_len": 2048}]}, None),
        ({"data": []}, None),
        ([], None),
    ],
)
def test_a_server_may_tell_it_itself(reply: object, size: int | None) -> None:
    assert size_told(reply) == size
