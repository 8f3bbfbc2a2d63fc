"""`x l` and its questions: every server of a host listed, looked at, adopted, and stopped by its typed pid alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console.domain.run import ProcessId, Run, RunPhase
from console.domain.server import Connection, GpuShare, HostServer, Member, Role
from console.domain.text import clean
from console.errors import AlreadySoError, RefusedError, UsageError
from console.operations import dry_run, foreign, servers, stopping
from console.operations.server_words import Stake
from console.ui.app import TokwattApp
from console.ui.modals.confirm import ConfirmModal, MenuModal
from console.ui.modals.servers import ServersModal, StakeModal
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

SIZES = [(80, 24), (120, 40), (200, 60)]
MODEL = "/models/a-model-whose-name-is-rather-long-and-nvfp4"
ARGV = ("python3", "-m", "sglang.launch_server", "--model-path", MODEL, "--tp-size", "8", *(["--flag", "x"] * 40))


def server(pid: int, **changes: Any) -> HostServer:
    title = clean("python3 -m sglang.launch_server --model-path m")
    plain = HostServer(
        "sglang",
        Role.SERVER,
        ProcessId(pid, 500 + pid, pid),
        "bob",
        ARGV,
        started_at=fakes.NOW - 4000,
        cwd="/home/bob",
        port=30000 + pid % 100,
        version="0.5.9",
        model=MODEL,
        readiness="ok",
        gpus=(GpuShare("GPU-0", 0, 81000.0), GpuShare("GPU-1", 1, 79000.0)),
        gpus_told=True,
        members=(Member(pid, 500 + pid, title), Member(pid + 1, 501 + pid, clean("sglang::scheduler_TP0"))),
        log="/home/bob/server.log",
    )
    return replace(plain, **changes)


THEIRS = server(4242)
OURS = server(4300, user="root", run="2026-12-02-7", ours=True)
LEFT = server(4400, role=Role.LEFT_OVER, port=None, readiness="", started_at=None)
EMBEDDED = server(4500, role=Role.EMBEDDED, port=None, readiness="", parent=clean("python3 -m ray.worker"))
STAKE = Stake(
    THEIRS,
    (Connection(30042, clean("10.0.0.9:5555"), 77, clean("python client.py"), ours=False),),
    1,
    in_flight=3,
    again_s=480.0,
)


class Host:
    """What the operations behind the questions did, and what they answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: HostServer) -> None:
        self.found = found
        self.calls: list[tuple[Any, ...]] = []
        self.stake_of: Stake | Exception = STAKE
        self.fault: Exception | None = None
        monkeypatch.setattr(servers, "found", self._found)
        for name in ("attach", "adopt", "stake", "stop"):
            monkeypatch.setattr(foreign, name, getattr(self, f"_{name}"))

    async def _found(self, desk: Any, *, ask: bool = True) -> tuple[HostServer, ...]:
        return self.found

    async def _attach(self, desk: Any, pid: int) -> Run:
        self._did("attach", pid)
        return servers.as_run(THEIRS)

    async def _adopt(self, desk: Any, pid: int) -> Run:
        self._did("adopt", pid)
        return fakes.run()

    async def _stake(self, desk: Any, pid: int) -> Stake:
        if isinstance(self.stake_of, Exception):
            raise self.stake_of
        return self.stake_of

    async def _stop(self, desk: Any, at_stake: Stake, typed: str) -> None:
        self._did("stop", at_stake.server.process.pid, typed)

    def _did(self, *call: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.calls.append(call)


async def listed(pilot: Pilot[Any]) -> None:
    app: Any = pilot.app
    await open_cockpit(pilot)
    await pilot.press("x")
    await until(pilot, lambda: isinstance(app.screen, MenuModal))
    await pilot.press("l")
    await until(pilot, lambda: isinstance(app.screen, ServersModal))
    await pilot.pause()


async def back(pilot: Pilot[Any]) -> None:
    app: Any = pilot.app
    await until(pilot, lambda: app.screen is app.cockpit)


def words(app: TokwattApp) -> str:
    """Return what the screen and its toasts say."""
    toasts = " ".join(one.message for one in app._notifications)
    return " ".join(f"{shown(app)} {toasts}".replace("│", " ").split())


def tells(app: TokwattApp, text: str) -> bool:
    return text in words(app)


@pytest.mark.parametrize("size", SIZES)
async def test_the_list_tells_whose_each_is_and_escape_does_nothing(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    host = Host(monkeypatch, THEIRS, OURS, LEFT, EMBEDDED)
    app, desk, _ = cockpit()
    async with app.run_test(size=size) as pilot:
        await listed(pilot)
        said = words(app)
        for text in ("ready", ":30042", "pid 4242", "bob", "not ours", "run 2026-12-02-7", "left over", "embedded"):
            assert text in said
        assert "GPUs 0, 1: 160,000 MiB" in said and "/home/bob/server.log" in said
        assert "enter attach" in said and "esc nothing" in said
        await pilot.press("down", "down")
        await until(pilot, lambda: "its launcher is gone" in words(app))
        await pilot.press("down")
        await until(pilot, lambda: "inside python3 -m ray.worker" in words(app))
        await pilot.press("escape")
        await back(pilot)
    assert host.calls == [] and not [call for call in desk.calls if call[0] == "stop"]


async def test_a_host_without_servers(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch)
    app, _, _ = cockpit()
    async with app.run_test(size=SIZES[0]) as pilot:
        await listed(pilot)
        assert "no engine server runs on this host" in shown(app)
        await pilot.press("enter", "o", "t")
        assert isinstance(app.screen, ServersModal)
        await pilot.press("escape")
        await back(pilot)
    assert host.calls == []


async def test_one_is_attached_to_read_only(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, OURS, THEIRS)
    app, _, _ = cockpit()
    async with app.run_test(size=SIZES[1]) as pilot:
        await listed(pilot)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "read-only until it is adopted" in words(app))
    assert host.calls == [("attach", 4242)]


@pytest.mark.parametrize("key", ["y", "escape", "o"])
async def test_an_adoption_is_asked_for(cockpit: Bench, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    host = Host(monkeypatch, THEIRS)
    app, _, _ = cockpit()
    async with app.run_test(size=SIZES[0]) as pilot:
        await listed(pilot)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        await until(pilot, lambda: "pid 4242 goes on as it is" in words(app) and "stays unproven" in words(app))
        await pilot.press(key)
        if key == "y":
            await until(pilot, lambda: "adopted as run 2026-12-02-7" in words(app))
        elif key == "o":
            assert isinstance(app.screen, ConfirmModal), "the key that asked does not answer"
            await pilot.press("escape")
        await back(pilot)
    assert host.calls == ([("adopt", 4242)] if key == "y" else [])


async def asked_to_type(pilot: Pilot[Any]) -> None:
    app: Any = pilot.app
    await listed(pilot)
    await pilot.press("t")
    await until(pilot, lambda: isinstance(app.screen, StakeModal))
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_at_stake_is_shown_and_only_the_pid_stops(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    host = Host(monkeypatch, THEIRS)
    app, _, _ = cockpit()
    async with app.run_test(size=size) as pilot:
        await asked_to_type(pilot)
        said = words(app)
        for text in (
            "bob, not ours", "sglang.launch_server", "10.0.0.9:5555 (pid 77: python client.py)",
            "3 requests in flight", "ready again in about 8 min", "holds GPUs 0, 1: 160,000 MiB", "stop it, once 4242 is typed",
        ):  # fmt: skip
            assert text in said, said
        for typed, told in (
            ("", "type 4242 first"),
            ("yes", "yes is not 4242"),
            ("4243", "4243 is not 4242: nothing was stopped"),
        ):
            app.screen.query_one(Input).value = ""
            await pilot.press(*typed, "enter")
            await until(pilot, partial(tells, app, told))
            assert isinstance(app.screen, StakeModal) and host.calls == []
        app.screen.query_one(Input).value = ""
        await pilot.press(*"4242", "enter")
        await back(pilot)
        await until(pilot, lambda: host.calls)
    assert host.calls == [("stop", 4242, "4242")]


async def test_escape_leaves_it_whatever_was_typed(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, THEIRS)
    app, _, _ = cockpit()
    async with app.run_test(size=SIZES[0]) as pilot:
        await asked_to_type(pilot)
        await pilot.press(*"4242", "escape")
        await back(pilot)
    assert host.calls == []


async def test_a_run_of_ours_needs_no_typing(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, OURS)
    host.stake_of = replace(STAKE, server=OURS)
    app, _, _ = cockpit()
    async with app.run_test(size=SIZES[0]) as pilot:
        await listed(pilot)
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, StakeModal))
        await until(pilot, lambda: "stop run 2026-12-02-7?" in words(app) and "3 requests in flight" in words(app))
        assert "y stop it esc leave it" in words(app)
        await pilot.press("t")
        assert host.calls == []
        await pilot.press("y")
        await until(pilot, lambda: host.calls)
    assert host.calls == [("stop", 4300, "4300")]


@pytest.mark.parametrize(
    ("key", "fault", "told"),
    [
        ("t", UsageError("local: no process has pid 4242"), "no process has pid 4242"),
        ("t", RefusedError("pid 4242 is no inference server: sleep 600"), "is no inference server: sleep 600"),
        ("o", AlreadySoError("pid 4242 was adopted meanwhile"), "pid 4242 was adopted meanwhile"),
        ("o", RefusedError("pid 4242 is gone, or another process by now"), "pid 4242 is gone, or another"),
        ("enter", UsageError("local: no process has pid 4242"), "no process has pid 4242"),
    ],
)
async def test_one_that_went_while_the_list_stood(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, key: str, fault: Exception, told: str
) -> None:
    host = Host(monkeypatch, THEIRS)
    app, _, _ = cockpit()
    async with app.run_test(size=SIZES[0]) as pilot:
        await listed(pilot)
        host.fault = host.stake_of = fault
        await pilot.press(key)
        if key == "o":
            await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
            await pilot.press("y")
        await until(pilot, lambda: told in words(app))
        await back(pilot)
    assert host.calls == []


@pytest.mark.parametrize(
    ("now", "told"),
    [([], "nothing was stopped"), ([{"title": "sleep 600", "user": "eve"}], "sleep 600 of eve has its number now")],
)
async def test_one_that_went_while_its_pid_was_typed(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, now: list[dict[str, str]], told: str
) -> None:
    """Another process may have the number by now; it gets no signal."""
    stop = foreign.stop
    Host(monkeypatch, THEIRS)
    monkeypatch.setattr(foreign, "stop", stop)
    monkeypatch.setattr(foreign, "stopping", stopping)
    app, desk, _ = cockpit()
    called: list[str] = []
    state = {"pid": 4242, "start_ticks": 1, "alive": False, "processes": [], "stop": None, "exit": None}

    async def call(name: str, args: Any = None, **_: Any) -> Any:
        called.append(name)
        return SimpleNamespace(result={"tree_state": state, "processes": {"processes": now}}[name])

    desk.link.call = call  # type: ignore[attr-defined]
    async with app.run_test(size=SIZES[0]) as pilot:
        await asked_to_type(pilot)
        await pilot.press(*"4242", "enter")
        await until(pilot, lambda: told in words(app) and "is gone already" in words(app))
    assert set(called) == {"tree_state", "processes"}


async def test_who_may_only_look_is_refused_before_anything_is_asked(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(monkeypatch, THEIRS)
    app, desk, _ = cockpit()
    desk.readonly = True
    async with app.run_test(size=SIZES[0]) as pilot:
        for key in ("o", "t"):
            await listed(pilot)
            await pilot.press(key)
            await until(pilot, lambda: "--readonly" in words(app))
            await back(pilot)
            await pilot.press("escape")
    assert host.calls == []


async def test_the_menu_tells_who_stopped_it(cockpit: Bench) -> None:
    app, _, _ = cockpit(fakes.snapshot(run=replace(fakes.run(RunPhase.STOPPING), stopped_by="ada@laptop as root")))
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, MenuModal))
        await until(
            pilot, lambda: tells(app, "run 2026-12-02-7, stopping") and tells(app, "stopped by ada@laptop as root")
        )


