"""`serve`, `logs` and `profile` as a shell meets them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.recorded import content
from tests.ssh_servers import free_port

FAKE = Path(__file__).parents[1] / "engines" / "fake"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in ("STATE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    yield
    for file in tmp_path.glob("state/tokwatt/runs/*/pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(file.read_text().split()[2]), signal.SIGKILL)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "fake.toml"
    path.write_text(
        f'[host]\nssh = "local"\n[engine]\npython = "{sys.executable}"\n[launch]\nport = {free_port()}\nworkdir = "{FAKE}"\n'
        f'[launch.args]\nmodel-path = "{tmp_path}"\n[launch.env]\nHF_TOKEN = {{ from = "env" }}\n'
    )
    return str(path)


class Shell:
    """Runs command lines and keeps what they said."""

    def __init__(self) -> None:
        self.out = self.err = ""

    def __call__(self, *argv: str) -> int:
        command = [sys.executable, "-m", "console", *argv]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
        self.out, self.err = done.stdout, done.stderr
        return done.returncode

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        assert found["schema"] == 1
        return found


@pytest.fixture
def shell() -> Shell:
    return Shell()


def test_a_dry_run_tells_what_a_start_would_meet_and_starts_nothing(shell: Shell, profile: str, tmp_path: Path) -> None:
    assert shell("--profile", profile, "serve", "start", "--dry-run", "--json") == 0
    told = shell.document()
    assert told["command"].startswith(f"{sys.executable} -m sglang.launch_server --model-path {tmp_path}")
    assert (told["blocking"], told["patches_on"], told["env"]) == ([], [], {"HF_TOKEN": ""})
    assert told["host"]["disks"][0]["free_mib"] > 0 and told["host"]["memory"]["total_mib"] > 0
    assert not list(tmp_path.glob("state/tokwatt/runs/*")) and "hunter2" not in shell.out + shell.err
    port = int(Path(profile).read_text().partition("port = ")[2].split()[0])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert shell("--profile", profile, "serve", "start", "--dry-run") == 3
    assert f"would be refused: port {port} is taken by pid {os.getpid()}" in shell.out
    Path(profile).write_text(Path(profile).read_text().replace(str(FAKE), "/no/folder"))
    assert shell("--profile", profile, "serve", "start", "--dry-run") in (2, 3)
    assert "launch.workdir /no/folder is no folder" in shell.out


def test_the_life_of_a_server(shell: Shell, profile: str) -> None:
    assert shell("--profile", profile, "serve", "status", "--json") == 1
    assert shell.document()["run"] is None
    assert shell("--profile", profile, "serve", "start", "--wait", "--json") == 0
    run = shell.document()["run"]
    assert (run["phase"], run["profile"], run["adopted"]) == ("ready", "fake", True)
    assert run["started_at"].endswith("+00:00")
    assert "ready" in shell.err
    assert "hunter2" not in shell.out + shell.err
    assert shell("--profile", profile, "serve", "start") == 6
    assert shell("--profile", profile, "serve", "status") == 0
    assert shell.out.startswith(f"● run {run['id']} · ready")
    assert shell("--profile", profile, "--readonly", "serve", "stop") == 3
    other = Path(profile).with_name("other.toml")
    other.write_text(Path(profile).read_text())
    assert shell("--profile", str(other), "serve", "stop") == 3
    assert "started from profile fake, not other" in shell.err
    assert shell("--profile", profile, "serve", "attach", "--json") == 0
    assert shell.document()["resolved"]["model_path"]
    assert shell("--profile", profile, "logs", "--json", "--kind", "phase") == 0
    kinds = {json.loads(line)["kind"] for line in shell.out.splitlines()}
    assert kinds == {"phase"}
    assert json.loads(shell.out.splitlines()[-1])["time"] is not None, "the host's zone is known for a run of ours"
    assert shell("--profile", profile, "serve", "stop", "--grace", "5", "--json") == 0
    assert shell.document()["run"]["exit_status"] == 137
    assert "every process gone" in shell.err
    assert shell("--profile", profile, "serve", "stop") == 6
    assert shell("--profile", profile, "serve", "status", "--all", "--json") == 0
    assert [entry["id"] for entry in shell.document()["runs"]] == [run["id"]]
    assert shell("--profile", profile, "logs", run["id"]) == 0
    assert "fired up and ready" in shell.out
    assert shell("--profile", profile, "logs", "2001-01-01-1") == 2


def test_the_server_outlives_a_killed_console(shell: Shell, profile: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    Path(profile).write_text(Path(profile).read_text().replace("[launch.env]", f'gate = "{gate}"\n[launch.env]'))
    command = [sys.executable, "-m", "console", "--profile", profile, "serve", "start", "--wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as console:
        assert console.stderr is not None
        for line in console.stderr:
            if "http" in line:
                break
        console.kill()
    assert console.returncode == -signal.SIGKILL
    assert shell("--profile", profile, "serve", "status", "--json") == 0
    run = shell.document()["run"]
    assert run["phase"] == "starting"
    gate.touch()
    with subprocess.Popen([*command[:-2], "attach", "--json"], stdout=subprocess.PIPE) as attached:
        assert attached.wait() == 0
    for _ in range(100):
        assert shell("--profile", profile, "serve", "status", "--json") == 0
        if shell.document()["run"]["phase"] == "ready":
            break
    found = shell.document()["run"]
    assert (found["id"], found["pid"], found["phase"]) == (run["id"], run["pid"], "ready")
    assert shell("--profile", profile, "serve", "stop", "--grace", "5") == 0


def test_a_server_that_dies_gives_its_cause_and_exit_1(shell: Shell, profile: str) -> None:
    Path(profile).write_text(Path(profile).read_text().replace("[launch.env]", 'mode = "oom"\n[launch.env]'))
    assert shell("--profile", profile, "serve", "start", "--wait") == 1
    assert "failed: GPU 0 is out of memory" in shell.err
    assert shell("--profile", profile, "serve", "status", "--json") == 1
    assert shell.document()["run"]["failure"]["cause"].startswith("GPU 0 is out of memory")
    for follow in ([], ["--follow"]):
        assert shell("--profile", profile, "logs", "--json", "--lines", "0", *follow) == len(follow)
        records = [json.loads(line) for line in shell.out.splitlines()]
        assert records[0]["raw"].partition("] ")[2].startswith("server_args=")
        assert (records[-1]["kind"], records[-1]["cause"][:22]) == ("failure", "GPU 0 is out of memory")


def test_a_profile_that_asks_for_too_much_is_exit_2(shell: Shell, profile: str) -> None:
    Path(profile).write_text(Path(profile).read_text().replace(str(FAKE), "/no/such/folder"))
    assert shell("--profile", profile, "serve", "start") == 2
    assert "launch.workdir /no/such/folder is no folder on local" in shell.err
    assert not shell.out


def test_logs_of_a_file_need_no_host(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "sent.log"
    file.write_bytes(content("port-in-use.log"))
    assert shell("logs", str(file), "--json") == 0
    records = [json.loads(line) for line in shell.out.splitlines()]
    assert {"schema", "time", "source", "kind", "values", "raw"} <= set(records[0])
    assert records[-1]["kind"] == "failure"
    assert records[-1]["cause"].startswith("port 30000 is taken")
    assert records[-1]["lines"] == [
        "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use"
    ]
    assert shell("logs", str(file), "--kind", "progress,decode", "--json") == 0
    assert {json.loads(line)["kind"] for line in shell.out.splitlines()} == {"progress"}
    assert shell("logs", str(file), "--kind", "noise") == 2
    assert shell("logs", str(file), "--follow") == 2
    assert shell("logs", str(tmp_path / "nope.log")) == 2
    assert "nope.log" in shell.err


def test_profiles_by_name(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.toml").write_text("[launch]\nprot = 1\n")
    assert shell("profile", "list", "--json") == 0
    listed = {entry["name"]: entry for entry in shell.document()["profiles"]}
    assert "profiles/mine.toml:2: launch.prot is not a known key" in listed["mine"]["fault"]
    assert listed["glm5-nvfp4"]["fault"] is None
    assert shell("profile", "check", "mine") == 2
    assert "did you mean port?" in shell.err
    assert shell("profile", "show", "glm5-nvfp4", "--json") == 0
    assert shell.document()["profile"]["launch"]["env"] == {"HF_TOKEN": {"from": "env"}}
    assert shell("profile", "command", "glm5-nvfp4") == 0
    words = shlex.split(shell.out)
    assert words[:4] == ["cd", "/root", "&&", "HF_TOKEN=$HF_TOKEN"]
    assert words[-2:] == ["--port", "30000"]
    assert shell("profile", "show") == 2


@pytest.mark.parametrize(
    ("kind", "told"), [("lmdeploy", "x.toml:2: error: engine 'lmdeploy' is not known"), ("sglang", "no model is named")]
)
def test_an_unknown_engine_and_a_missing_model_are_found(shell: Shell, tmp_path: Path, kind: str, told: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f'[engine]\nkind = "{kind}"\n')
    assert shell("profile", "check", str(path)) == 2
    assert told in shell.out


def test_a_profile_whose_patch_is_never_reached_is_told(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('[patches]\non = ["flashinfer-cutlass-autotune", "no-such-patch"]\n')
    assert shell("profile", "check", str(path), "--json") == 2
    findings = {entry["text"]: entry for entry in shell.document()["findings"]}
    reached = "flashinfer-cutlass-autotune is never reached: moe-runner-backend is not given"
    assert (findings[reached]["severity"], findings[reached]["line"]) == ("warning", 2)
    assert any("no-such-patch" in text for text in findings)


def test_profile_check_on_the_host(shell: Shell, profile: str) -> None:
    assert shell("profile", "check", profile, "--host", "local") == 0
    assert "sglang 0.1.0 has a source of unknown shape" in shell.out, "the pretend install declares no flags"
    Path(profile).write_text(
        Path(profile).read_text().replace("[launch.env]", 'tokenizer-path = "/no/tokenizer"\n[launch.env]')
    )
    assert shell("profile", "check", profile, "--host", "local") == 2
    assert "/no/tokenizer does not exist on local" in shell.out
