"""How the container, job or scope of a run stands, from what its runtime says; nobody is asked here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from console.remote.outpost import launchers, processes, units
from console.remote.outpost.calls import Fault

Reply = tuple[int, str, str]
Said = Callable[[list[str]], Reply]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Said], list[list[str]]]:
    """Have questions answered by a function; returns what was asked."""
    units._answers.clear()

    def put(answer: Said) -> list[list[str]]:
        seen: list[list[str]] = []

        def ask(argv: list[str]) -> Reply:
            seen.append(argv)
            return answer(argv)

        monkeypatch.setattr(units, "ask", ask)
        return seen

    return put


def record(kind: str, **more: str) -> dict[str, Any]:
    return {"unit": {"kind": kind, "tool": "docker", "name": "tokwatt-1-abc", **more}}


def stamp(later_s: float = 0.0) -> str:
    """Return when this process began, as a daemon would tell it of a container."""
    began = datetime.fromtimestamp(processes.table([os.getpid()])[0]["started_at"] + later_s, UTC)
    return began.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def state(**facts: Any) -> str:
    known = {"Status": "running", "Pid": os.getpid(), "OOMKilled": False, "Error": "", "StartedAt": stamp()}
    return json.dumps({**known, **facts})


def test_a_container_is_known_by_the_id_that_was_written(
    tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    seen = asked(lambda argv: (0, state(), ""))
    none = units.facts(str(tmp_path), record("docker-run"), alive=True)
    assert none is not None and (none["state"], none["alive"], seen) == ("starting", True, [])
    (tmp_path / "cid").write_text("c0ffee")
    told = units.facts(str(tmp_path), record("docker-run"), alive=True)
    assert told is not None and (told["id"], told["state"], told["pid"]) == ("c0ffee", "running", os.getpid())
    assert seen == [["docker", "inspect", "--type", "container", "--format", "{{json .State}}", "c0ffee"]]
    assert units.facts(str(tmp_path), record("docker-run"), alive=True) == told and len(seen) == 1, "kept for a while"
    units.facts(str(tmp_path), record("docker-run"), alive=False)
    assert len(seen) == 2, "what was said is about a launcher that lived"
    kept = json.loads((tmp_path / "unit").read_text())
    assert kept == {"id": "c0ffee", "pid": os.getpid(), "pid_ticks": processes.start_ticks(os.getpid())}


def test_an_end_is_written_down_and_not_asked_for_again(
    tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    (tmp_path / "cid").write_text("c0ffee")
    seen = asked(lambda argv: (1, "", "Error response from daemon: No such container: c0ffee"))
    (tmp_path / "exit").write_text("0 1.0\n")
    first = units.facts(str(tmp_path), record("docker-run"), alive=False)
    assert first is not None and (first["state"], first["alive"]) == ("gone", False)
    units._answers.clear()
    assert units.facts(str(tmp_path), record("docker-run"), alive=False) == first and len(seen) == 1


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ((0, state(Status="exited", OOMKilled=True), ""), ("exited", False, "killed for its memory")),
        ((0, state(Status="stopped"), ""), ("stopped", False, "")),
        ((0, state(Status="paused"), ""), ("paused", True, "")),
        ((1, "", "Cannot connect to the Docker daemon"), ("unknown", None, "Cannot connect to the Docker daemon")),
        ((124, "", "docker did not answer within 10 s"), ("unknown", None, "docker did not answer within 10 s")),
        ((0, "[]", ""), ("unknown", None, "inspect said []")),
        ((125, "", "Error: inspecting object: no such container c0ffee"), ("gone", False, "")),
    ],
)
def test_what_a_runtime_says(
    reply: Reply, expected: tuple[str, bool | None, str], tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    (tmp_path / "cid").write_text("c0ffee")
    asked(lambda argv: reply)
    told = units.facts(str(tmp_path), record("docker-run"), alive=False)
    assert told is not None
    assert (told["state"], told["alive"], told["reason"]) == expected


def test_a_container_of_another_machine_leads_to_nobody(tmp_path: Path) -> None:
    """A remote daemon's numbers of processes mean others here: what is older than the launcher is not its own."""
    mine = processes.start_ticks(os.getpid())
    assert mine is not None
    assert units.roots({"pid": os.getpid(), "pid_ticks": mine}, mine) == [os.getpid()]
    assert units.roots({"pid": os.getpid(), "pid_ticks": mine}, mine + 1) == []
    assert units.roots({"pid": os.getpid()}, 0) == [], "its start was never seen"
    assert units.roots({"pid": os.getpid(), "pid_ticks": mine - 1}, 0) == []
    assert units.roots(None, 0) == []


