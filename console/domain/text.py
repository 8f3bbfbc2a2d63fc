"""Remote text made safe to show: no control sequence, bidi override or lone surrogate survives."""

from __future__ import annotations

import re
from typing import NewType

SafeText = NewType("SafeText", str)
"""Text that may be drawn: made by `clean` only, demanded by our widgets."""

LINE_LIMIT = 4096
"""Bytes of one line that are shown; the rest is counted."""

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS, SOS, PM, APC with either terminator
    r"|\x1b[ -/]*[0-~]",  # two-character escapes
    re.DOTALL,
)
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"<{code:02x}>" if code < 0xA0 else f"<U+{code:04X}>"


def clean(raw: bytes | str, limit: int = LINE_LIMIT) -> SafeText:
    """Return one line of remote text as it may be drawn.

    Invalid UTF-8 becomes U+FFFD, control and format characters become visible signs, tabs are
    expanded to 8 columns, line ends are dropped, and what exceeds `limit` is counted in bytes.
    """
    data = raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw
    rest = len(data) - limit
    text = data[:limit].decode("utf-8", "replace").rstrip("\r\n").replace("\n", "\u240a").expandtabs(8)
    if not text.isprintable():
        text = _UNSAFE.sub(_visible, text)
    return SafeText(f"{text} … [+{rest} bytes]" if rest > 0 else text)


def plain(raw: bytes) -> str:
    """Return remote bytes as plain text to be copied: tabs and line ends stay, what could act does not."""
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    return text if text.isprintable() else _UNSAFE.sub(_visible, text)


def strip_sequences(text: str) -> str:
    """Return `text` without terminal control sequences (CSI, OSC, …), for parsers of logs."""
    return _SEQUENCE.sub("", text) if "\x1b" in text else text


def dash(value: float | int | None, digits: int = 0) -> str:
    """Return a number with thin thousands, or `—` when it is unknown."""
    if value is None or value != value:
        return "—"
    return f"{value:,.{digits}f}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun: `1 line`, `1,204 lines`, `2 launches`."""
    ending = "es" if noun.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"
