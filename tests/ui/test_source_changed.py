"""What was changed by hand, captured with one key; the warning of a copy that would not be loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.inventory.test_records import install
from tests.ui.reading import PromptModal, reading
from tests.wheels import commit_all


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that the launch imports SGLang from, one file changed by hand, and kernels with a RECORD."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    loads = tmp_path / "loads"
    for folder in (loads, tmp_path / "other"):
        (folder / "sglang").mkdir(parents=True)
        (folder / "sglang/__init__.py").write_text("")
        (folder / "sglang/version.py").write_text('__version__ = "0.5.9"\n')
        (folder / "sglang/a.py").write_text("x = 1\n")
    commit_all(loads)
    (loads / "sglang/a.py").write_text("x = 2\n")
    install(loads, "sglang_kernel-0.4.1.dist-info", {"sgl_kernel/__init__.py": "", "sgl_kernel/k.py": "k = 1\n"})
    (loads / "sgl_kernel/k.py").write_text("k = 2\n")
    return loads


@pytest.fixture
def profile(site: Path, tmp_path: Path) -> Path:
    path = tmp_path / "p.toml"
    path.write_text(
        f'schema = 1\n[host]\nssh = "local"\n[engine]\nkind = "sglang"\npython = "{sys.executable}"\n'
        f'[launch]\nport = 31999\nworkdir = "{tmp_path}"\n[launch.env]\nPYTHONPATH = "{site}"\n'
    )
    return path


async def test_changes_by_hand_are_listed_shown_and_captured(site: Path, profile: Path, tmp_path: Path) -> None:
    async with reading(site, (160, 45), profile) as at:
        await at.press("H")
        await at.see("2 files differ")
        await at.until(lambda: not at.pane.changes.running)
        shown = [(check.package.name, file.shown, file.kind) for check, file in at.pane.changes.rows if file]
        assert shown == [("sglang", "sglang/a.py", "changed"), ("sgl_kernel", "sgl_kernel/k.py", "changed")]
        place = next(n for n, (_, file) in enumerate(at.pane.changes.rows) if file and file.shown == "sglang/a.py")
        at.pane.changes.cursor = place
        await at.press("enter")
        await at.until(lambda: at.pane.views[-1] == "compare")
        assert "x = 1" in at.text and "x = 2" in at.text
        await at.press("escape")
        await at.answer("c", PromptModal, "by-hand")
        patch = tmp_path / "XDG_CONFIG_HOME/tokwatt/patches/by-hand.diff"
        await at.until(patch.exists)
        assert "-x = 1\n+x = 2\n" in patch.read_text()


async def test_a_copy_that_does_not_load_is_warned_of(site: Path, profile: Path, tmp_path: Path) -> None:
    async with reading(tmp_path / "other", (80, 24), profile) as at:
        await at.open(site / "sglang/a.py")
        assert at.pane.warning == "" and "NOT THE COPY" not in at.text
        await at.open(tmp_path / "other/sglang/a.py")
        await at.see("NOT THE COPY THAT LOADS")
        assert f"imports sglang from {site}/sglang" in at.pane.warning
