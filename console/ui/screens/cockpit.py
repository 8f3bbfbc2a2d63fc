"""Cockpit: all panes at once where there is room, a tab for each where there is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from console.domain.host import Link
from console.operations.catalogue import VERBS, Verb
from console.state.store import Snapshot
from console.ui.seats import Seat
from console.ui.widgets.keys import PANES, TABS, Keys, Tabs
from console.ui.widgets.status import Status, host_now
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.ui.panes.log import LogPane
    from console.ui.panes.patches import PatchesPane
    from console.ui.panes.source import SourcePane
    from console.ui.widgets.activity import Banner, Receipt
    from console.ui.widgets.compact import CompactGauges
    from console.ui.widgets.gpus import Gpus
    from console.ui.widgets.hosts import Hosts
    from console.ui.widgets.throughput import Throughput

WIDE = (140, 40)
SMALLEST = (60, 16)

ANNOUNCED_AFTER_S = 10.0
"""The desktop is told of a start-up that took longer."""


class CockpitScreen(Screen[None]):
    """The screen on which the work at one host is done."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(verb.keys), f"app.act('{verb.id}')", verb.title, show=False)
        for verb in VERBS
        if verb.keys and not verb.where
    ]

    def __init__(self, seat: Seat) -> None:
        super().__init__(id=seat.group("cockpit").replace(" ", "-"))
        self.seat = seat
        self._pane = "source"
        self._zoomed = False
        self._run_id = ""
        self._stalled = ""
        self._phase = ""
        self._heard_at: float | None = None
        self._was_down = False
        self.furnished = False

    def compose(self) -> ComposeResult:
        """Begin with status and keys: the first frame waits for nothing else."""
        yield Static(id="too-small")
        yield Status()
        yield Static(id="blank")
        yield Keys()

    async def furnish(self) -> None:
        """Put gauges, panes and log between status and keys."""
        from console.ui.panes.log import LogPane
        from console.ui.panes.patches import PatchesPane
        from console.ui.panes.source import SourcePane
        from console.ui.widgets.activity import Banner, Receipt
        from console.ui.widgets.compact import CompactGauges
        from console.ui.widgets.gpus import Gpus
        from console.ui.widgets.hosts import Hosts
        from console.ui.widgets.throughput import Throughput

        self.hosts = Hosts(owner(self).seats, self.seat)
        self.banner, self.receipt, self.compact = Banner(), Receipt(), CompactGauges()
        self.gpus, self.throughput, self.tabs = Gpus(), Throughput(), Tabs()
        self.source, self.patches, self.log_pane = SourcePane(), PatchesPane(), LogPane()
        gauges = Horizontal(self.gpus, self.throughput, id="gauges")
        work = Horizontal(self.source, self.patches, id="work")
        self.query_one("#blank").display = False
        with self.app.batch_update():
            await self.mount(self.hosts, before="#status")
            await self.mount(
                self.banner, self.compact, self.tabs, gauges, work, self.log_pane, self.receipt, after="#status"
            )
            self.furnished = True
            self.show_pane("source")
        self.show_snapshot(self.seat.snapshot, self.seat.snapshot)
        self.set_interval(0.5, self._tick)

    hosts: Hosts
    banner: Banner
    receipt: Receipt
    compact: CompactGauges
    gpus: Gpus
    throughput: Throughput
    tabs: Tabs
    source: SourcePane
    patches: PatchesPane
    log_pane: LogPane

    def on_mount(self) -> None:
        """Say whose screen it is."""
        self.query_one(Status).show(self.seat.snapshot)

    # what is known

    def show_snapshot(self, old: Snapshot, new: Snapshot) -> None:
        """Hand the parts that changed to the widgets that show them."""
        if not self.furnished:
            if self.is_mounted:
                self.query_one(Status).show(new)
            return
        self.query_one(Status).show(new)
        self.hosts.show()
        if new.gpus is not old.gpus or new.throughput is not old.throughput or new.marks is not old.marks or old is new:
            self._show_gauges(new)
        if new.patches is not old.patches:
            self.patches.show(new, self.seat.reasons.get("patches", ""))
        if new.activities is not old.activities or old is new:
            self.receipt.show(new.activities)
        if new.run is not old.run or old is new:
            self.log_pane.show(new.run, host_now(new), new.marks)
            self._follow(new)
        if (
            new.machine is not old.machine
            or new.machine_changes != old.machine_changes
            or (new.gpus is not None and (old.gpus is None or len(old.gpus.gpus) != len(new.gpus.gpus)))
        ):
            self.lay_out()
        self._show_link()

    def _show_gauges(self, snapshot: Snapshot) -> None:
        reasons = self.seat.reasons
        if self._single:
            self.compact.show(snapshot)
        self.gpus.show(snapshot, reasons.get("gpus", ""))
        self.throughput.show(snapshot, reasons.get("throughput", ""))

    def _follow(self, snapshot: Snapshot) -> None:
        from console.ui.connecting import follow_log

        app, run, desk = owner(self), snapshot.run, self.seat.desk
        if run is None or desk is None:
            return
        if run.key != self._run_id:
            self._run_id = run.key
            launch(app, follow_log, app, desk, run, group="log", exclusive=True, watching="log", seat=self.seat)
        elif self._phase == "starting" and run.phase.value in ("ready", "failed", "lost"):
            self._announce(run.phase.value, host_now(snapshot) - run.started_at)
        if run.phase.value != self._phase:
            self._phase = run.phase.value
            self._check()
        stalled = f"{run.key} {run.stall.rung}" if run.stall is not None else self._stalled
        if run.stall is not None and stalled != self._stalled:
            app.announce(f"tokwatt: the start has stalled ({run.stall.rung})")
        self._stalled = stalled

    def _check(self) -> None:
        app = owner(self)
        launch(app, app.look_at_files, group="check", exclusive=True, watching="patches", seat=self.seat)

    def _announce(self, phase: str, lasted_s: float) -> None:
        """Tell a start-up that has come to its end; after a short one the bell is enough."""
        app = owner(self)
        if lasted_s <= ANNOUNCED_AFTER_S:
            app.bell()
            return
        word = "is ready" if phase == "ready" else "failed to start"
        app.announce(f"tokwatt: the server {word}, after {int(lasted_s // 60)} min {int(lasted_s % 60)} s")

    def _show_link(self) -> None:
        seat, state = self.seat, self.seat.link
        self._heard_at = state.heard_at or self._heard_at
        if state.link is Link.UP and self._was_down and seat.desk is not None:
            self._check()
        self._was_down = state.link is not Link.UP
        down = self.banner.show(seat.snapshot.host.name, state, self._heard_at)
        self.set_class(down and seat.desk is not None, "-stale")

    def _tick(self) -> None:
        seat = self.seat
        if seat.link is not seat.snapshot.link:
            seat.snapshot = replace(seat.snapshot, link=seat.link)
            self.hosts.show()
        if seat is not owner(self).front:
            return
        snapshot = seat.snapshot
        self.query_one(Status).show(snapshot)
        self._show_gauges(snapshot)
        self._show_link()
        self.receipt.show(snapshot.activities)
        self.log_pane.show(snapshot.run, host_now(snapshot), snapshot.marks)
        self.log_pane.view.reason = seat.reasons.get("log", "") or seat.reasons.get("run", "")

    # layout

    @property
    def _single(self) -> bool:
        width, height = self.size
        return self._zoomed or width < WIDE[0] or height < WIDE[1]

    def on_resize(self, event: events.Resize) -> None:
        """Lay the panes out for the new size."""
        self.lay_out()

    def lay_out(self) -> None:
        """Show all panes, or the one that was picked."""
        width, height = self.size
        tiny = width < SMALLEST[0] or height < SMALLEST[1]
        self.set_class(tiny, "-tiny")
        if tiny:
            said = f"{width}×{height} is too small for the cockpit.\nMake the terminal at least {SMALLEST[0]}×{SMALLEST[1]}; the server goes on."
            self.query_one("#too-small", Static).update(Content(said))
        if not self.furnished:
            return
        single = self._single
        self.set_class(single, "-single")
        for pane, _ in TABS:
            self.query_one(f"#{pane}").display = not single or pane == self._pane
        self.query_one("#gauges").display = not single or self._pane in ("gpus", "throughput")
        self.query_one("#work").display = not single or self._pane in ("source", "patches")
        gpus = self.seat.snapshot.gpus
        if not single:
            from console.ui.widgets.gpus import notes

            told = min(2, len(notes(self.seat.snapshot)))
            self.query_one("#gauges").styles.height = max(9, min(11, len(gpus.gpus) + 3 if gpus else 9)) + told
        else:
            self.query_one("#gauges").styles.height = "1fr"
        self.tabs.show(self._pane)
        self._show_gauges(self.seat.snapshot)

    def show_pane(self, pane: str) -> None:
        """Focus a pane at once, so that the next key is its own, and show it where only one has room."""
        self._pane = pane
        self.lay_out()
        self.set_focus(self._pane_widget(pane).focus())  # `focus` alone waits for the next message
        self.query_one(Keys).show(PANES.get(pane, ""))

    def _pane_widget(self, pane: str) -> Widget:
        return self.query_one(f"#{pane}")

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the keys of the pane that has the focus now."""
        for node in event.widget.ancestors_with_self:
            if node.id in dict(TABS):
                self._pane = str(node.id)
                self.query_one(Keys).show(PANES.get(self._pane, ""))
                self.tabs.show(self._pane)
                return

    def on_hosts_picked(self, event: Hosts.Picked) -> None:
        """Go to the host whose tab was picked."""
        app = owner(self)
        self.run_worker(app.go_to_seat(event.seat), group="seat")

    def on_tabs_picked(self, event: Tabs.Picked) -> None:
        """Show the pane whose name was clicked."""
        if event.pane == "runs":
            owner(self).action_act("show_runs")
        else:
            self.show_pane(event.pane)

    def open_file(self, path: str, line: int | None) -> None:
        """Open a file in the source pane."""
        self.show_pane("source")
        self.source.open(path, line)

    # keys

    def do(self, verb: Verb) -> None:
        """Do a verb that needs no host."""
        match verb.id:
            case "show_source" | "show_patches" | "show_gpus" | "show_throughput":
                self.show_pane(verb.id.removeprefix("show_"))
            case "show_log":
                self.show_pane("log-pane")
            case "zoom_pane":
                self._zoomed = not self._zoomed
                self.show_pane(self._pane)
            case "next_host" | "previous_host":
                self.hosts.step(1 if verb.id == "next_host" else -1)
            case "switch_theme":
                owner(self).switch_theme()
            case "go_back":
                self._back()
            case "quit":
                self.run_worker(owner(self).leave(), group="leave")
            case _:
                pane = next(pane for pane, name in PANES.items() if name == verb.where)
                self.show_pane(pane)
                widget = self._pane_widget(pane)
                self.call_later(widget.run_action, verb.id)

    def _back(self) -> None:
        if self.receipt.fault is not None:
            self.receipt.show_fault(None)
            return
        if self._pane in ("source", "log-pane"):
            pane = self.source if self._pane == "source" else self.log_pane
            if pane.action_go_back():
                return
        if self._zoomed:
            self._zoomed = False
            self.show_pane(self._pane)

    def action_focus_next(self) -> None:
        """Go to the next pane."""
        self._cycle(1)

    def action_focus_previous(self) -> None:
        """Go to the pane before."""
        self._cycle(-1)

    def _cycle(self, way: int) -> None:
        names = [pane for pane, _ in TABS]
        self.show_pane(names[(names.index(self._pane) + way) % len(names)])
