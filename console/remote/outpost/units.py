"""What a run can be launched in beside a plain process: a container of its own, a Slurm job, a systemd scope.

Whatever is asked or ended is named by what was written down of this very run: the id that the runtime gave
its container, the number of its job, the name of its scope, which holds the run's mark.
"""

from __future__ import annotations

import calendar
import json
import os
import platform
import re
import subprocess
import time
from typing import Any

from . import processes
from .calls import Fault
from .runfiles import put_json, read_json, read_text

ASKED_S = 10
KEPT_S = {"docker-run": 2.0, "slurm": 5.0, "systemd-run": 2.0}
"""Seconds for which an answer is good: a controller serves a whole cluster."""

ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT".split()
)
"""States of a Slurm job of which nothing runs any more."""

OVER = ("exited", "stopped", "dead", "removing")
"""States of a container in which nothing of it runs."""

QUEUE_FORMAT = "%i|%T|%r|%N|%j"
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
"""Where a scope's processes are listed: of version 2, 1, and both."""

HEAD_BYTES = 4096
MARK_LENGTH = 8
CLOCKS_S = 3.0
"""By how much the start of a container differs between its daemon and `/proc`."""

_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))")

_QUEUED = re.compile(r"^srun: job (\d+) queued and waiting for resources", re.MULTILINE)
_NO_SUCH = re.compile(r"no such (?:container|object)|no container with", re.IGNORECASE)
_answers: dict[str, tuple[float, bool, dict[str, Any]]] = {}
"""By run folder: when it was asked, whether the launcher lived then, and what was said."""


def named(word: str, run: str, mark: str) -> str:
    """Return a word of a launcher with the run's number filled in.

    The mark makes the name one's own: two logins of a host, or two states of one, number their runs alike.
    """
    return word.replace("{run}", "%s-%s" % (run, mark[:MARK_LENGTH]))


def arranged(order: dict[str, Any] | None, before: list[str], folder: str, run: str, mark: str) -> list[str]:
    """Return the words in front of the engine's own, with what lets the run be found again."""
    words = [named(word, run, mark) for word in before]
    if order and order.get("kind") == "docker-run" and len(words) > 1:
        kept = ["--cidfile", os.path.join(folder, "cid"), "--env", "TOKWATT_RUN", "--env", "TOKWATT_MARK"]
        words[2:2] = kept
    return words


def environment(order: dict[str, Any] | None) -> dict[str, str]:
    """Return the variables that a launcher needs beside those of this login."""
    place = "/run/user/%d" % os.getuid()
    if order and order.get("manager") == "user" and "XDG_RUNTIME_DIR" not in os.environ and os.path.isdir(place):
        return {"XDG_RUNTIME_DIR": place}  # a login without PAM has none, and its manager is there all the same
    return {}


def facts(folder: str, record: dict[str, Any], *, alive: bool, fresh: bool = False) -> dict[str, Any] | None:
    """Return how the container, job or scope of a run stands; `None` for a plain process.

    `alive` of it is `None` where it cannot be known, since who was asked does not answer.

    Args:
        folder: Of the run.
        record: Its launch.json.
        alive: Whether its launcher lives.
        fresh: Ask whatever was said a moment ago.
    """
    order = record.get("unit")
    if not isinstance(order, dict) or order.get("kind") not in KEPT_S:
        return None
    kept = read_json(os.path.join(folder, "unit"))
    if kept.get("alive") is False and not alive:
        return kept
    at, lived, said = _answers.get(folder, (0.0, alive, {}))
    good_s = 0.0 if said.get("state") == "starting" and order["kind"] != "slurm" else KEPT_S[order["kind"]]
    if said and lived == alive and not fresh and time.monotonic() - at < good_s:
        return said
    ask = {"docker-run": _container, "slurm": _job, "systemd-run": _scope}[order["kind"]]
    told = {"kind": order["kind"], "name": order.get("name", ""), "id": "", "state": "", "reason": "", "node": ""}
    told.update({name: kept[name] for name in ("id", "pid", "pid_ticks", "cgroup") if name in kept})
    told.update(ask(folder, order, told, alive))
    _answers[folder] = time.monotonic(), alive, told
    _note(folder, kept, told, launched=alive or os.path.exists(os.path.join(folder, "exit")))
    return told


