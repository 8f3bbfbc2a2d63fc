"""Servers found in a process table: true ones only, what is left of others, and where their output goes."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.engines.registry import ENGINES
from console.errors import RemoteError
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from console.remote.outpost import gpus, outputs, processes, servers
from console.remote.outpost.calls import Call

DATA = Path(__file__).parents[1] / "data" / "engines"
ASKED = {
    "titles": {kind: list(each.titles) for kind, each in ENGINES.items() if each.titles},
    "workers": {kind: list(each.workers) for kind, each in ENGINES.items() if each.workers},
}
SERVER = "python3 -m sglang.launch_server --model-path /models/m --port 31000"


def entry(pid: int, argv: Sequence[str], ppid: int = 1, session: int = 0, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "pid": pid,
        "ppid": ppid,
        "group": session or pid,
        "session": session or pid,
        "start_ticks": pid * 10,
    }
    told |= {"started_at": 1764657000.0, "rss_mib": 1.0, "uid": 0, "user": "root", "title": " ".join(argv)}
    return {**told, "argv": list(argv), **more}


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what is found in a made-up table of processes and of GPU memory."""

    def looked(entries: Sequence[Mapping[str, Any]], held: Mapping[int, float] | None = None) -> list[dict[str, Any]]:
        table = [{key: value for key, value in each.items() if key != "argv"} for each in entries]
        words = {each["pid"]: list(each["argv"]) for each in entries}
        holders = [
            {"gpu": f"GPU-{pid}", "pid": pid, "seen": True, "memory_mib": mib} for pid, mib in (held or {}).items()
        ]
        monkeypatch.setattr(processes, "table", lambda pids=None: list(table) if pids is None else [])
        monkeypatch.setattr(processes, "argv_of", lambda pid: words[pid])
        monkeypatch.setattr(processes, "tcp_listeners", lambda pid=None: {})
        monkeypatch.setattr(gpus, "holders", lambda: holders)
        monkeypatch.setattr(gpus, "cards", lambda: [{"uuid": f"GPU-{pid}", "index": 0} for pid in held or {}])
        found: list[dict[str, Any]] = servers._servers(Call(ASKED, b"", lambda head, body: None))[0]["servers"]
        return found

    return looked


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (SERVER, "sglang"),
        ("/v/bin/python3.12 -u -X dev -m sglang.launch_server", "sglang"),
        ("python -um sglang.launch_server --tp 8", "sglang"),
        ("/v/bin/python3 /v/bin/sglang serve --model-path /m", "sglang"),
        ("python3 /src/python/sglang/launch_server.py --port 1", "sglang"),
        ("/v/bin/python /v/bin/vllm serve /m", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm"),
        ("/opt/llama/llama-server -m m.gguf", "llamacpp"),
        ("python -m sglang.bench_serving --port 30000", ""),
        ("python /v/bin/vllm bench serve --model m", ""),
        ("vim sglang/launch_server.py", ""),
        ("grep -rn sglang.launch_server /src", ""),
        ("ssh box python3 -m sglang.launch_server --port 30000", ""),
        ("sshd: python3 -m sglang.launch_server", ""),
        ("bash -c python3 -m sglang.launch_server --port 30000", ""),
        ("docker run lmsys/sglang python3 -m sglang.launch_server", ""),
        ("python -m ipykernel_launcher -f /k/sglang.launch_server.json", ""),
        ("python -c import sglang.launch_server -m sglang.launch_server", ""),
        ("python3 train.py --server llama-server", ""),
        ("tail -F /logs/llama-server", ""),
        ("tmux new -s sglang python3 -m sglang.launch_server", ""),
    ],
)
def test_what_a_process_runs_makes_a_server_not_what_it_names(look: Any, line: str, kind: str) -> None:
    """G01: an editor, a search, a shell, a notebook and a benchmark are bystanders."""
    found = look([entry(100, line.split(" "))])
    assert [(each["kind"], each["role"]) for each in found] == ([(kind, "server")] if kind else [])


