"""Glyphs: the same screen in ASCII, for terminals and locales that have nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from textual.driver import Driver

_PAIRS = {
    "╭╮╰╯┌┐└┘├┤┬┴┼": "+",
    "─━═╌┄▁▂▔▬": "-",
    "│┃║▌▐▏▎▍": "|",
    "█▇▆▅▋▊▉▄▃": "#",
    "░▒╎": ".",
    "●✓": "*",
    "○◌": "o",
    "◐◑◔": "%",
    "✗×": "x",
    "▶▸→": ">",
    "◀←": "<",
    "▾↓": "v",
    "▲↑": "^",
    "◼◆": "#",
    "…·•": ".",
    "—–−‑": "-",
    "±": "~",
    "°": "'",
    "“”„": '"',
    "‘’‚": "'",
    "∙": "*",
    "\u00a0\u2009\u202f": " ",
}
_ONE = {sign: plain for signs, plain in _PAIRS.items() for sign in signs}

_OTHER = re.compile(r"[^\x00-\x7f]+")
_LEVELS = " .:+#"


@lru_cache(maxsize=4096)
def plain_sign(sign: str) -> str:
    """Return one character in ASCII, as many cells wide."""
    if sign in _ONE:
        return _ONE[sign]
    code = ord(sign)
    if 0x2800 <= code <= 0x28FF:  # braille: how high its higher column stands
        left = sum(bool(code & bit) for bit in (0x40, 0x04, 0x02, 0x01))
        right = sum(bool(code & bit) for bit in (0x80, 0x20, 0x10, 0x08))
        return _LEVELS[max(left, right)]
    return "?" * cell_len(sign)


def plain(text: str) -> str:
    """Return text in ASCII, as many cells wide."""
    return text if text.isascii() else _OTHER.sub(lambda found: "".join(map(plain_sign, found[0])), text)


def must_be_plain(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether only ASCII can be shown: the locale says so, or the console is a Linux VT.

    `TOKWATT_GLYPHS=ascii` or `unicode` decides it. Python sets LC_CTYPE to C.UTF-8 for itself where the locale is C,
    so that LC_CTYPE says nothing then; no locale at all is taken for a terminal of today.
    """
    said = env.get("TOKWATT_GLYPHS", "")
    if said:
        return said == "ascii"
    if env.get("TERM") == "linux":
        return True
    ctype = env.get("LC_CTYPE", "")
    lang = env.get("LANG", "")
    locale = env.get("LC_ALL", "") or (ctype if ctype != "C.UTF-8" else "") or lang
    return bool(locale) and not re.search(r"utf-?8", locale, re.IGNORECASE)


def plain_driver() -> type[Driver]:
    """Return Textual's driver with everything that it writes made ASCII."""
    from textual.drivers.linux_driver import LinuxDriver

    class PlainDriver(LinuxDriver):
        """The terminal, in ASCII."""

        def write(self, data: str) -> None:
            """Write data made plain."""
            super().write(plain(data))

    return PlainDriver
