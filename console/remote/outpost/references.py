"""Where a name is defined and used in a tree: grep finds the lines, the syntax trees say what stands there.

A file's syntax tree is built by worker processes of this Python, so that the outpost goes on answering.
What a name is in a content is kept under the content's hash, in a file for each name that was asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
import zlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import indexing
from .basics import state_home
from .calls import Call, Fault, Operation, Result
from .paths import first_there, to_text
from .search import Splitter

LIMIT = 10000
"""Lines that are told."""
CLIP = 2048
FILE_LIMIT = 8 << 20
WORKERS = 8
FEW = 12
"""Files up to which starting workers costs more than it saves."""
PROGRESS_S = 0.2
NAMES_KEPT = 500
VERSION = 1
"""Of what is kept; another number makes all of it anew."""


class Row:
    """One line with the name in it."""

    def __init__(self, file: bytes, line: int, text: bytes, size: int) -> None:
        self.file = file
        self.line = line
        self.text = text
        self.size = size


def references(call: Call) -> Result:
    """Tell where `name` stands below `path`, whole words only, and what it is there.

    The answer's `rows` are [file number, line, column, kind, last line, enclosing name, bytes of the line]
    with the lines' text in the body. Kinds are those of `indexing`, and `text` for strings, comments and other files.
    While files are parsed, parts tell how many of how many: {"read", "files"}.
    """
    name = call.text("name")
    if not name.isidentifier():
        raise Fault("usage", "not a name: %r" % name)
    root = first_there(call)
    found = _lines(call, root, name)
    files = sorted({row.file for row in found})
    known, unparsed = _spots(call, name, found)
    numbers = {file: number for number, file in enumerate(files)}
    rows: List[List[Any]] = []
    body = bytearray()
    for row in found:
        spot = known.get((row.file, row.line))
        if spot is None:
            column = row.text.decode("utf-8", "replace").find(name)
            rows.append([numbers[row.file], row.line, max(0, column), "text", row.line, "", len(row.text)])
        else:
            kind = indexing.KINDS[spot[2]]
            rows.append([numbers[row.file], row.line, spot[1], kind, spot[3], spot[4], len(row.text)])
        body += row.text
    facts = {"files": [to_text(file) for file in files], "rows": rows, "limited": len(found) >= LIMIT}
    facts["unparsed"] = [to_text(file) for file in unparsed]
    return facts, bytes(body)


def _lines(call: Call, root: bytes, name: str) -> List[Row]:
    argv: List[Any] = ["grep", "-rnwIHZF", "--color=never", "--exclude-dir=.git", "-e", name.encode(), "--", root]
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        raise Fault("no_grep", "there is no grep on this host") from None
    call.on_cancel(process.kill)
    rows: List[Row] = []
    splitter = Splitter(CLIP, lambda file, line, match, text, size: rows.append(Row(file, line, text, size)))
    assert process.stdout is not None
    with process.stdout as output:
        while len(rows) < LIMIT:
            data = output.read1(1 << 16)  # type: ignore[attr-defined]
            if not data:
                break
            splitter.feed(data)
    if len(rows) >= LIMIT:
        process.kill()
    if process.wait() > 1 and not rows and not os.path.exists(root):
        raise Fault("enoent", "no such folder", path=to_text(root))
    return rows[:LIMIT]


Spots = Dict[Tuple[bytes, int], Sequence[Any]]


def _spots(call: Call, name: str, rows: Sequence[Row]) -> Tuple[Spots, List[bytes]]:
    """Return what the name is by (file, line), as far as it is code, and the files that cannot be parsed."""
    lines: Dict[bytes, List[int]] = {}
    for row in rows:
        if row.file.endswith((b".py", b".pyi")):
            lines.setdefault(row.file, []).append(row.line)
    kept = Kept(name)
    found: Dict[bytes, Optional[Sequence[Any]]] = {}
    missing: List[Tuple[bytes, List[int]]] = []
    for file, numbers in lines.items():
        sha = _hash(file)
        if sha and sha in kept.table:
            found[file] = kept.table[sha]
        elif sha:
            missing.append((file, numbers))
    for file, sha, spots in _read(call, name, missing):
        found[file] = kept.table[sha] = spots
    if missing and not call.cancelled.is_set():
        kept.save()
    told = {(file, int(spot[0])): spot for file, spots in found.items() for spot in spots or ()}
    return told, [file for file, spots in found.items() if spots is None]


def _hash(file: bytes) -> str:
    try:
        if os.path.getsize(file) > FILE_LIMIT:
            return ""
        with open(file, "rb") as opened:
            return hashlib.sha256(opened.read()).hexdigest()
    except OSError:
        return ""


Answer = Tuple[bytes, str, Optional[Sequence[Any]]]


def _read(call: Call, name: str, files: Sequence[Tuple[bytes, List[int]]]) -> List[Answer]:
    """Parse files: few here, many by workers, as many as there are processors for us."""
    count = min(WORKERS, _processors(), len(files) // FEW)
    asked = [(to_text(file), name, numbers) for file, numbers in files]
    if count < 1 or not sys.executable:
        return [_told(answer) for answer in indexing.answers(iter(asked))]
    assert indexing.__spec__ is not None
    loader: Any = indexing.__spec__.loader
    argv = [sys.executable, "-I", "-S", "-B", "-c", "import sys\nexec(sys.argv[1])\nmain()"]
    argv.append(str(loader.get_source(indexing.__name__)))
    told: List[Answer] = []
    threads = [threading.Thread(target=_work, args=(call, argv, asked[at::count], told)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(PROGRESS_S)
            call.emit({"read": len(told), "files": len(asked)})
    return told


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _work(call: Call, argv: Sequence[str], share: Sequence[Any], told: List[Answer]) -> None:
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    call.on_cancel(process.kill)
    assert process.stdin is not None and process.stdout is not None
    feeding = threading.Thread(target=_feed, args=(process.stdin, share))
    feeding.start()
    with process.stdout as output:
        told.extend(_told(json.loads(line)) for line in output if line.endswith(b"\n"))
    process.wait()
    feeding.join()


def _feed(sink: Any, share: Sequence[Any]) -> None:
    with contextlib.suppress(OSError):  # ended meanwhile
        with sink:
            sink.write("".join(json.dumps(item) + "\n" for item in share).encode("ascii"))


def _told(answer: Sequence[Any]) -> Answer:
    path, sha, spots = answer
    return path.encode("utf-8", "surrogateescape"), sha, spots


class Kept:
    """What a name was found to be, by the hash of the file's content; in the state folder."""

    def __init__(self, name: str) -> None:
        self._folder = os.path.join(state_home(), "cache", "names", "%d-%d.%d" % (VERSION, *sys.version_info[:2]))
        self._file = os.path.join(self._folder, hashlib.sha256(name.encode()).hexdigest()[:32])
        self.table: Dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError, zlib.error):
            with open(self._file, "rb") as file:
                table = json.loads(zlib.decompress(file.read()))
            self.table = table if isinstance(table, dict) else {}

    def save(self) -> None:
        """Keep the table; a host without room for it is read again."""
        temp = "%s.%d" % (self._file, os.getpid())
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            with open(temp, "wb") as file:
                file.write(zlib.compress(json.dumps(self.table, separators=(",", ":")).encode("ascii"), 1))
            os.replace(temp, self._file)
            entries = [entry for entry in os.scandir(self._folder) if entry.is_file()]
            if len(entries) > NAMES_KEPT:
                entries.sort(key=lambda entry: entry.stat().st_mtime)
                for entry in entries[: len(entries) - NAMES_KEPT * 3 // 4]:
                    os.unlink(entry.path)


OPS: Dict[str, Operation] = {"references": references}
