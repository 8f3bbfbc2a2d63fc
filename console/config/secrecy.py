"""What in a profile looks like a secret although it was written down."""

from __future__ import annotations

import re

from console.domain.profile import Profile

REDACTED = "•••"

_NAMES = re.compile(r"(?:^|[_-])(?:token|secret|password|passwd|api[_-]?key|access[_-]?key|auth)$", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return whether a variable or flag of this name holds a secret: `HF_TOKEN`, `api-key`."""
    return _NAMES.search(name) is not None


def written_secrets(profile: Profile) -> tuple[str, ...]:
    """Return the values of a profile that must be shown and stored nowhere else."""
    pairs = [*profile.launch.env.items(), *profile.launch.args.items()]
    return tuple(value for name, value in pairs if isinstance(value, str) and value and is_secret_name(name))


def without_secrets(text: str, profile: Profile) -> str:
    """Return a text with the profile's written secrets taken out."""
    for value in sorted(written_secrets(profile), key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text
