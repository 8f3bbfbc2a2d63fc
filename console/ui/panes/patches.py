"""Patches pane: the list above, and below it the diff of what `space` would do now."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from console.domain.patch import DiskState, FileChange, PatchStatus
from console.domain.text import SafeText, clean
from console.operations.catalogue import verbs_of
from console.state.store import Snapshot
from console.ui.modals.confirm import ConfirmModal
from console.ui.modals.prompt import PromptModal
from console.ui.widgets.compare import SIDE_LEAST, CompareView
from console.ui.widgets.diff import DiffView, counts
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines
from console.ui.widgets.patches import PatchList
from console.ui.worker import launch, owner

CHANGED = ("changed", "added", "removed")
ROOM = 8
"""Columns of one side beside its text: mark, number and sign."""


def questions(status: PatchStatus, snapshot: Snapshot) -> list[str]:
    """Return what has to be asked before a toggle; nothing when the diff on screen says it all."""
    asked: list[str] = []
    if status.disk is DiskState.DRIFTED:
        asked.append(f"The files have changed: {status.reason or 'some edits are on, some are not'}.")
    if status.needs_fuzz:
        asked.append(f"It fits only when some context is ignored: {status.reason or 'fuzz'}.")
    if status.disk is DiskState.OFF and snapshot.git is not None:
        made = {file for other in snapshot.patches if other.disk is DiskState.ON for file in other.files}
        dirty = [
            file
            for file in status.files
            if file not in made and any(path.endswith(file) for path in snapshot.git.dirty)
        ]
        asked += [f"{file} has uncommitted changes that no known patch made." for file in dirty]
    return asked


def evidence(status: PatchStatus) -> tuple[SafeText, ...]:
    """Return what both columns of state rest on, and what to keep in mind, as lines above the diff."""
    rows = [("on disk", f"{status.disk.value.replace('_', ' ')} · {status.reason}" if status.reason else "")]
    process = status.loaded.value.replace("_", " ")
    rows.append(("in process", f"{process} · {status.process_reason}" if status.process_reason else ""))
    rows += [("mind", warning) for warning in status.warnings]
    return tuple(clean(f"{name:<11}{text}") for name, text in rows if text)


class PatchDiff(DiffView, Framed):
    """The diff below the list, under a rule that names its files."""

    DEFAULT_CLASSES = ""


class PatchCompare(CompareView):
    """What switching the patch would write, as every comparison is shown: two sides where there is room."""

    _widest = 0
    """Characters of the longest changed line."""

    def show_changes(self, changes: tuple[FileChange, ...]) -> None:
        """Show a plan; the place in it stays while it is the same one."""
        from console.operations import comparing

        comparison = comparing.of_changes(changes)
        if comparison == self.comparison:
            return
        self.beside = True
        self.show(comparison)
        self._widest = max((max(len(r.before), len(r.after)) for r in self.rows if r.kind in CHANGED), default=0)
        self.on_resize()

    def on_resize(self) -> None:
        """Show two sides where every changed line fits whole, else one."""
        width = self.size.width
        beside = width >= max(SIDE_LEAST, 2 * (self._widest + ROOM))
        if self.beside != beside:
            self.beside = beside
            self.build()


class PatchesPane(Vertical, Framed):
    """Patches with their state, and a diff."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(",".join(verb.keys), verb.id, verb.title, show=False)
            for verb in verbs_of("patches")
            if verb.keys != ("enter",)
        ),
        Binding("left_square_bracket", "hunk(-1)", show=False),
        Binding("right_square_bracket", "hunk(1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="patches")
        self.entitle("2", "Patches")

    def compose(self) -> ComposeResult:
        """Put the list above the diff."""
        yield PatchList()
        yield PatchDiff("patch-diff", "the diff of what space would do")
        yield PatchCompare()

    @property
    def list(self) -> PatchList:
        """The list."""
        return self.query_one(PatchList)

    @property
    def diff(self) -> PatchDiff:
        """The diff."""
        return self.query_one(PatchDiff)

    @property
    def compared(self) -> PatchCompare:
        """The whole change, where it is known."""
        return self.query_one(PatchCompare)

    def focus(self, scroll_visible: bool = True, **_: object) -> Widget:  # type: ignore[override]
        """Focus the list."""
        return self.list.focus(scroll_visible)

    def show(self, snapshot: Snapshot, reason: str) -> None:
        """Show the patches of a snapshot."""
        self.list.reason = "" if snapshot.patches else reason
        self.list.show(snapshot.patches)
        self.list.styles.height = (
            "1fr" if not snapshot.patches else max(4, min(len(snapshot.patches), max(4, self.size.height // 2 - 1)))
        )
        self._preview()

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Show the diff of the patch that the cursor went to."""
        if event.lines is self.list:
            self._preview()

    def _preview(self) -> None:
        status = self.list.current
        diff = self.diff
        whole = bool(status and status.changes and not status.conflict)
        self.compared.display = whole
        if status is None:
            diff.styles.height = "1fr"
            diff.show((), " ")
            diff.entitle("", "", "")
            self.entitle("2", "Patches")
            return
        added, removed = counts(status.diff)
        verb = "reverts" if status.disk is DiskState.ON else "applies"
        files = ", ".join(file.rpartition("/")[2] for file in status.files)
        diff.entitle("", clean(files), f"+{added} −{removed}" if status.diff else "")
        reason = status.reason or status.process_reason or "nothing to change"
        rows = evidence(status)
        diff.styles.height = 1 + len(rows) if whole else "1fr"
        diff.show(rows if whole else (*rows, *status.conflict, *status.diff), reason)
        if whole:
            self.compared.show_changes(status.changes)
        said = f"space {verb} +{added} −{removed}" if status.diff else ""
        self.entitle("2", "Patches", said)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Open the patched file where the patch is."""
        status = self.list.current
        if status is None or not status.files:
            return
        line = None
        if event.lines is self.compared and (row := self.compared.here) is not None:
            owner(self).cockpit.open_file(status.changes[row.file].shown, row.left or row.right or None)
            return
        if event.lines is self.diff or status.diff:
            above = len(evidence(status))
            upto = status.diff[: max(0, event.index + 1 - above)] if event.lines is self.diff else status.diff
            hunks = [found for text in upto if (found := re.match(r"@@ -(\d+)", text))]
            if hunks:
                line = int((hunks[-1] if event.lines is self.diff else hunks[0])[1]) + 3
        owner(self).cockpit.open_file(status.files[0], line)

    def action_hunk(self, way: int) -> None:
        """Go through the hunks of the diff."""
        (self.compared if self.compared.display else self.diff).action_hunk(way)

    def action_toggle_patch(self) -> None:
        """Apply or revert at once; drift, fuzz and dirty files ask first."""
        status = self.list.current
        if status is not None:
            launch(owner(self), self._toggle, status, group="write", lasting=True)

    async def _toggle(self, status: PatchStatus) -> None:
        from console.operations import patches

        app = owner(self)
        app.must_not_disturb("toggle_patch")
        desk = app.need_desk()
        asked = questions(status, app.snapshot)
        verb = "revert" if status.disk is DiskState.ON else "apply"
        if asked and not await app.push_screen_wait(ConfirmModal(f"{verb} {status.name}?", asked, f"{verb} anyway")):
            return
        forced = status.disk is DiskState.DRIFTED
        await patches.toggle(
            desk, status.name, force=forced, accept_fuzz=status.needs_fuzz and bool(asked), seen=status
        )
        await app.look_at_files()
        app.cockpit.source.refresh_marks()

    def action_apply_set(self) -> None:
        """Turn the profile's patches on as one write; off again when all of them are on."""
        launch(owner(self), self._apply_set, group="write", lasting=True)

    async def _apply_set(self) -> None:
        from console.operations import patches

        app = owner(self)
        app.must_not_disturb("apply_set")
        desk = app.need_desk()
        name = desk.must_profile().name
        plan = await patches.plan_set(desk)
        off = not plan.changes and not plan.refused
        if off:
            plan = await patches.plan_set(desk, off=True)
        title = f"take off the patches of {name}?" if off else f"turn on the patches of {name}?"
        if plan.changes and not await app.push_screen_wait(ConfirmModal(title, plan.told, "write it, as one")):
            return
        await patches.apply_set(desk, off=off, seen=plan)
        await app.look_at_files()
        app.cockpit.source.refresh_marks()

    def action_check_patches(self) -> None:
        """Look at the files again."""
        launch(owner(self), owner(self).look_at_files, group="check", exclusive=True)

    def action_capture_patch(self) -> None:
        """Make a patch of the host's uncommitted changes."""

        async def capture() -> None:
            from console.operations import patches

            app = owner(self)
            name = await app.push_screen_wait(PromptModal("capture as ", hint="name of the new patch"))
            if name:
                path = await patches.capture(app.need_desk(), name)
                app.say(f"captured into {path}")
                await app.look_at_files()

        launch(owner(self), capture, group="write", lasting=True)
