"""The git state of a folder: commit, branch, dirty files, diffs, blobs."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Sequence

from .calls import Call, Fault, Operation, Result
from .paths import first_there, path_of, to_bytes, to_text

LETTER_WAIT_S = 5.0
"""A file is not kept waiting for git longer than this."""
DIRTY_LIMIT = 5000

# No locks (the operator may be working there too), no programs that a checkout's own settings name.
PLAIN = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager"]


def environment() -> dict[str, str]:
    """Return the environment for git: no locks, no questions, English, nobody's GIT_DIR."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    return env


def start(folder: bytes, args: Sequence[bytes | str], call: Call) -> subprocess.Popen[bytes]:
    """Start git in a folder; the request's end ends it too."""
    argv = ["git", *PLAIN, "-C", folder, *args]
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
    except FileNotFoundError:
        raise Fault("no_git_program", "there is no git on this host") from None
    call.on_cancel(process.kill)
    return process


def run(folder: bytes, args: Sequence[bytes | str], call: Call, ok: Sequence[int] = (0,)) -> bytes:
    """Run git to its end and return what it printed; its complaint becomes a fault."""
    if not os.path.isdir(folder):
        raise Fault("enoent", "no such folder", path=to_text(folder))
    process = start(folder, args, call)
    output, complaint = process.communicate()
    if process.returncode not in ok:
        raise _fault(folder, complaint.decode("utf-8", "replace"))
    return output


def _fault(folder: bytes, said: str) -> Fault:
    path = to_text(folder)
    if "not a git repository" in said or "must be run in a work tree" in said:
        return Fault("no_git", "is in no git checkout", path=path)
    if "dubious ownership" in said:
        top = said.partition("repository at '")[2].partition("'")[0] or path
        hint = "it belongs to another login; on the host: git config --global --add safe.directory %s" % top
        return Fault("git_ownership", "git refuses this checkout", path=top, detail=hint)
    lines = [line for line in said.splitlines() if line.strip()]
    return Fault("git_failed", "git: " + (lines[0] if lines else "failed"), path=path, detail=" ".join(lines[1:4]))


def folder_of(path: bytes) -> bytes:
    """Return the folder to ask about a path."""
    return path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))


