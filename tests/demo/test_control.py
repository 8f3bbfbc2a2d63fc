"""Starting, joining and ending the demo host."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from console.demo import control, layout, processes

JOIN = "import sys; from pathlib import Path; from console.demo import control; print(control.join(Path(sys.argv[1])).port)"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A demo folder whose host ends with the test."""
    place = tmp_path / "demo"
    yield place
    control.stop(place)


def test_survives_its_starter_and_is_joined_again(folder: Path) -> None:
    port = int(
        subprocess.run([sys.executable, "-c", JOIN, str(folder)], capture_output=True, text=True, check=True).stdout
    )
    found = control.running(folder)
    assert found is not None
    assert found[1] == port
    assert os.getsid(found[0].pid) == found[0].pid
    assert control.join(folder).port == port
    assert control.running(folder) == found


def test_two_starters_at_once_end_with_one_host(folder: Path) -> None:
    starters = [
        subprocess.Popen([sys.executable, "-c", JOIN, str(folder)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    ports = {starter.communicate(timeout=60)[0].strip() for starter in starters}
    assert len(ports) == 1
    assert all(starter.returncode == 0 for starter in starters)


async def test_stop_ends_everything_that_was_started_on_it(folder: Path) -> None:
    door = control.join(folder)
    async with asyncssh.connect(
        door.address,
        door.port,
        username=door.user,
        client_keys=[door.key_file],
        known_hosts=door.known_hosts,
        config=None,
        agent_path=None,
    ) as connection:
        left = await connection.run("setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!", encoding=None)
        assert left.exit_status == 0
    found = control.running(folder)
    marker = (folder / "id").read_text()
    assert found is not None
    async with asyncio.timeout(30):  # a process that has just been made has no environment for a moment
        while not [one for one in processes.marked(marker) if one.pid != found[0].pid]:
            await asyncio.sleep(0.01)
    assert control.stop(folder)
    assert not found[0].alive
    assert not processes.marked(marker)
    assert not (folder / "home").exists()
    assert not control.stop(folder)


def test_a_run_file_of_another_process_is_not_joined(folder: Path) -> None:
    first = control.join(folder)
    found = control.running(folder)
    assert found is not None
    found[0].kill()
    facts = {"port": first.port, "pid": os.getpid(), "start_ticks": 1}
    (folder / "host.json").write_text(json.dumps(facts))
    assert control.running(folder) is None
    again = control.join(folder)
    now = control.running(folder)
    assert now is not None
    assert now[0].pid not in (os.getpid(), found[0].pid)
    assert (folder / "known_hosts").read_text().startswith(f"[127.0.0.1]:{again.port} ")


def test_a_killed_host_comes_back_with_what_was_changed_on_it(folder: Path) -> None:
    control.join(folder)
    found = control.running(folder)
    assert found is not None
    file = layout.package_folder(folder) / "version.py"
    file.write_text(file.read_text() + "# mine\n")
    found[0].kill()
    control.join(folder)
    assert file.read_text().endswith("# mine\n")
    control.stop(folder)
    control.join(folder)
    assert not file.read_text().endswith("# mine\n")


def test_lives_where_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOKWATT_DEMO_HOME", str(tmp_path / "here"))
    assert control.demo_folder() == tmp_path / "here"
    monkeypatch.delenv("TOKWATT_DEMO_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert control.demo_folder() == tmp_path / "state" / "tokwatt-demo"
