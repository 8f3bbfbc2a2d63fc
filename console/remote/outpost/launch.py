"""Launch a server in its own session, keep its exit status, and tell how runs stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Iterable

from . import gpus, holds, outputs, processes, units
from .basics import state_home
from .calls import Call, Fault, Operation, Result
from .runfiles import only_one, put_json, read_json, read_text

NUMBERS_TRIED = 1000
NUMBERS_LOOKED_AT = 50
WHOLE_LOOK_S = 3.0
LAUNCH_S = 60.0
"""How long a launch may take until its process is written down."""

STATUS_S = 1.0
"""How long the status of a process is waited for that has ended this moment."""

KEEPER = """
import json, os, signal, subprocess, sys, time
size = int(sys.stdin.buffer.readline())
order = json.loads(sys.stdin.buffer.read(size))
folder = order["folder"]

def put(name, text):
    path = os.path.join(folder, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)

if os.fork():
    os._exit(0)
os.setsid()
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0)
os.dup2(null, 2)
log = os.open(os.path.join(folder, "server.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
report = os.dup(1)
os.dup2(null, 1)

def tell(**facts):
    os.write(report, json.dumps(facts).encode() + b"\\n")
    os.close(report)

try:
    child = subprocess.Popen(order["argv"], env=order["env"], cwd=order["cwd"] or None, stdin=null, stdout=log,
                             stderr=log, start_new_session=True)
except OSError as error:
    os.write(log, ("tokwatt: cannot start %s: %s\\n" % (order["argv"][0], error)).encode())
    put("exit", "127 %.3f\\n" % time.time())
    tell(error=str(error), errno=error.errno)
    os._exit(127)
order.clear()
with open("/proc/%d/stat" % child.pid, "rb") as file:
    raw = file.read()
ticks = int(raw[raw.rfind(b")") + 2:].split()[19])
put("pid", "%d %d %d\\n" % (child.pid, ticks, child.pid))
tell(pid=child.pid, start_ticks=ticks, session=child.pid)
os.close(log)
ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
status = ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status
put("exit", "%d %.3f\\n" % (status, time.time()))
child.wait()
"""
"""Lives beside the server to write down how it ended; in a session of its own, so that ending the server's leaves it.

The server stays a zombie until its status is on disk: whoever looks in between knows that it is about to come.
"""

KEEPER_NAME = "tokwatt-run"
_BOOT = "import sys;exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"


def runs_folder() -> str:
    """Return where the runs of this login are kept."""
    return os.path.join(state_home(), "runs")


def _launch(call: Call) -> Result:
    """Start a server as a new run.

    Arguments: `cwd`, `record` (what launch.json shall hold beside what is known here), `host_env`
    (names that must be in this login's environment). Body: JSON with `argv` and `env`, since both may
    hold secrets; what stands between NULs is the name of a variable of this login. `unset`: names that the server
    must not have. `before`: words of the launcher in front, in which `{run}` becomes the run's number
    and mark; `unit`, an argument: what it makes (`units`). `kept`: names of runs that are known elsewhere, not to be
    given again. `hold`: as `holds.refuse` takes it.
    """
    try:
        order = json.loads(call.body)
        argv, env = [str(word) for word in order["argv"]], {str(k): str(v) for k, v in order["env"].items()}
        before = [str(word) for word in order.get("before", [])]
        unset = [str(name) for name in order.get("unset", [])]
    except (ValueError, KeyError, AttributeError, TypeError):
        raise Fault("usage", "the body of launch must be JSON with argv and env") from None
    unit = call.args.get("unit") or None
    missing = [name for name in call.args.get("host_env", []) if name not in os.environ]
    if missing:
        raise Fault("noenv", "not in the host's environment: %s" % ", ".join(missing), names=missing)
    argv, env = [_filled(word) for word in argv], {name: _filled(value) for name, value in env.items()}
    with only_one(runs_folder()), Call.critical:
        holds.refuse(call)
        _must_have_port((call.args.get("record") or {}).get("port"))
        folder = new_folder(call.args.get("kept") or ())
        name = os.path.basename(folder)
        record = dict(call.args.get("record") or {})
        record.update(
            schema=1,
            id=name,
            started_at=time.time(),
            utc_offset_s=time.localtime().tm_gmtoff,
            boot_id=processes.boot_id(),
            cwd=call.args.get("cwd") or "",
            env_names=sorted(env),
            mark=os.urandom(8).hex(),
        )
        if unit:
            record["unit"] = {**unit, "name": units.named(str(unit.get("name", "")), name, record["mark"])}
        put_json(os.path.join(folder, "launch.json"), record)
        before = units.arranged(unit, before, folder, name, record["mark"])
        order = {
            "folder": folder,
            "cwd": call.args.get("cwd") or "",
            "argv": before + argv,
            "env": {**os.environ, **env},
        }
        order["env"].update(units.environment(unit))
        for gone in unset:
            order["env"].pop(gone, None)
        order["env"].update(TOKWATT_RUN=name, TOKWATT_MARK=record["mark"])
        said = _start_keeper(order)
        if "pid" not in said:
            raise Fault(
                "nostart", "cannot start %s: %s" % ((before + argv)[0], said.get("error", "no answer")), path=folder
            )
        record.update(pid=said["pid"], start_ticks=said["start_ticks"], session=said["session"])
        put_json(os.path.join(folder, "launch.json"), record)
    return state_of(folder), b""


def _must_have_port(port: object) -> None:
    """Raise where another console launched a run on this port since ours looked; the two would fight for it."""
    for folder in _newest(NUMBERS_LOOKED_AT) if port else ():
        record = read_json(os.path.join(folder, "launch.json"))
        if record.get("port") == port and _leader(folder, record)[3]:
            told = {name: str(record.get(name) or "") for name in ("id", "profile", "operator")}
            raise Fault("taken", "port %s is taken by run %s" % (port, told["id"]), **told)


def _filled(word: str) -> str:
    """Return a word with the variables of this login whose names stand between NULs, which no word can hold."""
    return re.sub("\0([^\0]+)\0", lambda match: os.environ.get(match.group(1), ""), word)


def new_folder(kept: Iterable[str] = ()) -> str:
    """Make the folder of a new run, under a number that neither a folder here has nor a run that is kept elsewhere."""
    parent = runs_folder()
    os.makedirs(parent, mode=0o700, exist_ok=True)
    day = time.strftime("%Y-%m-%d")
    taken = [name[len(day) + 1 :] for name in [*os.listdir(parent), *kept] if name.startswith(day + "-")]
    number = 1 + max([int(text) for text in taken if text.isdigit()], default=0)
    for candidate in range(number, number + NUMBERS_TRIED):
        folder = os.path.join(parent, "%s-%d" % (day, candidate))
        try:
            os.mkdir(folder, 0o700)
            return folder
        except FileExistsError:
            continue
    raise Fault("eexist", "no free run number under %s" % parent, path=parent)


def _start_keeper(order: dict[str, Any]) -> dict[str, Any]:
    code, body = KEEPER.encode(), json.dumps(order).encode()
    starter = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BOOT, KEEPER_NAME, order["folder"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    said, _ = starter.communicate(b"%d\n%s%d\n%s" % (len(code), code, len(body), body), timeout=LAUNCH_S)
    try:
        answer = json.loads(said)
    except ValueError:
        answer = {}
    return answer if isinstance(answer, dict) else {}


def state_of(folder: str) -> dict[str, Any]:
    """Return how the run of a folder stands: its record, exit, living processes and log size.

    `launching`: its process is about to be written down; `ending`: it has ended, and its status is about to be.
    """
    state: dict[str, Any] = {
        "folder": folder,
        "log": "",
        "record": read_json(os.path.join(folder, "launch.json")),
        "exit": None,
        "ended_at": None,
        "time": time.time(),
    }
    state["log"] = state["record"].get("log") or os.path.join(folder, "server.log")
    state.update(_process_of(folder, state["record"]))
    if state["log"].startswith("/proc/") and not state["alive"]:
        state["log"] = os.path.join(folder, "server.log")  # that number may be another's, and its files with it
    state["held_mib"] = None
    if state["processes"] and not state["alive"]:
        state["held_mib"] = gpus.held_mib({entry["pid"] for entry in state["processes"]})
    state["ladder"] = read_json(os.path.join(folder, "ladder")) or None
    state["stop"] = read_json(os.path.join(folder, "stop")) or None
    text, state["ending"] = _exit_of(folder, state)
    if text and text[0].lstrip("-").isdigit():
        state["exit"] = int(text[0])
        state["ended_at"] = float(text[1]) if len(text) > 1 else None
    state["launching"] = state["pid"] is None and state["exit"] is None and _is_young(folder, state)
    state.update(outputs.size_of(state["log"]))
    return state


def _is_young(folder: str, state: dict[str, Any]) -> bool:
    try:
        began = state["record"].get("started_at") or os.stat(folder).st_mtime
    except OSError:
        return False
    return bool(0 <= state["time"] - float(began) < LAUNCH_S)


def _exit_of(folder: str, state: dict[str, Any]) -> tuple[list[str], bool]:
    """Return what was written down of the end, and whether that is still to come; it is waited for a moment."""
    until = time.monotonic() + STATUS_S
    while True:
        # looked at before the file: a zombie is reaped behind it
        ending = bool(state["pid"]) and not state["alive"] and _is_kept_zombie(state["pid"], state["start_ticks"])
        text = read_text(os.path.join(folder, "exit")).split()
        if text or not ending or time.monotonic() > until:
            return text, ending and not text
        time.sleep(0.01)


def _is_kept_zombie(pid: int, ticks: int) -> bool:
    """Whether a process has ended and its keeper, which writes down how, lives; another parent may never reap it."""
    parent = processes.parent_of_zombie(pid, ticks)
    return parent is not None and KEEPER_NAME in processes.argv_of(parent)


def _process_of(folder: str, record: dict[str, Any]) -> dict[str, Any]:
    pid, ticks, session, alive = _leader(folder, record)
    if not pid:
        return {"pid": None, "start_ticks": None, "session": None, "alive": False, "processes": [], "unit": None}
    unit = units.facts(folder, record, alive=alive)
    found: list[dict[str, Any]] = []
    if _same_boot(record):
        found = processes.members(pid, ticks, session, str(record.get("mark", "")), units.roots(unit, ticks))
    return {
        "pid": pid,
        "start_ticks": ticks,
        "session": session,
        "alive": alive,
        "processes": found,
        "unit": unit,
    }


def _leader(folder: str, record: dict[str, Any]) -> tuple[int, int, int, bool]:
    """Return pid, start time and session of what was started, and whether it lives; zeros where nothing was."""
    words = read_text(os.path.join(folder, "pid")).split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        return 0, 0, 0, False
    pid, ticks, session = (int(word) for word in words)
    return pid, ticks, session, _same_boot(record) and processes.is_alive(pid, ticks)


def _same_boot(record: dict[str, Any]) -> bool:
    return record.get("boot_id", "") in ("", processes.boot_id())


def _runs(call: Call) -> Result:
    """Return the newest runs, newest first."""
    return {"runs": [state_of(folder) for folder in _newest(call.number("limit", 20))]}, b""


def _newest(limit: int) -> list[str]:
    """Return the folders of the newest runs, newest first."""
    parent = runs_folder()
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        names = []
    names.sort(key=_run_order, reverse=True)
    return [os.path.join(parent, name) for name in names[:limit]]


def _run_order(name: str) -> tuple[str, int]:
    day, _, number = name.rpartition("-")
    return day, int(number) if number.isdigit() else 0


def _run_state(call: Call) -> Result:
    return state_of(own_folder(call)), b""


def _watch_run(call: Call) -> Result:
    """Stream the state of a run: now, and whenever its exit, life, unit or processes have changed.

    The whole process table is looked through every `WHOLE_LOOK_S` only; the end of the leader and
    its exit file are seen at every look.
    """
    folder, told = own_folder(call), None
    while not call.cancelled.is_set():
        state, looked = state_of(folder), time.monotonic()
        unit = state["unit"] or {}
        stands = unit.get("id"), unit.get("state"), unit.get("reason"), unit.get("node")
        key = (state["exit"], state["alive"], sorted(entry["pid"] for entry in state["processes"]), stands)
        if key != told:
            call.emit(state)
            told = key
        if state["exit"] is not None and not state["processes"] and not unit.get("alive"):
            return state, b""
        exit_file, cid_file = os.path.join(folder, "exit"), os.path.join(folder, "cid")
        bare = unit.get("state") == "starting" and not os.path.exists(cid_file)
        while time.monotonic() - looked < WHOLE_LOOK_S and not call.cancelled.wait(call.number("every_ms", 500) / 1000):
            alive = state["pid"] is not None and processes.is_alive(state["pid"], state["start_ticks"])
            if alive != state["alive"] or (state["exit"] is None and os.path.exists(exit_file)):
                break
            if bare and os.path.exists(cid_file):
                break
    return state_of(folder), b""


def _note_ladder(call: Call) -> Result:
    """Keep how long each step of a start took beside its log, for the starts to come."""
    folder = own_folder(call)
    path = os.path.join(folder, "ladder")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(call.args.get("ladder") or {}, file)
    os.replace(path + ".new", path)
    return {}, b""


def _signal_unit(call: Call) -> Result:
    """Send a signal to what a run was launched in: a container or a job, which signals to its launcher do not reach."""
    folder = own_folder(call)
    record = read_json(os.path.join(folder, "launch.json"))
    return dict(units.signal(folder, record, call.text("signal"), alive=_leader(folder, record)[3])), b""


def own_folder(call: Call) -> str:
    """Return the folder of the run that a call is about."""
    folder = os.path.join(runs_folder(), os.path.basename(call.text("folder").rstrip("/")))
    if not os.path.isdir(folder):
        raise Fault("enoent", "no such run", path=folder)
    return folder


OPS: dict[str, Operation] = {
    "launch": _launch,
    "runs": _runs,
    "run_state": _run_state,
    "watch_run": _watch_run,
    "note_ladder": _note_ladder,
    "signal_unit": _signal_unit,
}
