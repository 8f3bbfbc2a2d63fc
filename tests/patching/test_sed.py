"""Sed lines, beside what GNU sed itself makes of them."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from console.domain.patch import DiskState, Patch
from console.errors import UsageError
from console.operations import patch_import, patches
from console.operations.desk import Desk
from console.patching.sed import sed_lines
from console.patching.sed_edits import outcome
from tests.local import desk as desk
from tests.patching.cases import parts, planned, switched

ATOM = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\(a\)", "x", "[[:space:]x]", r"\w", r"\/", "é"])
EXTENDED = st.sampled_from(["a", "b", ".", "[ab]", "(a)", "x", r"\(", r"\s", "[a-b]"])
TIMES = st.sampled_from(["", "", "*", r"\+", r"\{1,2\}", r"\?"])
TIMES_EXTENDED = st.sampled_from(["", "", "*", "+", "{1,2}", "?"])
ADDRESS = st.sampled_from(["", "", "2", "$", "2,3", "/b/", "/a/,/b/", "2,/a/", "1,+1", "/x/!", "3,1"])
FLAGS = st.sampled_from(["", "g", "2", "2g", "I", "gI"])
NEW = st.sampled_from(["Y", "[&]", r"\&", "", r"a\nb", r"\/"])
ROWS = st.lists(st.text("abx.(/é ", max_size=6), max_size=5)


@st.composite
def scripts(draw: st.DrawFn) -> list[str]:
    extended = draw(st.booleans())
    atoms, times = (EXTENDED, TIMES_EXTENDED) if extended else (ATOM, TIMES)
    body = "".join(draw(atoms) + draw(times) for _ in range(draw(st.integers(1, 3))))
    pattern = draw(st.sampled_from(["", "^"])) + body + draw(st.sampled_from(["", "$"]))
    script = f"{draw(ADDRESS)}s/{pattern}/{draw(NEW)}/{draw(FLAGS)}"
    return ["sed", "-i", *(["-E"] if extended else []), script]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scripts(), ROWS, st.booleans())
def test_the_same_bytes_as_sed_or_a_clear_no(tmp_path: Path, words: list[str], rows: list[str], final: bool) -> None:
    text = "\n".join(rows) + ("\n" if final and rows else "")
    file = tmp_path / "f"
    file.write_text(text)
    try:
        line = sed_lines(shlex.join([*words, str(file)]))[0]
        ours = line.run(text)
    except UsageError as error:
        event("refused")
        assert "cannot be" in error.one_line() or "repetition" in error.one_line(), error.one_line()
        return
    done = subprocess.run(
        [*words, str(file)], capture_output=True, check=False, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    )
    assume(done.returncode == 0)
    event("changed" if file.read_text() != text else "same")
    assert ours == file.read_text()
    edits = outcome(line, "m.py", text.encode()).edits
    assert bool(edits) == (file.read_text() != text)
    result = planned(Patch("p", edits=edits), {"m.py": text.encode()}, "p")
    if edits and result.state is DiskState.OFF:
        event("as edits")
        assert switched({"m.py": text.encode()}, result, on=True)["m.py"] == file.read_bytes()


STORY = r"""sed -i 's/# TODO: flashinfer_cutlass will cause some errors\n            # "flashinfer_cutlass",/"flashinfer_cutlass",/' m.py"""


def test_the_storys_line_never_matches_and_says_so() -> None:
    data = b'[\n            # TODO: flashinfer_cutlass will cause some errors\n            # "flashinfer_cutlass",\n]\n'
    line = sed_lines(STORY)[0]
    found = outcome(line, "m.py", data)
    assert found.edits == ()
    assert "never matches" in found.told[0] and "one line at a time" in found.told[0]
    assert "exits 0" in found.told[0] and "across lines it would match at line 2" in found.told[0]
    meant = outcome(line, "m.py", data, as_meant=True)
    result = planned(Patch("p", edits=meant.edits), {"m.py": data}, "p")
    assert switched({"m.py": data}, result, on=True)["m.py"] == b'[\n            "flashinfer_cutlass",\n]\n'


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("sed -i '/a/d' m.py", "sed command 'd' cannot be followed"),
        ("sed -i 's/a\\|b/c/' m.py", "alternation"),
        ("sed -i -E 's/(ab)?c/d/' m.py", "a repeated group"),
        ("sed -n 's/a/b/p' m.py", "sed -n"),
        ("sed -i 's/a/b/w out' m.py", "flag 'w'"),
        ("sed -i 's/a/\\U&/' m.py", r"\U in the replacement"),
        ("sed -i 's/a/b/'", "without a file"),
        ("sed -i 's/a/b' m.py", "unterminated"),
        ("grep x m.py", "only sed"),
        ("sed -i 's/a/b/' m.py | tee x", "only sed commands in a row"),
        ("", "no sed command"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(line: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        for one in sed_lines(line):
            outcome(one, "m.py", b"a\n")
    assert told in caught.value.one_line(), caught.value.one_line()


async def test_d01_three_lines_become_a_patch_of_the_two_that_change_something(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "host/vllm/platforms/cuda_checks.py"
    file.parent.mkdir(parents=True)
    (tmp_path / "host/vllm/__init__.py").touch()
    case = parts("D01.txt")
    file.write_bytes(case["site-packages/vllm/platforms/cuda_checks.py"])
    before = file.read_bytes()
    desk.package_dirs = (str(tmp_path / "host/vllm"),)
    found = await patch_import.import_sed(desk, case["patch.sh"].decode())
    assert found.path == tmp_path / "config/tokwatt/patches/sed-cuda_checks.toml"
    assert [(edit.find, edit.count) for edit in found.edits] == [
        ("is_device_capability(120)", 2),
        ("arch in [89, 120]", 1),
    ]
    assert "enable_sm120_only" in found.told[2] and "matches nothing" in found.told[2]
    assert file.read_bytes() == before
    await patches.apply(desk, "sed-cuda_checks")
    by_sed = tmp_path / "host/vllm/platforms/by_sed.py"
    by_sed.write_bytes(before)
    for row in case["patch.sh"].decode().replace("$VLLM/platforms/cuda_checks.py", str(by_sed)).splitlines():
        subprocess.run(shlex.split(row), check=True)
    assert file.read_bytes() == by_sed.read_bytes() != before
    await patches.revert(desk, "sed-cuda_checks")
    assert file.read_bytes() == before
    nothing = await patch_import.import_sed(desk, "sed -i 's/nowhere/x/' vllm/platforms/cuda_checks.py")
    assert nothing.path is None and "no patch was made" in nothing.told[-1]
