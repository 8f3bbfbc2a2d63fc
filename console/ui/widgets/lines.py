"""Lines: the scrolling base of every list and text on screen; draws what is visible only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.ui.drawing import Span, width_of
from console.ui.widgets.inks import Inked


class Lines(ScrollView, Inked, can_focus=True):
    """A scrolling list of lines with a cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("ctrl+u", "page(-0.5)", show=False),
        Binding("ctrl+d", "page(0.5)", show=False),
        Binding("g,home", "move_to(0)", show=False),
        Binding("G,end", "move_to(-1)", show=False),
        Binding("left,h", "slide(-8)", show=False),
        Binding("right,l", "slide(8)", show=False),
        Binding("enter", "choose", show=False),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)
    """Index of the line under the cursor."""

    class Chosen(Message):
        """A line was opened with enter or a second click."""

        def __init__(self, lines: Lines, index: int) -> None:
            super().__init__()
            self.lines = lines
            self.index = index

        @property
        def control(self) -> Lines:
            """The list it happened in."""
            return self.lines

    class Moved(Message):
        """The cursor went to another line."""

        def __init__(self, lines: Lines, index: int) -> None:
            super().__init__()
            self.lines = lines
            self.index = index

        @property
        def control(self) -> Lines:
            """The list it happened in."""
            return self.lines

    def count(self) -> int:
        """Return how many lines there are."""
        raise NotImplementedError

    def line(self, index: int, width: int) -> Sequence[Span]:
        """Return one line to draw."""
        raise NotImplementedError

    def lead(self, index: int) -> Sequence[Span]:
        """Return what stands before a line and does not scroll sideways."""
        return ()

    def empty(self) -> Sequence[Sequence[Span]]:
        """Return what to say when there is nothing: what would be here, and the key that brings it."""
        return ()

    def widest(self) -> int:
        """Return the width of the content, when it may exceed the window."""
        return 0

    def changed(self, *, keep: bool = True) -> None:
        """Draw again after the content changed."""
        total = self.count()
        self.virtual_size = Size(max(self.widest(), 1), total)
        top = max(0, total - 1)
        if not keep:
            self.cursor = 0
            self.scroll_to(0, 0, animate=False, immediate=True, force=True)
        elif self.cursor > top:
            self.cursor = top
        self.refresh()

    def under(self, index: int) -> str:
        """Return the inks under a whole line."""
        return "cursor" if index == self.cursor and self.has_focus else ""

    def render_line(self, y: int) -> Strip:
        """Draw one line of the window."""
        x, top = self.scroll_offset
        width = self.scrollable_content_region.width
        index = top + y
        if index >= self.count():
            said = self.empty() if self.count() == 0 else ()
            return self.strip(said[y] if y < len(said) else (), width)
        under = self.under(index)
        lead = self.lead(index)
        body = width - width_of(lead)
        drawn = self.strip(self.line(index, body), body, under, x if self.widest() else 0)
        return Strip.join([self.strip(lead, width - body, under), drawn]) if lead else drawn

    def watch_cursor(self, old: int, new: int) -> None:
        """Keep the cursor's line in the window and tell whoever follows it."""
        top = self.scroll_offset.y
        self.refresh_lines(max(0, old - top) + top)
        self.refresh_lines(max(0, new - top) + top)
        self.keep_visible()
        self.post_message(self.Moved(self, new))

    def keep_visible(self, margin: int = 2) -> None:
        """Scroll so that the cursor stays some lines away from the edges."""
        height = self.scrollable_content_region.height or self.size.height
        if height <= 0:
            return
        top = self.scroll_offset.y
        margin = min(margin, max(0, (height - 1) // 2))
        if self.cursor < top + margin:
            top = max(0, self.cursor - margin)
        elif self.cursor >= top + height - margin:
            top = self.cursor - height + 1 + margin
        else:
            return
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def place(self, index: int, *, at: float = 0.33) -> None:
        """Put the cursor on a line and that line a part of the window down."""
        index = max(0, min(self.count() - 1, index))
        height = self.scrollable_content_region.height or 20
        self.cursor = index
        self.scroll_to(y=max(0, index - int(height * at)), animate=False, immediate=True, force=True)
        self.refresh()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor some lines."""
        self.cursor = max(0, min(self.count() - 1, self.cursor + by))

    def action_page(self, pages: float) -> None:
        """Move the cursor by parts of a window."""
        self.action_move(int(pages * max(2, self.scrollable_content_region.height)))

    def action_move_to(self, index: int) -> None:
        """Move to the first or last line."""
        self.cursor = max(0, self.count() - 1 if index < 0 else min(index, self.count() - 1))

    def action_slide(self, by: int) -> None:
        """Scroll sideways."""
        self.scroll_to(x=max(0, self.scroll_offset.x + by), animate=False, immediate=True)

    def action_choose(self) -> None:
        """Open the line under the cursor."""
        if self.count():
            self.post_message(self.Chosen(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a second click opens."""
        index = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if 0 <= index < self.count():
            self.cursor = index
            if event.chain == 2:
                self.action_choose()
