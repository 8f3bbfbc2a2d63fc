"""What in a profile looks like a secret although it was written down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from console.domain.profile import Profile, Secret

REDACTED = "•••"

_NAMES = re.compile(
    r"(?:password|passwd|passphrase|secret|api[_-]?key|(?:access|secret|private)[_-]key)$"
    r"|(?:^|[_-])(?:auth|(?P<kind>[a-z0-9]+)[_-]token|token)$",
    re.IGNORECASE,
)
_MODEL_TOKENS = frozenset(
    [
        "bos",
        "eos",
        "pad",
        "unk",
        "sep",
        "cls",
        "mask",
        "stop",
        "image",
        "audio",
        "video",
        "think",
        "per",
        "first",
        "last",
        "next",
        "start",
        "end",
    ]
)
"""Kinds of token that models and measurements have: `eos-token` opens no door."""

_VALUES = re.compile(
    r"(?<![\w./-])"  # `/models/sk-…` is a path
    r"(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|nvapi-[\w-]{20,})"
)


_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@\S+", re.IGNORECASE)
"""An address with a password: a proxy's, a store's."""


def is_secret_value(text: str) -> bool:
    """Return whether a text is a secret by its looks, whatever it is called: `hf_…`, `sk-…`, `http://user:password@proxy`."""
    return _VALUES.fullmatch(text) is not None or _LOGIN.fullmatch(text) is not None


def is_secret_name(name: str) -> bool:
    """Return whether a variable or flag of this name holds a secret: `HF_TOKEN`, `api-key`."""
    found = _NAMES.search(name)
    return found is not None and (found["kind"] or "").lower() not in _MODEL_TOKENS


def is_secret(name: str, value: object) -> bool:
    """Return whether a value that was written down is a secret, or one of several is: by its name or by its looks."""
    if value is None or isinstance(value, bool | Secret):
        return False
    texts = value if isinstance(value, tuple) else (value,)
    return is_secret_name(name) or any(isinstance(text, str) and is_secret_value(text) for text in texts)


def without_secret_values(text: str) -> str:
    """Return a text with all that looks like a secret taken out, whatever stands around it."""
    return _VALUES.sub(REDACTED, text)


def without_secret_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return somebody's command line as it may be shown: values of secret flags, and what looks like a secret, out."""
    shown: list[str] = []
    secret = False
    for word in words:
        head, equals, _ = word.partition("=")
        named = is_secret_name(head.lstrip("-")) and (head.startswith("-") or bool(equals))
        if secret and not word.startswith("--"):
            shown.append(REDACTED)
            secret = not word.startswith("-")
            continue  # vLLM's --api-key takes several
        elif equals and named:
            shown.append(f"{head}={REDACTED}")
        else:
            shown.append(without_secret_values(word))
        secret = named and not equals
    return tuple(shown)


def written_secrets(profile: Profile) -> tuple[str, ...]:
    """Return the values of a profile that must be shown and stored nowhere else."""
    pairs = [*profile.launch.env.items(), *profile.launch.args.items()]
    named = [(name, one) for name, value in pairs for one in (value if isinstance(value, tuple) else (value,))]
    return tuple(str(value) for name, value in named if value and is_secret(name, value))


def without_secrets(text: str, profile: Profile) -> str:
    """Return the text of a profile with its written secrets taken out, and whatever else looks like one."""
    for value in sorted(written_secrets(profile), key=len, reverse=True):
        for spelled in (value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]):
            text = text.replace(spelled, REDACTED)
    return without_secret_values(text)


def with_secret_args(profile: Profile, value_of: Callable[[Secret], str]) -> Profile:
    """Return a profile whose secret flags have values, for its command line."""
    secret = profile.launch.secret_args
    if not secret:
        return profile
    args = {**profile.launch.args, **{name: value_of(each) for name, each in secret.items()}}
    return replace(profile, launch=replace(profile.launch, args=args))
