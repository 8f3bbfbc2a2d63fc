"""Would the interpreter that launches the engine take these bytes? Compiled in memory, never run."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

SECONDS = 60

_PROGRAM = """
import sys, json
head = json.loads(sys.stdin.buffer.readline())
said = []
for name, size in head:
    data = sys.stdin.buffer.read(size)
    try:
        compile(data, name, "exec", dont_inherit=True)
        said.append(None)
    except (SyntaxError, ValueError) as error:
        said.append([getattr(error, "lineno", 0) or 0, getattr(error, "msg", "") or str(error)])
print(json.dumps([sys.version.split()[0], said]))
"""


def check(python: str, sources: Sequence[Tuple[str, bytes]]) -> Tuple[str, List[Optional[List[Any]]], str]:
    """Compile every source with one start of `python`.

    Returns:
        The interpreter that did it (empty when none could), per source `None` or [line, message],
        and why it could not be done.
    """
    interpreter = python or sys.executable
    if not sources:
        return interpreter, [], ""
    head = json.dumps([[name, len(data)] for name, data in sources]).encode() + b"\n"
    argv = [interpreter, "-I", "-S", "-B", "-W", "ignore", "-c", _PROGRAM]
    try:
        done = subprocess.run(
            argv, input=head + b"".join(data for _, data in sources), capture_output=True, timeout=SECONDS, check=False
        )
        _version, said = json.loads(done.stdout)
    except OSError as error:
        return "", [], "%s: %s" % (interpreter, error.strerror)
    except subprocess.TimeoutExpired:
        return "", [], "%s did not compile within %d s" % (interpreter, SECONDS)
    except ValueError:
        return "", [], "%s: exit %d %s" % (interpreter, done.returncode, done.stderr[-200:].decode("utf-8", "replace"))
    return interpreter, said, ""


def faults(python: str, files: Sequence[Tuple[str, Optional[bytes], Optional[bytes]]]) -> Dict[str, Any]:
    """Compile the new bytes of (path, before, after) where a path is Python's.

    Returns:
        `by`, `why` and `errors`: [path, line, message] of files that compiled before and would not now.
    """
    python_files = [
        (path, before, after) for path, before, after in files if path.endswith(".py") and after is not None
    ]
    by, said, why = check(python, [(path, after or b"") for path, _, after in python_files])
    errors = []
    for index, fault in enumerate(said):
        path, before, _ = python_files[index]
        if fault is None:
            continue
        if before is not None:
            _, earlier, _ = check(python, [(path, before)])
            if earlier and earlier[0] is not None:
                continue  # it did not compile before either: not of our doing
        errors.append([path, fault[0], fault[1]])
    return {"by": by, "why": why, "errors": errors}
