"""Of the installation, what can be told without installing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_engine import install


def python_that_says(folder: Path, words: str) -> str:
    """Return a pretend interpreter whose torch describes itself."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho '{words}'\n")
    python.chmod(0o755)
    return str(python)


def test_a_torch_for_a_gpu_is_refused(tmp_path: Path) -> None:
    install.refuse_cuda(python_that_says(tmp_path, "2.13.0+cpu "))
    with pytest.raises(SystemExit, match=r"torch 2\.13\.0 is built for a GPU \(13\.0\): set TORCH_INDEX_URL"):
        install.refuse_cuda(python_that_says(tmp_path, "2.13.0 13.0"))


def test_a_venv_is_kept_until_its_pins_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "HERE", tmp_path)
    monkeypatch.setattr(install, "VENVS", tmp_path / "venvs")
    monkeypatch.delenv("TORCH_INDEX_URL", raising=False)
    (tmp_path / "requirements").mkdir()
    for suffix, _ in install.STEPS:
        (tmp_path / f"requirements/e{suffix}.txt").write_text("a==1\n")
    first = install.pins_of("e")
    (tmp_path / "venvs/e").mkdir(parents=True)
    (tmp_path / "venvs/e/.pins").write_text(first)
    install.install("e")
    assert [path.name for path in (tmp_path / "venvs/e").iterdir()] == [".pins"]
    (tmp_path / "requirements/e-bare.txt").write_text("a==2\n")
    second = install.pins_of("e")
    monkeypatch.setenv("TORCH_INDEX_URL", "file:///wheels")
    assert len({first, second, install.pins_of("e")}) == 3


def test_every_release_is_named() -> None:
    lines = [
        line
        for file in (Path(install.__file__).parent / "requirements").glob("*.txt")
        for line in file.read_text().splitlines()
        if not line.startswith("#")
    ]
    assert len(lines) > 100
    assert all("==" in line for line in lines)
