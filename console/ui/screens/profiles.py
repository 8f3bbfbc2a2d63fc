"""Profiles: which there are, and what the desk's asks for next to what is in force, differences first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from console.domain.text import clean
from console.ui.clipboard import copy
from console.ui.drawing import wrapped
from console.ui.importing import given_away, import_profile
from console.ui.screens.profile_panes import KEYS, ProfileList, ProfileSheet
from console.ui.screens.profile_rows import Row, asked_only, findings_of, foot, head, place_of, table
from console.ui.widgets.activity import Receipt
from console.ui.widgets.key_line import KeyLine
from console.ui.widgets.lines import Lines
from console.ui.widgets.status import Status
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.domain.profile import Profile
    from console.operations.profile_check import Finding
    from console.operations.profiles import Listed
    from console.state.store import Snapshot


class ProfilesScreen(Screen[None]):
    """Profiles, with the one under the cursor opened beside them."""

    CSS = """
    ProfilesScreen {
        #status { height: 1; }
        #status { background: $panel; }
        Horizontal { height: 1fr; }
        #profile-list { width: 2fr; min-width: 24; height: 100%; }
        #profile-sheet { width: 5fr; height: 100%; }
        #receipt { height: 1; display: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,p", "dismiss", show=False),
        Binding("tab", "app.focus_next", show=False),
        Binding("e", "edit_profile", "edit"),
        Binding("y", "copy_command", "copy command"),
        Binding("c", "check_profile", "check"),
        Binding("i", "import_profile", "import"),
        Binding("v", "verify_winner", "verify"),
        Binding("R", "reproduce_winner", "reproduce"),
        Binding("x", "build_experiment", "experiment"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._resolved: Mapping[str, object] = {}
        self._why = ""
        self._found: dict[str, tuple[str, tuple[Finding, ...] | None]] = {}
        """By profile: what was looked at, and what was found."""

    def compose(self) -> ComposeResult:
        """Put the list beside the sheet."""
        yield Status()
        yield Horizontal(ProfileList(), ProfileSheet())
        yield Receipt()
        yield KeyLine(*KEYS)

    def on_mount(self) -> None:
        """Read the profiles, then ask the server what is in force."""
        self.watch(self.app, "shown", self.show_snapshot)
        self.query_one(ProfileList).focus()
        launch(owner(self), self._read, group="profiles", exclusive=True)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Keep the first line and a fault in sight."""
        self.query_one(Status).show(snapshot)
        self.query_one(Receipt).show_fault(owner(self).cockpit.receipt.fault)

    async def _read(self) -> None:
        import asyncio

        from console.operations import profiles

        names = self.query_one(ProfileList)
        desk = owner(self).desk
        shown = desk.profile if desk is not None else None
        names.entries = await asyncio.to_thread(profiles.listed, shown)
        names.current = shown.name if shown is not None else ""
        found = [index for index, entry in enumerate(names.entries) if entry.name == names.current]
        names.changed()
        if found:
            names.cursor = found[0]
        self._show()
        self._look()
        await self._ask()
        self._show()

    def _look(self) -> None:
        """Check the file of the profile under the cursor, once."""
        entry = self._entry
        if entry is not None and entry.profile is not None and entry.profile.path not in self._found:
            launch(owner(self), partial(self._check, entry, host=False), group="check", exclusive=True)

    async def _ask(self) -> None:
        """Ask what is in force under the desk's profile."""
        from console.operations import server

        app = owner(self)
        run = app.snapshot.run
        self._resolved, self._why = {}, ""
        if app.desk is None or app.desk.profile is None:
            return
        if run is None or not run.port:
            self._why = "no server runs: what would be in force is not known"
        elif (fault := app.link_fault()) is not None:
            self._why = fault.one_line()
        else:
            self._resolved = await server.resolved_arguments(app.desk, run)
            if not self._resolved:
                self._why = "neither the server nor its log says what is in force yet"
            elif run.profile and run.profile != app.desk.profile.name:
                self._why = f"in force is what run {run.id} of {run.profile} has"

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Open the profile under the cursor."""
        if isinstance(event.lines, ProfileList):
            self._show()
            self._look()

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Work under the profile under the cursor."""
        if isinstance(event.lines, ProfileList):
            launch(owner(self), self._choose, event.lines.entries[event.index], group="write", lasting=True)

    async def _choose(self, entry: Listed) -> None:
        from console.operations import profiles
        from console.ui.connecting import survey

        app = owner(self)
        desk = app.need_desk()
        if (fault := app.link_fault()) is not None:
            raise fault
        if desk.profile is not None and entry.profile == desk.profile:
            app.say(f"{entry.name} is the desk's profile already")
            return
        chosen = await profiles.choose(desk, str(entry.path))
        app.say(f"profile {chosen.name} from now on: x s starts it, b measures its ladder")
        launch(app, survey, app, desk, group="survey", exclusive=True)
        await self._read()

    def _show(self) -> None:
        names, sheet = self.query_one(ProfileList), self.query_one(ProfileSheet)
        if not names.entries:
            return
        entry = names.entries[names.cursor]
        sheet.entitle("", clean(entry.name), clean(place_of(entry.path)))
        if entry.profile is None:
            sheet.fill([[], *(list(row) for row in wrapped(clean(entry.fault), sheet.size.width or 80, "bad"))])
            return
        sheet.fill(self._rows(entry.profile, entry.name == names.current, sheet.size.width or 80))

    def _rows(self, profile: Profile, current: bool, width: int) -> list[Row]:
        from console.operations import argument_table, profiles

        said = profiles.fields(profile)
        launched = said["launch"]
        assert isinstance(launched, Mapping)
        args: Mapping[str, object] = launched["args"]
        rows = [*head(profile), []]
        where, found = self._found.get(profile.path, ("the file", None))
        rows += findings_of(found, width, where)
        if current and self._resolved:
            table_rows = argument_table.differences_between(profile, self._resolved)
            number = sum(row.state == argument_table.DIFFERENT for row in table_rows)
            untold = any(row.asked is not None and row.in_force is None for row in table_rows)
            word = f"everything {'that it tells of ' * untold}is in force as asked for"
            word = f"{number} otherwise than asked for" if number else word
            rows.append([("  ", ""), (word, "warn" if number else "good")])
            if self._why:
                rows += [list(row) for row in wrapped(clean(self._why), width)]
            return [*rows, *table(table_rows, width), *foot(profile, launched["env"])]
        if current and self._why:
            rows += [list(row) for row in wrapped(clean(self._why), width)]
        desk = owner(self).desk
        other = None if current or desk is None or desk.profile is None else desk.profile
        beside = None if other is None else profiles.fields(other)["launch"]
        now = beside["args"] if isinstance(beside, Mapping) else None
        rows += asked_only(args, now, f"{other.name} asks for" if other is not None else "", width)
        return [*rows, *foot(profile, launched["env"])]

    async def _check(self, entry: Listed, *, host: bool) -> None:
        """Look for what is wrong with a profile, on the host where it is the desk's."""
        from console.operations import profile_check

        if entry.profile is None:
            return
        app = owner(self)
        desk = app.desk if host and app.desk is not None and entry.name == self._names.current else None
        where = f"the file, the install and the model on {desk.link.host.name}" if desk is not None else "the file"
        self._found[entry.profile.path] = (where, None)
        self._show()
        found = await profile_check.check(entry.profile, desk)
        self._found[entry.profile.path] = (where, found)
        self._show()

    @property
    def _names(self) -> ProfileList:
        return self.query_one(ProfileList)

    @property
    def _entry(self) -> Listed | None:
        entries = self._names.entries
        return entries[self._names.cursor] if entries else None

    def action_check_profile(self) -> None:
        """Check the profile under the cursor; the desk's also against the install, which is asked for its flags."""
        if (entry := self._entry) is not None:
            launch(owner(self), partial(self._check, entry, host=True), group="check", exclusive=True)

    def action_copy_command(self) -> None:
        """Copy the command that the profile stands for."""
        from console.operations import profiles

        if (entry := self._entry) is not None and entry.profile is not None:
            copy(owner(self), profiles.shell_command(entry.profile), "the command")

    def action_edit_profile(self) -> None:
        """Open the profile in the operator's editor; a shipped one gets an own file over it."""
        if (entry := self._entry) is not None:
            launch(owner(self), self._edit, entry, group="write", lasting=True)

    async def _edit(self, entry: Listed) -> None:
        from console.operations import profile_files

        app = owner(self)
        try:
            file = profile_files.edit(entry.path, partial(given_away, app))
        finally:
            self._found.clear()
            await self._read()
        own = "" if file == entry.path else ", over the shipped one"
        app.say(f"{file} saved{own}" + self._still(entry))

    def _still(self, entry: Listed) -> str:
        """Return a word on the desk, which works under the profile as it was read."""
        return "; enter takes it" if entry.name == self._names.current else ""

    def action_import_profile(self) -> None:
        """Make a profile out of a launch command."""
        launch(owner(self), import_profile, owner(self), self._read, group="write", lasting=True)

    def action_verify_winner(self) -> None:
        """List what has drifted on the host since the winner under the cursor was saved."""
        from console.ui import winners

        if (entry := self._entry) is not None and entry.profile is not None:
            launch(owner(self), winners.verify, owner(self), entry.profile, group="verify", exclusive=True)

    def action_reproduce_winner(self) -> None:
        """Rebuild the winner under the cursor and measure it again."""
        from console.ui import winners

        if (entry := self._entry) is not None and entry.profile is not None:
            launch(owner(self), winners.reproduce, owner(self), entry.profile, group="reproduce", lasting=True)

    def action_build_experiment(self) -> None:
        """Make an experiment of what the profile under the cursor asks for otherwise than the desk's."""
        if (entry := self._entry) is not None and entry.profile is not None:
            launch(owner(self), self._build, entry.profile, group="experiment file", exclusive=True)

    async def _build(self, other: Profile) -> None:
        from console.errors import UsageError
        from console.operations import experiments_new
        from console.ui.building import build
        from console.ui.modals.mark import MarkModal

        app = owner(self)
        base = app.desk.profile if app.desk is not None else None
        changes = () if base is None else experiments_new.changes_of_profiles(base, other)
        if base is None or not changes:
            hint = "enter chooses a base; then x on a profile that asks for something else"
            raise UsageError(f"{other.name} asks for nothing else than what this host works under", hint=hint)
        title = f"What makes {other.name} another than {base.name}"
        picked = await app.push_screen_wait(MarkModal(title, changes))
        if picked is not None:
            name = f"{base.name}-{other.name}"
            await build(app, picked, base=experiments_new.base_of(base), title=title, name=name)
