"""Experiments: files and what came of them; the plan first, then the table of verdicts as it fills in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import Worker

from console.domain.text import clean
from console.errors import ConsoleError, UsageError
from console.state.store import Snapshot
from console.ui.drawing import Span, ending, fit, width_of
from console.ui.widgets.activity import Receipt
from console.ui.widgets.experiment import ExperimentView
from console.ui.widgets.frame import Framed
from console.ui.widgets.key_line import KeyLine
from console.ui.widgets.lines import Lines
from console.ui.widgets.status import Status
from console.ui.worker import is_open, launch, owner

if TYPE_CHECKING:
    from console.domain.experiment import ExperimentState


MOST_ROWS = 8
"""Experiments that are in sight at once where there is room."""


def when(epoch_s: float) -> str:
    """Return the time of day, with the day where it is another one."""
    today = time.strftime("%m-%d") == time.strftime("%m-%d", time.localtime(epoch_s))
    return time.strftime("%H:%M:%S" if today else "%m-%d %H:%M", time.localtime(epoch_s))


def _from_home(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


class ExperimentLines(Lines, Framed):
    """Experiment files, then the journal's experiments, the newest first."""

    def __init__(self) -> None:
        super().__init__(id="experiments")
        self.rows: list[Path | ExperimentState] = []
        self.read = False
        self.entitle("6", "Experiments", "enter shows")

    def fill(self, files: Sequence[Path], told: Sequence[ExperimentState]) -> None:
        """Show what there is."""
        self.rows, self.read = [*files, *told], True
        self.styles.height = max(3, min(len(self.rows), MOST_ROWS)) + 2
        self.changed()

    def show_state(self, told: ExperimentState) -> None:
        """Show how one of them stands; a new one goes above the others."""
        known = {one.id: at for at, one in enumerate(self.rows) if not isinstance(one, Path)}
        if told.id in known:
            self.rows[known[told.id]] = told
            self.refresh()
            return
        files = [one for one in self.rows if isinstance(one, Path)]
        self.fill(files, [told, *(one for one in self.rows if not isinstance(one, Path))])

    @property
    def chosen(self) -> Path | ExperimentState | None:
        """What is under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one file or experiment."""
        one = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if isinstance(one, Path):
            stem = fit(clean(one.stem), 28)
            return [mark, (stem, "strong"), (f" {ending(clean(_from_home(one)), width - 2 - len(stem))}", "dim")]
        began = time.strftime("%m-%d %H:%M", time.localtime(one.created_at))
        state = "" if one.finished else "under way " if one.step else "unfinished "
        words = ", ".join(f"{arm.name} {arm.verdict}" for arm in one.outcomes if arm.against)
        row: list[Span] = [
            mark,
            (fit(clean(one.id), 16), "strong"),
            (f" {began} ", "dim"),
            (fit(clean(one.name), 18), "function"),
            (f" {clean(one.badge)}" if one.badge else "", "accent"),
            (f" {state}", "warn"),
        ]
        return [*row, (fit(clean(words), width - width_of(row)), "" if one.finished else "dim")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        said = "none yet: mark two runs with space in Runs, e makes one of what differs" if self.read else "reading…"
        return [[], [("  files in ./experiments and ~/.config/tokwatt/experiments", "dim")], [(f"  {said}", "dim")]]


KEYS = (
    ("enter", "plan, report"), ("r", "run"), ("t", "stop"), ("u", "resume"), ("a", "abandon"),
    ("ctrl+s", "save winner"), ("y", "copy report"), ("esc", "back, it goes on"),
)  # fmt: skip


class ExperimentScreen(Screen[None]):
    """The experiments; leaving the screen does not end one."""

    CSS = """
    ExperimentScreen {
        #status { height: 1; background: $panel; }
        #experiments { height: 5; max-height: 30%; }
        #experiment-view { height: 1fr; }
        #receipt { height: 1; display: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", show=False),
        Binding("r", "run", show=False),
        Binding("t", "stop", show=False),
        Binding("u", "resume", show=False),
        Binding("a", "abandon", show=False),
        Binding("y", "copy_report", show=False),
        Binding("ctrl+s", "save_winner", show=False),
        Binding("tab", "app.focus_next", show=False),
    ]

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path
        """File whose plan is shown at once."""

    def compose(self) -> ComposeResult:
        """Put the list above what is chosen."""
        yield Status()
        yield ExperimentLines()
        yield ExperimentView()
        yield Receipt()
        yield KeyLine(*KEYS)

    def on_mount(self) -> None:
        """Read what there is, and show what is under way."""
        self.watch(self.app, "shown", self.show_snapshot)
        self._read()
        if self.path is not None:
            self._plan(self.path)
        elif self._worker() is None:
            launch(owner(self), self._offer, group="offer", exclusive=True)

    async def _offer(self) -> None:
        """Offer to go on with what was cut off on this host."""
        from console.operations.experiments_unfinished import interrupted
        from console.ui.modals.confirm import MenuModal

        app = owner(self)
        found = await interrupted(app.need_desk().link.host.name) if app.desk is not None else None
        if found is None:
            return
        told, heard_at = found
        self.query_one(ExperimentView).show_state(told)
        said = [
            f"{told.name}: {told.done} of {told.planned} measurements, last step {when(heard_at)}",
            f"the host: {told.where or 'as it was'}",
        ]
        ways = [("u", "resume where it was cut off"), ("a", "abandon: take its changes back, relaunch the base")]
        picked = await app.push_screen_wait(MenuModal(f"{told.id} was interrupted", said, ways))
        if picked == "u":
            self.action_resume()
        elif picked == "a":
            self.action_abandon()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show how far the experiment under way is."""
        self.query_one(Status).show(snapshot)
        self.query_one(Receipt).show_fault(owner(self).cockpit.receipt.fault)
        view = self.query_one(ExperimentView)
        told = snapshot.experiment
        if told is not None and told is not view.told and (self._worker() or (view.told and view.told.id == told.id)):
            view.show_state(told)
            self.query_one(ExperimentLines).show_state(told)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Show a file's plan, or what came of an experiment."""
        chosen = self.query_one(ExperimentLines).chosen
        if isinstance(chosen, Path):
            self._plan(chosen)
        elif chosen is not None:
            self.query_one(ExperimentView).show_state(chosen)

    def action_run(self) -> None:
        """Run what is planned on screen, after what that interrupts was shown."""
        plan = self.query_one(ExperimentView).plan
        if plan is None:
            self._say(UsageError("the plan comes first: enter on a file shows it", hint="then r"))
            return
        minutes = "minutes unknown on this host" if plan.minutes is None else f"about {max(1, round(plan.minutes))} min"
        self._begin(plan.spec.path, "", f"{plan.visits} measurements, {plan.launches} restarts at most, {minutes}")

    def action_resume(self) -> None:
        """Go on with the unfinished experiment that is shown."""
        told = self._shown()
        if told is None or told.finished:
            self._say(UsageError("no unfinished experiment is shown", hint="enter on one of them"))
            return
        self._begin(told.path, told.id, f"{told.done} of {told.planned} measurements are there; the host: {told.where}")

    def _begin(self, path: str, resumed: str, costs: str) -> None:
        app = owner(self)
        if self._worker() is not None:
            app.say("an experiment is under way: t stops it")
            return

        async def work() -> None:
            from console.operations import experiments, experiments_run, experiments_search, server
            from console.ui.modals.confirm import ConfirmModal

            desk = app.need_desk()
            spec = experiments.load(path)
            said = [
                f"{spec.name}: servers are stopped and started, patches go on and off",
                costs,
                await server.blast_radius(desk),
            ]
            if not await app.push_screen_wait(ConfirmModal("resume it?" if resumed else "run it?", said, "run")):
                return
            kept, said_by = desk.profile, desk.say
            desk.say = lambda text: None  # each start would tell its ladder; the table tells the steps
            try:
                if spec.search is not None:
                    states = experiments_search.run(desk, spec)
                elif resumed:
                    states = experiments_run.resume(desk, spec, await experiments.entry_of(resumed))
                else:
                    states = experiments_run.run(desk, spec)
                async for _ in states:
                    pass
            finally:
                desk.profile, desk.say = kept, said_by
                desk.store.update(profile=kept)
                self._read()
            app.announce("experiment done")

        launch(app, work, group="experiment", lasting=True)

    def action_stop(self) -> None:
        """Stop after what is under way; it can be resumed."""
        worker = self._worker()
        if worker is None:
            owner(self).say("no experiment is under way")
            return
        worker.cancel()
        owner(self).say("stopped; the journal knows where: u goes on, a brings the base back")

    def action_abandon(self) -> None:
        """End the unfinished experiment that is shown: its changes taken back, the base relaunched."""
        told = self._shown()
        if told is None or told.finished or self._worker() is not None:
            self._say(UsageError("no stopped, unfinished experiment is shown", hint="t stops one that is under way"))
            return

        async def work() -> None:
            from console.operations import experiments, experiments_run

            spec = experiments.load(told.path)
            ended = await experiments_run.abandon(owner(self).need_desk(), spec, await experiments.entry_of(told.id))
            self.query_one(ExperimentView).show_state(ended)
            self._read()

        launch(owner(self), work, group="experiment", lasting=True)

    def action_save_winner(self) -> None:
        """Save the winner as a profile."""
        told = self._shown()

        async def work() -> None:
            from console.operations.experiments_winner import save_winner
            from console.ui.modals.prompt import PromptModal

            app = owner(self)
            if told is None:
                raise UsageError("no experiment is shown", hint="enter on one of them")
            name = await app.push_screen_wait(PromptModal("save winner as ", f"{told.name}-winner"))
            if name:
                app.say(f"saved {await save_winner(app.need_desk(), told.id, name)}")

        launch(owner(self), work, group="save winner", exclusive=True)

    def action_copy_report(self) -> None:
        """Copy what is shown, as text."""
        from console.ui.clipboard import copy

        rows = self.query_one(ExperimentView).rows
        copy(owner(self), "\n".join("".join(text for text, _ in row).rstrip() for row in rows) + "\n", "the report")

    def _shown(self) -> ExperimentState | None:
        return self.query_one(ExperimentView).told

    def _worker(self) -> Worker[object] | None:
        group = owner(self).seat.group("experiment")
        return next((w for w in self.app.workers if w.group == group and w.is_running), None)

    def _say(self, error: ConsoleError) -> None:
        owner(self).tell(error)

    def _read(self) -> None:
        async def read() -> None:
            from console.operations import experiments

            files, told = experiments.known_files(), await experiments.listed()
            if is_open(self):
                self.query_one(ExperimentLines).fill(files, told)

        launch(owner(self), read, group="experiments", exclusive=True)

    def _plan(self, path: Path) -> None:
        async def plan() -> None:
            from console.operations import experiments

            app = owner(self)
            desk = app.desk if app.link_fault() is None else None
            found = await experiments.plan(desk, experiments.load(str(path)))
            self.query_one(ExperimentView).show_plan(found)

        launch(owner(self), plan, group="plan", exclusive=True)
