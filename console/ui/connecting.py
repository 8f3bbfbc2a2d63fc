"""Connecting: opens the desk after the first frame, asks what has to be asked, and starts the readings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from console.domain.host import Link, LinkState
from console.domain.run import Run
from console.errors import ConnectError, ConsoleError, HostKeyUnknownError
from console.ui.worker import launch

if TYPE_CHECKING:
    from console.operations.desk import Desk
    from console.ui.app import TokwattApp

RETRY_S = 5.0

READINGS = ("bridge", "gpus", "machine", "throughput", "run", "log", "survey", "recording")
"""Groups of workers that last as long as the cockpit."""


async def connect(app: TokwattApp) -> None:
    """Open the desk; an unknown host key is shown and asked about, whatever else fails is shown with its way out."""
    from console.operations.opening import open_desk
    from console.ui.modals.confirm import HostKeyModal

    seat = app.seat
    accept = seat.options.accept_key
    app.snapshot = replace(app.snapshot, link=LinkState(Link.CONNECTING))
    while True:
        try:
            desk = await open_desk(**seat.options.desk(accept), say=app.say, ask_passphrase=app.ask_passphrase)
        except HostKeyUnknownError as error:
            question = HostKeyModal(error.host, error.port, error.key_type, error.fingerprint)
            if not await app.push_screen_wait(question):
                app.tell_lasting(error)
                _refused(app, error)
                return
            accept = error.fingerprint
        except ConsoleError as error:
            _refused(app, error)
            raise
        else:
            break
    seat.desk = desk
    if app.cockpit.furnished:
        app.cockpit.receipt.forget(ConnectError)
    app.snapshot = desk.store.snapshot
    begin(app, desk)
    for node in desk.profile.host.nodes if desk.profile else ():
        app.add_seat(node)


def _refused(app: TokwattApp, error: ConsoleError) -> None:
    """Show that there is no connection."""
    if app.cockpit.furnished and not app.cockpit.source.files.count():
        app.cockpit.source.files.reason = f"{error.title}; ctrl+r tries again"
        app.cockpit.source.files.refresh()
    app.snapshot = replace(app.snapshot, link=LinkState(Link.REFUSED, error=error.title))


def begin(app: TokwattApp, desk: Desk) -> None:
    """Start the bridge, the endless readings and the first look around."""
    from console.ui.bridge import bridge

    launch(app, bridge, app, desk.store, group="bridge", exclusive=True)
    launch(app, _keep, app, "gpus", lambda: _watch("watch_gpus", desk), group="gpus", exclusive=True)
    launch(app, _keep, app, "throughput", lambda: _watch("watch_throughput", desk), group="throughput", exclusive=True)
    launch(app, _keep, app, "run", lambda: _run(desk), group="run", exclusive=True)
    launch(app, _keep, app, "machine", lambda: _machine(desk), group="machine", exclusive=True)
    launch(app, _keep, app, "recording", lambda: _record(desk), group="recording", exclusive=True)
    if app.cockpit.furnished:
        launch(app, survey, app, desk, group="survey", exclusive=True)


async def _watch(name: str, desk: Desk) -> None:
    from console.operations import watch

    await getattr(watch, name)(desk)


async def _machine(desk: Desk) -> None:
    from console.operations import machine

    await machine.watch_machine(desk)


async def _record(desk: Desk) -> None:
    from console.operations import recording

    await recording.record_runs(desk)


async def _run(desk: Desk) -> None:
    from console.operations import server

    await server.status(desk)
    await server.watch_run(desk)


async def _keep(app: TokwattApp, name: str, reading: Callable[[], Awaitable[None]]) -> None:
    """Begin an endless reading again when it faults, and let its pane say why."""
    while True:
        try:
            await reading()
            app.reasons.pop(name, None)
        except ConsoleError as error:
            app.reasons[name] = error.one_line()
        await asyncio.sleep(RETRY_S)


async def survey(app: TokwattApp, desk: Desk) -> None:
    """Look at package, tree, git and patches once; each pane says what it lacks."""
    from console.operations import host

    try:
        await host.engine_package(desk)
        await host.git_state(desk)
    except ConsoleError as error:
        app.reasons["package"] = error.one_line()
    await app.cockpit.source.load_tree()
    await app.look_at_files()
    await _tell_of_experiments(app, desk)


async def _tell_of_experiments(app: TokwattApp, desk: Desk) -> None:
    """Say who is at one on this host, and that one was cut off, since it left the host in a state of its own."""
    from console.operations import holds
    from console.operations.experiments_unfinished import interrupted

    if (now := await holds.of_another(desk)) is not None:
        app.say(f"{now['operator']} is at this host: {holds.told(now)}")

    found = await interrupted(desk.link.host.name)
    if found is not None:
        told, _ = found
        app.say(f"experiment {told.id} is unfinished ({told.where or 'begun'}): X offers to resume it")


async def follow_log(app: TokwattApp, desk: Desk, run: Run) -> None:
    """Feed the log pane for as long as this run is the one shown."""
    from console.operations import log_marks, logs

    recalled = False
    async for batch in logs.followed(desk, run):
        pane = app.cockpit.log_pane
        pane.feed(batch.records, batch.file, anew=batch.anew)
        if not recalled and batch.fed >= batch.before:  # what was there is read: marks find their places
            recalled = True
            try:
                pane.recall(run, await log_marks.marks_of(desk, run))
            except ConsoleError as error:  # a journal that cannot be read takes the marks, not the log
                app.tell(error)
