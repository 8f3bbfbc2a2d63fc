"""Actions: what the keys of the cockpit start, one operation each."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from console.domain.run import UP, RunPhase
from console.errors import ConsoleError, RefusedError, UsageError
from console.ui.holder_here import take_over
from console.ui.servers_here import adopt_server, show_servers, stop_shown

if TYPE_CHECKING:
    from console.domain.run import Run
    from console.operations.dry_run import DryRun
    from console.ui.app import TokwattApp

COMMAND = 400
"""Characters of a command that a question shows."""

NOTES = 6
"""Lines of what stands in the way or is odd; a small screen has room for no more."""

Action = Callable[["TokwattApp"], Coroutine[Any, Any, None]]


async def open_server_menu(app: TokwattApp) -> None:
    """Offer what can be done with the server."""
    from console.ui.modals.confirm import MenuModal

    desk = app.need_desk()
    run = app.snapshot.run
    said = ["no server"] if run is None or run.phase is RunPhase.NONE else [f"run {run.id}, {run.phase.value}"]
    said += [f"stopped by {run.stopped_by}"] if run is not None and run.stopped_by else []
    if run is not None and not run.adopted:
        said = [f"port {run.port}: {owner_of(run)}", "not started by us: read-only until it is adopted"]
    said.append(f"profile {desk.profile.name}" if desk.profile else "no profile: p chooses one")
    foreign = run is not None and not run.adopted and run.phase in UP
    choices = [("s", "start from the profile"), ("t", "stop, once its pid is typed" if foreign else "stop")]
    choices.append(("r", "restart: stop, then start from the profile"))
    choices += [("o", "adopt it as a run")] if foreign else []
    choices.append(("a", "look again for a server that runs"))
    choices.append(("l", "list every server on this host, whoever started it"))
    picked = await app.push_screen_wait(MenuModal("Server", said, choices))
    if picked:
        doing = {"s": start_server, "t": stop_server, "r": restart_server, "a": attach_server}
        doing |= {"o": adopt_server, "l": show_servers}
        await doing[picked](app)


def owner_of(run: Run) -> str:
    """Return who a server is that we did not start: pid, login, command."""
    pid = f"pid {run.process.pid}" if run.process else "a process that cannot be seen"
    command = " ".join(run.argv)
    return f"{pid} ({run.operator or 'unknown login'})" + (f": {command[:160]}" if command else "")


def _must_be_ours(app: TokwattApp, verb: str) -> None:
    """Raise `RefusedError` with pid and command when the port's server is somebody else's."""
    run = app.snapshot.run
    if run is None or run.adopted or run.phase not in UP:
        return
    if verb == "start":
        way = "another port under [launch] of the profile, or leave it: gauges and b work with it as it is"
        raise RefusedError(f"port {run.port} is taken by {owner_of(run)}", "not started by us", way)
    raise RefusedError(
        f"{verb}: the server on port {run.port} was not started by us: {owner_of(run)}",
        hint="x o adopts it first; x t stops it once its pid is typed",
    )


async def _sure(app: TokwattApp, verb: str, lines: list[str]) -> bool:
    from console.operations import server
    from console.ui.modals.confirm import ConfirmModal

    run = app.snapshot.run
    if run is not None and run.phase in UP:
        lines = [*lines, await server.blast_radius(app.need_desk())]
    said = await app.push_screen_wait(ConfirmModal(f"{verb} the server?", lines, verb))
    return said is True


async def start_server(app: TokwattApp) -> None:
    """Launch the server after its command, and what it would meet on the host, were shown."""
    from console.operations import server
    from console.operations.dry_run import dry_run
    from console.operations.holds import must_be_free

    desk = app.need_desk()
    desk.must_write("start")
    await must_be_free(desk, "start")
    profile = desk.must_profile()
    _must_be_ours(app, "start")
    run = app.snapshot.run
    if run is not None and run.phase in UP:
        raise UsageError(f"run {run.id} is {run.phase.value} already", hint="x r restarts it")
    said = [f"{profile.engine.kind} from profile {profile.name}, port {profile.launch.port}"]
    force = await _start_shown(app, said, await dry_run(desk))
    if force is not None:
        await server.start(desk, force=force)


async def _start_shown(app: TokwattApp, said: list[str], found: DryRun) -> bool | None:
    """Show what a start would run and meet; return whether the profile's faults are to be passed over, `None` for no."""
    from console.ui.modals.confirm import ConfirmModal, MenuModal

    command = found.command if len(found.command) <= COMMAND else found.command[: COMMAND - 1] + "…"
    said += [command, "patches on: " + (", ".join(found.patches_on) or "none"), *found.host_lines]
    notes = [f"✗ {text}" for text in (*found.blocking, *found.wrong_lines)]
    notes += [f"! {text}" for text in (*found.warnings, *found.odd_lines)]
    more = len(notes) - NOTES
    said += [*notes[:NOTES], *([f"… and {more} more: tokwatt serve start --dry-run tells all"] if more > 0 else [])]
    if found.blocking:
        await app.push_screen_wait(MenuModal("it would not start", said, ()))
        return None
    if found.wrong:
        said.append("this install would not take the profile as it is written: p shows where")
        return (
            True if await app.push_screen_wait(ConfirmModal("start it all the same?", said, "start", key="F")) else None
        )
    return False if await app.push_screen_wait(ConfirmModal("start the server?", said, "start")) else None


