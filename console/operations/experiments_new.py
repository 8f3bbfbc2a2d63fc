"""An experiment made of what differs between two runs: an arm for each difference, and one with all of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.config.edit import write_whole
from console.config.experiments import parse_experiment
from console.config.paths import config_home
from console.errors import ConsoleError, RefusedError
from console.operations.compare import find_run

if TYPE_CHECKING:
    from console.journal.records import RunEntry


async def write_from_runs(a: str, b: str, file: str = "") -> Path:
    """Write an experiment file that asks what makes run B another than run A, and return where.

    Args:
        a: Run of the journal that is the base.
        b: The other one.
        file: Where to; empty takes the operator's own folder.

    Raises:
        RefusedError: The file is there already.
    """
    first, second = await find_run(a), await find_run(b)
    text = from_difference(first, second)
    path = Path(file).expanduser() if file else config_home() / "experiments" / f"{first.id}-{second.id}.toml"
    if path.exists():
        raise RefusedError(f"{path} is there already", hint="choose another name")
    parse_experiment(text, str(path))
    write_whole(path, text.encode())
    return path


def from_difference(a: RunEntry, b: RunEntry, name: str = "") -> str:
    """Return the text of an experiment that asks what makes run B another than run A: an arm for each difference.

    Raises:
        ConsoleError: They do not differ in anything that can be asked for.
    """
    from console.patching.process import arguments

    old, new = (arguments(tuple(one.identity.get("argv") or ())) for one in (a, b))
    for skipped in ("port", "host"):
        old.pop(skipped, None)
        new.pop(skipped, None)
    changes: list[tuple[str, dict[str, Any]]] = []
    for flag in [*new, *(flag for flag in old if flag not in new)]:
        if flag not in new:
            changes.append((f"no-{flag}", {"unset": [flag]}))
        elif old.get(flag) != new[flag]:
            value = new[flag]
            changes.append((flag, {"args": {flag: list(value) if isinstance(value, tuple) else _number(value)}}))
    mine, theirs = (list(one.identity.get("patches_on") or ()) for one in (a, b))
    changes += [(patch, {"patches": [patch]}) for patch in theirs if patch not in mine]
    changes += [(f"no-{patch}", {"without": [patch]}) for patch in mine if patch not in theirs]
    if not changes:
        raise ConsoleError(f"runs {a.id} and {b.id} do not differ in arguments or patches", hint="c compares them")
    return _written(a, b, changes, name)


def _written(a: RunEntry, b: RunEntry, changes: list[tuple[str, dict[str, Any]]], name: str) -> str:
    import tomli_w

    both = sorted({one.concurrency_limit for one in (*a.measurements, *b.measurements)})
    arms = [{"name": arm, "hypothesis": f"differs in run {b.id}", **change} for arm, change in changes]
    if len(arms) > 1:
        arms.append({"name": "all", "hypothesis": f"what run {b.id} had", "combine": [arm for arm, _ in changes]})
    data = {
        "schema": 1,
        "title": name or f"What makes {b.id} another than {a.id}",
        "base": a.profile.partition("+")[0],
        "measure": {"repeats": 5, **({"concurrency": both} if both else {})},
        "arm": arms,
    }
    return f"# made of runs {a.id} and {b.id} on {time.strftime('%Y-%m-%d %H:%M')}\n" + tomli_w.dumps(data)


def _number(value: object) -> object:
    """Return a word of a command line as TOML would hold it."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
