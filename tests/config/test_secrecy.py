"""One rule for what a secret is called, in profiles, command lines and what a run is measured under."""

from __future__ import annotations

import pytest

from console.config.commands.dialects import LLAMA_CPP, SGLANG, VLLM
from console.config.profiles import parse_profile
from console.config.secrecy import REDACTED, is_secret, is_secret_name, without_secret_words, without_secrets
from console.domain.profile import Secret
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


HF = "hf_" + "AbCd1234" * 4


def test_a_secret_is_known_wherever_it_stands_in_a_word() -> None:
    words = [
        "--json-model-override-args",
        f'{{"key":"{HF}"}}',
        f"https://user:{HF}@hub/m",
        "/models/sk-next-a3b-instruct-2507",
    ]
    shown = without_secret_words(words)
    assert HF not in " ".join(shown)
    assert shown[-1] == words[-1], "a model's folder opens no door"


@pytest.mark.parametrize(
    ("name", "value", "is_one"),
    [
        ("model-path", HF, True), ("api-key", ("alpha", "beta"), True), ("api-key", 1234, True), ("served", (HF, "b"), True),
        ("api-key", True, False), ("api-key", Secret("env", "KEY"), False), ("model-path", "m", False), ("token", None, False),
    ],
)  # fmt: skip
def test_name_or_looks_make_a_secret(name: str, value: object, is_one: bool) -> None:
    assert is_secret(name, value) is is_one


def test_the_text_of_a_profile_is_kept_without_any_of_its_secrets() -> None:
    text = (
        f'# export HF_TOKEN={HF}\n[launch.env]\nHF_TOKEN = "hunter2"\nPLAIN = "{HF}"\nDB_PASSWORD = "a\\"b\\\\c"\nTP = "8"\n'
        f'[launch.args]\napi-key = ["alpha7", "beta77"]\nmodel-path = "/models/m"\nextra = {{ key = "{HF}" }}\n'
    )
    kept = without_secrets(text, parse_profile(text, "p.toml"))
    assert not [one for one in (HF, "hunter2", 'a\\"b', "alpha7", "beta77") if one in kept]
    again = parse_profile(kept, "p.toml")
    assert (again.launch.env["TP"], again.launch.args["model-path"]) == ("8", "/models/m")


def test_every_flag_that_an_engine_takes_secrets_by_is_known() -> None:
    flags = [*sglang.SECRET_FLAGS, *VLLM.secret_variables, *LLAMA_CPP.secret_variables]
    assert [flag for flag in flags if not is_secret_name(flag)] == []


def test_launches_and_imports_spell_sglangs_flags_by_one_table() -> None:
    assert {name: SGLANG.canonical(name) for name in sglang.SHORT} == dict(sglang.SHORT)
