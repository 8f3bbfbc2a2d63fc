"""Engine packages of one interpreter: which copy each is, what of it was changed, and the bytes it had before."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

from . import originals, packages, recorded, resolving
from .calls import Call, Fault, Operation, Result
from .paths import strings, to_bytes, to_text

ASK = "import sys\nexec(sys.argv[1])\nprint('%s' + json.dumps([package(name) for name in sys.argv[2:]]) + '%s')" % (
    packages.MARK.decode(),
    packages.MARK.decode(),
)


def look_up(call: Call) -> List[Dict[str, Any]]:
    """Return where `python` imports each of `names` from, with one start of it; `folders` are taken as given."""
    found: List[Dict[str, Any]] = []
    for text in [*strings(call, "folders"), *_tops(call)]:
        folder = to_text(os.path.abspath(to_bytes(text)))
        inside = resolving.package_folder(folder)
        if inside is None:
            raise Fault("no_package", "is no Python package (no __init__.py)", path=folder)
        found.append({**resolving.described(inside, os.path.basename(inside)), "regular": True, "origin": "folder"})
    names = strings(call, "names")
    if names:
        if not all(name.isidentifier() for name in names):
            raise Fault("usage", "not names of top-level packages: %s" % ", ".join(names))
        python = call.text("python", "") or "python3"
        argv = [python, "-c", ASK, packages.resolving_source(), *names]
        found += packages.asked(call, python, argv, b"", call.args.get("env") or {}, call.text("cwd", ""))
    for facts in found:
        if "folder" in facts:
            facts["real"] = os.path.realpath(facts["folder"])
            facts["layer"] = layer(facts["real"])
    return found


def _tops(call: Call) -> List[str]:
    """Return the packages that the files of `containing` are in: the topmost folders with an `__init__.py`."""
    found: List[str] = []
    for text in strings(call, "containing"):
        path = os.path.abspath(to_bytes(text))
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        top = b""
        while os.path.isfile(os.path.join(folder, b"__init__.py")):
            top, folder = folder, os.path.dirname(folder)
        if not top:
            raise Fault("no_package", "is in no Python package", path=to_text(path))
        found.append(to_text(top))
    return list(dict.fromkeys(found))


def layer(path: str) -> str:
    """Return `container layer` where a path is on a container's own overlay, which goes with the container."""
    best, kind = "", ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split()
                point = fields[4].replace("\\040", " ")
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, fields[fields.index("-") + 1]
    except (OSError, ValueError, IndexError):
        return ""
    return "container layer" if kind == "overlay" else ""


def which(call: Call) -> Result:
    """Tell of each package which copy would be imported; nothing is imported."""
    return {"packages": look_up(call)}, b""


def changed(call: Call) -> Result:
    """Check packages against RECORD or git; a part for each.

    Args: as for `which`, and `added`: whether files that no RECORD lists are told, too.
    """
    found = look_up(call)
    there = [facts for facts in found if facts.get("regular")]
    recorded.check_all(call, there, bool(call.args.get("added")))
    return {"absent": [facts for facts in found if not facts.get("regular")]}, b""


def contents(call: Call) -> Result:
    """Return bytes by their hash, wherever this machine still has them.

    Args: `wanted` as {path, member, sha256, distribution, root}; `wheels`: files or folders to look into.
    """
    specs = call.args.get("wanted")
    if not isinstance(specs, list):
        raise Fault("usage", "argument 'wanted' must be a list")
    items = [originals.Wanted(spec) for spec in specs]
    originals.find(items, strings(call, "wheels"))
    told = [{"size": -1 if item.data is None else len(item.data), "source": item.source} for item in items]
    return {"found": told}, b"".join(item.data or b"" for item in items)


def tree_hashes(call: Call) -> Result:
    """Return SHA-256 of every file below `path` by its name from there, as JSON in the body; no bytecode."""
    folder = to_text(os.path.abspath(to_bytes(call.text("path"))))
    os.listdir(folder)
    remembered = recorded.Remembered()
    found = recorded.hashes_below(folder, remembered, call)
    remembered.save()
    return {"path": folder}, json.dumps(found, separators=(",", ":")).encode("ascii")


OPS: Dict[str, Operation] = {"which": which, "changed": changed, "contents": contents, "tree_hashes": tree_hashes}
