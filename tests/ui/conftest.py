from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from console.state.store import Snapshot
from console.ui import clock
from console.ui.app import TokwattApp
from console.ui.options import Options
from tests.ui import fakes


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the screen."""
    monkeypatch.setattr(clock, "wall", lambda: fakes.NOW)
    monkeypatch.setattr(clock, "monotonic", lambda: fakes.MONO)
    monkeypatch.setattr(clock, "of_day", lambda seconds: "14:02:31")


Bench = Callable[..., tuple[TokwattApp, fakes.FakeDesk, fakes.Operations]]


@pytest.fixture
def cockpit(monkeypatch: pytest.MonkeyPatch, still: None) -> Iterator[Bench]:
    """Make an app over a desk without a host."""

    def make(filled: Snapshot | None = None, **options: Any) -> tuple[TokwattApp, fakes.FakeDesk, fakes.Operations]:
        desk = fakes.FakeDesk(filled or fakes.snapshot())
        operations = fakes.Operations(desk)
        operations.install(monkeypatch)
        return TokwattApp(Options(("blackwell",), **options)), desk, operations

    yield make