@pytest.mark.parametrize("began", ["", "0001-01-01T00:00:00Z", "an hour later"])
def test_a_process_that_has_a_containers_number_by_chance_is_not_its_own(
    began: str, tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    """Whatever started after the launcher had been ended with a container of another machine."""
    (tmp_path / "cid").write_text("c0ffee")
    asked(lambda argv: (0, state(StartedAt=stamp(3600) if began == "an hour later" else began), ""))
    told = units.facts(str(tmp_path), record("docker-run"), alive=True)
    assert told is not None and told["alive"] and units.roots(told, 0) == []


def test_a_container_is_known_by_its_control_group_whatever_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Callable[[Said], list[list[str]]]
) -> None:
    (tmp_path / "cid").write_text("c0ffee")
    monkeypatch.setattr(processes, "lines_of", lambda path: ["0::/system.slice/docker-c0ffee.scope"])
    asked(lambda argv: (0, state(StartedAt=""), ""))
    assert units.roots(units.facts(str(tmp_path), record("docker-run"), alive=True), 0) == [os.getpid()]


@pytest.mark.parametrize(
    ("text", "moment"),
    [("1970-01-01T00:01:00.5Z", 60.5), ("1970-01-01T02:01:00.25+02:00", 60.25), ("1969-12-31T22:30:00-01:30", 0.0)],
)
def test_how_runtimes_write_a_moment(text: str, moment: float) -> None:
    assert units._moment(text) == moment


