"""Profiles: which there are, and what the desk's asks for next to what is in force, differences first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from console.domain.text import clean, dash
from console.ui.drawing import Span, fit, wrapped
from console.ui.widgets.activity import Receipt
from console.ui.widgets.frame import Framed
from console.ui.widgets.lines import Lines
from console.ui.widgets.status import Status
from console.ui.worker import launch, owner

if TYPE_CHECKING:
    from console.domain.profile import Profile
    from console.operations.profiles import Listed
    from console.state.store import Snapshot

Row = list[Span]


def place_of(path: Path | str) -> str:
    """Return a folder as an operator writes it."""
    folder, home = str(Path(path).parent), str(Path.home())
    return "~" + folder[len(home) :] if folder.startswith(home + "/") else folder


def value_of(value: object) -> str:
    """Return an argument's value; a flag alone is `on`."""
    if value is True:
        return "on"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value))
    return "—" if value is None else str(value)


def rows_of(
    profile: Profile,
    args: Mapping[str, object],
    different: Mapping[str, object],
    resolved: Mapping[str, object],
    right: str,
) -> list[Row]:
    """Return arguments in two columns, those that differ first.

    Args:
        profile: Whose arguments.
        args: Them, secrets redacted.
        different: Value of the other side by name, where that is another.
        resolved: The whole other side, to show where the two are alike.
        right: Heading of the other side; empty when there is none.
    """
    size = max([8, *(len(name) for name in args)])
    rows: list[Row] = [[(f"  {'argument':<{size}}  {'asked for':<28}  {right}", "dim")]]
    for name in [*(n for n in args if n in different), *(n for n in args if n not in different)]:
        asked = fit(clean(value_of(args[name])), 28)
        if name in different:
            other = clean(value_of(different[name]))
            rows.append([("! ", "warn"), (f"{clean(name):<{size}}  ", "strong"), (f"{asked}  ", ""), (other, "warn")])
        else:
            key = name.replace("-", "_")
            alike = value_of(resolved[key]) if key in resolved else "—" if right else ""
            other = clean(alike)
            rows.append([("  ", ""), (f"{clean(name):<{size}}  ", ""), (f"{asked}  ", ""), (other, "dim")])
    return rows


class ProfileList(Lines, Framed):
    """Every profile that a name can reach."""

    def __init__(self) -> None:
        super().__init__(id="profile-list")
        self.entries: tuple[Listed, ...] = ()
        self.current = ""
        self.entitle("p", "Profiles", "enter chooses")

    def count(self) -> int:
        """Return how many there are."""
        return len(self.entries)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a name and where it is from."""
        entry = self.entries[index]
        chosen = entry.name == self.current
        lead: Span = ("▌" if index == self.cursor else " ", "accent")
        sign: Span = ("✗ ", "bad") if entry.profile is None else ("● ", "good") if chosen else ("○ ", "dim")
        size = max(10, min(24, width - 12))
        name = fit(clean(entry.name), size)
        return [lead, sign, (f"{name} ", "strong" if chosen else ""), (clean(place_of(entry.path)), "dim")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what would be here."""
        return [[], [("  reading profiles…", "dim")]]


