"""Who stops a run: one of several consoles; the others see who and since when, and wait."""

from __future__ import annotations

import os
import time
from typing import Any

from . import holds, launch
from .calls import Call, Operation, Result
from .runfiles import put_json, read_json


def _note_stop(call: Call) -> Result:
    """Write down, before a run is stopped, that it was asked for and by whom; whose note stands comes back as `stop`.

    Arguments: `operator`; `token`, by which a console knows its own note; `pid` of it, where it runs; `grace_s`, after which it goes on to
    SIGKILL; `take`, to replace the note of another; `hold`, as `holds.refuse` takes it. Of a run of which nothing
    lives nothing is written: how it ended stays as it was.
    """
    folder = launch.own_folder(call)
    state = launch.state_of(folder)
    if not (state["alive"] or state["processes"] or (state["unit"] or {}).get("alive")):
        return state, b""
    holds.refuse(call)
    note = {
        "operator": call.text("operator", ""),
        "token": call.text("token", ""),
        "grace_s": call.args.get("grace_s"),
        "console": (call.args.get("hold") or {}).get("console") or "",
        "pid": call.args.get("pid"),
        "at": time.time(),
    }
    path = os.path.join(folder, "stop")
    if call.args.get("take"):
        put_json(path, note)
    elif not _put_first(path, note):
        note = read_json(path)
    return {**state, "stop": note}, b""


def _put_first(path: str, note: dict[str, Any]) -> bool:
    """Write a file whole unless there is one already; false where there is."""
    mine = "%s.%s" % (path, note["token"])
    put_json(mine, note)
    try:
        os.link(mine, path)
    except FileExistsError:
        os.unlink(mine)
        return False
    except OSError:  # a file system without links
        os.replace(mine, path)
        return True
    os.unlink(mine)
    return True


OPS: dict[str, Operation] = {"note_stop": _note_stop}
