"""Tree of the engine package: folders are read when they are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from console.domain.source import TreeEntry
from console.domain.text import clean
from console.ui.drawing import Span, wrapped
from console.ui.widgets.lines import Lines


@dataclass(frozen=True, slots=True)
class Node:
    """One row of the tree."""

    entry: TreeEntry
    depth: int


class TreeView(Lines):
    """Files and folders."""

    class Wanted(Message):
        """A folder was opened that has not been read yet."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.nodes: list[Node] = []
        self._open: set[str] = set()
        self.reason = ""
        """Why there is nothing to see."""

    def root(self, entries: Sequence[TreeEntry]) -> None:
        """Show the entries of the top folder."""
        self.nodes = [Node(entry, 0) for entry in _sorted(entries)]
        self._open = set()
        self.changed(keep=False)

    def fill(self, path: str, entries: Sequence[TreeEntry]) -> None:
        """Show the entries of a folder below it."""
        for place, node in enumerate(self.nodes):
            if node.entry.path == path and path in self._open:
                below = [Node(entry, node.depth + 1) for entry in _sorted(entries)]
                self.nodes[place + 1 : place + 1] = below
                break
        self.changed()

    def action_choose(self) -> None:
        """Open or close a folder, or open a file."""
        if not self.nodes:
            return
        node = self.nodes[self.cursor]
        if node.entry.kind != "dir":
            super().action_choose()
        elif node.entry.path in self._open:
            self._close(self.cursor)
        else:
            self._open.add(node.entry.path)
            self.post_message(self.Wanted(node.entry.path))

    def action_slide(self, by: int) -> None:
        """Left closes the folder or goes to the one above, right opens."""
        if not self.nodes:
            return
        node = self.nodes[self.cursor]
        if by > 0:
            if node.entry.kind == "dir" and node.entry.path not in self._open:
                self.action_choose()
        elif node.entry.path in self._open:
            self._close(self.cursor)
        else:
            above = [i for i in range(self.cursor) if self.nodes[i].depth < node.depth]
            if above:
                self.cursor = above[-1]

    def _close(self, place: int) -> None:
        node = self.nodes[place]
        end = place + 1
        while end < len(self.nodes) and self.nodes[end].depth > node.depth:
            self._open.discard(self.nodes[end].entry.path)
            end += 1
        del self.nodes[place + 1 : end]
        self._open.discard(node.entry.path)
        self.changed()

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.nodes)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row: indent, sign, name, git letter."""
        node = self.nodes[index]
        entry = node.entry
        sign = ("▾ " if entry.path in self._open else "▸ ") if entry.kind == "dir" else "  "
        spans: list[Span] = [("▌" if index == self.cursor else " ", "accent"), ("  " * node.depth, ""), (sign, "dim")]
        spans.append(
            (clean(entry.name) + ("/" if entry.kind == "dir" else ""), "function" if entry.kind == "dir" else "")
        )
        if entry.target:
            spans.append((f" → {clean(entry.target)}", "dim"))
        if entry.git.strip():
            word = {"M": "modified", "?": "untracked", "A": "added", "D": "deleted"}.get(
                entry.git.strip()[:1], "changed"
            )
            spans.append((f"  ◆ {word}", "mark"))
        return spans

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say why there is no tree."""
        if self.reason:
            return [[], *wrapped(clean(self.reason), self.size.width, "warn")]
        return [[], [("  the engine's code on the host", "dim")], [("  reading…", "dim")]]


def _sorted(entries: Sequence[TreeEntry]) -> list[TreeEntry]:
    seen = [entry for entry in entries if entry.name not in ("__pycache__", ".tokwatt")]
    return sorted(seen, key=lambda entry: (entry.kind != "dir", entry.name.lower()))
