"""A console that loses its link, or is killed, at each step of an experiment: `python -m … FOLDER KIND`, begun again until done.

Each step is cut once: what was cut stands in the folder's file `cuts`. The host has done what it was asked by then; that
it has, this console never hears.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from console.domain.run import Run
from console.errors import LinkLostError, UsageError
from console.operations import answers, experiments, experiments_run, measure
from console.operations.desk import Desk
from console.operations.opening import open_desk
from console.remote import upkeep
from console.remote.client import Reply
from console.remote.link import HostLink
from console.remote.target import Target

CALLS = ("transaction", "note_stop", "launch")
"""Operations that change the host."""

FOLDER, KIND = Path(sys.argv[1]), sys.argv[2]
WAY: Mapping[str, Any] = json.loads((FOLDER / "way.json").read_text())
CUTS = FOLDER / "cuts"


def sessions(pid: int) -> list[int]:
    """Return the processes of a server's connections."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if Path(f"/proc/{child}/comm").read_text().startswith("sshd"):
            found += [int(child), *sessions(int(child))]
    return found


def cut(step: str) -> bool:
    """Lose everything at a step, the first time that it is come to; return whether it was."""
    done = CUTS.read_text().splitlines() if CUTS.exists() else []
    if step in done or not (done or Cut.arm == "fused"):  # until then there is nothing to be brought back
        return False
    CUTS.write_text("\n".join([*done, step]) + "\n")
    if KIND == "console":
        os.kill(os.getpid(), signal.SIGKILL)
    for pid in sessions(WAY["sshd"]):
        os.kill(pid, signal.SIGKILL)
    return True


class Cut(experiments_run.Work):
    """The work, cut where something was written down."""

    arm = ""

    async def diary(self, kind: str, data: Mapping[str, Any], where: str) -> None:
        """Keep an event."""
        Cut.arm = data.get("arm", "")
        await super().diary(kind, data, where)
        if kind in ("measured", "verdict", "rolled_back", "left"):
            cut(f"{kind} told")


call, ask = HostLink.call, answers.ask


async def cut_call(self: HostLink, op: str, *given: Any, **named: Any) -> Reply:
    """Do an operation, whose answer is lost."""
    found = await call(self, op, *given, **named)
    if op in CALLS and cut(f"{op} {Cut.arm}" if op == "transaction" else op):
        raise LinkLostError(f"cut in {op}")
    return found


async def cut_ask(desk: Desk, run: Run) -> tuple[str, ...] | None:
    """Have the link go away before the prompts are sent."""
    cut("ask")
    return await ask(desk, run)


async def main() -> None:
    """Begin the experiment, or go on with it, and tell what came of it."""
    HostLink.call, answers.ask = cut_call, cut_ask  # type: ignore[method-assign]
    experiments_run.Work = Cut  # type: ignore[misc]
    measure.FIRST_SAMPLE_S = 0.0  # there is no GPU to wait for
    upkeep.BACKOFF_S = (0.1,) * 7  # links that break one after the other are waited for longer and longer
    spec = experiments.load(str(FOLDER / "x.toml"))
    desk = await open_desk(Target(**WAY["target"]), profile=str(FOLDER / "base.toml"))
    try:
        try:
            states = experiments_run.resume(desk, spec, await experiments.entry_of(spec.path))
        except UsageError:
            states = experiments_run.run(desk, spec)
        async with aclosing(states) as steps:  # type: ignore[type-var]
            async for told in steps:
                if told.live_tok_s:
                    cut("load")
        print(json.dumps({"verdict": str(told.verdict), "winner": told.winner, "where": told.where}))
    finally:
        await desk.link.close()


if __name__ == "__main__":
    asyncio.run(main())
