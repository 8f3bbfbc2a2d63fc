"""A start asks the install first: what it would not take is told by file, line and new name, and nothing is launched."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from console.config.profiles import load_profile
from console.domain.run import ProcessId, Run, RunPhase
from console.errors import UsageError
from console.operations import launching, profile_check, server
from console.operations.desk import Desk
from console.remote.link import HostLink
from tests.engines.test_command import SOURCE
from tests.operations.test_server import FAKE, no_leftovers, surroundings
from tests.ssh_servers import free_port

__all__ = ["no_leftovers", "surroundings"]


def desk_of(link: HostLink, tmp_path: Path, args: str, said: list[str]) -> Desk:
    """Return a desk whose profile launches a pretend engine that declares its flags as a real one does."""
    site = tmp_path / "site"
    if not site.exists():
        shutil.copytree(FAKE, site, ignore=shutil.ignore_patterns("__pycache__"))
        (site / "sglang" / "srt").mkdir()
        own = "".join(f"    parser.add_argument('--{name}')\n" for name in ("model-path", "port", "mode", "gate"))
        (site / "sglang" / "srt" / "server_args.py").write_text(SOURCE + own)
    file = tmp_path / "p.toml"
    file.write_text(
        f'[engine]\npython = "{sys.executable}"\n[launch]\nport = {free_port()}\nworkdir = "{site}"\n'
        f'[launch.args]\nmodel-path = "{tmp_path}"\n{args}'
    )
    profile = load_profile(file)
    desk = Desk(link, profile=profile, say=said.append)
    desk.store.update(host=link.host, facts=link.facts, profile=profile)
    return desk


@pytest.mark.parametrize(
    ("args", "told", "hint"),
    [
        ("mem-fraction-statik = 0.8\n", "mem-fraction-statik is not a flag", "did you mean mem-fraction-static?"),
        ("filler = 1\n", "filler is ambiguous: filler-0-flag", ""),
        ('attention-backend = "flashinfr"\n', "attention-backend cannot be 'flashinfr'", "did you mean flashinfer?"),
        ("lora-strict = true\nno-lora-strict = true\n", "lora-strict and no-lora-strict say the opposite", ""),
    ],
)
async def test_what_the_install_would_not_take_is_refused_before_the_launch(
    local_link: HostLink, tmp_path: Path, args: str, told: str, hint: str
) -> None:
    said: list[str] = []
    desk = desk_of(local_link, tmp_path, args, said)
    for verb in (server.start, server.restart):
        with pytest.raises(UsageError) as caught:
            await verb(desk)
        assert caught.value.title.startswith(f"{tmp_path}/p.toml:8: launch.args."), caught.value.title
        assert told in caught.value.title
        assert hint in caught.value.hint and caught.value.hint.endswith("--force starts it all the same")
        assert caught.value.exit_code == 2
    assert not list(tmp_path.glob("state/tokwatt/runs/*")), "nothing was launched"


async def test_several_faults_are_told_at_once_and_force_goes_on(local_link: HostLink, tmp_path: Path) -> None:
    said: list[str] = []
    desk = desk_of(local_link, tmp_path, 'mem-frac = 0.8\ntp-size = "two"\nattention-backend = "flashinfr"\n', said)
    with pytest.raises(UsageError, match=r"p\.toml:9: launch\.args\.tp-size: tp-size cannot be 'two'") as caught:
        await server.start(desk)
    assert "p.toml:10: launch.args.attention-backend" in caught.value.detail
    assert any(":8: launch.args.mem-frac: mem-frac is an abbreviation" in text for text in said)
    said.clear()
    run = await server.start(desk, force=True)
    assert any(text.startswith("error: ") and "attention-backend" in text for text in said)
    assert run.process is not None


@pytest.mark.parametrize(("session", "told"), [(77, False), (78, True)])
async def test_what_a_restart_ends_itself_is_no_warning(
    local_link: HostLink, tmp_path: Path, session: int, told: bool
) -> None:
    desk = desk_of(local_link, tmp_path, "", [])
    assert desk.profile is not None
    holder = {"pid": 99, "title": "sglang::scheduler_TP0", "user": "root", "session": session, "memory_mib": 80_000.0}
    looked = {**await launching.look(desk, desk.profile), "gpu_processes": [holder]}
    run = Run("r", "p", "sglang", str(tmp_path), "", desk.profile.launch.port, 0.0, ProcessId(77, 1, 77))
    desk.store.update(run=replace(run, phase=RunPhase.READY))
    found = await profile_check.check(desk.profile, desk, ask=False, looked=looked)
    assert any("pid 99 (sglang::scheduler_TP0) holds GPU memory now" in one.text for one in found) is told
