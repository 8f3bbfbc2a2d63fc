"""The app: themes, the desk once it is open, and where faults are told."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.reactive import var

from console.domain.host import Host, Link, LinkState
from console.domain.text import clean
from console.errors import AlreadySoError, ConsoleError, LinkLostError
from console.operations.catalogue import BY_ID
from console.state.store import Snapshot
from console.ui.glyphs import must_be_plain, plain_driver
from console.ui.options import Options
from console.ui.screens.cockpit import CockpitScreen
from console.ui.theme import DARK, LIGHT
from console.ui.worker import launch

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.notifications import SeverityLevel

    from console.operations.desk import Desk


class TokwattApp(App[int]):
    """The cockpit of one host."""

    TITLE = "tokwatt"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss", "screens/cockpit.tcss"]
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "act('quit')", show=False, priority=True),
        Binding("ctrl+c", "act('quit')", show=False),
    ]

    snapshot: var[Snapshot] = var(Snapshot, always_update=True)
    """All that is known, as the store says."""

    def __init__(self, options: Options, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver_class)
        self.options = options
        self.target = options.target
        self.desk: Desk | None = None
        self.reasons: dict[str, str] = {}
        """Why a reading is not there, by its name."""
        self.cockpit = CockpitScreen()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        name = self.options.hosts[0] if self.options.hosts else ""
        badge = str(getattr(options.target, "badge", ""))
        self.set_reactive(TokwattApp.snapshot, Snapshot(host=Host(name, badge=badge), readonly=options.readonly))

    def get_default_screen(self) -> CockpitScreen:
        """Begin in the cockpit."""
        return self.cockpit

    async def on_ready(self) -> None:
        """Connect once the first frame is out; what stands now is no garbage."""
        gc.enable()
        gc.freeze()
        await self.cockpit.furnish()
        from console.ui.connecting import connect

        launch(self, connect, self, group="connect", exclusive=True, lasting=True)

    def need_desk(self) -> Desk:
        """Return the desk, or say that there is no connection."""
        if self.desk is None:
            host = self.snapshot.host.name or "no host"
            raise LinkLostError(f"{host}: not connected", hint="ctrl+r tries again")
        return self.desk

    def take(self, desk: Desk) -> None:
        """Work at a desk from now on."""
        self.desk = desk
        self.snapshot = desk.store.snapshot

    def connecting(self) -> None:
        """Show that the host is being called."""
        from dataclasses import replace

        self.snapshot = replace(self.snapshot, link=LinkState(Link.CONNECTING))

    def connecting_failed(self, error: ConsoleError) -> None:
        """Show that there is no connection."""
        from dataclasses import replace

        self.snapshot = replace(self.snapshot, link=LinkState(Link.REFUSED, error=error.title))

    async def look_at_files(self) -> None:
        """Ask the host for the state of git and of every patch."""
        from console.operations import host, patches

        desk = self.need_desk()
        try:
            await host.git_state(desk)
            await patches.statuses(desk)
            self.reasons.pop("patches", None)
        except ConsoleError as error:
            self.reasons["patches"] = error.one_line()
        self.cockpit.patches.list.asked = True
        self.cockpit.patches.show(desk.store.snapshot, self.reasons.get("patches", ""))

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
        """Tell a fault that stays until it was read."""
        self.cockpit.receipt.show_fault(error)

    def copy(self, text: str) -> None:
        """Send text that the operator picked to the terminal's clipboard."""
        self.copy_to_clipboard(text)
        self.say("sent to the terminal's clipboard (OSC 52)")

    def link_fault(self) -> LinkLostError | None:
        """Return why nothing can be asked of the host now, if so: nothing is queued silently."""
        state = self.desk.link.state if self.desk is not None else self.snapshot.link
        if state.link is Link.UP:
            return None
        host = self.snapshot.host.name or "no host"
        if self.desk is None:
            said = "is being connected" if state.link is Link.CONNECTING else "is not connected"
            return LinkLostError(f"{host} {said}: this needs the host", state.error, "ctrl+r tries again")
        return LinkLostError(f"{host}: link lost, this needs the host", state.error, "ctrl+r tries now")

    async def do(self, verb: str) -> None:
        """Do a verb of the catalogue."""
        from console.ui.actions import ACTIONS

        if BY_ID[verb].on_host and (fault := self.link_fault()) is not None:
            self.tell(fault)
        elif verb in ACTIONS:
            await ACTIONS[verb](self)
        else:
            self.cockpit.do(BY_ID[verb])

    def action_act(self, verb: str) -> None:
        """Do a verb of the catalogue in a worker; its faults are told."""
        from console.ui.actions import ACTIONS, LASTING

        if BY_ID[verb].on_host and (fault := self.link_fault()) is not None:
            self.tell(fault)
        elif verb in ACTIONS:
            launch(self, ACTIONS[verb], self, group=f"act {verb}", lasting=verb in LASTING)
        else:
            self.cockpit.do(BY_ID[verb])

    def switch_theme(self) -> None:
        """Switch between dark and light."""
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    async def leave(self) -> None:
        """End our programs on the host and the screen; the server goes on."""
        for group in ("bridge", "pulse", "gpus", "throughput", "run", "log", "survey"):
            self.workers.cancel_group(self, group)
        if self.desk is not None:
            with contextlib.suppress(ConsoleError, TimeoutError):
                async with asyncio.timeout(3):
                    await self.desk.link.close()
        self.exit(0)


def run_cockpit_on(target: object, *, profile: str | None = None, readonly: bool = False) -> int:
    """Run the cockpit on a host that is already resolved, such as the demo's."""
    return _run(Options((str(getattr(target, "name", "")),), profile, readonly, None, target))


def run_cockpit(
    *, hosts: tuple[str, ...], profile: str | None, readonly: bool, accept_key: str | None, target: object | None = None
) -> int:
    """Run the cockpit until the operator leaves; return the exit code."""
    return _run(Options(hosts, profile, readonly, accept_key, target))


def _run(options: Options) -> int:
    from console.ui.leaving import last_words, terminal_fault

    if fault := terminal_fault():
        raise fault
    gc.disable()
    app = TokwattApp(options, plain_driver() if must_be_plain() else None)
    code = app.run()
    last_words(app)
    return code if code is not None else (app.return_code or 0)
