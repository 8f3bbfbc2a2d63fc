"""Building an experiment on screen: marked differences, why each should win, and where the file goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from console.errors import UsageError
from console.ui.drawing import fit

if TYPE_CHECKING:
    from console.operations.experiments_new import Change
    from console.ui.app import TokwattApp

WAYS = {"b": "both", "s": "apart", "t": "only"}


async def build(
    app: TokwattApp, changes: Sequence[Change], *, base: str, title: str, name: str, concurrency: Sequence[int] = ()
) -> None:
    """Ask for each change's hypothesis, save the experiment, and show its plan; escape anywhere writes nothing."""
    from console.operations import experiments_new
    from console.ui.modals.confirm import MenuModal
    from console.ui.modals.prompt import PromptModal
    from console.ui.screens.experiment import ExperimentScreen

    if not changes:
        raise UsageError("nothing is marked", hint="space marks a difference, a all of them; then enter")
    whys: dict[str, str] = {}
    for number, change in enumerate(changes, 1):
        words = fit(change.words, min(len(change.words), 44))
        said: str | None = await app.push_screen_wait(
            PromptModal(f"{number}/{len(changes)} {words}  because ", "", "the hypothesis; empty leaves it out")
        )
        if said is None:
            return
        whys[change.key] = " ".join(said.split())
    together = "apart"
    if len(changes) > 1:
        ways = [("b", "an arm each, and one with all of them"), ("s", "an arm each"), ("t", "one arm with all of them")]
        picked = await app.push_screen_wait(MenuModal(f"{len(changes)} changes", [title], ways))
        if not picked:
            return
        together = WAYS[picked]
    file = await app.push_screen_wait(PromptModal("save experiment as ", name, "a name, or a path"))
    if not file:
        return
    path = experiments_new.write(
        changes, base=base, title=title, file=file, concurrency=concurrency, hypotheses=whys, together=together
    )
    app.say(f"saved {path}")
    await app.push_screen(ExperimentScreen(path))
