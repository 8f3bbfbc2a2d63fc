"""Where an interpreter would import a package from, and which version that is; nothing is imported.

Run by the outpost for folders, and as program text by the interpreter that launches the engine:
so it stands alone, without relative imports.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from typing import Any

VERSION = re.compile(r"^(?:__version__|version)\s*(?::[^=]+)?=\s*(?:.*=\s*)?[\"']([^\"'\s]+)[\"']", re.MULTILINE)
VERSION_FILES = ("_version.py", "version.py", "__init__.py", "../pyproject.toml")
HEAD = 65536


def package(name: str) -> dict[str, Any]:
    """Return what `find_spec` says of a top-level package, with its version and its other copies."""
    facts: dict[str, Any] = {"name": name, "interpreter": sys.executable, "python": "%d.%d.%d" % sys.version_info[:3]}
    spec = importlib.util.find_spec(name)
    if spec is None:
        return dict(facts, missing=True, path=[entry or os.getcwd() for entry in sys.path])
    folders = [os.path.abspath(folder) for folder in spec.submodule_search_locations or []]
    regular = bool(spec.origin) and spec.has_location
    folder = folders[0] if folders else os.path.dirname(os.path.abspath(spec.origin or "."))
    facts.update(described(folder, name), regular=regular, file=spec.origin or "")
    facts["also"] = [copy for copy in copies(name) if not same(copy, folder)]
    return facts


def copies(name: str) -> list[str]:
    """Return every folder of that name on the search path that is a package."""
    found: list[str] = []
    for entry in sys.path:
        folder = os.path.abspath(os.path.join(entry or os.getcwd(), name))
        if os.path.isfile(os.path.join(folder, "__init__.py")) and folder not in found:
            found.append(folder)
    return found


def same(one: str, other: str) -> bool:
    """Return whether two paths lead to the same place."""
    return os.path.realpath(one) == os.path.realpath(other)


def described(folder: str, name: str) -> dict[str, Any]:
    """Return folder, version and origin of a package from the metadata that is about this very folder."""
    parent = os.path.dirname(folder)
    found: tuple[str | None, str] | None = beside(parent, name)
    editable = None if found else editable_of(folder)
    version, source = found or editable or (None, "")
    if version is None:
        version, source = written(folder)
    return {
        "name": name,
        "folder": folder,
        "version": version,
        "version_from": source,
        "origin": origin(parent, bool(editable)),
    }


def origin(parent: str, editable: bool) -> str:
    """Return how the folder comes to be on the search path."""
    if editable:
        return "editable"
    entries = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), os.getcwd()]
    if any(entry and same(entry, parent) for entry in entries):
        return "path"
    if os.path.basename(parent) in ("site-packages", "dist-packages"):
        return "site-packages"
    # a .pth file put it there
    return "editable" if any(same(entry, parent) for entry in sys.path if entry) else "folder"


def beside(parent: str, name: str) -> tuple[str, str] | None:
    """Return (version, file) of the *.dist-info or *.egg-info in `parent` that is about package `name`."""
    try:
        names = sorted(os.listdir(parent))
    except OSError:
        return None
    infos = [entry for entry in names if entry.endswith((".dist-info", ".egg-info"))]
    close = [entry for entry in infos if plain(re.split(r"-|\.egg", entry)[0]) == plain(name)]
    for entry in close + [entry for entry in infos if entry not in close]:
        path = os.path.join(parent, entry)
        if (entry in close or holds(path, name)) and not is_editable(path):
            version = metadata_version(path)
            if version:
                return version, path
    return None


def plain(name: str) -> str:
    """Return a distribution's name as metadata folders spell it."""
    return re.sub(r"[-_.]+", "_", name).lower()


def holds(info: str, name: str) -> bool:
    """Return whether a distribution says that it brings the package."""
    if name in head(os.path.join(info, "top_level.txt")).split():
        return True
    return ("\n" + name + "/__init__.py,") in "\n" + head(os.path.join(info, "RECORD"), 1 << 24)


def is_editable(info: str) -> bool:
    """Return whether a distribution is only a pointer to a folder elsewhere."""
    return bool((direct_url(info).get("dir_info") or {}).get("editable"))


def direct_url(info: str) -> dict[str, Any]:
    """Return what a distribution says of where it came from; nothing when it says nothing that can be read."""
    try:
        direct = json.loads(head(os.path.join(info, "direct_url.json")) or "{}")
    except ValueError:
        return {}
    return direct if isinstance(direct, dict) else {}


def editable_of(folder: str) -> tuple[str | None, str] | None:
    """Return (version, file) of the installed distribution whose project folder holds `folder`."""
    for found in importlib.metadata.distributions():
        path = getattr(found, "_path", None)
        if path is None:
            continue
        direct = direct_url(str(path))
        url = str(direct.get("url", ""))
        if url.startswith("file://") and (direct.get("dir_info") or {}).get("editable"):
            project = os.path.realpath(url_path(url))
            if os.path.realpath(folder).startswith(project + os.sep):
                return metadata_version(str(path)) or None, str(path)
    return egg_link(folder)


def egg_link(folder: str) -> tuple[str | None, str] | None:
    """Return (version, file) for an old `setup.py develop` install."""
    real = os.path.realpath(os.path.dirname(folder))
    for entry in sys.path:
        try:
            links = [link for link in os.listdir(entry or ".") if link.endswith(".egg-link")]
        except OSError:
            continue
        for link in links:
            target = head(os.path.join(entry, link)).split("\n")[0].strip()
            if target and os.path.realpath(target) == real:
                found = beside(real, os.path.basename(folder))
                return (found[0] if found else None), os.path.join(entry, link)
    return None


def url_path(url: str) -> str:
    """Return the path of a file URL."""
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(url).path)


def metadata_version(info: str) -> str | None:
    """Return the version in a metadata folder (or an *.egg-info file)."""
    for file in ("METADATA", "PKG-INFO", ""):
        match = re.search(r"^Version:\s*(\S+)", head(os.path.join(info, file) if file else info), re.MULTILINE)
        if match:
            return match.group(1)
    return None


def written(folder: str) -> tuple[str | None, str]:
    """Return (version, file) that the package's own source states."""
    for file in VERSION_FILES:
        path = os.path.normpath(os.path.join(folder, file))
        match = VERSION.search(head(path))
        if match:
            return match.group(1), path
    return None, ""


def head(path: str, size: int = HEAD) -> str:
    """Return the beginning of a file as text, empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(size)
    except OSError:
        return ""


def package_folder(folder: str) -> str | None:
    """Return the package folder that `folder` is or, for a checkout, holds; `None` when there is none."""
    name = os.path.basename(folder)
    for place in (folder, os.path.join(folder, "python", name), os.path.join(folder, name)):
        if os.path.isfile(os.path.join(place, "__init__.py")):
            return place
    return None
