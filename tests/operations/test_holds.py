"""Two machines at one host: who measures there is told on the host itself, and nobody spoils another's numbers unasked."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from console.domain.host import Link, LinkState
from console.errors import AlreadySoError, LinkLostError, ReadOnlyError, RefusedError, RemoteError
from console.journal import holding
from console.operations import holds
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from console.remote.outpost.holds import STALE_S


class Console(Desk):
    """A console of somebody, on a machine of its own."""

    name = ""
    said: list[str]

    @property
    def operator(self) -> str:
        """Its login."""
        return f"{self.name}@{self.name}s-laptop as root"

    @property
    def claim(self) -> dict[str, str]:
        """As of a machine with another journal."""
        return {"console": self.name, "token": self.hold.token if self.hold is not None else ""}


async def console_of(name: str) -> Console:
    """Return a console with an outpost of its own on this host."""
    found = Console(HostLink(LocalTransport()))
    await found.link.connect()
    found.name, found.said = name, []
    found.say = found.said.append
    found.store.update(host=found.link.host, facts=found.link.facts)
    return found


@pytest.fixture
async def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Console, Console]]:
    """Consoles of two machines at this host."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    @contextlib.contextmanager
    def elsewhere(*_: Any, **__: Any) -> Any:
        yield  # what keeps consoles of one machine apart says nothing between two

    monkeypatch.setattr(holding, "held", elsewhere)
    found = await console_of("ada"), await console_of("bob")
    yield found
    for one in found:
        await one.link.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What the host keeps."""
    return tmp_path / "state" / "tokwatt" / "hold" / "hold.json"


def age(file: Path, **facts: Any) -> None:
    """Make the hold look as if it had not been renewed for long."""
    said = json.loads(file.read_text())
    file.write_text(json.dumps({**said, "beat": said["beat"] - STALE_S - 1, **facts}))


async def test_an_experiment_keeps_consoles_of_other_machines_away_and_says_whose_it_is(
    both: tuple[Console, Console], file: Path
) -> None:
    ada, bob = both
    async with holds.held(ada, "experiment x-1 wide"):
        for total in (True, False):
            with pytest.raises(RefusedError, match="measure: ada@adas-laptop as root is at local") as caught:
                async with holds.held(bob, "measure", total=total):
                    pass
            assert caught.value.exit_code == 3 and bob.hold is None
        assert "experiment x-1 wide, for 0 s by now, heard of 0 s ago" in caught.value.detail
        assert "tokwatt --host local experiment take-over 'ada@adas-laptop as root'" in caught.value.hint
        with pytest.raises(RefusedError, match="start: ada"):
            await holds.must_be_free(bob, "start")
        await holds.must_be_free(ada, "start")
    assert not file.exists() and not await holds.holder(bob)
    async with holds.held(bob, "measure", total=False):
        pass


CHANGES: Mapping[str, Mapping[str, Any]] = {
    "transaction": {"root": "/nowhere", "name": "x", "verb": "apply", "files": []},
    "launch": {"record": {}},
}


@pytest.mark.parametrize("op", CHANGES)
async def test_the_host_refuses_changes_that_would_spoil_an_experiment(
    op: str, both: tuple[Console, Console], tmp_path: Path
) -> None:
    ada, bob = both

    async def change(desk: Console) -> None:
        body = json.dumps({"argv": ["/nowhere/python"], "env": {}}).encode() if op == "launch" else b""
        await holds.guarded(desk, op, CHANGES[op], body, what=f"{op} it")

    async with holds.held(ada, "experiment x-1 wide"):
        with pytest.raises(RefusedError, match=f"{op} it: ada@adas-laptop as root is at local"):
            await change(bob)
        with pytest.raises(RemoteError, match=r"must be a list of files|cannot start"):  # it went on to its own fault
            await change(ada)
    async with holds.held(ada, "measure run-1", total=False):
        with pytest.raises(RemoteError, match=r"must be a list of files|cannot start"):
            await change(bob)


async def test_of_two_at_the_same_moment_one_holds(both: tuple[Console, Console]) -> None:
    held: list[str] = []
    done = asyncio.Event()

    async def hold(desk: Console) -> None:
        async with holds.held(desk, "experiment"):
            held.append(desk.name)
            await done.wait()

    tasks = [asyncio.create_task(hold(desk)) for desk in both]
    async with asyncio.timeout(30):
        first, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        done.set()
        told = await asyncio.gather(*tasks, return_exceptions=True)
    assert len(first) == len(held) == 1
    assert [type(one) for one in told if one is not None] == [RefusedError]


async def test_a_console_that_is_cut_off_holds_until_it_is_stale_and_its_machine_takes_it_back_at_once(
    both: tuple[Console, Console], file: Path
) -> None:
    ada, bob = both
    with pytest.raises(LinkLostError):
        async with holds.held(ada, "experiment x-1 wide"):
            await ada.link.close()  # with the link goes the way to give it back
            raise LinkLostError("the link went away")
    with pytest.raises(RefusedError, match="is at local"):
        await holds.must_be_free(bob, "start")
    again = await console_of("ada")
    try:
        async with holds.held(again, "experiment x-1 wide"):
            assert not again.said
            await again.link.close()
    finally:
        await again.link.close()
    age(file)
    await holds.must_be_free(bob, "start")
    async with holds.held(bob, "measure run-7", total=False):
        [said] = bob.said
        assert said.startswith("ada@adas-laptop as root left this host: experiment x-1 wide, for 0 s by now")
    assert not file.exists()


async def test_a_hold_whose_link_is_away_at_the_end_is_given_back_when_it_is_back(
    both: tuple[Console, Console], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = both
    down, up = LinkState(Link.LOST), LinkState(Link.UP)

    async def changes() -> AsyncIterator[LinkState]:
        yield down
        assert file.exists()
        yield up

    async with holds.held(ada, "experiment"):
        monkeypatch.setattr(HostLink, "changes", lambda self: changes())
    assert not file.exists()


async def test_what_was_held_before_the_host_was_booted_binds_nobody(both: tuple[Console, Console], file: Path) -> None:
    ada, bob = both
    async with holds.held(ada, "experiment"):
        age(file, boot="another", beat=1e12)
        await holds.must_be_free(bob, "start")


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"console": "x"}'])
async def test_a_file_that_says_nothing_of_a_holder_binds_nobody(
    broken: str, both: tuple[Console, Console], file: Path
) -> None:
    ada, _ = both
    file.parent.mkdir(parents=True)
    file.write_text(broken)
    async with holds.held(ada, "experiment"):
        assert (await holds.holder(ada))["operator"] == ada.operator


async def test_it_is_renewed_while_it_lasts(
    both: tuple[Console, Console], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, _ = both
    monkeypatch.setattr(holds, "RENEW_S", 0.01)
    async with holds.held(ada, "experiment"):
        age(file)
        since = json.loads(file.read_text())["since"]
        async with asyncio.timeout(30):
            while (now := await holds.holder(ada))["stale"]:
                await asyncio.sleep(0.01)
        assert now["since"] == since


async def test_it_is_taken_over_only_from_whom_was_named_and_the_loser_does_nothing_more(
    both: tuple[Console, Console], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = both
    with pytest.raises(AlreadySoError, match="nobody holds it"):
        await holds.take_over(bob, "ada")
    async with holds.held(ada, "experiment x-1 wide"):
        with pytest.raises(RefusedError, match="local is held by ada@adas-laptop as root, not by ada"):
            await holds.take_over(bob, "ada")
        bob.readonly = True
        with pytest.raises(ReadOnlyError):
            await holds.take_over(bob, ada.operator)
        bob.readonly = False
        assert (await holds.take_over(bob, ada.operator)).startswith("experiment x-1 wide")
        await holds.must_be_free(bob, "start")
        holds.must_hold(ada)  # not told yet: the host is what refuses
        with pytest.raises(RefusedError, match="local was taken over by bob@bobs-laptop as root"):
            await holds.guarded(ada, "transaction", CHANGES["transaction"], what="apply x")
        with pytest.raises(RefusedError, match="taken over by bob"):
            holds.must_hold(ada)
    assert file.exists(), "the note of who took it is for whoever lost it"
    async with holds.held(ada, "experiment x-1 wide"):  # nobody is at it: it can be resumed
        pass


async def test_who_lost_it_hears_of_it_within_one_renewal(
    both: tuple[Console, Console], monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, bob = both
    monkeypatch.setattr(holds, "RENEW_S", 0.01)
    async with holds.held(ada, "measure", total=False) as hold:
        await holds.take_over(bob, ada.operator)
        async with asyncio.timeout(30):
            while hold.fault is None:
                await asyncio.sleep(0.01)
        async with holds.held(bob, "experiment"):
            pass


async def test_measuring_is_part_of_an_experiment_and_nothing_else_is_part_of_a_measurement(
    both: tuple[Console, Console],
) -> None:
    ada, _ = both
    async with holds.held(ada, "experiment") as outer:
        async with holds.held(ada, "measure", total=False) as inner:
            assert inner is outer
        assert ada.hold is outer
        with pytest.raises(RefusedError, match="experiment 2: an experiment is under way on local"):
            async with holds.held(ada, "experiment 2"):
                pass
    async with holds.held(ada, "measure", total=False):
        with pytest.raises(RefusedError, match="experiment: a measurement is under way on local"):
            async with holds.held(ada, "experiment"):
                pass


async def test_a_host_that_can_keep_no_hold_is_measured_all_the_same(both: tuple[Console, Console], file: Path) -> None:
    ada, _ = both
    file.parent.parent.mkdir(parents=True)
    file.parent.write_text("in the way")
    async with holds.held(ada, "measure", total=False):
        [said] = ada.said
    assert said.startswith("consoles of other machines are not kept away: ")


def test_consoles_of_one_machine_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {holding.console_id(), holding.console_id()}
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path / "another"))
    assert len(names) == 1 and holding.console_id() not in names and "" not in names


def test_consoles_of_one_machine_do_not_measure_at_once(tmp_path: Path) -> None:
    with holding.held("box", measuring=True):
        assert holding.holder("box") is None, "what only measures keeps nobody from a change"
        with (
            pytest.raises(RefusedError, match="a measurement is under way on box"),
            holding.held("box", measuring=True),
        ):
            pass
