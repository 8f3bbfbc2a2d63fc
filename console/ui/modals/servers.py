"""Servers of a host in a list, and the question that only the typed pid answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from console.domain.server import HostServer, Role
from console.domain.text import clean
from console.operations.server_words import ANSWERS, UNTOLD, gpu_words, short, whose
from console.ui.drawing import Span, age, fit
from console.ui.modals.sheet import Part, keys
from console.ui.widgets.lines import Lines

INKS = {"ok": "good", "unwell": "warn", "timeout": "warn", "refused": "info", "": "dim"}
TYPED_WIDTH = 110
NAME_WIDTH = 13
BELOW_ROWS = 14
"""Below and around the list: what is known of one server, the keys, the frame."""

COMMAND_ROWS = 3
OTHER_ROWS = 2
"""So that the line to type into stays in a terminal of 24 rows."""


class ServerLines(Lines):
    """One server a line."""

    def __init__(self, servers: Sequence[HostServer], now: float) -> None:
        super().__init__(id="server-list")
        self.servers = servers
        self._now = now

    def count(self) -> int:
        """Return how many there are."""
        return len(self.servers)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one server."""
        each = self.servers[index]
        (sign, word), ink = ANSWERS[each.readiness], INKS[each.readiness]
        if each.role is not Role.SERVER:
            sign, word, ink = ("✗", "left over", "bad") if each.role is Role.LEFT_OVER else ("·", "embedded", "dim")
        where = f":{each.port}" if each.port else "—"
        since = age(max(0.0, self._now - each.started_at)) if each.started_at else "—"
        return [
            (f" {sign} {word:<14}", ink),
            (f"{where:<7}", "strong"),
            (f"pid {each.process.pid:<8}", ""),
            (f"{fit(clean(each.user), 9):<9} ", ""),
            (f"{fit(whose(each), 16):<16} ", "good" if each.ours else "warn"),
            (f"{since:>6}  ", "dim"),
            (fit(clean(f"{each.engine} {each.version} {each.model.rpartition('/')[2]}"), max(8, width - 68)), "dim"),
        ]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say that there is none."""
        return [[("  no engine server runs on this host", "dim")]]


class ServersModal(ModalScreen[tuple[str, HostServer] | None]):
    """Answers with what is to be done, and with which server."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("o", "answer('adopt')", show=False),
        Binding("t", "answer('stop')", show=False),
    ]

    def __init__(self, servers: Sequence[HostServer], now: float) -> None:
        super().__init__()
        self._servers, self._now = tuple(servers), now

    def compose(self) -> ComposeResult:
        """Put the list above what is known of the server under the cursor."""
        with Vertical(classes="servers") as box:
            box.border_title = Content("Servers on this host")
            yield ServerLines(self._servers, self._now)
            yield Static(classes="server-details")
            foot = keys(("enter", "attach"), ("o", "adopt as a run"), ("t", "stop"), ("esc", "nothing"))
            yield Static(Content.assemble(*foot), classes="sheet-foot")

    def on_mount(self) -> None:
        """Tell of the first one."""
        lines = self.query_one(ServerLines)
        lines.styles.height = max(1, min(len(self._servers), 12, self.app.size.height - BELOW_ROWS))
        lines.changed()
        lines.focus()
        self._tell(0)

    def on_lines_moved(self, event: Lines.Moved) -> None:
        """Tell of the one under the cursor."""
        self._tell(event.index)

    def on_lines_chosen(self, event: Lines.Chosen) -> None:
        """Attach."""
        self.dismiss(("attach", self._servers[event.index]))

    def action_answer(self, what: str) -> None:
        """Answer with the server under the cursor."""
        if self._servers:
            self.dismiss((what, self._servers[self.query_one(ServerLines).cursor]))

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

    def _tell(self, index: int) -> None:
        if not self._servers:
            return
        each = self._servers[index]
        parts: list[Part] = []
        for name, text in _details(each):
            parts += [(f"{name:<10}", "$muted"), (f"{fit(clean(text), self._room())}\n", "")]
        self.query_one(".server-details", Static).update(Content.assemble(*parts[:-1], (parts[-1][0].rstrip("\n"), "")))

    def _room(self) -> int:
        return max(20, min(150, self.app.size.width - 8) - 10)


