"""The numbers of the story."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from console.demo import layout


@pytest.fixture(scope="module")
def step_time(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module as the demo host has it."""
    folder = tmp_path_factory.mktemp("step-time")
    layout.build(folder)
    return _loaded(layout.package_folder(folder) / "srt" / "model_executor" / "step_time.py")


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_step_time", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("size", "graphs", "autotuned", "fused", "tok_s"),
    [
        (64, 512, False, False, 880),
        (256, 0, False, False, 1950),
        (512, 0, False, False, 2800),
        (1024, 0, False, False, 3740),
        (256, 0, False, True, 236),
        (1024, 0, True, False, 3740 * 1.09),
    ],
)
def test_follows_the_story(step_time: Any, size: int, graphs: int, autotuned: bool, fused: bool, tok_s: float) -> None:
    found = step_time.StepTime(graphs, autotuned, fused).decode_tok_s(size)
    assert found * step_time.CLIENT_SHARE == pytest.approx(tok_s, rel=1e-6)


@pytest.mark.parametrize("graphs", [0, 512])
def test_more_at_once_is_never_slower_in_all(step_time: Any, graphs: int) -> None:
    pace = step_time.StepTime(graphs, False, False)
    speeds = [pace.decode_tok_s(size) for size in range(1, 513)]
    assert speeds == sorted(speeds)


def test_the_cards_wait_more_than_they_compute(step_time: Any) -> None:
    pace = step_time.StepTime(0, False, False)
    assert all(215 < pace.power_w(size) < 285 for size in (64, 256, 1024))
    assert step_time.StepTime(0, False, True).power_w(256) < 215