class Letter:
    """The status letter of one file, asked for while the file is being read."""

    def __init__(self, path: bytes, call: Call) -> None:
        real = os.path.realpath(path)
        args: list[bytes | str] = ["status", "--porcelain=v1", "-z", "--", b":(literal)" + os.path.basename(real)]
        try:
            self._process: subprocess.Popen[bytes] | None = start(os.path.dirname(real), args, call)
        except (Fault, OSError):
            self._process = None

    def wait(self) -> str:
        """Return the letter; empty when the file is clean, or no git knows it."""
        if self._process is None:
            return ""
        try:
            output, _ = self._process.communicate(timeout=LETTER_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return ""
        return letter_of(output[:2].decode("ascii", "replace")) if self._process.returncode == 0 else ""


def letter_of(code: str) -> str:
    """Return one letter for the two of `git status`: the work tree's, else the index's."""
    if len(code) < 2 or code == "!!":
        return ""
    return "U" if "U" in code or code in ("AA", "DD") else (code[1] if code[1] != " " else code[0])


def status_entries(output: bytes) -> list[tuple[str, bytes]]:
    """Return (two letters, path) of `git status --porcelain=v1 -z`."""
    fields = output.split(b"\0")
    entries = []
    at = 0
    while at < len(fields):
        field = fields[at]
        at += 1
        if len(field) < 4:
            continue
        code = field[:2].decode("ascii", "replace")
        if "R" in code or "C" in code:
            at += 1  # the old name follows
        entries.append((code, field[3:]))
    return entries


def folder_letters(folder: bytes, call: Call) -> dict[str, str]:
    """Return status letters of the names in a folder; a folder has `M` when something in it changed."""
    try:
        prefix = run(folder, ["rev-parse", "--show-prefix"], call).rstrip(b"\n")
        output = run(folder, ["status", "--porcelain=v1", "-z", "--", "."], call)
    except (Fault, OSError):
        return {}
    letters: dict[str, str] = {}
    for code, path in status_entries(output):
        if not path.startswith(prefix):
            return {}  # the whole folder is untracked
        name, slash, rest = path[len(prefix) :].partition(b"/")
        letter = letter_of(code)
        if slash and rest and letter != "?":
            letter = "M"
        key = to_text(name)
        letters[key] = letter if letters.get(key, letter) == letter else "M"
    return letters


def git_state(call: Call) -> Result:
    """Tell top folder, commit, branch, changed files and how many are untracked.

    `ignored` is true when the checkout around `path` does not track it (a virtual environment in
    a project's folder): its state says nothing about `path` then.
    """
    folder = folder_of(path_of(call))
    top = run(folder, ["rev-parse", "--show-toplevel"], call).rstrip(b"\n")
    status = run(top, ["status", "--porcelain=v2", "--branch", "-z"], call)
    facts: dict[str, Any] = {"top": to_text(top), "commit": "", "branch": "", "upstream": "", "untracked": 0}
    dirty: list[str] = []
    fields = iter(status.split(b"\0"))
    for field in fields:
        kind = field[:1]
        if kind == b"#":
            _header(facts, field)
        elif kind == b"?":
            facts["untracked"] += 1
        elif kind in b"12u" and kind:
            dirty.append(to_text(field.split(b" ", {b"1": 8, b"2": 9, b"u": 10}[kind])[-1]))
            if kind == b"2":
                next(fields, b"")  # the old name follows
    ignored = start(folder, ["check-ignore", "-q", "--", folder], call)
    ignored.communicate()
    facts.update(dirty=dirty[:DIRTY_LIMIT], dirty_total=len(dirty), ignored=ignored.returncode == 0)
    return facts, b""


def _header(facts: dict[str, Any], field: bytes) -> None:
    _, name, value = ([*field.split(b" ", 2), b"", b""])[:3]
    text = to_text(value)
    if name == b"branch.oid":
        facts["commit"] = "" if text == "(initial)" else text
    elif name == b"branch.head":
        facts["branch"] = "" if text == "(detached)" else text
    elif name == b"branch.upstream":
        facts["upstream"] = text


def git_diff(call: Call) -> Result:
    """Return the unified diff of the work tree against `rev` (HEAD), of one path or the whole checkout."""
    path = first_there(call)
    folder = folder_of(path)
    rev = call.text("rev", "HEAD")
    if rev.startswith("-"):
        raise Fault("usage", "no revision: %r" % rev)
    context = "-U%d" % call.number("context", 3)
    where: list[bytes | str] = ["."] if os.path.isdir(path) and not call.args.get("whole") else []
    if not os.path.isdir(path):
        where = [b":(literal)" + os.path.basename(path)]
    run(folder, ["rev-parse", "--git-dir"], call)  # outside of a checkout `git diff` means something else
    args = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", context, rev, "--", *where]
    return {"path": to_text(path)}, run(folder, args, call)


PAIRS_LIMIT = 2000
PAIR_BYTES = 96 << 20


def git_pairs(call: Call) -> Result:
    """Return every file that differs from `rev` (HEAD), of one path or a folder, with the bytes of both sides.

    `files` are [path, shown, size before, size after], -1 for no such file; untracked files are not among them.
    """
    path = first_there(call)
    folder = folder_of(path)
    rev = call.text("rev", "HEAD")
    if rev.startswith("-"):
        raise Fault("usage", "no revision: %r" % rev)
    where: list[bytes | str] = ["."] if os.path.isdir(path) else [b":(literal)" + os.path.basename(path)]
    top = run(folder, ["rev-parse", "--show-toplevel"], call).rstrip(b"\n")
    commit = run(folder, ["rev-parse", "--verify", rev + "^{commit}"], call).strip()
    args = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", rev, "--", *where]
    names = [name for name in run(folder, args, call).split(b"\0") if name]
    files: list[list[Any]] = []
    body: list[bytes] = []
    room = PAIR_BYTES
    for name in names[:PAIRS_LIMIT]:
        before = _blob(top, commit + b":" + name, call)
        after = _present(os.path.join(top, name))
        room -= len(before or b"") + len(after or b"")
        if room < 0:
            break
        sizes = [-1 if data is None else len(data) for data in (before, after)]
        files.append([to_text(os.path.join(top, name)), to_text(name), *sizes])
        body += [before or b"", after or b""]
    facts = {"top": to_text(top), "commit": to_text(commit), "files": files, "left_out": len(names) - len(files)}
    return facts, b"".join(body)


def _blob(top: bytes, name: bytes, call: Call) -> bytes | None:
    process = start(top, ["cat-file", "blob", name], call)
    output, _ = process.communicate()
    return output if process.returncode == 0 else None


def _present(path: bytes) -> bytes | None:
    try:
        if os.path.islink(path):
            return os.readlink(path)
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def git_show(call: Call) -> Result:
    """Return the bytes of a file as they are in `rev`."""
    path = path_of(call)
    rev = call.text("rev", "HEAD")
    if rev.startswith("-") or ":" in rev:
        raise Fault("usage", "no revision: %r" % rev)
    folder = folder_of(os.path.dirname(os.path.abspath(path)))
    name = to_bytes(rev) + b":./" + os.path.basename(path)
    return {"path": to_text(path), "rev": rev}, run(folder, ["cat-file", "blob", name], call)


OPS: dict[str, Operation] = {"git_state": git_state, "git_diff": git_diff, "git_pairs": git_pairs, "git_show": git_show}
