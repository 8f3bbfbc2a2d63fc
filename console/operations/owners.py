"""Who holds a port or a GPU, in words that may be shown: other people's command lines hold secrets, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.config.secrecy import without_secret_words
from console.domain.text import clean

MOST = 120


def redacted(title: str) -> str:
    """Return the title of somebody's process without the values of secrets."""
    return " ".join(without_secret_words(title.split(" ")))


def shown_title(title: object, most: int = MOST) -> str:
    """Return the title without the values of secrets, cleaned and cut."""
    return str(clean(redacted(str(title)), most))


def of_port(listener: Mapping[str, Any], most: int = MOST) -> str:
    """Return who listens: pid, login and command, or the login alone where the process cannot be seen."""
    if not listener["pid"]:
        return f"user {listener['user']}"
    return f"pid {listener['pid']} ({listener['user']}): {shown_title(listener['title'], most)}"