def test_orphans_are_told_by_the_session_that_they_are_left_of(look: Any) -> None:
    """G01: two schedulers of one launch are one thing, another's orphan another, a living server neither."""
    lines = (DATA / "G01.txt").read_text().split("\n")
    table, held = [], {}
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[0].isdigit() and words[4] == "Sl":
            pid, ppid, group, session = map(int, words[:4])
            table.append(entry(pid, words[5:], ppid, session, group=group))
        elif line.startswith("GPU-"):
            fields = line.split(", ")
            held[int(fields[1])] = float(fields[3])
    table.append(entry(2100, ["-bash"], 2000))
    found = {each["pid"]: each for each in look(table, held)}
    assert {pid: each["role"] for pid, each in found.items()} == {
        2505781: "left over",
        2507001: "left over",
        2508000: "server",
    }
    assert [one["pid"] for one in found[2505781]["processes"]] == [2505781, 2505782]
    assert sum(share["memory_mib"] for share in found[2505781]["gpus"]) == 202042
    assert found[2508000]["gpus"] == []


def test_an_engine_inside_another_program_is_no_server(look: Any) -> None:
    table = [
        entry(10, ["python", "-m", "ipykernel_launcher", "-f", "k.json"], 2),
        entry(11, ["sglang::scheduler_TP0"], 10, 10),
        entry(12, ["sglang::detokenizer"], 10, 10),
    ]
    [found] = look(table)
    assert (found["role"], found["parent"]) == ("embedded", "python -m ipykernel_launcher -f k.json")
    assert [one["pid"] for one in found["processes"]] == [11, 12]


@pytest.mark.parametrize(
    "adopter", ["/sbin/init", "/usr/lib/systemd/systemd --user", "/usr/bin/containerd-shim-runc-v2 -id x"]
)
def test_who_takes_orphans_in_did_not_start_them(look: Any, adopter: str) -> None:
    [found] = look([entry(7, adopter.split(" "), 1), entry(11, ["VLLM::EngineCore"], 7, 9)])
    assert found["role"] == "left over"


@pytest.mark.parametrize(
    ("first", "session", "role"),
    [
        ("/usr/bin/python3 app.py", 1, "embedded"),
        ("/usr/bin/python3 app.py", 9, "left over"),
        ("sleep infinity", 1, "left over"),
        ("/bin/bash", 1, "left over"),
    ],
)
def test_a_containers_first_process_may_be_the_program_around_an_engine(
    look: Any, first: str, session: int, role: str
) -> None:
    [found] = look([entry(1, first.split(" "), 0, 1), entry(11, ["VLLM::EngineCore"], 1, session)])
    assert found["role"] == role


