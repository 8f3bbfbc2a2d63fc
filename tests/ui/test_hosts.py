"""Several hosts in one cockpit: what is begun at one stays there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from console.domain.host import Host, Link, LinkState
from console.errors import ConnectError
from console.ui.app import TokwattApp
from console.ui.options import Options
from tests.ui import fakes
from tests.ui.waiting import open_cockpit, shown, until

WIDE = (160, 45)


class Fleet:
    """An app over two hosts, each with a desk of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        filled = fakes.snapshot()
        self.first = fakes.FakeDesk(filled)
        self.second = fakes.FakeDesk(replace(filled, host=Host("hopper", "10.0.0.2", 22, "op")))
        self.operations = fakes.Operations(self.first)
        self.operations.install(monkeypatch)
        self.refused: set[str] = set()
        import console.operations.opening as opening

        monkeypatch.setattr(opening, "open_desk", self.open_desk)
        self.app = TokwattApp(Options(("blackwell", "hopper")))

    async def open_desk(self, **asked: Any) -> fakes.FakeDesk:
        if asked["host"] in self.refused:
            raise ConnectError(f"{asked['host']}: nothing answers on port 22")
        return self.first if asked["host"] == "blackwell" else self.second


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, still: None) -> Fleet:
    return Fleet(monkeypatch)


async def test_each_host_has_a_tab_and_a_cockpit_of_its_own(fleet: Fleet) -> None:
    app = fleet.app
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: app.seats[1].desk is not None)
        first = shown(app).splitlines()[0]
        assert "1 blackwell" in first and "2 hopper" in first
        assert "2 hosts 3,997 of 9,600 W · 7,480 tok/s" in first
        await pilot.press("right_curly_bracket")
        await until(pilot, lambda: app.front is app.seats[1] and app.cockpit.furnished)
        await until(
            pilot, lambda: "hopper ●" in shown(app) and "bench.py" in shown(app) and "Decode batch" in shown(app)
        )
        assert "blackwell ● 12 ms" not in shown(app)
        await pilot.press("left_curly_bracket")
        await until(pilot, lambda: "blackwell ● 12 ms" in shown(app))
        assert not app.cockpit.receipt.fault


async def test_an_operation_ends_at_the_host_where_it_began(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    app = fleet.app
    begun, go_on = asyncio.Event(), asyncio.Event()
    done: list[object] = []

    async def toggle(desk: Any, name: str, **asked: Any) -> None:
        begun.set()
        await go_on.wait()
        done.append(desk)

    import console.operations.patches as patches

    monkeypatch.setattr(patches, "toggle", toggle)
    looked: list[object] = []

    async def statuses(desk: Any, names: Any = ()) -> tuple[()]:
        looked.append(desk)
        return ()

    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("2", "space")
        await until(pilot, begun.is_set)
        await pilot.press("right_curly_bracket")
        await until(pilot, lambda: app.front is app.seats[1] and app.cockpit.patches.list.asked)
        monkeypatch.setattr(patches, "statuses", statuses)
        go_on.set()
        await until(pilot, lambda: looked)
    assert done == [fleet.first] and looked == [fleet.first]


async def test_a_host_that_refuses_takes_nothing_from_the_other(fleet: Fleet) -> None:
    fleet.refused.add("hopper")
    app = fleet.app
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: app.seats[1].snapshot.link.link is Link.REFUSED)
        assert app.seats[0].snapshot.link.link is Link.UP and app.cockpit.receipt.fault is None
        await pilot.press("right_curly_bracket")
        await until(pilot, lambda: "hopper ✗ not connected" in shown(app) or "hopper ✗" in shown(app).splitlines()[1])
        fleet.refused.clear()
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.desk is not None)


async def test_a_lost_host_is_seen_from_the_other(fleet: Fleet) -> None:
    app = fleet.app
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: app.seats[1].desk is not None)
        fleet.second.link.state = LinkState(Link.LOST, since=fakes.MONO, error="reset by peer")
        fleet.second.store.update(link=fleet.second.link.state)
        await until(pilot, lambda: "✗" in shown(app).splitlines()[0])
        assert "link lost" not in "\n".join(shown(app).splitlines()[1:3])


async def test_the_nodes_of_a_profile_are_opened_beside_it(fleet: Fleet) -> None:
    profile = fleet.first.profile
    assert profile is not None
    fleet.first.profile = replace(profile, host=replace(profile.host, nodes=("hopper", "blackwell")))
    app = TokwattApp(Options(("blackwell",)))
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: "2 hopper ● ready 3,740 tok/s" in shown(app).splitlines()[0])
        assert [seat.name for seat in app.seats] == ["blackwell", "hopper"]
        assert "2 hosts 3,997 of 9,600 W" in shown(app).splitlines()[0]
