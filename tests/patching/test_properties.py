"""What must hold for any text and any edit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from console.domain.diff import unified_bytes
from console.domain.patch import DiskState
from console.patching.undoing import take_back
from tests.patching.cases import diff, edits, planned, switched

LINE = st.sampled_from(["a", "b", "if x:", "    return 1", "", "# a", "aa", "é"])
TEXT = st.lists(LINE, max_size=14).map("\n".join)
END = st.sampled_from(["", "\n"])
EOL = st.sampled_from(["\n", "\r\n"])
SNIPPET = st.text("ab #\n", min_size=1, max_size=5).map(lambda text: text.removesuffix("\n")).filter(bool)


def lines(text: str, end: str, eol: str) -> bytes:
    return (text + end).replace("\n", eol).encode()


@st.composite
def texts_with_edits(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, str]], int]:
    """Return a text and edits whose `find` mostly stands in it."""
    text = draw(TEXT) + draw(END)
    eol = draw(EOL)
    pairs: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        find = text[at : at + draw(st.integers(1, 9))].strip("\n") or draw(SNIPPET)
        replace = draw(st.one_of(SNIPPET, st.just("x " + find), st.just(find + "\ny"), st.just(find[1:] or "z")))
        if find != replace and replace and find not in [known for known, _ in pairs]:
            pairs.append((find, replace))
    assume(pairs)
    return text.replace("\n", eol).encode(), pairs, draw(st.sampled_from([1, 1, 1, 2, 3]))


@settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(texts_with_edits())
def test_revert_after_apply_is_identity_and_planning_twice_is_empty(
    case: tuple[bytes, list[tuple[str, str]], int],
) -> None:
    data, pairs, count = case
    files = {"m.py": data}
    patch = edits(*pairs, count=count)
    result = planned(patch, files)
    event(result.state.value)
    if result.state is not DiskState.OFF:
        assert result.state in (DiskState.CONFLICT, DiskState.DRIFTED, DiskState.ON)
        assert result.state is not DiskState.CONFLICT or not result.changes(on=True)
        return
    after = switched(files, result, on=True)
    again = planned(patch, after, ours=True)
    assert again.state is DiskState.ON
    assert again.changes(on=True) == ()
    assert take_back(data, after["m.py"], after["m.py"]) == data
    beyond_doubt = planned(patch, after)
    told_by_file = b"\r" not in data or b"\r" in after["m.py"]  # else only the journal knows the line ends
    if beyond_doubt.state is DiskState.ON and told_by_file:  # without a journal too
        assert switched(after, beyond_doubt, on=False) == files


@settings(max_examples=400, deadline=None)
@given(TEXT, TEXT, END, END, EOL)
def test_a_diff_of_any_two_texts_goes_on_and_off(old: str, new: str, end_old: str, end_new: str, eol: str) -> None:
    before, after = lines(old, end_old, eol), lines(new, end_new, eol)
    text = unified_bytes(before, after, "m.py")
    assume(text and before and after)
    result = planned(diff(text), {"m.py": before}, "p")
    assert result.state is not DiskState.INVALID
    event(result.state.value)
    if result.state is DiskState.OFF:
        assert switched({"m.py": before}, result, on=True) == {"m.py": after}
        on = planned(diff(text), {"m.py": after}, "p", ours=True)
        assert on.state is DiskState.ON and on.changes(on=True) == ()
        if on.can_off:
            assert switched({"m.py": after}, on, on=False) == {"m.py": before}


@settings(max_examples=300, deadline=None)
@given(TEXT, st.integers(0, 13), st.integers(0, 13))
def test_a_changed_context_writes_nothing(text: str, at: int, other: int) -> None:
    rows = [f"{number} {line}" for number, line in enumerate(text.split("\n"))]
    at, other = at % len(rows), other % len(rows)
    assume(at != other)
    new = [*rows]
    new[at] += " changed"
    patch = diff(unified_bytes("\n".join(rows).encode(), "\n".join(new).encode(), "m.py", context=20))
    rows[other] += " theirs"
    result = planned(patch, {"m.py": "\n".join(rows).encode()}, "p")
    assert result.state is DiskState.CONFLICT
    assert result.changes(on=True) == () or result.needs_fuzz


@settings(max_examples=300, deadline=None)
@given(TEXT, st.sets(st.integers(0, 20), min_size=1, max_size=3), st.sets(st.integers(0, 20), max_size=3))
def test_taking_back_leaves_what_others_did(text: str, ours: set[int], theirs: set[int]) -> None:
    before = [f"{number} {line}\n".encode() for number, line in enumerate((text + "\n" * 20).split("\n")[:21])]
    after = [line.upper() + b"ours\n" if number in ours else line for number, line in enumerate(before)]
    present = [line + b"theirs\n" if number in theirs else line for number, line in enumerate(after)]
    wanted = [line + b"theirs\n" if number in theirs else line for number, line in enumerate(before)]
    back = take_back(b"".join(before), b"".join(after), b"".join(present))
    if theirs & ours:
        assert back is None
    elif not any(abs(a - b) <= 1 for a in ours for b in theirs):
        assert back == b"".join(wanted)
    else:
        assert back in (None, b"".join(wanted))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINE, min_size=1, max_size=30), st.data())
def test_same_bytes_as_git_apply_and_patch(tmp_path: Path, rows: list[str], data: st.DataObject) -> None:
    old = [f"{row} {number // 3}" for number, row in enumerate(rows)]
    new = [*old]
    for _ in range(data.draw(st.integers(1, 3))):
        new[data.draw(st.integers(0, len(new) - 1))] = data.draw(LINE)
    before, after = ("\n".join(old) + "\n").encode(), ("\n".join(new) + "\n").encode()
    text = unified_bytes(before, after, "m.py")
    assume(text)
    target = b"moved\n" * data.draw(st.integers(0, 4)) + before
    by_others = {name: _applied(tmp_path, target, text, argv) for name, argv in TOOLS.items()}
    result = planned(diff(text), {"m.py": target}, "p")
    event(f"{result.state.value}, {sorted(name for name, data in by_others.items() if data is not None)}")
    if result.state is DiskState.OFF:
        ours = switched({"m.py": target}, result, on=True)["m.py"]
        assert ours in by_others.values()
        assert by_others["git"] in (None, ours)
    elif by_others["git"] is not None:  # we refuse more: of two places none is guessed
        assert "times" in result.reason


TOOLS = {"git": ["git", "apply", "-"], "patch": ["patch", "-p1", "-F0", "-N", "-s", "-f", "--no-backup-if-mismatch"]}


def _applied(folder: Path, target: bytes, text: bytes, argv: list[str]) -> bytes | None:
    (folder / "m.py").write_bytes(target)
    done = subprocess.run(argv, input=text, cwd=folder, capture_output=True, check=False)
    return (folder / "m.py").read_bytes() if done.returncode == 0 else None
