"""A server that runs gets the folder of a run, as if it had been launched here; its process is not touched."""

from __future__ import annotations

import os
import time

from . import launch, processes
from .calls import Call, Fault, Operation, Result
from .runfiles import only_one, put_json, read_json, read_text


def _adopt(call: Call) -> Result:
    """Give a server that runs a folder as if it had been launched here; its process is not touched.

    Arguments: `pid` and `start_ticks` of the server; `record` as for `launch`, `log` in it where its output
    can be followed; `no_log`, what is written down where it cannot. Of its environment the names are kept.
    """
    pid, ticks = call.number("pid"), call.number("start_ticks")
    if not processes.is_alive(pid, ticks):
        raise Fault("changed", "pid %d is gone, or another process by now" % pid, pid=pid)
    if os.geteuid() not in (0, os.stat("/proc/%d" % pid).st_uid):
        raise Fault("eperm", "pid %d belongs to another login" % pid, pid=pid)
    with only_one(launch.runs_folder()), Call.critical:
        taken = _folder_of(pid, ticks)
        if taken:
            raise Fault("eexist", "pid %d is a run already" % pid, path=taken)
        folder = launch.new_folder(call.args.get("kept") or ())
        record = dict(call.args.get("record") or {})
        record.update(schema=1, id=os.path.basename(folder), boot_id=processes.boot_id(), adopted=True)
        record.update(pid=pid, start_ticks=ticks, session=0, utc_offset_s=time.localtime().tm_gmtoff)
        record.update(adopted_at=time.time(), cwd=processes.link_of("/proc/%d/cwd" % pid), hashes={}, patches_on=[])
        names = (word.partition("=")[0] for word in processes.words_of(pid, "environ"))
        record["env_names"] = sorted({name for name in names if name})
        if not record.get("log"):
            with open(os.path.join(folder, "server.log"), "w", encoding="utf-8") as file:
                file.write("tokwatt: %s\n" % call.text("no_log", "its output cannot be read"))
        with open(os.path.join(folder, "pid"), "w", encoding="utf-8") as file:
            file.write("%d %d 0\n" % (pid, ticks))
        put_json(os.path.join(folder, "launch.json"), record)
    return launch.state_of(folder), b""


def _folder_of(pid: int, ticks: int) -> str:
    """Return the folder of the run that a process is the server of; empty when it is of none."""
    parent = launch.runs_folder()
    try:
        names = os.listdir(parent)
    except OSError:
        return ""
    for name in names:
        folder = os.path.join(parent, name)
        if read_text(os.path.join(folder, "pid")).split()[:2] != [str(pid), str(ticks)]:
            continue
        if read_json(os.path.join(folder, "launch.json")).get("boot_id", "") in ("", processes.boot_id()):
            return folder
    return ""


OPS: dict[str, Operation] = {"adopt": _adopt}
