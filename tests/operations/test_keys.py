"""Which key goes to which server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from console.domain.profile import EngineSection, LaunchSection, Profile, Secret
from console.domain.run import Run
from console.operations.desk import Desk
from console.operations.keys import auth_of, headers_of

RUN = Run(id="1", profile="p", engine="sglang", folder="", log="", port=30000, started_at=0.0, argv=())


def desk_of(kind: str, args: dict[str, Any] | None = None, env: dict[str, str | Secret] | None = None) -> Desk:
    launch = LaunchSection(args={}, env=env or {}, secret_args=args or {})
    return Desk(None, profile=Profile("p", engine=EngineSection(kind), launch=launch))  # type: ignore[arg-type]


def key_of(desk: Desk, run: Run, path: str = "/v1/models") -> str | None:
    auth = auth_of(desk, run)
    return auth(httpx.Request("GET", f"http://h{path}")).headers["authorization"] if auth else None


def run_of(kind: str, **changes: Any) -> Run:
    told = {name: getattr(RUN, name) for name in ("id", "profile", "folder", "log", "port", "started_at", "argv")}
    return Run(**{**told, "engine": kind, **changes})


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "k1")
    monkeypatch.setenv("BOSS", "k2")
    monkeypatch.delenv("GONE", raising=False)


@pytest.mark.parametrize(
    ("kind", "args", "env", "key"),
    [
        ("sglang", {"api-key": Secret("env", "KEY")}, {}, "k1"),
        ("vllm", {}, {"VLLM_API_KEY": Secret("env", "KEY")}, "k1"),
        ("vllm", {}, {"VLLM_API_KEY": "plain"}, "plain"),
        ("llamacpp", {}, {"LLAMA_API_KEY": Secret("env", "KEY")}, "k1"),
        ("sglang", {}, {"VLLM_API_KEY": Secret("env", "KEY")}, None),
        ("sglang", {"api-key": Secret("host-env", "KEY")}, {}, None),
        ("sglang", {"api-key": Secret("env", "GONE")}, {}, None),
        ("sglang", {}, {}, None),
    ],
)
def test_the_key_is_the_profiles(kind: str, args: Any, env: Any, key: str | None) -> None:
    desk, run = desk_of(kind, args, env), run_of(kind)
    assert key_of(desk, run) == (f"Bearer {key}" if key else None)
    assert headers_of(desk, run) == ({"Authorization": f"Bearer {key}"} if key else {})


def test_sglang_has_another_one_for_its_administrator() -> None:
    desk = desk_of("sglang", {"api-key": Secret("env", "KEY"), "admin-api-key": Secret("env", "BOSS")})
    run = run_of("sglang")
    assert [key_of(desk, run, path) for path in ("/generate", "/flush_cache", "/abort_request")] == [
        "Bearer k1",
        "Bearer k2",
        "Bearer k2",
    ]


@pytest.mark.parametrize("changes", [{"profile": "another"}, {"launched": False}])
def test_a_server_that_was_launched_otherwise_is_told_no_secret(changes: dict[str, Any]) -> None:
    desk = desk_of("sglang", {"api-key": Secret("env", "KEY")})
    assert key_of(desk, run_of("sglang", **changes)) is None and headers_of(desk, run_of("sglang", **changes)) == {}
    assert auth_of(desk, None) is None
