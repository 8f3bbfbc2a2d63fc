"""Keeping an experiment's winner: its profile with the evidence, only after it won again, measured afresh."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.domain.experiment import ExperimentState, Rated
from console.errors import DriftError, RefusedError
from console.experiments.report import state_of
from console.journal.book import Journal
from console.operations import experiments, patches
from console.operations.desk import Desk
from console.operations.winner import save_profile
from console.operations.winner_fit import must_be_rebuildable


async def save_winner(desk: Desk, experiment: str, name: str, *, overwrite: bool = False, dirty: bool = False) -> Path:
    """Save the winner of an experiment as a profile of the operator's own.

    Args:
        desk: The host that it was measured on.
        experiment: Its id, name or file.
        name: Of the profile.
        overwrite: Edit an existing file; its comments stay.
        dirty: Seal the hashes of uncommitted changes that no patch of it holds, instead of refusing them.

    Raises:
        RefusedError: Nothing won, it did not win again, or nobody could rebuild it.
        DriftError: The file says something else than what was measured.
    """
    entry = await experiments.entry_of(experiment, host=desk.link.host.name)
    told = state_of(entry)
    if not told.winner:
        raise RefusedError(f"experiment {entry.id}: nothing won", f"its verdict is {told.verdict}")
    fresh = next((rung for rung in told.confirmed if rung.concurrency == told.decide_at), None)
    if fresh is None:
        raise RefusedError(
            f"experiment {entry.id}: {told.winner} was not measured afresh",
            "what won by luck looks like this too",
            "run it with confirm = 3 under [measure]",
        )
    spec = experiments.load(entry.path)
    if spec.search is not None:
        from console.operations.experiments_search import proof_of, study_of, tested

        study = await asyncio.to_thread(study_of, spec, desk.operator)
        spec = proof_of(spec, study, entry) or tested(spec, study)
    if spec.digest != entry.digest:
        raise DriftError(f"{entry.path} or its base profile changed since {entry.id} was measured")
    arms = {arm.name: arm for arm in await asyncio.to_thread(experiments.resolve, spec)}
    arm = arms[told.winner]
    outcome = next(one for one in told.outcomes if one.name == told.winner)
    run = await Journal().run(f"{entry.host}:{outcome.runs[-1]}")
    if run is None:
        raise RefusedError(f"experiment {entry.id}: run {outcome.runs[-1]} of {told.winner} is not in the journal")
    if not dirty:
        on = [str(one) for one in run.identity.get("patches_on") or ()]
        known = await patches.statuses(desk, on) if on else ()
        must_be_rebuildable(run, (file for status in known for file in status.files))
    profile = replace(arm.profile, bench=replace(spec.bench, repeats=max(spec.repeats, 3)), path="")
    return await save_profile(
        desk, profile, run, name, overwrite=overwrite, evidence=_evidence(told, fresh, spec.tolerate)
    )


def _evidence(told: ExperimentState, fresh: Rated, tolerate: Sequence[str]) -> Mapping[str, Any]:
    """Return what the experiment adds to a winner's evidence."""
    return {
        **({"tolerate": list(tolerate)} if tolerate else {}),
        "experiment": told.id,
        "arm": told.winner,
        "decided_by": told.metric,
        "at_concurrency": told.decide_at,
        "over_base": _plain(fresh),
        "ledger": [
            {
                "arm": line.name,
                "over": line.over,
                "change_pct": round(line.change_pct, 3),
                **({} if line.low_pct is None else {"low_pct": round(line.low_pct, 3)}),
                **({} if line.high_pct is None else {"high_pct": round(line.high_pct, 3)}),
            }
            for line in told.ledger
        ],
    }


def _plain(rung: Rated) -> Mapping[str, Any]:
    found = {
        "base": rung.base_mean,
        "winner": rung.arm_mean,
        "ratio": rung.ratio,
        "ratio_low": rung.low,
        "ratio_high": rung.high,
        "pairs": rung.pairs,
    }
    return {
        name: value if isinstance(value, int) else round(value, 5) for name, value in found.items() if value is not None
    }
