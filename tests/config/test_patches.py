"""Patch files: what is wrong is told with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.config.patches import load_or_fault, load_patch
from console.config.paths import shipped_folder
from console.errors import FormatError

EDIT = '[[edit]]\nfile = "a.py"\nfind = "x"\nreplace = "y"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "p.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "p.toml:1: has neither"),
        (EDIT + 'diff = "x.diff"\n', "p.toml:5: edit[1].diff is not a known key"),
        ('diff = "x.diff"\n' + EDIT, "p.toml:1: has both"),
        ('diff = "x.diff"\n', "p.toml:1: diff = 'x.diff': cannot be read"),
        (EDIT.replace("find", "serch"), "p.toml:3: edit[1].serch is not a known key"),
        (EDIT.replace("find", "search"), "did you mean find?"),
        (EDIT.replace("find", "fnd"), "did you mean find?"),
        (EDIT + EDIT.replace('"y"', "3"), "p.toml:8: edit[2].replace must be a string, not an integer"),
        ('[[edit]]\nfile = "a.py"\nfind = "x"\n', "p.toml:1: edit[1] has no replace"),
        (EDIT.replace('"y"', '""'), "p.toml:4: edit[1].replace is empty"),
        (EDIT.replace('"x"', '""'), "p.toml:3: edit[1].find is empty"),
        (EDIT.replace('"y"', '"x"'), "p.toml:4: edit[1].replace is the same as find"),
        (EDIT + "count = 0\n", "p.toml:5: edit[1].count is 0"),
        (EDIT.replace("a.py", "../a.py"), "p.toml:2: edit[1].file"),
        (EDIT + EDIT, "p.toml:7: edit[2].find is the same as in an earlier edit"),
        ('[applies_to]\nversion = "new"\n' + EDIT, "p.toml:2: applies_to.version = 'new': not a version range"),
        ('[applies_to]\nupstream_from = "x y"\n' + EDIT, "p.toml:2: applies_to.upstream_from"),
        ('[applies_to]\ncompute_capability = ["sm120"]\n' + EDIT, "p.toml:2: applies_to.compute_capability[1]"),
        ('[aplies_to]\nengine = "x"\n' + EDIT, "did you mean applies_to?"),
        ('name = "a/b"\n' + EDIT, "p.toml:1: name"),
        ("name = \n", "p.toml:1: not TOML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(FormatError) as caught:
        load_patch(path)
    assert told in caught.value.one_line()
    assert caught.value.exit_code == 2
    assert load_or_fault(path).fault == caught.value.one_line()


@pytest.mark.parametrize("end", ["", "\n"])
def test_one_newline_at_the_end_does_not_count(tmp_path: Path, end: str) -> None:
    text = EDIT.replace('"x"', f'"""\n    a\n    b{end}"""').replace('"y"', f'"""\n    c\n    d{end}"""')
    edit = load_patch(write(tmp_path, text)).edits[0]
    assert (edit.find, edit.replace) == ("    a\n    b", "    c\n    d")


def test_a_diff_stands_beside_and_keeps_its_bytes(tmp_path: Path) -> None:
    data = b"--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-\xff\r\n+b\r\n"
    (tmp_path / "x.diff").write_bytes(data)
    patch = load_patch(write(tmp_path, 'diff = "x.diff"\nskip = ["tests/"]\n'))
    assert patch.diff is not None and patch.diff.encode("utf-8", "surrogateescape") == data
    assert patch.skip == ("tests/",)
    assert load_patch(tmp_path / "x.diff").name == "x"


def test_shipped_patches_are_right() -> None:
    found = {path.stem: load_patch(path) for path in (shipped_folder() / "patches").glob("*.toml")}
    assert {"flashinfer-cutlass-autotune", "allreduce-fusion-sm120"} <= found.keys()
    for name, patch in found.items():
        assert patch.name == name and patch.title and patch.why and patch.evidence_log and patch.applies_to.version
