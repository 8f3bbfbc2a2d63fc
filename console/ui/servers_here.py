"""What is done with servers that tokwatt did not start: listed, attached to, adopted, stopped by their typed pid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.domain.run import UP
from console.errors import UsageError

if TYPE_CHECKING:
    from console.domain.run import Run
    from console.ui.app import TokwattApp


async def show_servers(app: TokwattApp) -> None:
    """List every server of the host, and do what is picked."""
    from console.operations import servers
    from console.ui.modals.servers import ServersModal
    from console.ui.widgets.status import host_now

    found = await servers.found(app.need_desk())
    picked = await app.push_screen_wait(ServersModal(found, host_now(app.snapshot)))
    if picked is None:
        return
    what, chosen = picked
    doing = {"attach": attach_to, "adopt": adopt, "stop": stop_typed}
    await doing[what](app, chosen.process.pid)


async def attach_to(app: TokwattApp, pid: int) -> None:
    """Show a server in the panes, read-only where it is not ours."""
    from console.operations import foreign

    run = await foreign.attach(app.need_desk(), pid)
    if run.adopted:
        app.say(f"attached to run {run.id}")
    else:
        app.say(f"watching pid {pid} on port {run.port}, read-only until it is adopted" + _log_word(run))


def _log_word(run: Run) -> str:
    return f"; {run.log_why}" if run.log_why else ""


async def adopt(app: TokwattApp, pid: int) -> None:
    """Make a run of a server, after what that means was shown."""
    from console.operations import foreign
    from console.ui.modals.confirm import ConfirmModal

    desk = app.need_desk()
    desk.must_write("adopt")
    lines = [
        f"pid {pid} goes on as it is; it becomes a run, and its log goes on.",
        "What it has loaded stays unproven, unless its package is unchanged since before it started.",
        "From then on x t stops it like any run of ours.",
    ]
    if await app.push_screen_wait(ConfirmModal("adopt the server?", lines, "adopt")):
        run = await foreign.adopt(desk, pid)
        app.say(f"adopted as run {run.id}")


async def adopt_server(app: TokwattApp) -> None:
    """Adopt the server that is shown."""
    await adopt(app, _foreign_pid(app))


async def stop_typed(app: TokwattApp, pid: int) -> None:
    """Stop a server once its owner, command, connections and GPUs were shown and, unless it is ours, its pid typed."""
    from console.operations import foreign
    from console.operations.server_words import stake_lines
    from console.ui.modals.servers import StakeModal

    desk = app.need_desk()
    desk.must_write("stop")
    at_stake = await foreign.stake(desk, pid)
    found = at_stake.server
    what = f"run {found.run}" if found.ours else "a server that is not ours"
    question = StakeModal(f"stop {what}?", stake_lines(at_stake), found.process.pid, typed=not found.ours)
    if typed := await app.push_screen_wait(question):
        await foreign.stop(desk, at_stake, typed)


async def stop_shown(app: TokwattApp) -> None:
    """Stop the foreign server that is shown."""
    await stop_typed(app, _foreign_pid(app))


def _foreign_pid(app: TokwattApp) -> int:
    run = app.snapshot.run
    if run is None or run.adopted or run.process is None or run.phase not in UP:
        raise UsageError("no server is shown that tokwatt did not start", hint="x l lists the servers of this host")
    return run.process.pid
