"""Patches as a shell prints them: rows, lines and the shapes of `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from console.domain.patch import DiskState, Edit, Patch, PatchStatus, ProcessState, WriteReceipt

if TYPE_CHECKING:
    from console.operations.patch_sets import SetPlan
    from console.operations.patch_table import Checked

SIGNS = {
    DiskState.ON: "●",
    DiskState.OFF: "○",
    DiskState.DRIFTED: "◌",
    DiskState.CONFLICT: "✗",
    DiskState.ALREADY_UPSTREAM: "▲",
    DiskState.NOT_APPLICABLE: "·",
    DiskState.INVALID: "!",
    DiskState.UNKNOWN: "?",
}
"""Beside the word, never instead of it."""


def checked(one: Checked) -> dict[str, Any]:
    """Return one row of `patch check --json`."""
    return {**row(one.status, one.package), "host": one.host}


def table(rows: Sequence[Checked]) -> list[dict[str, Any]]:
    """Return over which versions each patch stands how."""
    from console.operations.patch_table import sentence, spans

    found = []
    for name in dict.fromkeys(one.status.name for one in rows):
        mine = [one for one in rows if one.status.name == name]
        parts = [{"says": span.says, "versions": list(span.versions)} for span in spans(mine)]
        found.append({"name": name, "spans": parts, "told": sentence(mine)})
    return found


def check_lines(rows: Sequence[Checked], say: Callable[[str], None]) -> Iterator[str]:
    """Return the lines of `patch check`; what should be known beside them is said.

    Args:
        rows: Every patch in every place.
        say: Where narration goes.
    """
    from console.operations.patch_table import sentence

    width = max((len(one.status.name) for one in rows), default=0)
    hosts, places = {one.host for one in rows}, {(one.host, one.package) for one in rows}
    for one in rows:
        status = one.status
        where = f"{one.host} " if len(hosts) > 1 else ""
        where += f"{one.package} " if one.package and len(places) > 1 else ""
        where += f"({status.version or 'version unknown'})  " if len(places) > 1 else ""
        known = status.loaded is not ProcessState.UNKNOWN
        told = status.loaded is not ProcessState.NO_SERVER and bool(known or status.process_reason)
        process = (f" · {word(status.loaded)}" if known else " · in process —") if told else ""
        yield f"{SIGNS[status.disk]} {status.disk:<16} {status.name:<{width}}  {where}{status.reason}{process}"
        for warning in status.warnings:
            say(f"{status.name}: {warning}")
        if status.process_reason and told:
            yield f"  {'':<16} {'':<{width}}  {status.process_reason}"
    if len(places) > 1:
        yield ""
        for name in dict.fromkeys(one.status.name for one in rows):
            yield f"{name:<{width}}  {sentence([one for one in rows if one.status.name == name])}"


def planned(found: SetPlan) -> dict[str, Any]:
    """Return a set's plan."""
    return {
        "steps": [
            {"name": step.name, "verb": step.verb, "files": [change.shown for change in step.changes]}
            for step in found.steps
        ],
        "already": [{"name": name, "reason": why} for name, why in found.already],
        "refused": [{"name": name, "reason": why} for name, why in found.refused],
        "left_on": list(found.left),
        "diff": list(found.diff),
    }


def row(status: PatchStatus, folder: str) -> dict[str, Any]:
    """Return a status."""
    return {
        "name": status.name,
        "title": status.title,
        "state": status.disk.value,
        "loaded": status.loaded.value,
        "reason": status.reason,
        "evidence": status.process_reason,
        "files": list(status.files),
        "package": folder or None,
        "version": status.version,
        "needs_fuzz": status.needs_fuzz,
        "ours": status.ours,
        "asks": list(status.asks),
        "warnings": list(status.warnings),
        "conflict": list(status.conflict),
        "diff": list(status.diff),
    }


def described(patch: Patch) -> dict[str, Any]:
    """Return a patch as its file tells it."""
    return {
        "name": patch.name,
        "title": patch.title,
        "why": patch.why,
        "path": patch.path,
        "engine": patch.applies_to.engine,
        "versions": patch.applies_to.version,
        "upstream_from": patch.applies_to.upstream_from,
        "compute_capability": list(patch.applies_to.compute_capability),
        "after": list(patch.after),
        "conflicts_with": list(patch.conflicts_with),
        "requires": {"args": dict(patch.requires.args), "absent": list(patch.requires.absent)},
        "evidence_log": patch.evidence_log,
        "fault": patch.fault,
    }


def edits(edits: Sequence[Edit]) -> list[dict[str, Any]]:
    """Return the edits of a patch."""
    return [
        {
            "file": edit.file,
            "kind": edit.kind.value,
            "within": edit.within,
            "find": edit.find,
            "replace": edit.replace,
            "count": edit.count,
        }
        for edit in edits
    ]


def written(receipt: WriteReceipt) -> dict[str, Any]:
    """Return a receipt."""
    return {
        "name": receipt.name,
        "verb": receipt.verb,
        "files": [
            {
                "file": file,
                "sha256_before": before,
                "sha256_after": after,
                "lines_added": added,
                "lines_removed": removed,
            }
            for file, before, after, added, removed in receipt.files
        ],
        "compiled_by": receipt.compiled_by,
        "round_trips": receipt.round_trips,
        "duration_ms": round(receipt.ms, 1),
        "notes": list(receipt.notes),
    }


def process(status: PatchStatus) -> str:
    """Return what the running server has of a patch, with the evidence; a dash where that is unknown."""
    said = "—" if status.loaded is ProcessState.UNKNOWN else word(status.loaded)
    return f"{said} · {status.process_reason}" if status.process_reason else said


def word(state: ProcessState) -> str:
    """Return a state as it is read."""
    return state.value.replace("_", " ")
