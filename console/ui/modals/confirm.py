"""Confirmation: what will happen, and a key that is not the one that asked."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from console.domain.text import clean
from console.ui.modals.sheet import Part, Sheet, keys


class ConfirmModal(Sheet[bool]):
    """Yes with one key, no with escape."""

    def __init__(self, title: str, lines: Sequence[str], yes: str, *, key: str = "y") -> None:
        body: list[list[Part]] = [[(clean(line), "")] for line in lines]
        super().__init__(clean(title), [*body, []], keys((key, yes), ("esc", "leave it")))
        self._key = key

    def on_key(self, event: events.Key) -> None:
        """Answer yes."""
        if event.key == self._key:
            event.stop()
            self.dismiss(True)


class MenuModal(Sheet[str]):
    """A few choices, each with its key."""

    def __init__(self, title: str, lines: Sequence[str], choices: Sequence[tuple[str, str]]) -> None:
        body: list[list[Part]] = [[(clean(line), "$muted")] for line in lines]
        rows = [keys((key, word)) for key, word in choices]
        super().__init__(clean(title), [*body, [], *rows, []], keys(("esc", "nothing")))
        self._keys = {key for key, _ in choices}

    def on_key(self, event: events.Key) -> None:
        """Answer with the key of a choice."""
        if event.character in self._keys:
            event.stop()
            self.dismiss(event.character)


class HostKeyModal(Sheet[bool]):
    """First contact with a host: its key has to be compared by a person."""

    def __init__(self, host: str, port: int, key_type: str, fingerprint: str) -> None:
        body: list[list[Part]] = [
            [(f"{clean(host)}:{port}", "bold"), (" is not in known_hosts yet.", "")],
            [("Its ", ""), (clean(key_type), ""), (" key has the fingerprint", "")],
            [],
            [(f"  {clean(fingerprint)}", "bold $accent")],
            [],
            [("Compare it with the host's own (ssh-keygen -lf on its console).", "$muted")],
            [("Accepting adds it to your known_hosts.", "$muted")],
            [],
        ]
        super().__init__("Unknown host", body, keys(("a", "accept this key"), ("esc", "do not connect")))

    def on_key(self, event: events.Key) -> None:
        """Accept the key."""
        if event.key == "a":
            event.stop()
            self.dismiss(True)
