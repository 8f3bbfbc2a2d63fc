"""Outlines: by syntax where a file parses, by indentation where it does not, with the same answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.source import Document, Place, Symbol
from console.source import symbols
from console.source.places import parse_place

CODE = '''\
import os

@dataclass(
    frozen=True,
)
class Outer(Base):
    """A doc.

def not_code():
    pass
"""

    x: int = 1

    @property
    @cached(
        size=3,
    )
    def value(self) -> int:
        # a comment
        return 1

    async def fetch(
        self,
        name: str,
    ) -> None:
        def inner() -> None:
            text = """
class NotCode:
"""
            return None

        await inner()

    class Nested:
        def method(self): return 2

if os.name == "posix":
    def conditional():
        return 3
else:
    def conditional():
        return 4


def last(): ...
# trailing comment
'''


def document(code: str | bytes, path: str = "/x/f.py", first: int = 1, total: int | None = None) -> Document:
    """A document as `open_document` would give it."""
    data = code.encode() if isinstance(code, str) else code
    lines = tuple(data.split(b"\n")[:-1]) if data.endswith(b"\n") else tuple(data.split(b"\n"))
    return Document(path, len(data), 0.0, "", first, lines, total or len(lines))


EXPECTED = [
    ("class", "Outer", 3, 36, 0),
    ("def", "Outer.value", 15, 21, 1),
    ("async def", "Outer.fetch", 23, 33, 1),
    ("def", "Outer.fetch.inner", 27, 31, 2),
    ("class", "Outer.Nested", 35, 36, 1),
    ("def", "Outer.Nested.method", 36, 36, 2),
    ("def", "conditional", 39, 40, 0),
    ("def", "conditional", 42, 43, 0),
    ("def", "last", 46, 46, 0),
]


def _told(found: tuple[Symbol, ...]) -> list[tuple[str, str, int, int, int]]:
    return [(s.kind, s.qualified, s.first_line, s.last_line, s.depth) for s in found]


def test_decorated_nested_async_and_conditional_defs_are_found() -> None:
    assert _told(symbols.outline(document(CODE))) == EXPECTED


def test_a_file_that_does_not_parse_gives_the_same_outline() -> None:
    broken = CODE + "x = = 1\n"
    assert _told(symbols.outline(document(broken))) == _told(symbols.outline(document(CODE)))


def test_a_part_of_a_file_keeps_its_line_numbers() -> None:
    lines = CODE.split("\n")
    part = document("\n".join(lines[14:33]) + "\n", first=15, total=47)
    assert _told(symbols.outline(part)) == [
        ("def", "value", 15, 21, 0),
        ("async def", "fetch", 23, 33, 0),
        ("def", "fetch.inner", 27, 31, 1),
    ]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (1, None),
        (3, "Outer"),
        (9, "Outer"),
        (13, "Outer"),
        (15, "Outer.value"),
        (20, "Outer.value"),
        (24, "Outer.fetch"),
        (29, "Outer.fetch.inner"),
        (33, "Outer.fetch"),
        (36, "Outer.Nested.method"),
        (38, None),
        (40, "conditional"),
        (47, None),
    ],
)
def test_the_innermost_def_around_a_line(line: int, name: str | None) -> None:
    found = symbols.enclosing(symbols.outline(document(CODE)), line)
    assert (found.qualified if found else None) == name


def test_a_name_means_its_full_self_first_and_then_whose_end_it_is() -> None:
    found = symbols.outline(document(CODE))
    assert [s.qualified for s in symbols.named(found, "inner")] == ["Outer.fetch.inner"]
    assert [s.first_line for s in symbols.named(found, "conditional")] == [39, 42]
    assert [s.qualified for s in symbols.named(found, "Nested.method")] == ["Outer.Nested.method"]
    assert symbols.named(found, "nner") == ()


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "(" * 300 + "1" + ")" * 300 + "\ndef f():\n    pass\n",
        "a\0b\ndef f():\n    pass\n",
        "def f():\r    pass\n\r",
    ],
)
def test_hostile_code_is_outlined_without_a_fall(code: str) -> None:
    assert [s.name for s in symbols.outline(document(code))] == ["f"]


def test_invalid_escapes_in_remote_code_warn_nobody() -> None:
    assert _told(symbols.outline(document('def f():\n    return "\\d"\n'))) == [("def", "f", 1, 2, 0)]


def test_what_is_not_python_has_no_outline() -> None:
    assert symbols.outline(document("def f():\n  pass\n", path="/x/f.cu")) == ()


@pytest.mark.wheels
def test_indentation_and_syntax_agree_on_the_real_tree(sglang_059: Path) -> None:
    files = sorted((sglang_059 / "sglang" / "srt").rglob("*.py"))
    assert len(files) > 800
    differing = []
    for file in files:
        opened = document(file.read_bytes(), path=str(file))
        by_tree = symbols.outline(opened)
        by_indentation = symbols._Indentation().read(opened.lines, 1)
        if _told(by_tree) != _told(by_indentation):
            differing.append(file.name)
    assert len(differing) <= len(files) // 100, differing


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("f.py", ("f.py", None, None, "")),
        ("f.py:12", ("f.py", 12, 12, "")),
        ("f.py:12:", ("f.py", 12, 12, "")),
        ("f.py:12:7", ("f.py", 12, 12, "")),
        ("f.py:12:7:", ("f.py", 12, 12, "")),
        ("f.py:3-9", ("f.py", 3, 9, "")),
        ("f.py:3-", ("f.py", 3, None, "")),
        ("f.py:Class.method", ("f.py", None, None, "Class.method")),
        ("f.py:_private", ("f.py", None, None, "_private")),
        ("/a:b/c.py", ("/a:b/c.py", None, None, "")),
        ("/a:b/c.py:7", ("/a:b/c.py", 7, 7, "")),
        ("f.py:9-3", ("f.py:9-3", None, None, "")),
        ("f.py:0", ("f.py:0", None, None, "")),
        ("f.py:", ("f.py:", None, None, "")),
        (":12", (":12", None, None, "")),
        ("E=512,N=128,block_shape=[128, 128].json", ("E=512,N=128,block_shape=[128, 128].json", None, None, "")),
        ("模型/f.py:类", ("模型/f.py", None, None, "类")),
    ],
)
def test_places_are_read_as_people_write_them(text: str, place: tuple[str, int | None, int | None, str]) -> None:
    assert parse_place(text) == Place(*place, text=text)


@given(
    path=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0:"), min_size=1),
    first=st.integers(1, 10**9),
    more=st.integers(0, 10**6),
)
def test_a_place_written_is_the_place_read(path: str, first: int, more: int) -> None:
    assert parse_place(f"{path}:{first}") == Place(path, first, first, text=f"{path}:{first}")
    ranged = f"{path}:{first}-{first + more}"
    assert parse_place(ranged) == Place(path, first, first + more, text=ranged)


@given(st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_any_text_is_a_place_and_keeps_what_was_written(text: str) -> None:
    place = parse_place(text)
    assert place.text == text
    assert text.startswith(place.path) and place.path
