"""What the sheet of a profile shows, as rows of spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from console.domain.text import clean, dash
from console.ui.drawing import Span, fit, wrapped

if TYPE_CHECKING:
    from console.domain.profile import Profile
    from console.operations.argument_table import ArgumentRow
    from console.operations.profile_check import Finding

Row = list[Span]
NAME_SIZE, VALUE_SIZE = 34, 28
"""The most columns of an argument's name, and of what was asked for."""


def place_of(path: Path | str) -> str:
    """Return a folder as an operator writes it."""
    folder, home = str(Path(path).parent), str(Path.home())
    return "~" + folder[len(home) :] if folder.startswith(home + "/") else folder


def value_of(value: object) -> str:
    """Return an argument's value; a flag alone is `on`."""
    if value is True:
        return "on"
    if value is False:
        return "off"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value))
    return "—" if value is None else str(value)


def head(profile: Profile) -> list[Row]:
    """Return title, engine and layers."""
    python = profile.engine.python or "python3"
    by = " ".join(profile.engine.command) or python
    rows: list[Row] = [[], [("  ", ""), (clean(profile.title or profile.name), "strong")]]
    rows.append([(clean(f"  {profile.engine.kind} by {by}, port {profile.launch.port}"), "dim")])
    if len(profile.layers) > 1:
        rows.append([(clean(f"  over {' over '.join(Path(file).stem for file in profile.layers[1:])}"), "dim")])
    return rows


def findings_of(found: Sequence[Finding] | None, width: int, where: str) -> list[Row]:
    """Return what is wrong, errors first.

    Args:
        found: The findings; `None` while they are being looked for.
        width: Columns.
        where: What was looked at: the file alone, or a host.
    """
    if found is None:
        return [[(f"  checking {clean(where)}…", "dim")], []]
    if not found:
        return [[("  ✓ ", "good"), (f"nothing wrong found in {clean(where)}", "dim")], []]
    rows: list[Row] = []
    for each in found:
        bad = each.severity == "error"
        place = f"{Path(each.file).name}:{each.line} " if each.line else ""
        said = f"{place}{each.text}" + (f" · {each.hint}" if each.hint else "")
        lines = [list(row) for row in wrapped(clean(said), max(20, width - 4))]
        for number, line in enumerate(lines):
            sign: Span = ("✗" if bad else "!", "bad" if bad else "warn") if not number else (" ", "")
            rows.append([("  ", ""), sign, *line])
    return [*rows, []]


def sizes_of(names: Sequence[str], values: Sequence[object], width: int) -> tuple[int, int]:
    """Return the columns of names and of values asked for, so that what is in force has its own."""
    size = min(NAME_SIZE, max([8, *(len(name) for name in names)]), max(12, width // 2 - 4))
    longest = max([9, *(len(value_of(value)) for value in values)])
    return size, min(VALUE_SIZE, longest, max(9, (width - size - 6) // 2))


def table(rows: Sequence[ArgumentRow], width: int) -> list[Row]:
    """Return arguments asked for and in force, differences first, defaults dim at the end."""
    size, asked_size = sizes_of([row.name for row in rows], [row.asked for row in rows], width)
    drawn: list[Row] = [[(f"  {'argument':<{size}}  {'asked for':<{asked_size}}  in force", "dim")]]
    state = ""
    for row in rows:
        if row.state == "default" and state != "default":
            drawn += [[], [("  nobody asked for these: the server's own", "dim")]]
        state = row.state
        name, asked = fit(clean(row.name), size), fit(clean(value_of(row.asked)), asked_size)
        in_force = clean(value_of(row.in_force))
        if row.state == "different":
            drawn.append([("! ", "warn"), (f"{name}  ", "strong"), (f"{asked}  ", ""), (in_force, "warn")])
        elif row.state == "default":
            drawn.append([("  ", ""), (f"{name}  ", "dim"), (f"{'':<{asked_size}}  ", ""), (in_force, "dim")])
        else:
            drawn.append([("  ", ""), (f"{name}  ", ""), (f"{asked}  ", ""), (in_force, "dim")])
    return drawn


def asked_only(args: Mapping[str, object], other: Mapping[str, object] | None, right: str, width: int) -> list[Row]:
    """Return arguments that were asked for, beside those of another profile where there is one.

    Args:
        args: Them, secrets redacted.
        other: Those of the other profile; what is different there goes first.
        right: Heading of the other profile.
        width: Columns.
    """
    names = list(args) if other is None else list(dict.fromkeys([*args, *other]))
    size, asked_size = sizes_of(names, list(args.values()), width if other is not None else 4 * width)
    drawn: list[Row] = [[(f"  {'argument':<{size}}  {'asked for':<{asked_size}}  {clean(right)}", "dim")]]
    different = [name for name in names if other is not None and args.get(name) != other.get(name)]
    for name in [*different, *(name for name in names if name not in different)]:
        asked = fit(clean(value_of(args.get(name))), asked_size)
        beside = "" if other is None else clean(value_of(other.get(name)))
        mark: Span = ("! ", "warn") if name in different else ("  ", "")
        ink = "strong" if name in different else ""
        drawn.append(
            [mark, (f"{fit(clean(name), size)}  ", ink), (f"{asked}  ", ""), (beside, "warn" if ink else "dim")]
        )
    return drawn


def foot(profile: Profile, env: Mapping[str, object]) -> list[Row]:
    """Return variables, patches, ladder and target."""
    rows: list[Row] = []
    for name, value in env.items():
        shown = f"from the {value['from']}" if isinstance(value, Mapping) else str(value)
        rows.append([(f"  env {clean(name)} ", "dim"), (clean(shown), "")])
    rows += [[(f"  env {clean(name)} ", "dim"), ("unset", "")] for name in profile.launch.unset]
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
