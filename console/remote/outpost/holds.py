"""Who is at this host's measuring: one console at a time, told from a file that it renews for as long as it lives."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict

from . import processes
from .basics import state_home
from .calls import Call, Fault, Operation, Result
from .runfiles import only_one, put_json, read_json

STALE_S = 300.0
"""A hold that was not renewed for so long binds nobody: its console is gone, or cut off for good."""


def refuse(call: Call) -> None:
    """Raise where a change of the host would spoil what another console measures.

    `hold` among the arguments says who asks: `console`, and the `token` of its own hold where it works under one.

    Raises:
        Fault: `held` by another console's experiment; `lost` when the caller's own hold was taken over.
    """
    mine, now = call.args.get("hold") or {}, _standing()
    if not now:
        return
    if mine.get("token") and now["token"] != mine["token"]:
        raise _fault("lost", now)
    if now["total"] and binds(now, str(mine.get("console") or "")):
        raise _fault("held", now)


def binds(now: Dict[str, Any], console: str) -> bool:
    """Return whether a hold stands in the way of a console; its own it settles with its own locks."""
    return bool(now and now["what"] and now["console"] != console and _age_s(now) <= STALE_S)


def told(now: Dict[str, Any]) -> Dict[str, Any]:
    """Return a hold as it travels."""
    if not now:
        return {}
    names = ("console", "token", "operator", "what", "total", "since", "taken_from")
    age_s = _age_s(now)
    since_s = max(0.0, time.time() - float(now["since"]))
    return {**{name: now[name] for name in names}, "age_s": age_s, "since_s": since_s, "stale": age_s > STALE_S}


def _hold(call: Call) -> Result:
    """Take the hold, or renew it.

    Arguments: `hold` as `refuse` takes it; `operator`; `what` is done, in words; `total`: whether nobody else may
    change the host meanwhile, or only not measure; `renew`. Whose stale hold was there before comes back as `before`.
    """
    mine = call.args.get("hold") or {}
    with only_one(_folder()):
        now = _standing()
        if call.args.get("renew"):
            if now and now["token"] != mine["token"]:
                raise _fault("lost", now)
        elif binds(now, str(mine["console"])):
            raise _fault("held", now)
        _put(
            console=str(mine["console"]),
            token=str(mine["token"]),
            operator=call.text("operator", ""),
            what=call.text("what"),
            total=bool(call.args.get("total")),
            since=now["since"] if now and now["token"] == mine["token"] else time.time(),
        )
    before = now if now and now["what"] and now["console"] != mine["console"] else {}
    return {"before": told(before)}, b""


def _let_go(call: Call) -> Result:
    """Give the hold back, if it is still the caller's."""
    mine = call.args.get("hold") or {}
    with only_one(_folder()):
        now = _standing()
        if now and now["token"] == mine["token"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_path())
    return {}, b""


def _take_over(call: Call) -> Result:
    """End another console's hold: that one is told at its next step. Arguments: `token` of it; `hold`, `operator`."""
    mine = call.args.get("hold") or {}
    with only_one(_folder()):
        now = _standing()
        if not now or not now["what"]:
            return {"taken": {}}, b""
        if now["token"] != call.text("token"):
            raise _fault("changed", now)
        _put(
            console=str(mine["console"]),
            token=os.urandom(8).hex(),
            operator=call.text("operator", ""),
            what="",
            total=False,
            since=time.time(),
            taken_from=now["token"],
        )
    return {"taken": told(now)}, b""


def _holder(_call: Call) -> Result:
    now = _standing()
    return {"hold": told(now) if now and now["what"] else {}}, b""


def _folder() -> str:
    return os.path.join(state_home(), "hold")


def _path() -> str:
    return os.path.join(_folder(), "hold.json")


def _standing() -> Dict[str, Any]:
    """Return what the file says; nothing where there is none, or where it is not ours to understand."""
    found = read_json(_path())
    names = ("console", "token", "operator", "what", "total", "since", "taken_from", "beat", "boot")
    return found if all(name in found for name in names) else {}


def _put(**facts: Any) -> None:
    facts.setdefault("taken_from", "")
    put_json(_path(), {**facts, "beat": time.monotonic(), "boot": processes.boot_id()})


def _age_s(now: Dict[str, Any]) -> float:
    """Return for how long a hold was not renewed; what was held before this boot is long over."""
    if now["boot"] != processes.boot_id():
        return 10 * STALE_S
    return max(0.0, time.monotonic() - float(now["beat"]))


def _fault(kind: str, now: Dict[str, Any]) -> Fault:
    who = now["operator"] or "another console"
    said = "%s: %s" % (who, now["what"]) if now["what"] else "taken over by %s" % who
    return Fault(kind, said, **told(now))


OPS: dict[str, Operation] = {
    "hold": _hold,
    "let_go": _let_go,
    "take_over": _take_over,
    "holder": _holder,
}
