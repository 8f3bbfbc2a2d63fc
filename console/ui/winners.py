"""Winners on screen: what has drifted since one was saved, and whether its numbers come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.domain.text import clean, dash
from console.errors import UsageError

if TYPE_CHECKING:
    from console.domain.profile import Profile
    from console.operations.verifying import Again, Verification
    from console.ui.app import TokwattApp


def _must_be_the_desks(app: TokwattApp, profile: Profile) -> None:
    desk = app.need_desk()
    if (fault := app.link_fault()) is not None:
        raise fault
    if desk.profile is None or desk.profile.path != profile.path:
        raise UsageError(f"{profile.name} is not what this host works under", hint="enter chooses it")


def drift_lines(found: Verification) -> list[str]:
    """Return what has drifted, in words."""
    from console.operations.verifying import summary

    lines = [summary(found), ""]
    for one in found.drifts:
        sign, then = "!" if one in found.deciding else "·", "unknown" if one.saved is None else one.saved
        lines += [f"{sign} {one.what}", f"    saved  {then}", f"    now    {one.now}"]
    if found.unknown:
        told = [f"{what} ({found.reasons[what]})" if found.reasons.get(what) else what for what in found.unknown]
        lines += ["", f"not known, so not compared: {', '.join(told)}"]
    return lines


def again_line(row: Again) -> str:
    """Return one concurrency beside what was saved."""
    bounds = "" if row.low_pct is None else f" [{row.low_pct:+.1f}, {row.high_pct:+.1f}] %"
    return f"{row.concurrency:>7,}  {dash(row.saved_tok_s)} → {dash(row.now_tok_s)} tok/s{bounds}  {row.verdict}" + (
        f": {clean(row.why)}" if row.why else ""
    )


async def verify(app: TokwattApp, profile: Profile) -> None:
    """Show every drift of the host from a winner."""
    from console.operations import verifying
    from console.ui.modals.text import TextModal

    _must_be_the_desks(app, profile)
    found = await verifying.verify(app.need_desk())
    await app.push_screen_wait(TextModal(f"{profile.name}: what has drifted", "\n".join(drift_lines(found))))


async def reproduce(app: TokwattApp, profile: Profile) -> None:
    """Rebuild a winner and measure it again; drifts and what it interrupts are shown before GPU time is spent."""
    from console.operations import server, verifying
    from console.ui.modals.confirm import ConfirmModal
    from console.ui.modals.text import TextModal

    _must_be_the_desks(app, profile)
    desk = app.need_desk()
    desk.must_write("profile reproduce")
    found = await verifying.verify(desk)
    said = [*drift_lines(found)[:16], "patches on, the server launched, then its ladder measured again"]
    said.append(await server.blast_radius(desk))
    yes = "measure although it drifted" if found.drifts else "rebuild and measure"
    if not await app.push_screen_wait(ConfirmModal("reproduce it?", said, yes)):
        return
    rows: list[Again] = []
    async for part in verifying.reproduce(desk, force=bool(found.drifts)):
        if isinstance(part, str):
            app.say(part)
        else:
            rows.append(part)
    told = verifying.concluded(rows)
    app.announce("reproduction done")
    await app.push_screen_wait(TextModal(f"{profile.name}: {told}", "\n".join([told, "", *map(again_line, rows)])))
