"""ssh_config as people have it (field case E01), and as OpenSSH itself reads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from console.errors import FormatError
from console.remote import ssh_config
from console.remote.settings import matches_patterns, resolve

CONFIG = Path(__file__).parent.parent / "data/ssh/config"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh/conf.d").mkdir(parents=True)
    (tmp_path / ".ssh/config").write_text(CONFIG.read_text())
    (tmp_path / ".ssh/conf.d/gpu.conf").write_text("Host gpu-d\n  HostName 10.20.0.14\n")
    return tmp_path


def test_every_host_can_be_dialled_though_lines_are_wrong(home: Path) -> None:
    config = home / ".ssh/config"
    found = {}
    for alias in ("gpu-a", "gpu-b", "gpu-c", "gpu-d"):
        settings = resolve(alias, files=[config], home=home)
        found[alias] = (settings.host, settings.port)
    assert found == {
        "gpu-a": ("10.20.0.11", 2222),
        "gpu-b": ("10.20.0.12", 22),
        "gpu-c": ("10.20.0.13", 22),
        "gpu-d": ("10.20.0.14", 22),
    }
    assert resolve("gpu-b", files=[config], home=home).time_s("serveraliveinterval") == 30
    assert ssh_config.aliases(ssh_config.read_config(config, home)) == ["gpu-d", "gpu-a", "gpu-b", "printer", "gpu-c"]


def test_keys_and_what_is_not_honoured(home: Path) -> None:
    settings = resolve("gpu-c", files=[home / ".ssh/config"], home=home)
    assert settings.user == "svc"
    assert [settings.path(name) for name in settings.many["identityfile"]] == [str(home / ".ssh/id_svc")]
    assert settings.flag("identitiesonly")
    said = "\n".join(settings.ignored())
    for word in ("StrictHostKeyChecking accept-new", "ControlMaster", "RemoteCommand", "RequestTTY"):
        assert word in said
    assert f"{home}/.ssh/config:8: Match gpu-*" in said
    assert "invalid quotes" in said


def test_a_wrong_line_is_an_error_of_its_own_host_only(home: Path) -> None:
    with pytest.raises(FormatError) as caught:
        resolve("printer", files=[home / ".ssh/config"], home=home)
    assert f"{home}/.ssh/config:11: ProxyCommand: invalid quotes" in caught.value.title


PROBES = """\
Host a
  HostName = %h.example
  Port=2222
  User "some body"
Host *.lab !b.lab
  User lab
  IdentityFile ~/.ssh/%r_%h
Match originalhost c host real-c
  Port 99
Host c
  HostName real-c
  ConnectTimeout 1m30s
Match final originalhost c
  User last
Match user lab
  ServerAliveInterval 7 # why not
Include more/*
Host *
  Port 5
  ProxyJump me@jump:23
"""


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client")
@pytest.mark.parametrize("alias", ["a", "x.lab", "b.lab", "c", "in1", "in2"])
def test_openssh_reads_the_same(tmp_path: Path, alias: str) -> None:
    (tmp_path / ".ssh/more").mkdir(parents=True)
    (tmp_path / ".ssh/more/1").write_text("Host in1\n  HostName one\n")
    (tmp_path / ".ssh/more/2").write_text('Host in2\n  HostName two\n  User \\"q\n')
    config = tmp_path / ".ssh/config"
    config.write_text(PROBES.replace("Include more", f"Include {tmp_path}/.ssh/more"))
    told = subprocess.run(
        ["ssh", "-G", "-F", str(config), alias], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    theirs = dict(line.partition(" ")[::2] for line in told.stdout.splitlines())
    ours = resolve(alias, files=[config], home=tmp_path)
    assert (ours.host, str(ours.port), ours.user) == (theirs["hostname"], theirs["port"], theirs["user"])
    assert ours.one("proxyjump") == theirs["proxyjump"]
    for key in ("connecttimeout", "serveraliveinterval"):
        if key in ours.values:
            assert str(ours.time_s(key)) == theirs[key]


def test_patterns() -> None:
    assert matches_patterns("gpu-1", ["gpu-*"])
    assert not matches_patterns("gpu-1", ["gpu-*", "!gpu-1"])
    assert not matches_patterns("gpu-1", ["!gpu-2"])
    assert matches_patterns("[h]:22", ["[h]:??"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a b # c", ["a", "b"]),
        ('"a b"c', ["a bc"]),
        ("a\\ b", ["a b"]),
        ("a#b", ["a#b"]),
        ("'x\\'y'", ["x'y"]),
        ("", []),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    assert ssh_config.split_words(line) == words


@pytest.mark.parametrize(("text", "value"), [("30s", 30), ("1h30m", 5400), ("90", 90), ("2x", None), ("", None)])
def test_times(text: str, value: int | None) -> None:
    assert ssh_config.seconds(text) == value