async def stop_server(app: TokwattApp) -> None:
    """Stop the server after what that interrupts was shown."""
    from console.operations import server
    from console.operations.holds import must_be_free

    desk = app.need_desk()
    desk.must_write("stop")
    await must_be_free(desk, "stop")
    run = app.snapshot.run
    if run is not None and not run.adopted and run.phase in UP:
        await stop_shown(app)
        return
    if run is None or run.phase not in (*UP, RunPhase.STOPPING):
        raise UsageError("no server runs", hint="x s starts one")
    if await _sure(app, "stop", [f"run {run.id}" + (f", pid {run.process.pid}" if run.process else "")]):
        await server.stop(desk, run)


async def restart_server(app: TokwattApp) -> None:
    """Stop and launch again after what that interrupts was shown."""
    from console.operations import server
    from console.operations.holds import must_be_free

    desk = app.need_desk()
    desk.must_write("restart")
    await must_be_free(desk, "restart")
    _must_be_ours(app, "restart")
    profile, run = desk.must_profile(), app.snapshot.run
    waiting = [p.name for p in app.snapshot.patches if p.loaded.value == "needs_restart"]
    said = [f"{profile.engine.kind} from profile {profile.name}"]
    said += [f"then in force: {', '.join(waiting)}"] if waiting else []
    if await _sure(app, "restart", said):
        await server.restart(desk, agreed=run.key if run else "")


async def attach_server(app: TokwattApp) -> None:
    """Look for a running server again."""
    from console.operations import server

    run = await server.attach(app.need_desk())
    if run is None:
        app.say("no server found on this host")
    else:
        app.say(f"attached to run {run.id}" if run.adopted else f"watching port {run.port}: {owner_of(run)}")


async def measure(app: TokwattApp) -> None:
    """Open the measuring screen, which begins at once."""
    from console.ui.screens.bench import BenchScreen

    app.need_desk().must_profile()
    await app.push_screen(BenchScreen())


async def save_winner(app: TokwattApp) -> None:
    """Save the running configuration with its evidence as a new profile, once it was measured afresh."""
    from console.operations import winner
    from console.ui.modals.confirm import ConfirmModal
    from console.ui.modals.prompt import PromptModal

    desk = app.need_desk()
    profile = desk.must_profile()
    if not await _sealed_as_shown(app):
        return
    name = await app.push_screen_wait(
        PromptModal("save winner as ", f"{profile.name}-winner", "name of the new profile")
    )
    if not name:
        return
    try:
        path = await winner.save_winner(desk, name)
    except ConsoleError as error:
        if "exist" not in f"{error.title} {error.detail}":
            raise
        if not await app.push_screen_wait(ConfirmModal(error.title, [error.detail, error.hint], "save over it")):
            return
        path = await winner.save_winner(desk, name, overwrite=True)
    app.say(f"saved {path}")


