"""Where profiles and patches are looked up: a path, `./profiles`, the user's own, the shipped ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from platformdirs.unix import Unix

from console.errors import UsageError

_DIRS = Unix("tokwatt", appauthor=False)


def config_home() -> Path:
    """Return `~/.config/tokwatt` (or under `XDG_CONFIG_HOME`): the operator's own files."""
    return Path(_DIRS.user_config_path)


def data_home() -> Path:
    """Return `~/.local/share/tokwatt` (or under `XDG_DATA_HOME`): the journal."""
    return Path(_DIRS.user_data_path)


def shipped_folder() -> Path:
    """Return the folder of the profiles that came with the console."""
    inside = Path(__file__).parent / "shipped"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "profiles"


def profile_folders() -> tuple[Path, ...]:
    """Return the folders of profiles, the first one to be looked into first."""
    return (Path("profiles"), config_home() / "profiles", shipped_folder())


def patch_folders() -> tuple[Path, ...]:
    """Return the folders of patches, the first one to be looked into first."""
    return (Path("profiles") / "patches", config_home() / "patches", shipped_folder() / "patches")


def all_profiles() -> tuple[Path, ...]:
    """Return every profile that a name can reach, sorted by name."""
    return _all(profile_folders())


def all_patches() -> tuple[Path, ...]:
    """Return every patch that a name can reach, sorted by name."""
    return _all(patch_folders())


def find_profile(name_or_path: str) -> Path:
    """Return the file of a profile; `UsageError` when there is none."""
    return _find(name_or_path, profile_folders(), "profile", "tokwatt profile list")


def find_patch(name_or_path: str) -> Path:
    """Return the file of a patch; `UsageError` when there is none."""
    return _find(name_or_path, patch_folders(), "patch", "tokwatt patch list")


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a hint naming the known word that is most like `word`, or nothing."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else ""


def _all(folders: Sequence[Path]) -> tuple[Path, ...]:
    found: dict[str, Path] = {}
    for folder in folders:
        if folder.is_dir():
            for path in folder.glob("*.toml"):
                found.setdefault(path.stem, path)
    return tuple(found[name] for name in sorted(found))


def _find(name: str, folders: Sequence[Path], what: str, listing: str) -> Path:
    if "/" in name or name.endswith(".toml"):
        path = Path(name).expanduser()
        if path.is_file():
            return path
        if "/" in name:
            raise UsageError(f"{name}: no such {what} file", hint=listing)
    stem = name.removesuffix(".toml")
    for folder in folders:
        path = folder / f"{stem}.toml"
        if path.is_file():
            return path
    hint = nearest(stem, [path.stem for path in _all(folders)])
    raise UsageError(f"{what} {name!r}: not found", f"looked in {', '.join(map(str, folders))}", hint or listing)
