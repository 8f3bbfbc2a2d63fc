"""Who measures on the host from another machine, and taking the host over from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.errors import AlreadySoError

if TYPE_CHECKING:
    from console.ui.app import TokwattApp


async def take_over(app: TokwattApp) -> None:
    """End the hold of another machine's console once its operator was typed."""
    from console.operations import holds
    from console.ui.modals.prompt import PromptModal

    desk = app.need_desk()
    desk.must_write("take over")
    now = await holds.holder(desk)
    if not now:
        raise AlreadySoError(f"{desk.link.host.name}: nobody measures here")
    who = str(now["operator"])
    app.say(f"{who}: {holds.told(now)}")
    typed = await app.push_screen_wait(PromptModal("take over from ", hint=f"type {who}"))
    if typed is not None:
        app.say(f"taken over: {await holds.take_over(desk, typed)}")
