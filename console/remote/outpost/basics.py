"""What host is this: `hello`, and `ping` to measure the way."""

from __future__ import annotations

import os
import platform
import pwd
import sys
import time

from . import wire
from .calls import Call, Result


def state_home() -> str:
    """Return `${XDG_STATE_HOME:-~/.local/state}/tokwatt` of this login."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "tokwatt")


def hello(_call: Call) -> Result:
    """Tell who and where we are."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = str(os.geteuid())
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot_id = file.read().strip()
    except OSError:
        boot_id = ""
    return {
        "protocol": wire.PROTOCOL,
        "hostname": platform.node(),
        "user": user,
        "uid": os.geteuid(),
        "home": os.path.expanduser("~"),
        "system": "%s %s" % (platform.system(), platform.release()),
        "python": platform.python_version(),
        "executable": sys.executable,
        "state_home": state_home(),
        "boot_id": boot_id,
        "time": time.time(),
        "pid": os.getpid(),
    }, b""


def ping(call: Call) -> Result:
    """Send the body back."""
    return {"time": time.time()}, call.body


OPS = {"hello": hello, "ping": ping}
