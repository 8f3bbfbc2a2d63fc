"""Installed packages as an interpreter resolves them, and in-memory compiling."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from . import resolving
from .calls import Call, Fault, Operation, Result
from .paths import path_of, to_bytes, to_text

MARK = b"\x1etokwatt\x1e"
"""Stands around an interpreter's answer, whatever its start-up files print."""

ASK = "import sys\nexec(sys.argv[1])\nprint('%s' + json.dumps(package(sys.argv[2])) + '%s')" % (
    MARK.decode(),
    MARK.decode(),
)

COMPILE = """
import sys, json
name, mark, source = sys.argv[1], sys.argv[2], sys.stdin.buffer.read()
try:
    compile(source, name, "exec", dont_inherit=True)
    said = {"ok": True}
except SyntaxError as error:
    said = {"ok": False, "line": error.lineno, "message": "%s: %s" % (type(error).__name__, error.msg)}
except (ValueError, RecursionError, MemoryError, OverflowError) as error:
    said = {"ok": False, "line": None, "message": "%s: %s" % (type(error).__name__, error)}
said["version"] = "%d.%d.%d" % sys.version_info[:3]
print(mark + json.dumps(said) + mark)
"""


def package(call: Call) -> Result:
    """Tell where `python` would import `name` from, and its version; nothing of it is imported.

    Args: `python` (path, or a name on PATH), `name`, `env` (added to the login's), `cwd`.
    """
    name, python = call.text("name"), call.text("python", "") or "python3"
    if not name.isidentifier():
        raise Fault("usage", "not the name of a top-level package: %r" % name)
    env = call.args.get("env") or {}
    cwd = call.text("cwd", "")
    argv = [python, "-c", ASK, resolving_source(), name]
    facts: dict[str, Any] = asked(call, python, argv, b"", env, cwd)
    if facts.get("missing"):
        detail = "it looked in %s" % (", ".join(facts.get("path") or []) or "no folder")
        raise Fault("no_package", "%s has no package %r" % (facts["interpreter"], name), detail=detail)
    if not facts.get("regular"):
        raise Fault(
            "no_package",
            "%s takes %r for a namespace without code" % (facts["interpreter"], name),
            detail="a folder of that name hides the package: %s" % facts.get("folder"),
        )
    return facts, b""


def package_at(call: Call) -> Result:
    """Tell name and version of the package in `folder`, as files beside it say; no interpreter is asked."""
    folder = to_text(os.path.abspath(path_of(call, "folder")))
    os.listdir(folder)
    found = resolving.package_folder(folder)
    if found is None:
        raise Fault("no_package", "is no Python package (no __init__.py)", path=folder)
    return resolving.described(found, os.path.basename(found)), b""


def resolving_source() -> str:
    """Return the program text of the module that looks packages up, to be run by another interpreter."""
    assert resolving.__spec__ is not None
    loader: Any = resolving.__spec__.loader
    return str(loader.get_source(resolving.__name__))


def compile_source(call: Call, python: str, name: str, source: bytes) -> dict[str, Any]:
    """Have `python` compile `source` in memory; return `ok`, and `line` and `message` when it is not."""
    argv = [python or "python3", "-I", "-S", "-B", "-W", "ignore", "-c", COMPILE, name, MARK.decode()]
    said: dict[str, Any] = asked(call, python or "python3", argv, source, {}, "")
    return said


def compile_body(call: Call) -> Result:
    """Compile the body under `name` with `python`, in memory: no bytecode is written, nothing is run."""
    facts = compile_source(call, call.text("python", ""), call.text("name", "<body>"), call.body)
    return facts, b""


def asked(call: Call, python: str, argv: list[str], source: bytes, env: dict[str, str], cwd: str) -> Any:
    """Run an interpreter and return what it prints between marks, as JSON."""
    where = to_bytes(cwd) if cwd else None
    if where is not None and not os.path.isdir(where):
        raise Fault("enoent", "no such folder", path=cwd)
    program = to_bytes(python)
    try:
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
            cwd=where,
        )
    except OSError as error:
        raise Fault("no_python", "cannot start the interpreter: %s" % error.strerror, path=python) from None
    call.on_cancel(process.kill)
    output, complaint = process.communicate(source)
    parts = output.split(MARK)
    if len(parts) < 3:
        said = complaint.decode("utf-8", "replace").strip().splitlines()
        detail = "status %d: %s" % (process.returncode, said[-1] if said else "it said nothing")
        raise Fault("no_python", "the interpreter gave no answer", path=python, detail=detail)
    return json.loads(parts[-2])


OPS: dict[str, Operation] = {"package": package, "package_at": package_at, "compile": compile_body}