def test_a_number_that_nobody_vouches_for_is_not_cancelled(
    tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    """The line may be the server's own output; the queue does not say whose job it is."""
    (tmp_path / "server.log").write_text("srun: job 42 queued and waiting for resources\n")
    seen = asked(lambda argv: (1, "", "slurm_load_jobs error: timeout") if argv[0] == "squeue" else (0, "", ""))
    assert units.signal(str(tmp_path), record("slurm"), "SIGKILL", alive=True) == {"said": "", "fault": ""}
    assert [argv[0] for argv in seen] == ["squeue"]


def test_a_job_is_known_by_its_own_output_then_by_its_number(
    tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    (tmp_path / "server.log").write_text("srun: job 42 queued and waiting for resources\n")
    seen = asked(lambda argv: (0, "42|PENDING|Priority||tokwatt-1-abc\n", ""))
    told = units.facts(str(tmp_path), record("slurm"), alive=True)
    assert told is not None and (told["id"], told["state"], told["reason"]) == ("42", "PENDING", "Priority")
    assert seen[0][4:6] == ["--jobs", "42"]


def test_a_job_that_began_at_once_is_known_by_its_name_once(
    tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    seen = asked(lambda argv: (0, "42|RUNNING|None|gpu[1-2]|tokwatt-1-abc\n", ""))
    told = units.facts(str(tmp_path), record("slurm"), alive=True)
    assert told is not None and (told["id"], told["elsewhere"]) == ("42", False)
    assert seen[0][4:8] == ["--user", processes.user_name(os.getuid()), "--name", "tokwatt-1-abc"]
    units.facts(str(tmp_path), record("slurm"), alive=True, fresh=True)
    assert seen[1][4:6] == ["--jobs", "42"], "the number was written down"


@pytest.mark.parametrize(
    ("reply", "alive", "expected"),
    [
        ((0, "", ""), True, ("starting", True)),
        ((0, "", ""), False, ("gone", False)),
        ((1, "", "slurm_load_jobs error: Invalid job id specified"), False, ("gone", False)),
        ((1, "", "slurm_load_jobs error: Unable to contact slurm controller"), False, ("unknown", None)),
        ((0, "42|COMPLETING|None|gpu7|tokwatt-1-abc\n", ""), False, ("COMPLETING", True)),
        ((0, "42|TIMEOUT|TimeLimit|gpu7|tokwatt-1-abc\n", ""), False, ("TIMEOUT", False)),
    ],
)
def test_what_a_queue_says(
    reply: Reply,
    alive: bool,
    expected: tuple[str, bool | None],
    tmp_path: Path,
    asked: Callable[[Said], list[list[str]]],
) -> None:
    asked(lambda argv: reply)
    told = units.facts(str(tmp_path), record("slurm"), alive=alive)
    assert told is not None and (told["state"], told["alive"]) == expected


def test_a_number_that_was_given_again_is_not_cancelled(
    tmp_path: Path, asked: Callable[[Said], list[list[str]]]
) -> None:
    seen = asked(lambda argv: (0, "42|RUNNING|None|gpu7|somebody-else\n", ""))
    with pytest.raises(Fault, match="job 42 is named somebody-else, not tokwatt-1-abc"):
        units.signal(str(tmp_path), record("slurm"), "SIGTERM", alive=True)
    assert [argv[0] for argv in seen] == ["squeue"]


def test_a_job_is_killed_and_given_back(tmp_path: Path, asked: Callable[[Said], list[list[str]]]) -> None:
    seen = asked(lambda argv: (0, "42|RUNNING|None|gpu7|tokwatt-1-abc\n", ""))
    said = units.signal(str(tmp_path), record("slurm"), "SIGKILL", alive=True)
    assert said == {"said": "scancel --signal=KILL 42", "fault": ""}
    assert seen[1:] == [["scancel", "--signal=KILL", "42"], ["scancel", "42"]]


def test_a_scope_holds_what_left_session_and_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Callable[[Said], list[list[str]]]
) -> None:
    group = tmp_path / "cgroup" / "user.slice" / "tokwatt-1-abc.scope"
    (group / "inner").mkdir(parents=True)
    (group / "cgroup.procs").write_text("4000001\n")
    (group / "inner" / "cgroup.procs").write_text("4000002\n")
    monkeypatch.setattr(units, "CGROUPS", (str(tmp_path / "cgroup"),))
    shown = "Result=success\nControlGroup=/user.slice/tokwatt-1-abc.scope\nLoadState=loaded\nActiveState=active\n"
    seen = asked(lambda argv: (0, shown, ""))
    told = units.facts(str(tmp_path), record("systemd-run", manager="user"), alive=False)
    assert told is not None and (told["id"], told["alive"]) == ("tokwatt-1-abc.scope", True)
    assert sorted(units.roots(told, 0)) == [4000001, 4000002]
    assert seen[0][:4] == ["systemctl", "--user", "show", "tokwatt-1-abc.scope"]
    asked(lambda argv: (0, shown, ""))
    said = units.signal(str(tmp_path), record("systemd-run", manager="system"), "SIGKILL", alive=False)
    assert said["said"] == "systemctl kill --signal=SIGKILL tokwatt-1-abc.scope"


def test_a_plain_process_has_none(tmp_path: Path, asked: Callable[[Said], list[list[str]]]) -> None:
    seen = asked(lambda argv: (0, "", ""))
    assert units.facts(str(tmp_path), {}, alive=True) is None
    assert units.signal(str(tmp_path), {}, "SIGTERM", alive=True) == {"said": "", "fault": ""}
    assert launchers.look(None) is None and seen == []


def test_two_logins_number_their_runs_alike_and_name_their_units_apart() -> None:
    assert units.named("tokwatt-{run}", "2026-12-02-1", "0123456789abcdef") == "tokwatt-2026-12-02-1-01234567"
    order = {"kind": "docker-run"}
    words = units.arranged(order, ["docker", "run", "--rm", "--name", "tokwatt-{run}"], "/runs/1", "1", "ab")
    assert words[:4] == ["docker", "run", "--cidfile", "/runs/1/cid"] and words[-1] == "tokwatt-1-ab"


@pytest.mark.parametrize(
    ("rows", "faults", "warnings"),
    [
        ("gpu*|up|4|idle\n", [], []),
        ("gpu|up|4|mix\n", [], []),
        ("", ["Slurm has no partition gpu"], []),
        ("gpu|down|4|idle\n", ["no partition is up: gpu is down"], []),
        ("gpu|up|3|alloc\ngpu|up|1|drain*\n", [], ["no node is free now (3 alloc, 1 drain*): the job will wait in the queue"]),
    ],
)  # fmt: skip
def test_a_partition_before_a_launch(
    rows: str, faults: list[str], warnings: list[str], monkeypatch: pytest.MonkeyPatch,
    asked: Callable[[Said], list[list[str]]],
) -> None:  # fmt: skip
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    asked(lambda argv: (0, rows, ""))
    found = launchers.look({"kind": "slurm", "tool": "srun", "partition": "gpu"})
    assert found is not None and (found["faults"], found["warnings"]) == (faults, warnings)


def test_a_login_that_does_not_linger(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[[Said], list[list[str]]]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    asked(lambda argv: (0, "no\n" if argv[0] == "loginctl" else "running\n", ""))
    found = launchers.look({"kind": "systemd-run", "tool": "systemd-run", "manager": "user"})
    assert found is not None and found["faults"] == []
    assert found["warnings"][0].startswith("the server ends when the last session of ")
