"""Tree of a folder: folders are read when they are opened, huge ones page by page; filtered as you type.

The filter looks at every name below the top folder, whether its folder was opened or not, once the names are known.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from console.domain.source import TreeEntry
from console.domain.text import clean
from console.ui.drawing import Span, wrapped
from console.ui.widgets.lines import Lines

HIDDEN = ("__pycache__", ".tokwatt", ".git")
FILTERED_MOST = 2000
"""Rows that a filter shows."""

_LETTERS = {"M": "modified", "?": "untracked", "A": "added", "D": "deleted", "U": "conflict"}


@dataclass(frozen=True, slots=True)
class Node:
    """One row of the tree."""

    entry: TreeEntry
    depth: int
    more: int = 0
    """Of a folder that was not read to its end: how many names are left; the entry is the folder then."""
    read: int = 0
    """How many of its names were read."""

    @property
    def is_folder(self) -> bool:
        """Whether it can be opened as a folder; a link to one can."""
        return not self.more and "dir" in (self.entry.kind, self.entry.target_kind)


class TreeView(Lines):
    """Files and folders."""

    class Wanted(Message):
        """A folder was opened, or read on, whose names are not here yet."""

        def __init__(self, path: str, offset: int = 0) -> None:
            super().__init__()
            self.path = path
            self.offset = offset

    class Filtered(Message):
        """Other names are shown."""

    class Began(Message):
        """Letters are taken for the filter from here on."""

    class Hidden(Message):
        """A folder was chosen that is below folders which were not opened yet."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = path

    def __init__(self) -> None:
        super().__init__(id="tree")
        self.nodes: list[Node] = []
        """Rows that are shown: all of them, or those that match the filter with the folders above."""
        self.filter = ""
        self.filtering = False
        """Whether keys are letters of the filter."""
        self.reason = ""
        """Why there is nothing to see."""
        self.top = ""
        """Path of the top folder."""
        self.known: Sequence[str] = ()
        """Every file's name below the top folder, relative to it, as far as they were asked for."""
        self.entry_of: Callable[[str], TreeEntry] = lambda name: TreeEntry(posixpath.basename(name), name, "file")
        self._all: list[Node] = []
        self._open: set[str] = set()

    def root(self, entries: Sequence[TreeEntry], total: int = 0, path: str = "") -> None:
        """Show the entries of the top folder; whoever types a filter meanwhile goes on typing it."""
        if path != self.top:
            self.top, self.known = path, ()
        self._all = _nodes(path, entries, 0, 0, total)
        self._open = set()
        self._show(keep=False)

    def fill(self, path: str, entries: Sequence[TreeEntry], total: int = 0, offset: int = 0) -> None:
        """Show the entries of a folder below it, or go on where its names were not all read."""
        for place, node in enumerate(self._all):
            if node.entry.path != path or bool(node.more) != bool(offset):
                continue
            if offset:
                self._all[place : place + 1] = _nodes(path, entries, node.depth, offset, total)
            elif path in self._open:
                self._all[place + 1 : place + 1] = _nodes(path, entries, node.depth + 1, 0, total)
            break
        self._show()

    def action_choose(self) -> None:
        """Open or close a folder, read on in a huge one, or open a file."""
        if not self.nodes:
            return
        node = self.nodes[self.cursor]
        if node.is_folder or node.more:
            if node not in self._all:
                self.end_filter()
                self.post_message(self.Hidden(node.entry.path))
                return
            self.end_filter()
        self.filtering = False
        if node.more:
            self.post_message(self.Wanted(node.entry.path, node.read))
        elif not node.is_folder:
            super().action_choose()
        elif node.entry.path in self._open:
            self._close(node)
        else:
            self._open.add(node.entry.path)
            self.post_message(self.Wanted(node.entry.path))

    def action_slide(self, by: int) -> None:
        """Left closes the folder or goes to the one above, right opens."""
        if not self.nodes:
            return
        node = self.nodes[self.cursor]
        if by > 0:
            if node.is_folder and node.entry.path not in self._open:
                self.action_choose()
        elif node.is_folder and node.entry.path in self._open:
            self._close(node)
        else:
            above = [i for i in range(self.cursor) if self.nodes[i].depth < node.depth]
            if above:
                self.cursor = above[-1]

    def _close(self, node: Node) -> None:
        place = self._all.index(node)
        end = place + 1
        while end < len(self._all) and self._all[end].depth > node.depth:
            self._open.discard(self._all[end].entry.path)
            end += 1
        del self._all[place + 1 : end]
        self._open.discard(node.entry.path)
        self._show()

    # filter

    def begin_filter(self) -> None:
        """Take the next keys as letters of the filter."""
        self.filtering = True
        self._show()

    def end_filter(self) -> bool:
        """Show everything again; false when nothing was filtered."""
        had = self.filtering or bool(self.filter)
        here = self.nodes[self.cursor] if self.nodes else None
        self.filter, self.filtering = "", False
        self._show()
        if had and here in self._all:
            self.place(self._all.index(here))
        self.post_message(self.Filtered())
        return had

    def on_key(self, event: events.Key) -> None:
        """Take letters while filtering; other keys keep their meaning.

        The key that begins it is taken here: a binding acts only when letters typed right after it are through.
        """
        if not self.filtering:
            if event.character == "/":
                self.begin_filter()
                self.post_message(self.Began())
                event.stop()
                event.prevent_default()
            return
        if event.key == "backspace":
            self.filter = self.filter[:-1]
        elif event.character is not None and event.is_printable:
            self.filter += event.character
        else:
            return
        event.stop()
        event.prevent_default()
        self._show(keep=False)
        self.post_message(self.Filtered())
        hits = [at for at, node in enumerate(self.nodes) if self._matches(node)]
        if hits:
            self.cursor = hits[0]

    def know(self, names: Sequence[str], entry_of: Callable[[str], TreeEntry]) -> None:
        """Let the filter look at names that are not loaded, too."""
        self.known, self.entry_of = names, entry_of
        if self.filter:
            here = self.nodes[self.cursor].entry.path if self.nodes else ""
            self._show()
            self._place_path(here)

    def unfold(self, pages: Sequence[tuple[str, Sequence[TreeEntry], int]]) -> None:
        """Open folders, the upper ones first, and put the cursor on the last."""
        for path, entries, total in pages:
            if path not in self._open:
                self._open.add(path)
                self.fill(path, entries, total)
            self._place_path(path)

    def is_open(self, path: str) -> bool:
        """Return whether a folder's names are shown."""
        return path in self._open

    def _place_path(self, path: str) -> None:
        at = next((at for at, node in enumerate(self.nodes) if node.entry.path == path and not node.more), None)
        if at is not None:
            self.place(at)

    def _matches(self, node: Node) -> bool:
        return not node.more and self.filter.lower() in self._part(node.entry.path, node.entry.name).lower()

    def _part(self, path: str, name: str) -> str:
        """Return what of a path the filter is compared with: with a slash in it, all from the top folder on."""
        return path.removeprefix(f"{self.top.rstrip('/')}/") if "/" in self.filter else name

    def _show(self, *, keep: bool = True) -> None:
        if not self.filter:
            self.nodes = self._all
        else:
            self.nodes = self._filtered_known() if self.known else self._filtered()
        self.changed(keep=keep)

    def _filtered(self) -> list[Node]:
        kept: dict[int, Node] = {}
        above: list[tuple[int, Node]] = []
        for number, node in enumerate(self._all):
            del above[node.depth :]
            if self._matches(node):
                kept |= dict(above)
                kept[number] = node
            above.append((number, node))
        return [kept[number] for number in sorted(kept)]

    def _filtered_known(self) -> list[Node]:
        """Return every name that matches, its folders above it, as far as loaded with what is known of it."""
        wanted = self.filter.lower()
        at_path = "/" in wanted
        loaded = {node.entry.path: node for node in self._all if not node.more}
        base = self.top.rstrip("/")
        chosen: dict[str, bool] = {}
        for name in self.known:
            cut = name.rfind("/") + 1
            folders = name[:cut].lower()
            if wanted in (name if at_path else name[cut:]).lower():
                chosen[name] = False
            if wanted in folders:  # a part of it may be a folder that matches
                for end in [at for at, sign in enumerate(name[:cut]) if sign == "/"]:
                    part = name[:end]
                    if wanted in (part if at_path else posixpath.basename(part)).lower():
                        chosen[part] = True
            if len(chosen) >= FILTERED_MOST:
                break
        for path, node in loaded.items():  # an empty folder, or a name since made, is in no list of files
            if self._matches(node):
                chosen.setdefault(path.removeprefix(f"{base}/"), node.is_folder)
        for name in list(chosen):
            while name := posixpath.dirname(name):
                chosen[name] = True
        nodes = []
        for name in sorted(chosen, key=lambda name: _place(name, chosen[name])):
            present = loaded.get(f"{base}/{name}")
            folder = TreeEntry(posixpath.basename(name), f"{base}/{name}", "dir")
            made = folder if chosen[name] else self.entry_of(name)
            nodes.append(present or Node(made, name.count("/")))
        return nodes

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.nodes)

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one row: indent, sign, name, where a link leads, git letter."""
        node = self.nodes[index]
        entry = node.entry
        lead: list[Span] = [("▌" if index == self.cursor else " ", "accent"), ("  " * node.depth, "")]
        if node.more:
            return [*lead, (f"  … {node.more:,} more: enter reads on", "info")]
        sign = ("▾ " if entry.path in self._open else "▸ ") if node.is_folder else "  "
        spans: list[Span] = [*lead, (sign, "dim")]
        spans += self._named(clean(entry.name) + ("/" if node.is_folder else ""), "function" if node.is_folder else "")
        if entry.kind == "link":
            broken = "" if entry.target_kind else "  leads nowhere"
            spans += [(f" → {clean(entry.target)}", "dim"), (broken, "bad")]
        elif entry.kind == "other":
            spans.append(("  no regular file", "dim"))
        if entry.git.strip():
            spans.append((f"  ◆ {_LETTERS.get(entry.git.strip()[:1], 'changed')}", "mark"))
        return spans

    def _named(self, name: str, ink: str) -> list[Span]:
        at = name.lower().find(self.filter.lower()) if self.filter else -1
        if at < 0:
            return [(name, ink)]
        end = at + len(self.filter)
        return [(name[:at], ink), (name[at:end], f"{ink} match".strip()), (name[end:], ink)]

    def empty(self) -> Sequence[Sequence[Span]]:
        """Say why there is no tree."""
        if self.filter:
            return [[], [(f"  no name that is shown holds {clean(self.filter)}; esc shows all", "dim")]]
        if self.reason:
            return [[], *wrapped(clean(self.reason), self.size.width, "warn")]
        return [[], [("  the engine's code on the host", "dim")], [("  reading…", "dim")]]


def _place(name: str, is_folder: bool) -> list[tuple[bool, str]]:
    """Return where a name stands: in each folder the folders first."""
    *folders, last = name.lower().split("/")
    return [*((False, folder) for folder in folders), (not is_folder, last)]


def _nodes(path: str, entries: Sequence[TreeEntry], depth: int, offset: int, total: int) -> list[Node]:
    seen = [entry for entry in entries if entry.name not in HIDDEN]
    seen.sort(key=lambda entry: ("dir" not in (entry.kind, entry.target_kind), entry.name.lower()))
    nodes = [Node(entry, depth) for entry in seen]
    read = offset + len(entries)
    if total > read:
        nodes.append(Node(TreeEntry("", path, "dir"), depth, total - read, read))
    return nodes
