"""Definitions and uses by name: what stands in a line, strings and comments apart, newer Python as text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from console.errors import UsageError
from console.operations import source
from console.operations.desk import Desk
from console.remote.outpost import indexing

CODE = '''\
from other import Runner as Base


class Runner(Base):
    """A Runner of models."""

    def __init__(self, Runner=None):
        self.Runner = Runner  # Runner


def make():
    return Runner(Runner=1), "Runner"
'''


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "a.py").write_text(CODE)
    (folder / "bad.py").write_text("def Runner(:\n")
    (folder / "notes.md").write_text("The Runner runs; Runners do not count.\n")
    (folder / "utf8.py").write_text("é = 'é'; Runner = é\n")
    return folder


async def test_kinds_scopes_and_order(tree: Path, ssh_desk: Desk) -> None:
    trips = ssh_desk.link.round_trips
    found = await source.references(ssh_desk, "Runner", str(tree))
    assert ssh_desk.link.round_trips - trips == 1
    told = [(Path(one.file).name, one.line, one.kind, one.scope) for one in found.found]
    assert told == [
        ("a.py", 4, "class", ""),
        ("utf8.py", 1, "assign", ""),
        ("a.py", 1, "import", ""),
        ("a.py", 5, "text", ""),
        ("a.py", 7, "parameter", "Runner.__init__"),
        ("a.py", 8, "assign", "Runner.__init__"),
        ("a.py", 12, "call", "make"),
        ("bad.py", 1, "text", ""),
        ("notes.md", 1, "text", ""),
    ]
    assert [one.column for one in found.found][:2] == [6, 9]
    assert found.unparsed == (str(tree / "bad.py"),)
    again = await source.references(ssh_desk, "Runner", str(tree))
    assert again == found


async def test_a_changed_file_is_read_again(tree: Path, desk: Desk) -> None:
    await source.references(desk, "Runner", str(tree))
    (tree / "a.py").write_text("def Runner(): ...\n")
    found = await source.references(desk, "Runner", str(tree))
    assert [(one.kind, one.line) for one in found.found if one.file.endswith("a.py")] == [("def", 1)]
    assert source.definitions(found, str(tree / "utf8.py"))[0].file.endswith("utf8.py")


async def test_no_name_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match="is not a name"):
        await source.references(desk, "a-b", "/")


NASTY = '''\
"""Module.
def fake(Name):
    never
"""
import os  # it's "Name

class First:
    Name = 1

    @property
    @decorated(
        "Name",
    )
    def kept(self, Name: str = """
def not_one():
""", *,
        other=None,
) -> None:
        """Doc.

    def inside(): Name
        """
        def inner():
            return Name
        return inner

    def dropped(self):
        text = """
unindented
"""
        # a comment at the end

    async def also_dropped(self): return 1

if os:
    def alone(): ...
else:
    def other(a,
        b):
        x = {
    "low": 1,
        }
        return x

class Name:
    def last(self):
        a = 1
        b = 2
        # comment

def Name(): return Name()
'''


@pytest.mark.parametrize(
    "source", [NASTY, NASTY.replace("\n", "\n\n"), NASTY.replace("Name", "other")], ids=["plain", "spaced", "renamed"]
)
def test_functions_without_the_name_are_left_out_and_nothing_changes(source: str) -> None:
    data = source.encode()
    for name in ("Name", "other", "inner", "x"):
        lines = [at for at, row in enumerate(source.split("\n"), 1) if re.search(rf"\b{name}\b", row)]
        wanted = indexing.Reader(data, name, lines).read(ast.parse(data))
        assert indexing.spots_of(data, name, lines) == wanted
    (line,) = [at for at, row in enumerate(source.split("\n"), 1) if row.startswith("class First")]
    less = indexing.pruned(data, [line])
    assert less is not None and b"dropped" not in less and less.count(b"\n") == data.count(b"\n")


async def test_a_long_reading_tells_how_far_it_is(tree: Path, desk: Desk) -> None:
    for number in range(40):
        (tree / f"m{number}.py").write_text(f"def f{number}(): return Runner\n")
    told: list[tuple[int, int]] = []
    found = await source.references(desk, "Runner", str(tree), lambda read, files: told.append((read, files)))
    assert len([one for one in found.found if one.scope.startswith("f")]) == 40
    assert told[-1] == (43, 43)
    told.clear()
    assert await source.references(desk, "Runner", str(tree), lambda read, files: told.append((read, files))) == found
    assert told == []