async def _sealed_as_shown(app: TokwattApp) -> bool:
    """Show what would be sealed, measure it afresh where that was not done, and return whether to go on."""
    from console.operations import winner
    from console.ui.modals.confirm import MenuModal

    desk, tried = app.need_desk(), False
    while True:
        found = await winner.sealed(desk)
        said = ["what will be sealed:", *found.lines]
        again = ("m", "measure it afresh first: three repeats with prompts that it has not seen")
        if found.fresh:
            ways = [("s", "seal and save it"), ("m", "measure it afresh once more")]
        elif tried:
            raise RefusedError(f"run {found.run}: the fresh measurement is not fit to be kept", hint="b tells why")
        else:
            said += ["it was chosen by these numbers, and the best of several is too good by luck"]
            ways = [again]
        picked = await app.push_screen_wait(MenuModal("Save winner", said, ways))
        if picked != "m":
            return picked == "s"
        app.say("measuring afresh; b shows it, and t there stops it")
        async for _ in winner.measure_afresh(desk):
            pass
        app.bell()
        tried = True


async def undo_change(app: TokwattApp) -> None:
    """Take back the last change made to the host."""
    from console.operations import patches

    await patches.undo(app.need_desk())
    await app.look_at_files()
    app.cockpit.source.refresh_marks()


async def open_shell(app: TokwattApp) -> None:
    """Give the terminal to a shell on the host, and take it back."""
    from console.ui.shell import hand_over

    await hand_over(app)
    if app.link_fault() is None:
        await app.look_at_files()


async def reconnect(app: TokwattApp) -> None:
    """Connect again now."""
    from console.ui.connecting import connect

    if app.desk is None:
        await connect(app)
    else:
        await app.desk.link.connect()


async def show_commands(app: TokwattApp) -> None:
    """Show every remote command."""
    from console.ui.screens.commands import CommandsScreen

    await app.push_screen(CommandsScreen())


async def show_help(app: TokwattApp) -> None:
    """Show all keys."""
    from console.ui.screens.help import HelpScreen

    await app.push_screen(HelpScreen())


async def show_runs(app: TokwattApp) -> None:
    """Show what was run and measured before."""
    from console.ui.screens.runs import RunsScreen

    await app.push_screen(RunsScreen())


async def show_experiments(app: TokwattApp) -> None:
    """Show experiments: plans, what is under way, verdicts."""
    from console.ui.screens.experiment import ExperimentScreen

    await app.push_screen(ExperimentScreen())


async def show_why(app: TokwattApp) -> None:
    """Show what binds the server, and what says so."""
    from console.ui.modals.why import WhyModal

    await app.push_screen_wait(WhyModal(app.snapshot.diagnosis))


async def show_topology(app: TokwattApp) -> None:
    """Look at how the GPUs are joined and what they are set to, and show it."""
    from console.operations import machine
    from console.ui.modals.topology import TopologyModal

    state = await machine.look(app.need_desk())
    snapshot = app.snapshot
    await app.push_screen_wait(TopologyModal(state, snapshot.machine_changes, snapshot.base_run))


async def show_profiles(app: TokwattApp) -> None:
    """Show what profiles there are, and the desk's next to what is in force."""
    from console.ui.screens.profiles import ProfilesScreen

    await app.push_screen(ProfilesScreen())


async def import_profile(app: TokwattApp) -> None:
    """Make a profile out of a launch command."""
    from console.ui import importing

    await importing.import_profile(app)


async def open_palette(app: TokwattApp) -> None:
    """Find a verb by its name and do it, or go to file:line."""
    from console.ui.modals.palette import PaletteModal, place_of

    picked = await app.push_screen_wait(PaletteModal())
    if picked is None:
        return
    if picked.startswith("goto "):
        place = place_of(picked.removeprefix("goto "))
        assert place is not None
        app.cockpit.show_pane("source")
        await app.cockpit.source.go_to(*place)
    else:
        await app.do(picked)


ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        open_server_menu,
        start_server,
        stop_server,
        restart_server,
        attach_server,
        show_servers,
        adopt_server,
        take_over,
        measure,
        save_winner,
        undo_change,
        open_shell,
        reconnect,
        show_commands,
        show_help,
        show_runs,
        show_experiments,
        show_profiles,
        show_why,
        show_topology,
        import_profile,
        open_palette,
    )
}

LASTING = {
    "start_server",
    "stop_server",
    "restart_server",
    "open_server_menu",
    "show_servers",
    "adopt_server",
    "take_over",
    "save_winner",
    "undo_change",
    "import_profile",
}
"""Actions whose faults stay on screen until they were read."""
