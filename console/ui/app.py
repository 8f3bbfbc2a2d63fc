"""The app: themes, a seat for each host, and where faults are told."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.reactive import var

from console.domain.text import clean
from console.errors import AlreadySoError, ConsoleError, LinkLostError, RefusedError
from console.operations.catalogue import BY_ID
from console.state.store import Snapshot
from console.ui.glyphs import must_be_plain, plain_driver
from console.ui.options import Options
from console.ui.screens.cockpit import CockpitScreen
from console.ui.seats import AT, FIRST, Seat, seats_of
from console.ui.theme import DARK, LIGHT
from console.ui.worker import launch

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.notifications import SeverityLevel

    from console.operations.desk import Desk
    from console.operations.pane_verbs import Verb


GARBAGE = (20_000, 20, 20)
"""Objects between collections: at Python's own 700, a flooding log spends a seventh of its time on looking for garbage."""


class TokwattApp(App[int]):
    """The cockpit of one host, or of several with a tab for each."""

    TITLE = "tokwatt"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss", "screens/cockpit.tcss"]
    ENABLE_COMMAND_PALETTE = False
    DEFAULT_MODE: ClassVar[str] = FIRST
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "act('quit')", show=False, priority=True),
        Binding("ctrl+c", "act('quit')", show=False),
        Binding("ctrl+t", "act('switch_theme')", show=False),
    ]

    shown: var[Snapshot] = var(Snapshot, always_update=True)
    """What is known of the host in front; screens above the cockpit watch it."""

    def __init__(self, options: Options, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver_class)
        self.seats = seats_of(options)
        for seat in self.seats:
            self._furnish(seat)
        self.front = self.seats[0]
        """The seat that is on the screen."""
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        self.set_reactive(TokwattApp.shown, self.front.snapshot)

    async def on_ready(self) -> None:
        """Connect once the first frame is out; what stands now is no garbage."""
        from console.ui.connecting import connect

        gc.enable()
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        await self.front.cockpit.furnish()
        for seat in self.seats:
            launch(self, connect, self, group="connect", exclusive=True, lasting=True, seat=seat)

    # the seat of the work at hand

    @property
    def seat(self) -> Seat:
        """The seat that a worker was started at; elsewhere the one in front."""
        return AT.get(self.front)

    @property
    def desk(self) -> Desk | None:
        """The desk of the seat, once it is open."""
        return self.seat.desk

    @property
    def cockpit(self) -> CockpitScreen:
        """The cockpit of the seat."""
        return self.seat.cockpit

    @property
    def reasons(self) -> dict[str, str]:
        """Why a reading of the seat is not there, by its name."""
        return self.seat.reasons

    @property
    def snapshot(self) -> Snapshot:
        """All that is known of the seat's host."""
        return self.seat.snapshot

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot) -> None:
        seat = self.seat
        old, seat.snapshot = seat.snapshot, snapshot
        seat.cockpit.show_snapshot(old, snapshot)
        if seat is self.front:
            self.shown = snapshot
        elif self.front.cockpit.furnished:
            self.front.cockpit.hosts.show()

    def need_desk(self) -> Desk:
        """Return the desk, or say that there is no connection."""
        return self.seat.need_desk()

    def link_fault(self) -> LinkLostError | None:
        """Return why nothing can be asked of the host now, if so."""
        return self.seat.link_fault()

    def _furnish(self, seat: Seat) -> None:
        seat.cockpit = CockpitScreen(seat)
        self.add_mode(seat.mode, seat.screen)

    def add_seat(self, host: str) -> None:
        """Open a tab for one more host, unless it has one."""
        from console.ui.connecting import connect

        if any(seat.name == host for seat in self.seats):
            return
        seat = Seat(len(self.seats), replace(self.front.options, hosts=(host,), target=None))
        self._furnish(seat)
        self.seats.append(seat)
        launch(self, connect, self, group="connect", exclusive=True, lasting=True, seat=seat)

    async def go_to_seat(self, seat: Seat) -> None:
        """Bring a host to the front; what runs on the others goes on."""
        from console.ui.connecting import survey

        if seat is self.front:
            return
        self.front = seat
        await self.switch_mode(seat.mode)
        if not seat.cockpit.furnished:
            await seat.cockpit.furnish()
            if seat.desk is not None:
                launch(self, survey, self, seat.desk, group="survey", exclusive=True, seat=seat)
        self.shown = seat.snapshot
        seat.cockpit.lay_out()

    async def look_at_files(self) -> None:
        """Ask the host for the state of git and of every patch."""
        from console.operations import host, patches

        seat = self.seat
        desk = seat.need_desk()
        try:
            await host.git_state(desk)
            await patches.statuses(desk)
            seat.reasons.pop("patches", None)
        except ConsoleError as error:
            seat.reasons["patches"] = error.one_line()
        seat.cockpit.patches.list.asked = True
        seat.cockpit.patches.show(desk.store.snapshot, seat.reasons.get("patches", ""))

    # what is asked and told

    async def ask_passphrase(self, file: str) -> str | None:
        """Ask for the passphrase of a key file; nothing keeps it."""
        from console.ui.modals.prompt import PromptModal

        return await self.push_screen_wait(PromptModal(f"passphrase of {file} ", secret=True))

    def say(self, text: str) -> None:
        """Tell something in passing."""
        self.notify(clean(text), markup=False, timeout=4)

    def announce(self, words: str) -> None:
        """Ring the bell and tell the desktop (OSC 9); `words` are ours alone, never a host's."""
        self.bell()
        if self._driver is not None and not self.is_headless:
            self._driver.write(f"\x1b]9;{words}\x07")

    def tell(self, error: ConsoleError) -> None:
        """Tell a passing fault."""
        said = "\n".join(clean(part) for part in (error.title, error.detail, error.hint) if part)
        severity: SeverityLevel = "information" if isinstance(error, AlreadySoError) else "warning"
        self.notify(said, severity=severity, markup=False)  # a toast's title would be read as markup

    def tell_lasting(self, error: ConsoleError) -> None:
        """Tell a fault that stays until it was read, at the host that it is about."""
        if self.seat.cockpit.furnished:
            self.seat.cockpit.receipt.show_fault(error)
        else:
            self.tell(error)

    def copy(self, text: str) -> None:
        """Send text that the operator picked to the terminal's clipboard."""
        self.copy_to_clipboard(text)
        self.say("sent to the terminal's clipboard (OSC 52)")

    async def do(self, verb: str) -> None:
        """Do a verb of the catalogue."""
        from console.ui.actions import ACTIONS

        if (fault := self.in_the_way(BY_ID[verb])) is not None:
            self.tell(fault)
        elif verb in ACTIONS:
            await ACTIONS[verb](self)
        else:
            self.cockpit.do(BY_ID[verb])

    def in_the_way(self, verb: Verb) -> ConsoleError | None:
        """Return why a verb is not to be done now: the link is down, or it would spoil an experiment."""
        if verb.disturbs and self._experiment_runs():
            hint = "X shows it, t there stops it; it can be resumed"
            return RefusedError(f"{verb.title}: an experiment is under way on this host", hint=hint)
        return self.link_fault() if verb.on_host else None

    def must_not_disturb(self, verb: str) -> None:
        """Raise when a verb of a pane would spoil an experiment that is under way."""
        if self._experiment_runs() and (fault := self.in_the_way(BY_ID[verb])) is not None:
            raise fault

    def _experiment_runs(self) -> bool:
        group = self.seat.group("experiment")
        return any(one.group == group and one.is_running for one in self.workers)

    def action_act(self, verb: str) -> None:
        """Do a verb of the catalogue in a worker; its faults are told."""
        from console.ui.actions import ACTIONS, LASTING

        if (fault := self.in_the_way(BY_ID[verb])) is not None:
            self.tell(fault)
        elif verb in ACTIONS:
            launch(self, ACTIONS[verb], self, group=f"act {verb}", lasting=verb in LASTING)
        else:
            self.cockpit.do(BY_ID[verb])

    def switch_theme(self) -> None:
        """Switch between dark and light."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    async def leave(self) -> None:
        """End our programs on the hosts and the screen; the servers go on."""
        from console.ui.leaving import disconnect

        await disconnect(self)
        self.exit(0)


def run_cockpit(
    *, hosts: tuple[str, ...], profile: str | None, readonly: bool, accept_key: str | None, target: object | None = None
) -> int:
    """Run the cockpit until the operator leaves; return the exit code."""
    from console.ui.leaving import last_words, terminal_fault

    if fault := terminal_fault():
        raise fault
    gc.disable()
    app = TokwattApp(Options(hosts, profile, readonly, accept_key, target), plain_driver() if must_be_plain() else None)
    code = app.run()
    last_words(app)
    return code if code is not None else (app.return_code or 0)