def test_workers_and_forks_belong_to_the_server_above_them(look: Any) -> None:
    table = [
        entry(10, SERVER.split(), 2),
        entry(11, SERVER.split(), 10, 10),
        entry(12, ["sglang::scheduler_TP0"], 11, 10),
        entry(13, ["nvcc", "x.cu"], 12, 10),
    ]
    [found] = look(table, {12: 5000.0})
    assert (found["pid"], found["role"]) == (10, "server")
    assert [one["pid"] for one in found["processes"]] == [10, 11, 12, 13]
    assert [share["memory_mib"] for share in found["gpus"]] == [5000.0]


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        ("0::/system.slice/docker-" + "a" * 64 + ".scope", ("a" * 64, "docker", "", False)),
        ("4:memory:/docker/" + "b" * 64, ("b" * 64, "docker", "", False)),
        ("0::/machine.slice/libpod-" + "c" * 64 + ".scope/container", ("c" * 64, "podman", "", False)),
        ("0::/system.slice/sglang.service", ("", "", "sglang.service", False)),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/sglang@30000.service",
            ("", "", "sglang@30000.service", True),
        ),
        ("0::/user.slice/user-0.slice/session-3.scope", ("", "", "", False)),
        (
            "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + "d" * 64 + ".scope",
            ("d" * 64, "crictl", "", False),
        ),
    ],
)
def test_container_and_unit_are_read_from_the_control_group(cgroup: str, found: tuple[str, str, str, bool]) -> None:
    assert outputs.belongs_to(cgroup) == found


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended afterwards, by their numbers."""
    children: list[subprocess.Popen[bytes]] = []
    yield children
    for child in children:
        child.kill()
        child.wait()


async def test_where_the_output_of_a_server_goes(
    local_link: HostLink, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    program = tmp_path / "llama-server"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    program.chmod(0o755)

    def start(out: Any) -> int:
        started.append(subprocess.Popen([str(program), "600"], stdin=subprocess.DEVNULL, stdout=out, stderr=out))
        return started[-1].pid

    kept, gone = tmp_path / "kept.log", tmp_path / "gone.log"
    pids = {}
    with kept.open("wb") as one, gone.open("wb") as other:
        pids["file"], pids["deleted"] = start(one), start(other)
    gone.write_text("still here\n")
    gone.unlink()
    teed = tmp_path / "teed.log"
    for name, argv in (("tee", ["tee", str(teed)]), ("pipe", ["cat"])):
        reader = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        started.append(reader)
        assert reader.stdin is not None
        pids[name] = start(reader.stdin)
        reader.stdin.close()
    pids["nowhere"] = start(subprocess.DEVNULL)
    master, slave = pty.openpty()
    pids["terminal"] = start(slave)
    async with asyncio.timeout(20):
        while not teed.exists():
            await asyncio.sleep(0.01)
    said = (await local_link.call("servers", ASKED)).result["servers"]
    found = {name: next(each for each in said if each["pid"] == pid) for name, pid in pids.items()}
    assert (found["file"]["log"], found["file"]["output"]) == (str(kept), "file")
    assert found["tee"]["log"] == str(teed)
    assert (found["deleted"]["output"], found["deleted"]["log"]) == ("deleted", f"/proc/{pids['deleted']}/fd/1")
    assert f"{gone} was deleted" in found["deleted"]["output_why"]
    read = await local_link.call("read_log", {"path": found["deleted"]["log"], "offset": 0, "length": 100})
    assert read.body == b"still here\n"
    assert found["pipe"]["log"] == "" and "reads: cat" in found["pipe"]["output_why"]
    assert (found["nowhere"]["output"], found["terminal"]["output"]) == ("nowhere", "terminal")
    assert os.ttyname(slave) in found["terminal"]["output_why"]
    for number in (master, slave):
        os.close(number)


STAND_IN = """#!/bin/sh
echo "$@" >> {asked}
cat {text}
while :; do sleep 0.02; cat {more} 2>/dev/null && rm -f {more}; done
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded stand-in for `docker` and `journalctl` on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    text = STAND_IN.format(asked=tmp_path / "asked", text=tmp_path / "text", more=tmp_path / "more")
    for name in ("docker", "journalctl"):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (tmp_path / "text").write_text("".join(f"line {number}\n" for number in range(2000)))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("docker:abc@1764657000", "logs --follow --tail 200000 --since 1764657000 abc"),
        (
            "journal:sglang.service@7",
            "--unit=sglang.service --output=cat --all --no-pager --follow --lines=200000 --since=@7",
        ),
    ],
)
async def test_a_containers_and_a_units_log_is_followed_without_loss(runtime: Path, address: str, asked: str) -> None:
    link = HostLink(LocalTransport())
    await link.connect()
    head = await link.call("read_log", {"path": address, "offset": 0, "length": 14})
    assert (head.body, head.result["size"]) == (b"line 0\nline 1\n", (runtime / "text").stat().st_size)
    whole, offset = b"", 0
    async with asyncio.timeout(30):
        async for reply in link.stream("follow", {"path": address, "key": "a", "lines": 2}):
            whole += reply.body
            offset = reply.result["offset"] + len(reply.body)
            if whole.endswith(b"line 1999\n"):
                break
    assert whole == b"line 1998\nline 1999\n"
    (runtime / "more").write_text("after\n")
    await link.close()
    (runtime / "text").write_text((runtime / "text").read_text() + "after\n")
    (runtime / "more").unlink(missing_ok=True)
    again = HostLink(LocalTransport())
    await again.connect()
    events, rest = [], b""
    async with asyncio.timeout(30):
        asking = {"path": address, "key": "b", "offset": offset, "inode": 12345}
        async for reply in again.stream("follow", asking, whole[-10:]):
            events.append(reply.result["event"])
            rest += reply.body
            if rest:
                break
    assert (events[0], rest) == ("resumed", b"after\n"), (
        "a new outpost reads the past again, and tells none of it twice"
    )
    await again.close()
    assert (runtime / "asked").read_text().split("\n")[0] == asked


