"""Why: the verdict on what binds the server, its signs, what would refute it, and what to try."""

from __future__ import annotations

from textual import events

from console.domain.diagnosis import CAUSELESS, Diagnosis
from console.domain.text import clean
from console.ui.modals.sheet import Part, Sheet, keys

_MARKS = {True: ("✓", "$success"), False: ("✗", "$error"), None: ("—", "$muted")}


class WhyModal(Sheet[None]):
    """What speaks for the verdict and what would speak against it."""

    def __init__(self, found: Diagnosis | None) -> None:
        super().__init__("Why", _body(found), keys(("esc", "close")))

    def on_key(self, event: events.Key) -> None:
        """Close by the key that opened it, too."""
        if event.key in ("7", "enter"):
            event.stop()
            self.dismiss(None)


def _body(found: Diagnosis | None) -> list[list[Part]]:
    if found is None:
        return [[("nothing judged yet: it takes three seconds of readings", "$muted")]]
    body: list[list[Part]] = [[(clean(found.said), "bold")]]
    told = f"{found.bound.value.replace('_', ' ')}, over {found.window_s:.0f} s"
    body.append([(told if found.bound in CAUSELESS else f"{told}, confidence {found.confidence.value}", "$muted")])
    for sign in found.signs:
        mark, style = _MARKS[sign.met]
        body.append([(f" {mark} ", style), (clean(sign.text), "" if sign.met else "$muted")])
    for title, lines in (("wrong if", found.refuted_by), ("try", found.knobs)):
        body += [[(title, "$muted")]] if lines else []
        body += [[("   " + clean(line), "")] for line in lines]
    for other in found.also[:3]:
        body.append([("also ", "$muted"), (clean(other.said), "")])
    return body
