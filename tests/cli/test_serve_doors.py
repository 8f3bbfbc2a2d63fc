"""The exit code of every way that `serve` can end, for servers that are ours and for others'."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.cli import main
from console.domain.run import ProcessId
from console.operations import foreign
from console.operations.desk import Desk
from console.operations.server_words import Stake
from tests.ssh_servers import free_port

FAKE = Path(__file__).parents[1] / "engines" / "fake"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in ("STATE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setattr("console.config.paths.all_patches", lambda: ())
    yield
    for file in tmp_path.glob("state/tokwatt/runs/*/pid"):
        if session := int(file.read_text().split()[2]):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "fake.toml"
    path.write_text(
        f'[host]\nssh = "local"\n[engine]\npython = "{sys.executable}"\n[launch]\nport = {free_port()}\n'
        f'workdir = "{FAKE}"\n[launch.args]\nmodel-path = "{tmp_path}"\n'
    )
    return path


class Shell:
    """Runs command lines in this process and keeps what they said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], profile: Path) -> None:
        self._capsys = capsys
        self.profile = str(profile)
        self.out = self.err = ""

    def __call__(self, *argv: object, profile: bool = True) -> int:
        front = ["--profile", self.profile] if profile else ["--host", "local"]
        code = main.run([*front, *map(str, argv)], lambda args: 99)
        self.out, self.err = self._capsys.readouterr()
        return code

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        assert found["schema"] == 1
        return found


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], profile: Path) -> Shell:
    return Shell(capsys, profile)


@pytest.fixture
def stranger(tmp_path: Path, profile: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server on the profile's port that somebody started by hand."""
    port = profile.read_text().partition("port = ")[2].split()[0]
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", "m", "--tp-size", "1", "--port", port]
    log = tmp_path / "their.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, cwd=FAKE, stdout=out, stderr=out, start_new_session=True)
    until = time.monotonic() + 60
    while b"ready to roll" not in log.read_bytes():
        assert process.poll() is None and time.monotonic() < until, log.read_text()
        time.sleep(0.02)
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["status"], 1, "local: no server runs"),
        (["status", "--json"], 1, ""),
        (["status", "2001-01-01-1"], 2, "local: no run 2001-01-01-1"),
        (["attach"], 1, "local: no server runs"),
        (["attach", "4194305"], 2, "no process has pid 4194305"),
        (["attach", "PID"], 3, "is no inference server: sleep 600"),
        (["attach", "x"], 2, "'x' is no pid"),
        (["adopt"], 2, "the following arguments are required: PID"),
        (["adopt", "0"], 2, "'0' is no pid"),
        (["adopt", "4194305"], 2, "no process has pid 4194305"),
        (["adopt", "PID"], 3, "is no inference server: sleep 600"),
        (["stop"], 6, "local: no server runs"),
        (["stop", "2001-01-01-1"], 2, "local: no run 2001-01-01-1"),
        (["stop", "--confirm", "7"], 2, "--confirm goes with --pid"),
        (["stop", "2001-01-01-1", "--pid", "7"], 2, "name one thing each"),
        (["stop", "--pid", "-5"], 2, "'-5' is no pid"),
        (["stop", "--pid", "4194305"], 6, "no process has pid 4194305"),
        (["stop", "--pid", "PID", "--confirm", "PID"], 3, "is no inference server: sleep 600"),
    ],
)
def test_where_no_server_is(
    shell: Shell, bystander: subprocess.Popen[bytes], argv: list[str], code: int, said: str
) -> None:
    assert shell("serve", *(str(bystander.pid) if word == "PID" else word for word in argv)) == code
    assert said in shell.err and bystander.poll() is None
    if "--json" in argv:
        assert shell.document()["run"] is None


@pytest.mark.parametrize("argv", [["start"], ["restart"], ["start", "--dry-run"]])
def test_what_needs_a_profile_says_so(shell: Shell, argv: list[str]) -> None:
    assert shell("serve", *argv, profile=False) == 2
    assert "no profile" in shell.err