@pytest.mark.parametrize("verb", ["t", "r"])
async def test_what_was_confirmed_is_done_to_the_run_that_was_shown(cockpit: Bench, verb: str) -> None:
    """Another console may have put another run there while the question stood."""
    app, desk, _ = cockpit()
    async with app.run_test(size=SIZES[1]) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, MenuModal))
        await pilot.press(verb)
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        desk.store.update(run=replace(fakes.run(RunPhase.STARTING), id="2026-12-02-8"))
        await pilot.press("y")
        await until(pilot, lambda: [call for call in desk.calls if call[0] in ("stop", "restart")])
    assert desk.calls[-1] == ("stop" if verb == "t" else "restart", "2026-12-02-7")


@pytest.mark.parametrize(
    ("key", "fault", "told"),
    [
        ("escape", None, ""),
        ("y", AlreadySoError("run 2026-12-02-8 of glm5-nvfp4, launched meanwhile by ada, is on port 30000"), "launched meanwhile by ada"),
        ("y", RefusedError("blackwell: port 30000 is taken by pid 7 (bob): vllm serve"), "is taken by pid 7 (bob)"),
        ("y", UsageError("p.toml: launch.workdir /x is no folder on blackwell"), "launch.workdir /x is no folder"),
    ],
)  # fmt: skip
async def test_a_start_that_is_left_or_comes_too_late(
    cockpit: Bench, monkeypatch: pytest.MonkeyPatch, key: str, fault: Exception | None, told: str
) -> None:
    async def looked(desk: Any) -> dry_run.DryRun:
        facts: dict[str, Any] = {"gpus": None, "model": None, "disks": []}
        return dry_run.DryRun("python3 -m sglang.launch_server", {}, (), facts, (), (), ())

    tried: list[bool] = []

    async def start(desk: Any, *, force: bool = False) -> None:
        tried.append(force)
        if fault is not None:
            raise fault

    monkeypatch.setattr(dry_run, "dry_run", looked)
    app, _, _ = cockpit(fakes.snapshot(run=None))
    monkeypatch.setattr("console.operations.server.start", start)
    async with app.run_test(size=SIZES[0]) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x", "s")
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        assert "patches on: none" in words(app)
        await pilot.press(key)
        await back(pilot)
        await until(pilot, lambda: tells(app, told))
    assert tried == ([] if key == "escape" else [False])
