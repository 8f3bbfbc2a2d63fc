"""What a run of the journal was measured under, in a few lines for people."""

from __future__ import annotations

from console.domain.machine import kept, summary
from console.journal.records import RunEntry
from console.operations.likeness import UNKNOWN, gpu_words, model_of


def told(entry: RunEntry) -> list[tuple[str, str]]:
    """Return names and texts of what is known of a whole run: model, package, patches, git and machine."""
    identity, model = entry.identity, model_of(entry)
    patches = ", ".join(map(str, identity.get("patches_on") or ()))
    loaded = str(identity.get("loaded") or "")
    found = [
        ("model", "" if model == UNKNOWN else model),
        ("package", str(identity.get("package") or "")),
        ("patches on", (f"{patches} ({loaded})" if loaded else patches) if patches else ""),
        ("git", git_words(entry)),
        ("machine", summary(kept(identity))),
    ]
    return [(name, text) for name, text in found if text]


def side(entry: RunEntry, what: str, value: object) -> str:
    """Return one side of a difference between two runs: the commit without its diff, GPUs as they are counted."""
    if what == "git":
        return git_words(entry) or "—"
    if what == "gpus":
        return gpu_words(entry.identity.get("gpus") or ()) or "—"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()  # as profiles say it
    return "—" if value is None or value == "" else str(value)


def git_words(entry: RunEntry) -> str:
    """Return the commit and the files that differed from it."""
    found = entry.identity.get("git")
    if not isinstance(found, dict):
        return str(found or "")
    dirty = [str(one.get("path") if isinstance(one, dict) else one) for one in found.get("dirty") or ()]
    return f"{str(found.get('commit') or '—')[:12]}, {'changed: ' + ', '.join(dirty) if dirty else 'clean'}"
