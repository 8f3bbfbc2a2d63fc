"""Host keys: the verdicts of a known_hosts file as people have it (field case E03)."""

from __future__ import annotations

import base64
from pathlib import Path

import asyncssh
import pytest

from console.errors import HostKeyChangedError, HostKeyUnknownError
from console.remote import hostkeys
from console.remote.hostkeys import Trust

NAMES = ("KEY1", "KEY2", "KEY3")


@pytest.fixture(scope="module")
def keys() -> dict[str, bytes]:
    return {name: asyncssh.generate_private_key("ssh-ed25519").public_data for name in NAMES}


@pytest.fixture
def known(tmp_path: Path, keys: dict[str, bytes]) -> str:
    text = (Path(__file__).parent.parent / "data/ssh/known_hosts").read_text()
    for name, blob in keys.items():
        text = text.replace(name, base64.b64encode(blob).decode())
    path = tmp_path / "known_hosts"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("host", "port", "key", "trust"),
    [
        ("gpu-a.example", 2222, "KEY1", Trust.TRUSTED),
        ("gpu-a.example", 22, "KEY1", Trust.UNKNOWN),
        ("gpu-a.example", 2222, "KEY2", Trust.CHANGED),
        ("gpu-b.example", 22, "KEY1", Trust.CHANGED),
        ("gpu-c.example", 22, "KEY1", Trust.UNKNOWN),
        ("gpu-b.example", 22, "KEY3", Trust.REVOKED),
        ("fd00:20::11", 2222, "KEY1", Trust.TRUSTED),
    ],
)
def test_verdicts(known: str, keys: dict[str, bytes], host: str, port: int, key: str, trust: Trust) -> None:
    assert hostkeys.judge([known], host, port, keys[key]).trust is trust


def test_a_known_key_under_another_port_is_a_hint_only(known: str, keys: dict[str, bytes]) -> None:
    verdict = hostkeys.judge([known], "gpu-a.example", 22, keys["KEY1"])
    assert "[gpu-a.example]:2222" in verdict.hint
    error = hostkeys.refusal(verdict, "gpu-a.example", 22, "ssh-ed25519", keys["KEY1"], known)
    assert isinstance(error, HostKeyUnknownError)
    assert error.fingerprint in error.one_line()


def test_a_changed_key_shows_both_fingerprints_and_the_line(known: str, keys: dict[str, bytes]) -> None:
    verdict = hostkeys.judge([known], "gpu-b.example", 22, keys["KEY1"])
    error = hostkeys.refusal(verdict, "gpu-b.example", 22, "ssh-ed25519", keys["KEY1"], known)
    assert isinstance(error, HostKeyChangedError)
    for part in (hostkeys.fingerprint(keys["KEY1"]), hostkeys.fingerprint(keys["KEY2"]), f"{known}:3"):
        assert part in error.one_line()


def test_hashed_names_match(tmp_path: Path, keys: dict[str, bytes]) -> None:
    import hmac

    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, b"[gpu-h]:2222", "sha1").digest()
    name = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    path = tmp_path / "known_hosts"
    path.write_text(f"{name} ssh-ed25519 {base64.b64encode(keys['KEY1']).decode()}\n")
    assert hostkeys.judge([str(path)], "gpu-h", 2222, keys["KEY1"]).trust is Trust.TRUSTED
    assert hostkeys.judge([str(path)], "gpu-h", 2222, keys["KEY2"]).trust is Trust.CHANGED
    assert hostkeys.judge([str(path)], "gpu-x", 2222, keys["KEY2"]).trust is Trust.UNKNOWN


def test_accepting_appends_a_line_that_trusts(tmp_path: Path, keys: dict[str, bytes]) -> None:
    path = tmp_path / ".ssh" / "known_hosts"
    hostkeys.accept(hostkeys.line_of("gpu-a", 22, "ssh-ed25519", keys["KEY1"]), path)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write("# a line without an end")
    hostkeys.accept(hostkeys.line_of("gpu-b", 2222, "ssh-ed25519", keys["KEY2"]), path)
    assert hostkeys.judge([str(path)], "gpu-a", 22, keys["KEY1"]).trust is Trust.TRUSTED
    assert hostkeys.judge([str(path)], "gpu-b", 2222, keys["KEY2"]).trust is Trust.TRUSTED
