"""The outpost's operations as POSIX `sh` commands, for hosts without a Python: fewer, slower, same answers.

The host sends bytes; what they mean is worked out here by the outpost's own code.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from console.errors import LinkLostError, RemoteError
from console.remote import shell_scripts as scripts
from console.remote.client import Reply
from console.remote.outpost import git, reading, resolving, search, wire
from console.remote.outpost.calls import Call, Fault
from console.remote.outpost.files import ROOM
from console.remote.outpost.paths import to_text
from console.remote.shell_answers import Completed, entry_of, facts_of, fault_of, letters_of, window_of

GREP_S = 120.0

Run = Callable[[Sequence[str], bytes, float], Awaitable[Completed]]


class ShellClient:
    """Answers the outpost's requests by commands of the host, each over a channel of its own.

    Args:
        run: Runs an argument list there, with input and deadline.
        closed: Returns when the connection has ended.
        name: Host name for messages.
    """

    def __init__(self, run: Run, closed: Callable[[], Awaitable[None]], name: str) -> None:
        self._run = run
        self._name = name
        self._over = asyncio.Event()
        self.heard_at = time.monotonic()
        self._watcher = asyncio.create_task(self._watch(closed), name=f"shell {name}")
        self._table: dict[str, Callable[[Mapping[str, Any], bytes, float], Awaitable[Reply]]] = {
            "hello": self._hello,
            "ping": self._ping,
            "read": self._read,
            "list": self._list,
            "stat": self._stat,
            "hash": self._hash,
            "git_state": self._git_state,
            "git_diff": self._git_diff,
            "git_show": self._git_show,
            "snapshot": self._snapshot,
            "transaction": self._transaction,
            "package_at": self._package_at,
        }

    @property
    def ended(self) -> bool:
        """Whether the connection is gone."""
        return self._over.is_set()

    async def call(self, op: str, args: Mapping[str, Any], body: bytes, deadline_s: float) -> Reply:
        """Do one operation."""
        if op == "grep":
            return [reply async for reply in self.stream(op, args, body)][-1]
        operation = self._table.get(op)
        if operation is None:
            raise RemoteError(
                f"{self._name}: {op} cannot be done without Python there",
                "the host is in shell mode",
                "install python3 (3.9 or newer), or name one in the profile: [engine] python",
                kind="degraded",
            )
        try:
            return await operation(args, body, deadline_s)
        except Fault as fault:
            raise self._told(fault) from None

    async def stream(self, op: str, args: Mapping[str, Any], body: bytes) -> AsyncGenerator[Reply, None]:
        """Do one streaming operation; the parts come when it has ended."""
        if op == "grep":
            try:
                for reply in await self._grep(args):
                    yield reply
            except Fault as fault:
                raise self._told(fault) from None
        elif op == "fetch":
            whole = await self.call("read", {**args, "hash": False, "git": False}, body, 120)
            yield Reply({}, whole.body, True)
            yield Reply({"path": whole.result["path"], "size": whole.result["size"], "offset": len(whole.body)})
        else:
            yield await self.call(op, args, body, 60)

    async def close(self) -> None:
        """End: nothing runs between commands."""
        self._watcher.cancel()
        await asyncio.wait([self._watcher])
        self._over.set()

    async def wait_ended(self) -> Exception:
        """Return why the connection ended, when it has."""
        await self._over.wait()
        return LinkLostError(f"{self._name}: the connection ended")

    async def _watch(self, closed: Callable[[], Awaitable[None]]) -> None:
        await closed()
        self._over.set()

    async def _sh(self, script: str, *args: str, input: bytes = b"", deadline_s: float = 30.0) -> Completed:
        return await self._run(["/bin/sh", "-c", script, "sh", *args], input, deadline_s)

    async def _must(self, script: str, *args: str, path: str, input: bytes = b"", deadline_s: float = 30.0) -> bytes:
        done = await self._sh(script, *args, input=input, deadline_s=deadline_s)
        if done.status:
            raise fault_of(done, path)
        return done.output

    def _told(self, fault: Fault) -> RemoteError:
        path = fault.facts.get("path")
        where = f"{self._name}:{path}" if path else self._name
        return RemoteError(
            f"{where}: {fault.message}", str(fault.facts.get("detail", "")), kind=fault.kind, facts=dict(fault.facts)
        )

    async def _hello(self, _args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        done = await self._sh(scripts.HELLO, deadline_s=deadline_s)
        fields = done.output.decode("utf-8", "replace").split("\0")
        if len(fields) < 8:
            said = (done.complaint or done.output).decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise RemoteError(f"{self._name}: sh does not answer", said[:300], kind="shell")
        names = ("hostname", "user", "uid", "home", "system", "state_home", "boot_id", "time")
        said_of = dict(zip(names, fields, strict=False))
        return Reply({**said_of, "protocol": wire.PROTOCOL, "python": "", "executable": "", "pid": 0})

    async def _ping(self, _args: Mapping[str, Any], body: bytes, deadline_s: float) -> Reply:
        done = await self._sh("date +%s", deadline_s=deadline_s)
        return Reply({"time": float(done.output or b"0")}, body)

    async def _read(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        places = [*(args.get("rather") or ()), args, *(args.get("instead") or ())]
        room = min(int(args.get("max_bytes") or ROOM), ROOM * 8)
        wants = f"{int(bool(args.get('hash', True)))}{int(bool(args.get('git', True)))}"
        paths = [str(place["path"]) for place in places]
        output = await self._must(
            scripts.READ, str(reading.HASH_LIMIT), wants, *paths, path=str(args["path"]), deadline_s=deadline_s
        )
        number, size, mtime, sha, letter, content = output.split(b"\0", 5)
        place = places[int(number)]
        first, count = int(place.get("first") or 1), place.get("count")
        cut_off = int(size) > reading.HASH_LIMIT
        facts, body = await asyncio.to_thread(window_of, content, first, count, room, bool(sha))
        if cut_off:
            facts.update(total_lines=None, cut=True)
        facts.update(
            path=str(paths[int(number)]),
            size=int(size),
            mtime=float(mtime),
            mtime_ns=int(float(mtime) * 1e9),
            changing=bool(sha) and facts["sha256"] != sha.decode(),
            sha256=sha.decode(),
            git=git.letter_of(letter.decode("ascii", "replace")),
        )
        return Reply(facts, body)

    async def _list(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        paths = [str(args["path"]), *(name for name in args.get("instead") or ())]
        output = await self._must(scripts.LIST, *paths, path=paths[0], deadline_s=deadline_s)
        path, prefix, rest = output.split(b"\0", 2)
        entries = []
        while not rest.startswith(b"\0"):  # a name is never empty
            *fields, rest = rest.split(b"\0", 6)
            entries.append(entry_of(fields))
        status = rest[1:]
        letters = letters_of(prefix, status) if args.get("git", True) else {}
        for entry in entries:
            entry["git"] = letters.get(entry["name"], "")
        return Reply({"path": to_text(path), "total": len(entries)}, json.dumps(entries).encode("ascii"))

    async def _stat(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        texts = list(args.get("paths") or [args["path"]])
        output = await self._must(scripts.STAT, *texts, path=texts[0], deadline_s=deadline_s)
        return Reply({text: facts_of(line) for text, line in zip(texts, output.split(b"\0\0"), strict=False)})

    async def _hash(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        texts = list(args.get("paths") or [args["path"]])
        output = await self._must(scripts.HASH, *texts, path=texts[0], deadline_s=deadline_s)
        return Reply({t: digest or None for t, digest in zip(texts, output.decode().split("\n"), strict=False)})

    async def _grep(self, args: Mapping[str, Any]) -> list[Reply]:
        replies: list[Reply] = []
        call = Call(dict(args), b"", lambda facts, body: replies.append(Reply(facts, body, True)))
        words: list[str] = []
        for path in args.get("paths") or ():
            words += [path, *((args.get("instead") or {}).get(path) or ()), "--"]
        if not words:
            raise Fault("usage", "nothing to search")
        chosen = await self._must(scripts.CHOOSE, *words, path=words[0])
        argv = ["grep", "-rnIHZ", "--color=never", *search._flags(call), *map(to_text, search._narrowed(call))]
        if context := call.number("context", 0):
            argv += [f"-C{context}", "--no-group-separator"]
        argv += ["-e", call.text("pattern"), "--"]
        done = await self._run([*argv, *map(to_text, chosen.split(b"\0")[:-1])], b"", GREP_S)
        said = done.complaint.decode("utf-8", "replace").splitlines()
        if done.status == 2 and not done.output:
            await self._check(argv)
        elif done.status not in (0, 1, 2):
            raise fault_of(done, words[0])
        parts = search.Parts(call, call.number("limit", 0))
        search.Splitter(max(1, call.number("clip", search.CLIP)), parts.add).feed(done.output)
        parts.send()
        facts = {"hits": parts.hits, "files": parts.files, "limited": parts.full, "complaints": said[:20]}
        return [*replies, Reply(facts)]

    async def _check(self, argv: list[str]) -> None:
        done = await self._run([*argv, "/dev/null"], b"", 30)
        said = done.complaint.decode("utf-8", "replace").strip()
        if done.status == 2 and "option" in said:
            raise Fault("no_grep", "the grep of this host is not GNU grep", detail=said.partition("\n")[0])
        if done.status == 2:
            raise Fault("usage", f"pattern not understood: {said.rpartition(chr(10))[2].removeprefix('grep: ')}")

    async def _snapshot(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        root, paths = str(args["root"]), [str(path) for path in args.get("paths") or ()]
        output = await self._must(scripts.SNAPSHOT, root, *paths, path=root, deadline_s=deadline_s)
        real, rest = output.split(b"\0", 1)
        files: dict[str, Any] = {}
        head: dict[str, str] = {}
        bodies = []
        for path in paths:
            size, rest = rest.split(b"\0", 1)
            files[path] = None
            if size:
                mtime, links, where, refusal, blob, rest = rest.split(b"\0", 5)
                data, rest = rest[: int(size)], rest[int(size) :]
                bodies.append(data)
                files[path] = {
                    "sha256": hashlib.sha256(data).hexdigest(),
                    "size": len(data),
                    "mtime": float(mtime),
                    "real": to_text(where),
                    "refusal": refusal.decode(),
                    "links": int(links),
                }
                if blob:
                    head[path] = blob.decode("ascii", "replace")
        hashes = (
            (await self._hash({"paths": list(args["hashes"])}, b"", deadline_s)).result if args.get("hashes") else {}
        )
        names = [str(name) for name in args.get("names") or ()]
        found = await self._must(scripts.FIND, to_text(real), *names, path=root) if names else b""
        return Reply(
            {
                "root": to_text(real),
                "recovered": [],
                "trouble": "",
                "files": files,
                "ours": {},
                "last": None,
                "pending": [],
                "kept": [],
                "hashes": hashes,
                "head": head,
                "capability": None,
                "found": {
                    name: [line.removeprefix("./") for line in to_text(part).splitlines()]
                    for name, part in zip(names, found.split(b"\0"), strict=False)
                },
            },
            b"".join(bodies),
        )

    async def _package_at(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        """Tell name and version of a package folder, as the metadata beside it say."""
        asked = str(args["folder"])
        done = await self._sh(scripts.PACKAGE, asked, deadline_s=deadline_s)
        if done.status == 44:
            raise Fault("no_package", "is no Python package (no __init__.py)", path=asked)
        if done.status:
            raise fault_of(done, asked)
        folder, *fields = to_text(done.output).split("\0")
        name = os.path.basename(folder)
        found = list(zip(*[iter(fields)] * 3, strict=False))
        close = [
            row for row in found if resolving.plain(re.split(r"-|\.egg", os.path.basename(row[0]))[0]) == name.lower()
        ]
        info, version, _ = next(iter(close or [row for row in found if row[2] == name]), ("", "", ""))
        return Reply({"name": name, "folder": folder, "version": version or None, "version_from": info})

    async def _git(self, folder: str, *args: str, deadline_s: float, ok: tuple[int, ...] = (0,)) -> bytes:
        done = await self._sh(scripts.GIT, folder, *git.PLAIN, *args, deadline_s=deadline_s)
        if done.status == 127:
            raise Fault("no_git_program", "there is no git on this host")
        if done.status not in ok:
            raise git._fault(folder.encode("utf-8", "surrogateescape"), done.complaint.decode("utf-8", "replace"))
        return done.output

    async def _git_state(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        folder = str(args["path"])
        top = (await self._git(folder, "rev-parse", "--show-toplevel", deadline_s=deadline_s)).rstrip(b"\n")
        status = await self._git(to_text(top), "status", "--porcelain=v2", "--branch", "-z", deadline_s=deadline_s)
        facts: dict[str, Any] = {"top": to_text(top), "commit": "", "branch": "", "upstream": "", "untracked": 0}
        dirty: list[str] = []
        fields = iter(status.split(b"\0"))
        for field in fields:
            kind = field[:1]
            if kind == b"#":
                git._header(facts, field)
            elif kind == b"?":
                facts["untracked"] += 1
            elif kind and kind in b"12u":
                dirty.append(to_text(field.split(b" ", {b"1": 8, b"2": 9, b"u": 10}[kind])[-1]))
                if kind == b"2":
                    next(fields, b"")
        facts.update(dirty=dirty[: git.DIRTY_LIMIT], dirty_total=len(dirty), ignored=False)
        return Reply(facts)

    async def _git_diff(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        path, rev = str(args["path"]), str(args.get("rev", "HEAD"))
        if rev.startswith("-"):
            raise Fault("usage", f"no revision: {rev!r}")
        options = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", f"-U{int(args.get('context', 3))}", rev]
        whole = [] if args.get("whole") else [":(literal)./"]
        return Reply({"path": path}, await self._git(path, *options, "--", *whole, deadline_s=deadline_s))

    async def _git_show(self, args: Mapping[str, Any], _body: bytes, deadline_s: float) -> Reply:
        path, rev = str(args["path"]), str(args.get("rev", "HEAD"))
        folder, name = os.path.split(path)
        body = await self._git(folder, "cat-file", "blob", f"{rev}:./{name}", deadline_s=deadline_s)
        return Reply({"path": path, "rev": rev}, body)

    async def _transaction(self, args: Mapping[str, Any], body: bytes, deadline_s: float) -> Reply:
        """Change one file: compared, written beside it, renamed and read back. More is refused.

        Several files need a journal that is carried on after a cut, which takes a program on the host.
        """
        files = args.get("files") or []
        without = "cannot be written without Python on the host"
        if len(files) != 1:
            names = ", ".join(str(file["path"]) for file in files[:4]) + (" …" if len(files) > 4 else "")
            raise Fault(
                "degraded",
                f"{len(files)} files at once {without}",
                detail=f"{names}: a cut between two of them could not be told or undone",
            )
        spec = files[0]
        asked = str(spec["path"])
        if spec.get("mode") is not None and spec["before"] == spec["after"]:
            raise Fault("degraded", f"a change of mode {without}", detail=asked)
        path = os.path.join(str(args["root"]), asked)
        new = body[: int(spec["size"])] if spec.get("after") else b""
        # what a set has between two of its patches comes behind; only a journal would keep it
        done = await self._sh(
            scripts.SWAP,
            path,
            str(args["root"]),
            spec["before"] or "",
            spec["after"] or "",
            input=new,
            deadline_s=deadline_s,
        )
        if done.status:
            raise _swap_fault(done, asked, spec["before"], without)
        return Reply(
            {
                "id": "",
                "files": [{"path": asked, "before": spec["before"], "after": spec["after"]}],
                "compiled_by": "",
                "compile_note": "no Python on the host",
                "recovered": [],
                "notes": [
                    "the host has no Python: written by sh, without a patch journal there: "
                    "it comes off by its own definition only, and z cannot take it back"
                ],
            }
        )


def _swap_fault(done: Completed, path: str, before: object, without: str) -> Fault:
    """Return why one file was not replaced."""
    if done.status == 40:
        words = done.output.decode("utf-8", "replace").split()
        found = words[0] if words else None
        return Fault("changed", "not as it was last seen", path=path, expected=before, found=found)
    if done.status == 41:
        return Fault("outside", "leads outside the package folder", path=path)
    if done.status == 42:
        return Fault("readback", "the bytes read back are not the bytes written", path=path)
    if done.status == 43:
        said = f"{os.path.dirname(path)} is not there; make it first"
        return Fault("degraded", f"a file in a new folder {without}", detail=said)
    return fault_of(done, path)