def _note(folder: str, kept: dict[str, Any], told: dict[str, Any], launched: bool) -> None:
    """Write down what identifies it as soon as that is known, and its end."""
    lasting = {name: told[name] for name in ("id", "pid", "pid_ticks", "cgroup") if told.get(name)}
    if told["alive"] is False and launched and told["state"] != "starting":
        lasting = dict(told)
    if lasting and any(kept.get(name) != value for name, value in lasting.items()):
        put_json(os.path.join(folder, "unit"), lasting)


def roots(told: dict[str, Any] | None, ticks: int) -> list[int]:
    """Return processes of a run that are no descendants of its launcher.

    Args:
        told: How its unit stands.
        ticks: Start time of the launcher: what is older is another's, as a number that means another machine.
    """
    if told is None:
        return []
    found = []
    if told.get("pid"):
        now = processes.start_ticks(int(told["pid"]))
        if now is not None and now >= ticks and now == told.get("pid_ticks"):
            found.append(int(told["pid"]))
    if told.get("cgroup"):
        found += [pid for pid in _cgroup_pids(str(told["cgroup"])) if pid != os.getpid()]
    return found


def signal(folder: str, record: dict[str, Any], name: str, *, alive: bool) -> dict[str, str]:
    """Send a signal to all of a run's container, job or scope; return what was done, and what was answered.

    Empty where a signal to its processes does it.
    """
    told = facts(folder, record, alive=alive, fresh=True)
    if told is None or told["alive"] is False or not told["id"]:
        return {"said": "", "fault": ""}
    order, short = record["unit"], name.replace("SIG", "")
    if told["kind"] == "docker-run":
        argv = [order["tool"], "kill", "--signal", short, told["id"]]
    elif told["kind"] == "slurm":
        if "job_name" not in told:
            return {"said": "", "fault": ""}  # the number comes from a log, and nobody tells whose job that is
        if told["name"] != told["job_name"]:
            raise Fault("changed", "job %s is named %s, not %s" % (told["id"], told["job_name"], told["name"]))
        waits = told["state"] in ("PENDING", "CONFIGURING")
        argv = ["scancel", told["id"]] if waits else ["scancel", "--signal=" + short, told["id"]]
    elif name == "SIGKILL":
        argv = [*_systemctl(order), "kill", "--signal=SIGKILL", told["id"]]
    else:
        return {"said": "", "fault": ""}
    code, _, fault = ask(argv)
    if code == 0 and told["kind"] == "slurm" and name == "SIGKILL" and len(argv) == 3:
        code, _, fault = ask(["scancel", told["id"]])  # the job, too, where nobody is left to give it back
    _answers.pop(folder, None)
    return {"said": " ".join(argv), "fault": fault if code else ""}


def _container(folder: str, order: dict[str, Any], told: dict[str, Any], alive: bool) -> dict[str, Any]:
    number = read_text(os.path.join(folder, "cid")).strip() or told["id"]
    if not number:
        reason = "its image is fetched, or the container made" if alive else ""
        return {"state": "starting" if alive else "gone", "alive": alive, "reason": reason}
    code, said, fault = ask([order["tool"], "inspect", "--type", "container", "--format", "{{json .State}}", number])
    if code:
        if _NO_SUCH.search(fault):
            return {"id": number, "state": "gone", "alive": False, "reason": ""}
        return {"id": number, "state": "unknown", "alive": None, "reason": fault}
    try:
        state = json.loads(said)
        status, pid = str(state.get("Status") or ""), int(state.get("Pid") or 0)
    except (ValueError, AttributeError, TypeError):
        return {"id": number, "state": "unknown", "alive": None, "reason": "inspect said %s" % said[:80]}
    found: dict[str, Any] = {"id": number, "state": status, "alive": status not in OVER}
    found["reason"] = "killed for its memory" if state.get("OOMKilled") else str(state.get("Error") or "")
    if pid > 1 and found["alive"] and (ticks := _ticks_here(pid, number, str(state.get("StartedAt") or ""))):
        found.update(pid=pid, pid_ticks=ticks)
    return found