async def test_what_follows_a_container_ends_with_the_outpost(runtime: Path) -> None:
    (runtime / "bin" / "docker").write_text(f"#!/bin/sh\necho $$ > {runtime / 'pid'}\nexec sleep 600\n")
    link = HostLink(LocalTransport())
    await link.connect()
    await link.call("read_log", {"path": "docker:abc", "offset": 0, "length": 1})
    pid = int((runtime / "pid").read_text())
    await link.close()
    async with asyncio.timeout(20):
        while processes.start_ticks(pid) is not None:
            await asyncio.sleep(0.02)


async def test_a_runtime_that_is_not_there_is_named(local_link: HostLink) -> None:
    with pytest.raises(RemoteError, match="crictl is not on this host's PATH"):
        await local_link.call("read_log", {"path": "crictl:abc", "offset": 0, "length": 1})


async def test_code_that_was_put_there_since_a_process_began_is_told_whatever_its_time(
    local_link: HostLink, tmp_path: Path
) -> None:
    package = tmp_path / "engine"
    package.mkdir()
    for name in ("__init__.py", "a.py", "notes.txt"):
        (package / name).write_text("")
    code = "import sys, time; print(1, flush=True); time.sleep(600)"
    time.sleep(0.05)  # a process's start is told in hundredths of a second
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, cwd="/")
    assert child.stdout is not None and child.stdout.readline()
    args = {"pid": child.pid, "start_ticks": processes.start_ticks(child.pid), "package": "engine"}
    try:
        whole = {"folder": str(package), "files": 2, "touched": 0, "names": []}
        assert (await local_link.call("loaded_since", args)).result == whole
        (package / "notes.txt").write_text("no code")
        (package / "b.py").write_text("")
        os.utime(package / "b.py", (1, 1))
        told = {**whole, "files": 3, "touched": 1, "names": ["b.py"]}
        assert (await local_link.call("loaded_since", args)).result == told
        other = (await local_link.call("loaded_since", {**args, "package": "nowhere_to_be_found"})).result
        assert (other["folder"], other["files"]) == ("", 0)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


async def test_adopting_keeps_names_and_refuses_twice(
    local_link: HostLink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    link = HostLink(LocalTransport())
    await link.connect()
    code = "import sys, time; print(1, flush=True); time.sleep(600)"
    environment = {**os.environ, "HF_TOKEN": "hunter2hunter2"}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None and child.stdout.readline()
    ticks = processes.start_ticks(child.pid)
    args = {"pid": child.pid, "start_ticks": ticks, "record": {"engine": "sglang", "port": 1}, "no_log": "a terminal"}
    try:
        state = (await link.call("adopt", args)).result
        assert "HF_TOKEN" in state["record"]["env_names"] and state["record"]["adopted"] is True
        folder = Path(state["folder"])
        assert not any(b"hunter2" in file.read_bytes() for file in folder.iterdir())
        assert (folder / "server.log").read_text() == "tokwatt: a terminal\n"
        assert state["alive"] and [one["pid"] for one in state["processes"]] == [child.pid]
        record = json.loads((folder / "launch.json").read_text())
        (folder / "launch.json").write_text(json.dumps({**record, "log": f"/proc/{child.pid}/fd/1"}))
        assert (await link.call("run_state", {"folder": str(folder)})).result["log"] == f"/proc/{child.pid}/fd/1"
        with pytest.raises(RemoteError) as caught:
            await link.call("adopt", args)
        assert caught.value.kind == "eexist"
        with pytest.raises(RemoteError) as caught:
            await link.call("adopt", {**args, "start_ticks": 1})
        assert caught.value.kind == "changed"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        gone = (await link.call("run_state", {"folder": str(folder)})).result
        await link.close()
    assert gone["log"] == str(folder / "server.log"), "that number may be another's by now, and its files with it"
