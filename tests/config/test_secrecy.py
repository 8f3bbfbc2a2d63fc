"""One rule for what a secret is called, in profiles, command lines and what a run is measured under."""

from __future__ import annotations

import pytest

from console.config.commands.dialects import LLAMA_CPP, SGLANG, VLLM
from console.config.secrecy import REDACTED, is_secret_name, without_secret_words
from console.engines.sglang import command as sglang


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "hf-token", "token", "auth-token", "--api-key", "api_key", "OPENAI_API_KEY",
        "VLLM_API_KEY", "admin-api-key", "ssl_keyfile_password", "ssl-keyfile-password", "DB_PASSWD", "key_passphrase",
        "AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET", "private-key", "APIKEY", "bearer_token", "PROXY_AUTH",
    ],
)  # fmt: skip
def test_what_opens_a_door_is_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "max-total-tokens", "tokenizer-path", "tokenizer", "tokenizer_mode", "num-speculative-tokens", "eos_token", "pad-token",
        "max_num_batched_tokens", "keyfile", "ssl-keyfile", "kv-cache-dtype", "skip-tokenizer-init", "author", "monkey",
        "energy_j_per_token", "speculative-eagle-topk", "NCCL_P2P_LEVEL",
    ],
)  # fmt: skip
def test_what_only_sounds_like_one_is_none(name: str) -> None:
    assert not is_secret_name(name)


def test_a_flag_that_takes_several_keys_hides_all_of_them() -> None:
    shown = without_secret_words(["serve", "--api-key", "alpha", "beta", "--port", "1", "HF_TOKEN=x", "m"])
    assert shown == ("serve", "--api-key", REDACTED, REDACTED, "--port", "1", f"HF_TOKEN={REDACTED}", "m")


def test_every_flag_that_an_engine_takes_secrets_by_is_known() -> None:
    flags = [*sglang.SECRET_FLAGS, *VLLM.secret_variables, *LLAMA_CPP.secret_variables]
    assert [flag for flag in flags if not is_secret_name(flag)] == []


def test_launches_and_imports_spell_sglangs_flags_by_one_table() -> None:
    assert {name: SGLANG.canonical(name) for name in sglang.SHORT} == dict(sglang.SHORT)
