"""What a run is measured under: nothing secret in it, caches told, the model's small files hashed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from console.domain.profile import LaunchSection, Profile, Secret
from console.operations.identity import model_folder
from console.operations.launching import shown_environment
from console.remote.link import HostLink
from console.remote.local import LocalTransport


def test_no_secret_is_kept_of_an_environment() -> None:
    env: dict[str, str | Secret] = {
        "OMP_NUM_THREADS": "1",
        "HF_TOKEN": Secret("env"),
        "MY_API_KEY": "abc",
        "X": "hf_" + "a" * 24,
    }
    told = shown_environment(Profile("p", launch=LaunchSection(env=env)))
    assert told == {"OMP_NUM_THREADS": "1", "HF_TOKEN": "", "MY_API_KEY": "", "X": ""}


def test_a_model_of_a_hub_has_no_folder() -> None:
    assert model_folder({"model_path": "Qwen/Qwen3"}) == "" and model_folder({"model": "/m"}) == "/m"


async def test_caches_tell_how_warm_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path / "nothing"))
    for name in ("a", "b", "c"):
        (tmp_path / "triton" / name).mkdir(parents=True)
    (tmp_path / "config.json").write_text("{}")
    link = HostLink(LocalTransport())
    await link.connect()
    try:
        told = (await link.call("cache_warmth", {})).result
        hashes = (await link.call("hash", {"paths": [str(tmp_path / "config.json"), str(tmp_path / "none")]})).result
    finally:
        await link.close()
    assert told["Triton cache"]["entries"] == 3 and told["Triton cache"]["changed"] > 0
    assert "FlashInfer cache" not in told
    assert hashes == {
        str(tmp_path / "config.json"): hashlib.sha256(b"{}").hexdigest(),
        str(tmp_path / "none"): None,
    }
