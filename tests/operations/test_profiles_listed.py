"""The profiles that are listed: those that a name reaches, and the one that was given by its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.config.profiles import load_profile
from console.operations import profiles

TEXT = '[host]\nssh = "local"\n[engine]\nkind = "openai"\ncommand = ["serve"]\n[launch]\nport = 8000\n'


def test_a_profile_given_by_its_path_comes_first_and_none_comes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    known, aside = folder / "known.toml", tmp_path / "aside.toml"
    for path in (known, aside):
        path.write_text(f"schema = 1\n{TEXT}")
    monkeypatch.setattr("console.config.paths.profile_folders", lambda: (folder,))
    assert [one.path for one in profiles.listed()] == [known]
    assert [one.path for one in profiles.listed(load_profile(known))] == [known]
    given = load_profile(aside)
    assert [(one.name, one.path) for one in profiles.listed(given)] == [("aside", aside), ("known", known)]
    aside.unlink()
    assert [one.path for one in profiles.listed(given)] == [known]
