"""The funnel: every operation that a key starts runs here, and here alone its faults are told."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.css.query import NoMatches
from textual.dom import DOMNode

from console.errors import AlreadySoError, ConsoleError
from console.ui.seats import AT, Seat

if TYPE_CHECKING:
    from textual.worker import Worker

    from console.ui.app import TokwattApp


def owner(node: DOMNode) -> TokwattApp:
    """Return the app of a widget or screen, as ours."""
    return cast("TokwattApp", node.app)


def is_open(screen: DOMNode) -> bool:
    """Return whether a screen was not left yet: what a key started may outlive it."""
    return screen.display  # `is_mounted` stays true for ever; this is false from the moment of leaving


def launch(
    app: TokwattApp,
    work: Callable[..., Coroutine[Any, Any, None]],
    *arguments: Any,
    group: str,
    exclusive: bool = False,
    lasting: bool = False,
    watching: str = "",
    seat: Seat | None = None,
) -> Worker[None]:
    """Run an operation in a worker that stays with one host.

    Args:
        app: Who tells the faults.
        work: What to do; called when the worker begins, since one may be ended before that.
        arguments: What it is called with.
        group: Workers of one group; `exclusive` ends the others of it first.
        exclusive: Whether the newest of a group is the only one.
        lasting: Whether a fault stays until it was read, such as that of a write.
        watching: Name of an endless reading; its fault is told in its pane instead.
        seat: The host that it is about; none means the one at hand.
    """
    seat = seat or app.seat
    return app.run_worker(
        partial(_funnel, app, seat, partial(work, *arguments), lasting, watching, app.screen),
        group=seat.group(group),
        exclusive=exclusive,
        name=group,
    )


def end_group(app: TokwattApp, group: str) -> None:
    """End the workers of a group at the host at hand."""
    app.workers.cancel_group(app, app.seat.group(group))


async def _funnel(
    app: TokwattApp,
    seat: Seat,
    work: Callable[[], Coroutine[Any, Any, None]],
    lasting: bool,
    watching: str,
    screen: DOMNode,
) -> None:
    AT.set(seat)  # for this worker's task and what it starts
    try:
        await work()
    except NoMatches:
        if is_open(screen):
            raise  # else the screen that it would have been shown on was left
    except AlreadySoError as error:
        app.tell(error)
    except ConsoleError as error:
        if watching:
            seat.reasons[watching] = error.one_line()
        elif lasting:
            app.tell_lasting(error)
        else:
            app.tell(error)
