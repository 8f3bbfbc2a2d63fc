"""Changed view: every engine package, and what of it is not as it was installed."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.installed import ChangedFile, PackageCheck
from console.domain.text import clean
from console.ui.drawing import Span
from console.ui.widgets.lines import Lines

_SIGNS = {"changed": ("M", "warn"), "missing": ("D", "bad"), "added": ("A", "info"), "unreadable": ("!", "bad")}


class ChangedView(Lines):
    """Packages with their changed files, growing while they are checked."""

    def __init__(self) -> None:
        super().__init__(id="changed")
        self.checks: list[PackageCheck] = []
        self.rows: list[tuple[PackageCheck, ChangedFile | None]] = []
        self.running = False

    def begin(self) -> None:
        """Forget the last look."""
        self.checks, self.rows, self.running = [], [], True
        self.changed(keep=False)

    def add(self, check: PackageCheck) -> None:
        """Add a package that is checked."""
        self.checks.append(check)
        self.rows.append((check, None))
        self.rows += [(check, file) for file in check.files]
        self.changed()

    def end(self) -> None:
        """Say that all packages are here."""
        self.running = False
        self.refresh()

    @property
    def files(self) -> int:
        """How many files differ."""
        return sum(len(check.files) for check in self.checks)

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return a package or one of its files."""
        check, file = self.rows[index]
        mark: Span = ("▌" if index == self.cursor else " ", "accent")
        if file is None:
            return [mark, *self._package(check)]
        sign, ink = _SIGNS.get(file.kind, ("?", "warn"))
        by = f"  ◆ patch {file.patch}" if file.patch else f"  {file.reason}" if file.reason else ""
        return [mark, (f"  {sign} {file.kind:<10} ", ink), (clean(file.shown), ""), (clean(by), "mark")]

    def _package(self, check: PackageCheck) -> list[Span]:
        package = check.package
        name: Span = (clean(f"{package.name} {package.version or '—'}"), "function strong")
        if not check.against:
            return [name, (clean(f"   {check.reason}"), "warn")]
        against = "RECORD" if check.against == "RECORD" else f"git {check.commit[:9]}"
        if check.files:
            said: Span = (f"   {len(check.files):,} of {check.checked:,} files differ from {against}", "warn")
        else:
            said = (f"   ✓ all {check.checked:,} files as in {against}", "good")
        twice = f"   two installs share it: {', '.join(check.distributions)}" if len(check.distributions) > 1 else ""
        return [name, said, (clean(f"   {package.origin}  {package.folder}"), "dim"), (clean(twice), "warn")]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say what will be here."""
        if self.running:
            return [[("  checking every engine package against RECORD or git…", "dim")]]
        return [[("  none of the engine packages is installed for this interpreter", "dim")]]
