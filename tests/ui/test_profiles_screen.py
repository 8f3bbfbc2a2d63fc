"""The profiles screen: findings, what is in force beside what was asked for, edit, copy, import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from console.config.profiles import load_profile
from console.operations.drifts import Drift
from console.ui.screens.profiles import ProfilesScreen
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

RESOLVED = {"model_path": "/m", "tp_size": 4, "page_size": 1, "attention_backend": "triton", "port": 30000}


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config" / "tokwatt" / "profiles"
    own.mkdir(parents=True)
    (own / "mine.toml").write_text('title = "Mine"\n[launch.args]\nmodel-path = "/m"\ntp-size = 8\npage-size = 0\n')
    (own / "other.toml").write_text('title = "Other"\n[launch.args]\nmodel-path = "/o"\ntp-size = 8\n')
    return own


def tell(resolved: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the server say what is in force."""

    async def arguments(desk: object, run: object) -> dict[str, object]:
        return resolved

    monkeypatch.setattr(sys.modules["console.operations.server"], "resolved_arguments", arguments, raising=False)


async def open_screen(pilot: Any, desk: Any, profile: Path) -> None:
    await open_cockpit(pilot)
    desk.profile = load_profile(profile)
    await pilot.press("p")
    await until(pilot, lambda: isinstance(pilot.app.screen, ProfilesScreen) and "Mine" in shown(pilot.app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_findings_then_differences_then_defaults(
    cockpit: Bench, folders: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    app, desk, _ = cockpit()
    tell(RESOLVED, monkeypatch)
    async with app.run_test(size=size) as pilot:
        await open_screen(pilot, desk, folders / "mine.toml")
        await until(pilot, lambda: "page-size is 0" in shown(app) and "otherwise than asked for" in shown(app))
        text = shown(app)
        assert "mine.toml:5" in text
        assert text.index("page-size is 0") < text.index("otherwise than asked for") < text.index("! page-size")
        if size[1] >= 40:
            assert "nobody asked for these: the server's own" in text
            assert text.index("! tp-size") < text.index("  model-path") < text.index("attention-backend")


async def test_another_profile_is_beside_the_desks(
    cockpit: Bench, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, desk, _ = cockpit()
    tell({}, monkeypatch)
    async with app.run_test(size=(140, 40)) as pilot:
        await open_screen(pilot, desk, folders / "mine.toml")
        names = app.screen.query_one("#profile-list")
        while names.entries[names.cursor].name != "other":  # type: ignore[attr-defined]
            await pilot.press("down")
        await until(pilot, lambda: "mine asks for" in shown(app))
        assert "! page-size" in shown(app) and "nothing wrong found in the file" in shown(app)


async def test_copy_edit_and_import(
    cockpit: Bench, folders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app, desk, _ = cockpit()
    edits: list[list[str]] = []

    def editor(app: object, argv: list[str]) -> int:
        edits.append(argv)
        file = Path(argv[-1])
        if file.name == "command.sh":
            file.write_text(file.read_text() + "vllm serve org/model --tensor-parallel-size 2\n")
        else:
            file.write_text(file.read_text().replace("page-size = 0", "page-size = 16  # whole pages"))
        return 0

    tell({}, monkeypatch)
    monkeypatch.setenv("EDITOR", "true")
    monkeypatch.setattr("console.ui.screens.profiles.given_away", editor)
    monkeypatch.setattr("console.ui.importing.given_away", editor)
    async with app.run_test(size=(140, 40)) as pilot:
        await open_screen(pilot, desk, folders / "mine.toml")
        await pilot.press("y")
        assert app.clipboard.startswith("python3 -m sglang.launch_server --model-path /m --tp-size 8")
        await pilot.press("e")
        await until(
            pilot, lambda: "whole pages" in (folders / "mine.toml").read_text() and "page-size is 0" not in shown(app)
        )
        assert edits[0][-1] == str(folders / "mine.toml")
        await pilot.press("i")
        await until(pilot, lambda: "import:" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: "model-tp2" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: (folders / "model-tp2.toml").exists())
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen) and "model-tp2" in shown(app))
    assert load_profile(folders / "model-tp2.toml").launch.args == {"model": "org/model", "tensor-parallel-size": 2}


async def test_a_broken_command_is_asked_about_before_it_is_kept(
    cockpit: Bench, folders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app, desk, _ = cockpit()
    tell({}, monkeypatch)
    (tmp_path / "a.sh").write_text('vllm serve org/m --hf-overrides {"a":1}\n')
    async with app.run_test(size=(80, 24)) as pilot:
        await open_screen(pilot, desk, folders / "mine.toml")
        await pilot.press("i")
        await until(pilot, lambda: "import:" in shown(app))
        await pilot.press(*"a.sh", "enter")
        await until(pilot, lambda: "does not say what was meant" in shown(app))
        assert """meant: '{"a":1}'""" in shown(app)
        await pilot.press("y")
        await until(pilot, lambda: "profile:" in shown(app))
        await pilot.press("enter")
        await until(pilot, lambda: (folders / "m.toml").exists())
    assert load_profile(folders / "m.toml").launch.args["hf-overrides"] == '{"a":1}'


async def test_a_winners_drift_is_listed_and_shown_before_gpu_time_is_spent(
    cockpit: Bench, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console.operations import verifying

    app, desk, _ = cockpit()
    tell({}, monkeypatch)
    drift = Drift("package torch", "2.9.0", "2.9.1")

    async def verify(desk: object) -> verifying.Verification:
        return verifying.Verification("mine", "blackwell", (drift,), ("caches",), ("gpus",))

    async def reproduce(desk: object, *, force: bool = False) -> Any:
        yield f"measuring, force {force}"
        yield verifying.Again(1024, 3741.0, 3739.0, -0.4, 0.3, "reproduced")

    async def radius(desk: object) -> str:
        return "no server runs"

    monkeypatch.setattr(verifying, "verify", verify)
    monkeypatch.setattr(verifying, "reproduce", reproduce)
    monkeypatch.setattr(sys.modules["console.operations.server"], "blast_radius", radius, raising=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_screen(pilot, desk, folders / "mine.toml")
        await until(pilot, lambda: app.screen._names.current == "mine")  # type: ignore[attr-defined]
        await pilot.press("v")
        await until(pilot, lambda: "! package torch" in shown(app) and "2.9.1" in shown(app))
        assert "1 drifted, 1 alike" in shown(app) and "not compared: caches" in shown(app)
        await pilot.press("escape", "R")
        await until(pilot, lambda: "reproduce it?" in shown(app) and "measure although it drifted" in shown(app))
        await pilot.press("y")
        await until(pilot, lambda: "reproduced within noise" in shown(app) and "[-0.4, +0.3] %" in shown(app))


async def test_what_another_profile_asks_for_is_marked_for_an_experiment(
    cockpit: Bench, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folders / "quick.toml").write_text(
        '[launch.args]\nmodel-path = "/o"\ntp-size = 4\npage-size = 0\n[launch.env]\nNCCL_ALGO = "Ring"\n[patches]\non = ["tuned"]\n'
    )
    app, desk, _ = cockpit()
    tell({}, monkeypatch)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_screen(pilot, desk, folders / "mine.toml")
        names = app.screen._names  # type: ignore[attr-defined]
        await until(pilot, lambda: names.current == "mine")
        names.cursor = next(at for at, entry in enumerate(names.entries) if entry.name == "quick")
        await pilot.press("x")
        await until(pilot, lambda: "[ ] --tp-size 4" in shown(app))
        said = shown(app)
        assert "another model: its numbers" in said and "NCCL_ALGO=Ring" in said and "+ patch tuned" in said
        await pilot.press("a", "enter")
        await until(pilot, lambda: "1/3" in shown(app) and "because" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen))