def _ticks_here(pid: int, number: str, began: str) -> int | None:
    """Return the start time of a container's first process; `None` where its number is another's on this host.

    The daemon may be another machine's, or of the host around our own container: then its numbers mean others here.
    """
    ticks, here = processes.start_ticks(pid), processes.table([pid])
    if ticks is None or not here:
        return None
    if any(number in line for line in processes.lines_of("/proc/%d/cgroup" % pid)):
        return ticks
    at, mine = _moment(began), here[0]["started_at"]
    return ticks if at is not None and mine is not None and abs(at - mine) <= CLOCKS_S else None


def _moment(text: str) -> float | None:
    """Return a moment such as `2026-12-02T19:24:02.123456789Z`, or with `+02:00` behind."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    offset = int(match[3] + match[4]) * 3600 + int(match[3] + match[5]) * 60 if match[3] else 0
    return calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) + float("0." + (match[2] or "0")) - offset


def _job(folder: str, _order: dict[str, Any], told: dict[str, Any], alive: bool) -> dict[str, Any]:
    number = told["id"]
    if not number:
        queued = _QUEUED.search(read_text(os.path.join(folder, "server.log"), HEAD_BYTES))
        number = queued[1] if queued else ""
    which = ["--jobs", number] if number else ["--user", processes.user_name(os.getuid()), "--name", told["name"]]
    code, said, fault = ask(["squeue", "--noheader", "--states", "all", *which, "--format", QUEUE_FORMAT])
    rows = [line.strip().split("|") for line in said.splitlines() if line.count("|") >= 4]
    if code and "Invalid job id" not in fault:
        return {"id": number, "state": "unknown", "alive": None, "reason": fault}
    if not rows:
        waits = alive and not number
        return {"id": number, "state": "starting" if waits else "gone", "alive": waits, "reason": ""}
    number, state, reason, node, name = rows[0][:5]
    found = {"id": number, "state": state, "alive": state not in ENDED, "node": node, "job_name": name}
    found["elsewhere"] = bool(node) and "[" not in node and node.split(".")[0] != platform.node().split(".")[0]
    found["reason"] = "" if reason in ("None", "") or state in ("RUNNING", "CANCELLED") else reason
    return found


def _scope(_folder: str, order: dict[str, Any], told: dict[str, Any], alive: bool) -> dict[str, Any]:
    name = "%s.scope" % told["name"]
    wanted = ["--property=%s" % one for one in ("LoadState", "ActiveState", "ControlGroup", "Result")]
    code, said, fault = ask([*_systemctl(order), "show", name, *wanted])
    if code:
        return {"id": name, "state": "unknown", "alive": None, "reason": fault}
    shown = dict(line.partition("=")[::2] for line in said.splitlines())
    state = shown.get("ActiveState", "")
    if state in ("inactive", "failed", ""):
        result = shown.get("Result", "")
        reason = "" if result in ("", "success") else result
        return {"id": name, "state": "starting" if alive else "gone", "alive": alive, "reason": reason}
    found = {"id": name, "state": state, "alive": True, "reason": ""}
    if shown.get("ControlGroup", "").strip("/"):
        found["cgroup"] = shown["ControlGroup"]
    return found


def _systemctl(order: dict[str, Any]) -> list[str]:
    return ["systemctl", "--user"] if order.get("manager") == "user" else ["systemctl"]


def _cgroup_pids(place: str) -> list[int]:
    found: list[int] = []
    for root in CGROUPS:
        for folder, _, names in os.walk(root + place):
            if "cgroup.procs" in names:
                lines = read_text(os.path.join(folder, "cgroup.procs")).split()
                found += [int(line) for line in lines if line.isdigit()]
        if found:
            break
    return found


def ask(argv: list[str]) -> tuple[int, str, str]:
    """Run a program of the host for its answer; return status, output and what it complained of."""
    env = {**os.environ, **environment({"manager": "user"} if "--user" in argv else None), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=ASKED_S, env=env
        )
    except subprocess.TimeoutExpired:
        return 124, "", "%s did not answer within %d s" % (argv[0], ASKED_S)
    except OSError as error:
        return 127, "", "%s: %s" % (argv[0], error.strerror)
    fault = done.stderr.decode("utf-8", "replace").strip()
    return done.returncode, done.stdout.decode("utf-8", "replace"), " ".join(fault.split())[:300]