@pytest.mark.parametrize(
    "argv",
    [["start"], ["stop"], ["restart"], ["adopt", "4194305"], ["stop", "--pid", "4194305", "--confirm", "4194305"]],
)
def test_who_may_only_look_changes_nothing(shell: Shell, tmp_path: Path, argv: list[str]) -> None:
    assert shell("--readonly", "serve", *argv) == 3
    assert "--readonly" in shell.err and not list(tmp_path.glob("state/tokwatt/runs/*"))


def test_a_host_that_is_not_there(shell: Shell) -> None:
    assert main.run(["--host", f"op@127.0.0.1:{free_port()}", "serve", "status"], lambda args: 99) == 4


def test_a_strangers_server_is_shown_and_only_its_typed_pid_ends_it(
    shell: Shell, stranger: subprocess.Popen[bytes], bystander: subprocess.Popen[bytes]
) -> None:
    pid = stranger.pid
    assert shell("serve", "status") == 0 and "a server that tokwatt did not start" in shell.out
    assert shell("serve", "start") == 3 and f"is taken by pid {pid}" in shell.err
    assert shell("serve", "start", "--dry-run", "--json") == 3 and str(pid) in shell.document()["blocking"][0]
    assert shell("serve", "stop") == 3 and f"tokwatt serve stop --pid {pid} shows" in shell.err
    assert shell("serve", "restart") == 3 and f"pid {pid} was not started by tokwatt" in shell.err
    assert shell("serve", "attach", pid) == 0
    assert "  = tp-size = 1\n" in shell.out
    assert f"read-only until it is adopted: tokwatt serve adopt {pid}" in shell.err
    assert shell("serve", "attach", pid, "--json") == 0
    told = shell.document()
    assert (told["run"]["adopted"], told["run"]["id"], told["run"]["phase"]) == (False, None, "ready")
    assert shell("serve", "status", "--all", "--json") == 0
    [mine] = [one for one in shell.document()["servers"] if one["pid"] == pid]
    assert (mine["ours"], mine["answers"], mine["run"]) == (False, "ready", None)
    for typed in ([], ["--confirm", str(pid + 1)], ["--confirm", "yes"], ["--confirm", str(bystander.pid)]):
        assert shell("serve", "stop", "--pid", pid, *typed, "--json") == 3
        assert (shell.document()["stopped"], shell.document()["server"]["pid"]) == (False, pid)
        assert "is not stopped" in shell.err
    assert stranger.poll() is None
    assert shell("serve", "stop", "--pid", pid, "--confirm", pid, "--grace", "5", "--json") == 0
    assert (shell.document()["stopped"], shell.document()["run"]["phase"]) == (True, "exited")
    assert stranger.wait(10) != 0 and bystander.poll() is None
    assert shell("serve", "stop", "--pid", pid, "--confirm", pid) == 6


def test_an_adopted_server_is_a_run_and_needs_no_typing(shell: Shell, stranger: subprocess.Popen[bytes]) -> None:
    pid = stranger.pid
    assert shell("serve", "adopt", pid, "--json") == 0
    run = shell.document()["run"]
    assert (run["adopted"], run["launched"], run["session"], run["phase"]) == (True, False, None, "ready")
    assert shell("serve", "adopt", pid) == 6 and f"is run {run['id']} already" in shell.err
    assert shell("serve", "status", "--all") == 0
    row = next(line for line in shell.out.splitlines() if line.startswith(run["id"]))
    assert "● ready" in row, "as the server itself answers"
    assert shell("serve", "status", run["id"]) == 0
    assert "otherwise; adopted by" in shell.out and "session" not in shell.out
    assert shell("serve", "stop", "--pid", pid, "--grace", "5") == 0
    assert shell.out == f"stopped: sglang of {_user()}, pid {pid}\n" and "\n  holds        " in shell.err
    assert stranger.wait(10) != 0
    assert shell("serve", "stop", run["id"]) == 6
    assert shell("serve", "status", run["id"]) == 1


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Stake], Stake]], None]:
    """Have something happen between the look at a server and its stop."""

    def set_up(happens: Callable[[Stake], Stake]) -> None:
        plain = foreign.stake

        async def stake(desk: Desk, pid: int) -> Stake:
            return happens(await plain(desk, pid))

        monkeypatch.setattr(foreign, "stake", stake)

    return set_up


