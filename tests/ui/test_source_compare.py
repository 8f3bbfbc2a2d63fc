"""Every key of the compare view over real files: words, hunks, white space, context, sides, patches that git takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.ui.reading import PickModal, plant, reading
from tests.wheels import commit_all

OLD = "".join(f"line {number}\n" for number in range(1, 61))
NEW = OLD.replace("line 5\n", "line five\n").replace("line 40\n", "  line  40\n").replace("line 55\n", "")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = plant(tmp_path / "tree")
    (folder / "long.py").write_text(OLD)
    commit_all(folder)
    (folder / "long.py").write_text(NEW)
    return folder


async def test_the_keys_of_a_comparison(tree: Path) -> None:
    async with reading(tree, (120, 50)) as at:
        view = at.pane.compared
        await at.press("D")
        await at.until(lambda: at.pane.views[-1] == "compare" and view.rows)
        assert "HEAD" in at.text and "long.py  +2 −3" in at.text
        hunks = [number for number, row in enumerate(view.rows) if row.kind == "hunk"]
        assert len(hunks) == 3
        for number in hunks:
            await at.press("right_square_bracket")
            assert view.cursor == number
        await at.press("left_square_bracket")
        assert view.cursor == hunks[1]

        changed = next(
            number for number, row in enumerate(view.rows) if row.kind == "added" and row.after == "line five"
        )
        assert [text for text, ink in view.line(changed, 80) if ink == "word"] == ["five"]
        assert view.under(changed).split()[-1] == "added"
        await at.press("y")
        assert at.app.clipboard.startswith("--- a/long.py\n+++ b/long.py\n@@ -37,7 +37,7 @@\n")
        assert at.app.clipboard.count("@@ -") == 1
        assert applies(at.app.clipboard, tree)
        await at.press("Y")
        assert at.app.clipboard.count("@@ -") == 3
        assert applies(at.app.clipboard, tree)

        await at.press("W")
        assert len([row for row in view.rows if row.kind == "hunk"]) == 2
        assert "white space left out" in at.text
        await at.press("W", "s")
        assert view.two_sides
        (row,) = [line for line in at.text.splitlines() if "line five" in line]
        assert "line 5 " in row and "┃" in row
        await at.press("s", "equals_sign")
        assert view.context == 8
        await at.press("minus", "minus")
        assert view.context == 1
        await at.press("g", "right_square_bracket", "down", "down", "enter")
        await at.until(lambda: at.pane.views[-1] == "code")
        assert at.pane.here is not None and at.pane.here.path == str(tree / "long.py")
        await at.press("escape")
        assert at.pane.views[-1] == "compare"


def applies(patch: str, folder: Path) -> bool:
    """Return whether git takes a patch back out of the work tree."""
    command = ["git", "apply", "--check", "--reverse", "-"]
    return subprocess.run(command, cwd=folder, input=patch.encode(), check=False).returncode == 0


async def test_beside_any_other_file_and_nothing_is_claimed_of_runs_that_are_not(tree: Path) -> None:
    (tree / "other.py").write_text(OLD)
    async with reading(tree, (120, 40)) as at:
        await at.open(tree / "long.py")
        await at.answer("B", PickModal, str(tree / "other.py"))
        await at.until(lambda: at.pane.views[-1] == "compare")
        comparison = at.pane.compared.comparison
        assert comparison is not None
        assert (comparison.left, comparison.right) == (str(tree / "other.py"), str(tree / "long.py"))
        await at.answer("B", PickModal, "two runs")
        await at.see("there are no two runs on this host")