class ProfileSheet(Lines, Framed):
    """One profile: what it asks for."""

    def __init__(self) -> None:
        super().__init__(id="profile-sheet")
        self.rows: list[Row] = []

    def fill(self, rows: list[Row]) -> None:
        """Show rows."""
        self.rows = rows
        self.changed(keep=False)

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row."""
        return self.rows[index]


class ProfilesScreen(Screen[None]):
    """Profiles, with the one under the cursor opened beside them."""

    CSS = """
    ProfilesScreen {
        #status { height: 1; background: $panel; }
        #profile-list { width: 2fr; min-width: 30; height: 100%; }
        #profile-sheet { width: 5fr; height: 100%; }
        #receipt { height: 1; display: none; background: $panel; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,p", "dismiss", show=False),
        Binding("tab", "app.focus_next", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._resolved: Mapping[str, object] = {}
        self._in_force: dict[str, object] = {}
        self._why = ""

    def compose(self) -> ComposeResult:
        """Put the list beside the sheet."""
        yield Status()
        yield Horizontal(ProfileList(), ProfileSheet())
        yield Receipt()

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
        names.entries = await asyncio.to_thread(profiles.listed)
        names.current = desk.profile.name if desk is not None and desk.profile is not None else ""
        found = [index for index, entry in enumerate(names.entries) if entry.name == names.current]
        names.changed()
        if found:
            names.cursor = found[0]
        self._show()
        await self._ask()
        self._show()

    async def _ask(self) -> None:
        """Ask what is in force under the desk's profile."""
        from console.operations import server

        app = owner(self)
        run = app.snapshot.run
        self._resolved, self._in_force, self._why = {}, {}, ""
        if app.desk is None or app.desk.profile is None:
            return
        if run is None or not run.port:
            self._why = "no server runs: what would be in force is not known"
        elif (fault := app.link_fault()) is not None:
            self._why = fault.one_line()
        else:
            self._resolved = await server.resolved_arguments(app.desk, run)
            found = server.differences(app.desk.profile, self._resolved)
            self._in_force = {each.name: each.resolved for each in found}
            if not self._resolved:
                self._why = "neither the server nor its log says what is in force yet"
            elif run.profile and run.profile != app.desk.profile.name:
                self._why = f"in force is what run {run.id} of {run.profile} has"

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Open the profile under the cursor."""
        if isinstance(event.lines, ProfileList):
            self._show()

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
        if desk.profile is not None and entry.name == desk.profile.name:
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
        from console.operations import profiles

        said = profiles.fields(profile)
        launched = said["launch"]
        assert isinstance(launched, Mapping)
        args: Mapping[str, object] = launched["args"]
        rows: list[Row] = [[], [("  ", ""), (clean(profile.title or profile.name), "strong")]]
        rows.append(
            [(f"  {profile.engine.kind} by {profile.engine.python or 'python3'}, port {profile.launch.port}", "dim")]
        )
        rows.append([])
        if current:
            if self._why:
                rows += [list(row) for row in wrapped(clean(self._why), width)]
            elif self._resolved:
                number = len(self._in_force)
                word = "everything is in force as asked for" if not number else f"{number} otherwise than asked for"
                rows.append([("  ", ""), (word, "warn" if number else "good")])
            rows += rows_of(profile, args, self._in_force, self._resolved, "in force" if self._resolved else "")
        else:
            rows += rows_of(profile, args, *self._against_current(args))
        for name, value in launched["env"].items():
            shown = f"from the {value['from']}" if isinstance(value, Mapping) else str(value)
            rows.append([(f"  env {clean(name)} ", "dim"), (clean(shown), "")])
        bench, target = profile.bench, profile.target
        rows += [[], [("  patches on  ", "dim"), (", ".join(map(clean, profile.patches_on)) or "none", "")]]
        ladder = ", ".join(map(str, bench.concurrency))
        rows.append([("  ladder      ", "dim"), (f"{ladder} · {bench.input_tokens} in {bench.output_tokens} out", "")])
        if target.output_tok_s is not None:
            origin = f", {clean(target.origin)}" if target.origin else ""
            rows.append([("  target      ", "dim"), (f"{dash(target.output_tok_s)} tok/s{origin}", "")])
        if profile.winner:
            rows.append([("  winner      ", "dim"), ("saved with its evidence, in the file", "good")])
        return rows

    def _against_current(self, args: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object], str]:
        desk = owner(self).desk
        if desk is None or desk.profile is None:
            return {}, {}, ""
        now: Mapping[str, object] = desk.profile.launch.args
        different = {name: now.get(name) for name in args if now.get(name) != args[name]}
        return (
            different,
            {name.replace("-", "_"): value for name, value in now.items()},
            f"{desk.profile.name} asks for",
        )