def test_a_server_that_goes_while_its_pid_is_typed(
    shell: Shell, stranger: subprocess.Popen[bytes], meanwhile: Callable[[Callable[[Stake], Stake]], None]
) -> None:
    def die(seen: Stake) -> Stake:
        os.killpg(stranger.pid, signal.SIGKILL)
        stranger.wait()
        return seen

    meanwhile(die)
    assert shell("serve", "stop", "--pid", stranger.pid, "--confirm", stranger.pid, "--json") == 6
    assert shell.document()["stopped"] is False and "is gone already; nothing was stopped" in shell.err


def test_a_pid_that_was_given_to_another_process_while_it_was_typed(
    shell: Shell,
    stranger: subprocess.Popen[bytes],
    bystander: subprocess.Popen[bytes],
    meanwhile: Callable[[Callable[[Stake], Stake]], None],
) -> None:
    def reused(seen: Stake) -> Stake:
        process = ProcessId(bystander.pid, seen.server.process.start_ticks - 1, bystander.pid)
        return replace(seen, server=replace(seen.server, process=process, members=()))

    meanwhile(reused)
    assert shell("serve", "stop", "--pid", stranger.pid, "--confirm", bystander.pid) == 6
    assert f"sleep 600 of {_user()} has its number now" in shell.err
    assert bystander.poll() is None and stranger.poll() is None


class Terminal(io.StringIO):
    """Somebody sits there."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code"), [("", 3), ("\n", 3), ("yes\n", 3), ("PID0\n", 3), (" PID \n", 0)])
def test_at_a_terminal_the_pid_is_asked_for(
    shell: Shell, stranger: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(typed.replace("PID", str(stranger.pid))))
    monkeypatch.setattr(sys, "stderr", screen)
    assert shell("serve", "stop", "--pid", stranger.pid, "--grace", "5") == code
    assert f"type {stranger.pid} to stop it: " in screen.getvalue()
    assert screen.getvalue().index("command      ") < screen.getvalue().index("type ")
    assert (stranger.poll() is None) is (code == 3)


def test_a_run_of_ours_from_start_to_stop(shell: Shell, profile: Path) -> None:
    assert shell("serve", "start", "--wait", "--deadline", "60", "--json") == 0
    run = shell.document()["run"]
    assert shell("serve", "start") == 6 and f"run {run['id']} of fake is" in shell.err
    assert shell("serve", "adopt", run["pid"]) == 6
    assert shell("serve", "attach", run["pid"]) == 0 and shell("serve", "attach") == 0
    assert shell("serve", "stop", "--pid", run["pid"], "--json", "--grace", "5") == 0, "ours needs no typing"
    assert shell("serve", "stop", "--pid", run["pid"]) == 6
    assert shell("serve", "stop", run["id"]) == 6 and shell("serve", "stop") == 6
    assert shell("serve", "status", run["id"]) == 1 and shell("serve", "attach") == 1


def test_a_start_that_takes_too_long(shell: Shell, profile: Path, tmp_path: Path) -> None:
    profile.write_text(profile.read_text() + f'gate = "{tmp_path}/never"\n')
    assert shell("serve", "start", "--wait", "--deadline", "0.5") == 1
    assert "is not ready after 0.5 s" in shell.err
    assert shell("serve", "status") == 0 and "starting" in shell.out
    assert shell("serve", "restart", "--wait", "--deadline", "0.5", "--grace", "0.2") == 1
    assert shell("serve", "stop", "--grace", "0.2") == 0