def _details(each: HostServer) -> list[tuple[str, str]]:
    members = f"{len(each.members)}: " + ", ".join(f"{one.pid} {short(one.title)}" for one in each.members[:4])
    found = [
        ("serves", f"{each.engine} {each.version} {each.model or '—'}".replace("  ", " ")),
        ("command", " ".join(each.argv)),
        ("in", each.cwd or "—"),
        ("log", each.log or each.output_why or "—"),
        ("processes", members),
        ("holds", gpu_words(each) or UNTOLD),
    ]
    if each.container or each.unit:
        found.append(("lives in", f"container {each.container}" if each.container else f"unit {each.unit}"))
    if each.role is Role.EMBEDDED:
        found.append(("inside", each.parent))
    if each.role is Role.LEFT_OVER:
        found.append(("left over", "its launcher is gone: it serves nobody and holds what it holds"))
    return found


class StakeModal(ModalScreen[str | None]):
    """What ending a server costs; answers with its pid, which must be typed where the server is not ours."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "refuse", show=False)]

    def __init__(self, title: str, lines: Sequence[str], pid: int, *, typed: bool = True) -> None:
        super().__init__()
        self._title, self._lines, self._pid = clean(title), [clean(line) for line in lines], str(pid)
        self._typed = typed

    def compose(self) -> ComposeResult:
        """Put what is at stake above the line where the pid is typed."""
        with Vertical(classes="sheet") as box:
            box.border_title = Content(self._title)
            yield Static(self._stakes(), classes="sheet-line")
            if self._typed:
                line = Input(placeholder="the pid", compact=True, id="typed-pid")
                line.cursor_blink = False
                yield line
                yield Static(Content(" "), id="typed-word", classes="sheet-line")
            yes = ("enter", f"stop it, once {self._pid} is typed") if self._typed else ("y", "stop it")
            yield Static(Content.assemble(*keys(yes, ("esc", "leave it"))), classes="sheet-foot")

    def on_mount(self) -> None:
        """Wait for the pid."""
        if self._typed:
            self.query_one(Input).focus()

    def on_key(self, event: events.Key) -> None:
        """Answer yes for a server of ours."""
        if not self._typed and event.key == "y":
            event.stop()
            self.dismiss(self._pid)

    def on_resize(self) -> None:
        """Cut the lines anew."""
        self.query_one(".sheet-line", Static).update(self._stakes())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer when it is the right one."""
        typed = event.value.strip()
        if typed == self._pid:
            self.dismiss(typed)
            return
        said = f"{clean(typed)} is not {self._pid}: nothing was stopped" if typed else f"type {self._pid} first"
        self.query_one("#typed-word", Static).update(Content.assemble((said, "bold $warning")))

    def action_refuse(self) -> None:
        """Answer nothing."""
        self.dismiss(None)

    def _stakes(self) -> Content:
        room = max(20, min(TYPED_WIDTH, self.app.size.width) - 4 - NAME_WIDTH)
        parts: list[Part] = []
        for line in self._lines:
            name, _, text = line.partition("  ")
            most = COMMAND_ROWS if name == "command" else OTHER_ROWS
            for row, piece in enumerate(_rows(text.strip(), room, most)):
                parts += [(f"{name if not row else '':<{NAME_WIDTH}}", "$muted"), (f"{piece}\n", "")]
        return Content.assemble(*parts)


def _rows(text: str, room: int, most: int) -> list[str]:
    """Return a text in rows, broken between words where that is possible; what is too long ends in an ellipsis."""
    rows: list[str] = []
    while text and len(rows) < most:
        cut = text.rfind(" ", 0, room + 1) if len(text) > room else len(text)
        cut = cut if cut > room // 2 else room
        rows.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    if text:
        rows[-1] = rows[-1][: room - 1] + "…"
    return rows or [""]
