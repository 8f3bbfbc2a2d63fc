"""Which file of the engine package a path of a patch means: decided by what exists there."""

from __future__ import annotations

from collections.abc import Collection


def candidates(path: str, package: str) -> tuple[str, ...]:
    """Return what a path can mean, relative to the package folder, most specific first.

    `a/`, `python/`, an absolute `…/dist-packages/` and the package's own name fall away by trying
    every suffix; a bare file name can only mean a file right in the package folder.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    found: list[str] = []
    alone = bare(path)
    for start in range(len(parts)):
        suffix = parts[start:]
        inside = suffix[1:] if suffix[0] == package else suffix
        if inside and (len(inside) > 1 or inside is not suffix or (alone and start == len(parts) - 1)):
            found.append("/".join(inside))
    return tuple(dict.fromkeys(found))


def bare(path: str) -> str:
    """Return the file name of a path without any folder but git's `a/` or `b/`; empty for others."""
    name = path.partition("/")[2] if path.startswith(("a/", "b/")) else path
    return "" if "/" in name else name


def choose(path: str, package: str, existing: Collection[str]) -> str | None:
    """Return the file of the package that `path` means; `None` when none of its suffixes exists."""
    return next((name for name in candidates(path, package) if name in existing), None)


def place_new(path: str, package: str, folders: Collection[str]) -> str | None:
    """Return where a file that does not exist yet belongs: its folder, or one above it, must exist.

    Args:
        path: As the patch writes it.
        package: Name of the engine package.
        folders: Folders of the package in which other files of the patch were found.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if parts[-1] != package and package in parts:
        last = len(parts) - 1 - parts[::-1].index(package)
        return "/".join(parts[last + 1 :])
    for name in candidates(path, package):
        folder = name.rpartition("/")[0]
        if folder and any(known == folder or known.startswith(folder + "/") for known in folders):
            return name
    return None


def skipped(path: str, skip: Collection[str]) -> bool:
    """Whether a patch's `skip` names this path, with or without the `a/` of git."""
    bare = path.partition("/")[2] if path.startswith(("a/", "b/")) else path
    return any(
        name == item.rstrip("/") or name.startswith(item.rstrip("/") + "/") for item in skip for name in (path, bare)
    )
