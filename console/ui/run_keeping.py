"""What is kept of runs from their screen: tags, notes, and files for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from console.domain.text import counted

if TYPE_CHECKING:
    from console.journal.records import RunEntry
    from console.ui.app import TokwattApp

FORMS = {"j": "jsonl", "c": "csv", "m": "markdown", "b": "bench"}
ENDINGS = {"jsonl": "jsonl", "csv": "csv", "markdown": "md", "bench": "jsonl"}


async def tag(app: TokwattApp, entry: RunEntry) -> dict[str, Any] | None:
    """Ask for tags, and return tags and note as they stand then; none when it was left."""
    from console.operations import compare
    from console.ui.modals.prompt import PromptModal

    said = await app.push_screen_wait(PromptModal(f"tags of {entry.id}: ", " ".join(entry.tags), "words"))
    if said is None:
        return None
    wanted = tuple(filter(None, (word.lstrip("#") for word in said.replace(",", " ").split())))
    return await compare.remark(entry, tags=wanted, untag=[one for one in entry.tags if one not in wanted])


async def note(app: TokwattApp, entry: RunEntry) -> dict[str, Any] | None:
    """Ask for a note, and return tags and note as they stand then; none when it was left."""
    from console.operations import compare
    from console.ui.modals.prompt import PromptModal

    said = await app.push_screen_wait(PromptModal(f"note to {entry.id}: ", entry.note))
    return None if said is None else await compare.remark(entry, note=" ".join(said.split()))


async def export(app: TokwattApp, entries: Sequence[RunEntry], which: str) -> None:
    """Ask for a format and a file, and write the measurements of runs."""
    from console.operations import exports
    from console.ui.modals.confirm import MenuModal
    from console.ui.modals.prompt import PromptModal

    what = counted(len(entries), f"{which} run")
    picked = await app.push_screen_wait(MenuModal("Export", [what], list(FORMS.items())))
    if not picked:
        return
    form = FORMS[picked]
    file = await app.push_screen_wait(PromptModal("write to ", f"runs.{ENDINGS[form]}"))
    if file:
        app.say(f"wrote {await exports.write(entries, form, file)}")
