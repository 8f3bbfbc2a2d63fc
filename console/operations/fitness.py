"""Whether a profile would start as it is written, asked of the install before anything is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from console.domain.profile import Profile
from console.errors import UsageError
from console.operations import launching, profile_check
from console.operations.desk import Desk
from console.operations.profile_check import Finding

STOPPING = ("launch.", "engine.")
"""Keys whose faults keep a server from starting; a patch or a benchmark plan can be wrong without it."""

TOLD = 6


async def looked(desk: Desk, profile: Profile, *, force: bool = False) -> launching.Preflight:
    """Look at all that would keep a launch from coming up, on the host and of the install.

    Args:
        desk: Whose host.
        profile: What would be launched.
        force: Launch although the install would not take its arguments.

    Raises:
        UsageError: Interpreter, folder or model is not there, or the install would not take the arguments.
    """
    said = await launching.look(desk, profile, model=profile_check.model_folder(profile))
    found = launching.passed(desk, profile, said)
    await must_fit(desk, profile, said, force=force)
    return found


async def must_fit(desk: Desk, profile: Profile, looked: Mapping[str, Any], *, force: bool = False) -> None:
    """Refuse a profile whose arguments this install would not take; tell what is only odd.

    The install is not started for it: what it said before counts, else its source.

    Args:
        desk: Whose host.
        profile: What would be launched.
        looked: What `launching.look` said with the model's folder.
        force: Tell the errors, and go on.

    Raises:
        UsageError: It would not start; file, line, key and what to write are named.
    """
    found = await profile_check.check(profile, desk, ask=False, looked=looked)
    wrong = stopping(found)
    for each in found:
        if force or each not in wrong:
            desk.say(f"{each.severity}: {line_of(each)}")
    if wrong and not force:
        first, rest = wrong[0], wrong[1 : TOLD + 1]
        more = f"and {len(wrong) - TOLD - 1} more" if len(wrong) > TOLD + 1 else ""
        detail = "; ".join([*(line_of(each) for each in rest), *([more] if more else [])])
        way = f"{first.hint}; " if first.hint else ""
        raise UsageError(place_of(first), detail, f"{way}--force starts it all the same")


def stopping(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings that keep a server from starting."""
    return [each for each in found if each.severity == profile_check.ERROR and each.key.startswith(STOPPING)]


def place_of(finding: Finding) -> str:
    """Return where a finding is and what it is: file, line, key, text."""
    return ": ".join(filter(None, (finding.place, finding.told)))


def line_of(finding: Finding) -> str:
    """Return a finding in one line, with what to write instead."""
    return place_of(finding) + (f" ({finding.hint})" if finding.hint else "")
