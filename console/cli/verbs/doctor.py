"""`tokwatt doctor`: looks a host over."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from console.cli.output import Output
    from console.operations.desk import Desk

SIGNS = {"ok": "✓", "warning": "!", "failed": "✗"}


def add(verbs: Any, parents: Sequence[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    doctor = verbs.add_parser("doctor", parents=parents, help="look a host over: connection, Python, GPUs, rights")
    doctor.set_defaults(act=_doctor, needs="host")


async def _doctor(args: argparse.Namespace, desk: Desk, out: Output) -> int:
    from console.operations.doctor import Health, examine

    checks = []
    async for check in examine(desk):
        checks.append(check)
        if not out.json:
            out.line(f"{SIGNS[check.health]} {check.name}: {check.said}")
            if check.hint and check.health is not Health.OK:
                out.line(f"    {check.hint}")
    if out.json:
        out.document(host=desk.link.host.name, checks=[asdict(check) for check in checks])
    return int(any(check.health is Health.FAILED for check in checks))
