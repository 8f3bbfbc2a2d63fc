"""Line ends: every line keeps its own, whatever the patch was written with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.patch import DiskState, Edit, EditKind, Patch
from console.patching import ends
from console.patching.plan import plan
from console.patching.versions import Facts

FACTS = Facts("eng", None, None)


def switched(edit: Edit, data: bytes, on: bool) -> bytes:
    change = plan(Patch("p", edits=(edit,)), {"m.py": data}, FACTS).changes(on)[0]
    assert change.after is not None
    return change.after


def test_a_line_end_that_only_the_patch_knows_comes_back_as_it_was_written() -> None:
    edit = Edit("m.py", "a\r\nb", "ab")
    off = b"a\r\nb"
    on = switched(edit, off, True)
    assert on == b"ab"
    assert switched(edit, on, False) == off
    assert switched(Edit("m.py", "a\nb", "ab"), b"ab", False) == b"a\nb"


@pytest.mark.parametrize(
    ("data", "wants"),
    [
        (b"x\r\na\nb\r\ny\n", b"x\r\nA\nB\r\ny\n"),
        (b"x\na\r\nb\ny\r\n", b"x\nA\r\nB\ny\r\n"),
        (b"a\r\nb", b"A\r\nB"),
    ],
)
def test_in_a_file_that_mixes_them_each_line_keeps_its_own(data: bytes, wants: bytes) -> None:
    edit = Edit("m.py", "a\nb", "A\nB")
    assert switched(edit, data, True) == wants
    assert switched(edit, wants, False) == data


def test_lines_that_come_take_the_end_of_their_place() -> None:
    edit = Edit("m.py", "a\nb\n", "a\nnew\nb\n")
    assert switched(edit, b"x\na\r\nb\r\ny\n", True) == b"x\na\r\nnew\r\nb\r\ny\n"
    insert = Edit("m.py", "a", "new", kind=EditKind.INSERT_AFTER)
    for data, on in ((b"x\na\r\ny\n", b"x\na\r\nnew\r\ny\n"), (b"x\r\na\ny\r\n", b"x\r\na\nnew\ny\r\n")):
        assert switched(insert, data, True) == on
        assert switched(insert, on, False) == data
    assert switched(insert, b"x\r\na", True) == b"x\r\na\r\nnew"


LINES = st.lists(st.tuples(st.sampled_from(["p", "q", "r", ""]), st.sampled_from(["\n", "\r\n"])), max_size=6)


@given(LINES, LINES, st.sampled_from(["one\ntwo", "one", "one\ntwo\nthree"]), st.sampled_from(["\n", "\r\n"]))
def test_off_after_on_is_the_same_but_for_ends_of_lines_that_were_gone(
    above: list[tuple[str, str]], below: list[tuple[str, str]], find: str, eol: str
) -> None:
    head, tail = ("".join(map("".join, part)).encode() for part in (above, below))
    data = head + find.replace("\n", eol).encode() + eol.encode() + tail
    edit = Edit("m.py", find, "ONE\n" * find.count("\n") + "ONE")
    assert plan(Patch("p", edits=(edit,)), {"m.py": data}, FACTS).state is DiskState.OFF
    assert switched(edit, switched(edit, data, True), False) == data


@given(st.binary(max_size=60), st.data())
def test_positions_are_found_again(data: bytes, draw: st.DataObject) -> None:
    file = ends.plain(data)
    assert file.text == data.replace(b"\r\n", b"\n")
    at = draw.draw(st.integers(0, len(file.text)))
    assert data[: file.at(at)].replace(b"\r\n", b"\n") in (file.text[:at], file.text[:at] + b"\r")
    assert data[file.at(0) : file.at(len(file.text))] == data
