"""What an operator must be able to believe: polls, foreign servers, lost links, ASCII, keys at once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from console.domain.activity import Activity, Outcome
from console.domain.host import Host, Link
from console.domain.run import LogKind, LogRecord, RunPhase
from console.domain.text import clean
from console.errors import LinkLostError
from console.operations.catalogue import VERBS, shown_key
from console.remote.target import Target
from console.telemetry.steady import Steady
from console.ui.app import TokwattApp
from console.ui.drawing import width_of
from console.ui.glyphs import must_be_plain, plain
from console.ui.options import Options
from console.ui.shell import shell_argv
from console.ui.widgets.activity import Receipt
from console.ui.widgets.log import LogView
from console.ui.widgets.status import Status
from console.ui.words import of_run
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

NAMES = {"equals_sign": "=", "minus": "-", "less_than_sign": "<", "greater_than_sign": ">", "apostrophe": "'"}
"""Keys that may be told by either name."""


def _access(method: str, path: str) -> LogRecord:
    raw = f'INFO:     127.0.0.1:45494 - "{method} {path} HTTP/1.1" 200 OK'
    return LogRecord(LogKind.ACCESS, raw, values={"method": method, "path": path, "code": 200})


async def test_polls_are_hidden_counted_and_found_by_a_filter(cockpit: Bench) -> None:
    app, _, operations = cockpit()
    polls = tuple(_access("GET", path) for path in ("/metrics", "/v1/loads?x=1", "/model_info") * 5)
    operations.records = (*fakes.log_records(4), *polls, _access("POST", "/generate"))
    async with app.run_test(size=(160, 45)) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: "15 polls hidden, o shows" in shown(app))
        assert "GET /metrics" not in shown(app) and "POST /generate" in shown(app)
        await pilot.press("3", "o")
        await until(pilot, lambda: "GET /metrics" in shown(app) and "polls hidden" not in shown(app))
        await pilot.press("o")
        app.cockpit.log_pane.view.filter(re.compile("metrics"))
        await until(pilot, lambda: "GET /metrics" in shown(app))


def test_a_foreign_server_without_a_start_time_has_no_age() -> None:
    run = replace(fakes.run(), started_at=0.0, ready_at=None, adopted=False)
    assert of_run(run, fakes.NOW)[1] == "ready —"


async def test_starting_beside_a_foreign_server_names_it(cockpit: Bench) -> None:
    run = replace(fakes.run(), id="", adopted=False, operator="bob")
    app, desk, _ = cockpit(fakes.snapshot(run=run))
    async with app.run_test(size=(160, 45)) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x")
        await until(pilot, lambda: "not started by us" in shown(app))
        await pilot.press("s")
        await until(pilot, lambda: app.cockpit.receipt.fault is not None)
        fault = app.cockpit.receipt.fault
        assert fault is not None
        assert "port 30000 is taken by pid 41822 (bob): python3 -m sglang.launch_server" in fault.title
        assert fault.detail == "not started by us" and "another port" in fault.hint
    assert ("start",) not in desk.calls


async def test_keys_that_need_the_host_say_so_while_it_is_lost(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=(160, 45)) as pilot:
        await open_cockpit(pilot)
        desk.link.state = replace(desk.link.state, link=Link.LOST, error="reset")
        fault = app.link_fault()
        assert isinstance(fault, LinkLostError) and "needs the host" in fault.title
        await pilot.press("b", "z", "x")
        await until(pilot, lambda: "needs the host" in "".join(n.message for n in app._notifications))
        assert app.screen is app.cockpit
    assert ("undo",) not in desk.calls and ("measure",) not in desk.calls


async def test_the_key_after_a_pane_switch_belongs_to_the_new_pane(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=(160, 45)) as pilot:
        await open_cockpit(pilot)
        app.cockpit.show_pane("log-pane")
        assert isinstance(app.screen.focused, LogView)


def test_one_poll_is_no_best_and_a_burst_is_not_shown_as_speed() -> None:
    steady = Steady()
    shown = [steady.step(float(second), 3740.0) for second in range(4)]
    assert shown[-1] == pytest.approx(3740.0) and not steady.best
    after = steady.step(4.0, 5675.0)
    assert after is not None and after < 4500
    for second in range(5, 12):
        steady.step(float(second), 3740.0)
    assert steady.best is not None and steady.best < 4200
    assert steady.step(12.0, None) is None
    best = steady.best
    steady.step(13.0, 9000.0)
    assert steady.best == best


def test_the_best_counts_no_token_twice_when_the_counter_moves_in_bursts() -> None:
    steady, counter = Steady(), 0.0
    for second in range(40):
        stands = second % 3 == 1  # and the speed of before is held, which says too much
        counter = counter if stands else second * 3740.0
        steady.step(float(second), 5600.0 if stands else 3740.0, counter)
    assert steady.best == pytest.approx(3740.0)


def test_the_shell_reads_no_configuration_where_the_console_reads_none() -> None:
    target = Target("demo", "127.0.0.1", 2222, "op", ("/k",), "/kh", read_config=False)
    app = TokwattApp(Options(("demo",), target=target))
    app.snapshot = replace(app.snapshot, host=Host("demo", "127.0.0.1", 2222, "op"))
    argv = shell_argv(app)
    assert argv[argv.index("-F") + 1] == "none"
    assert argv[-4:] == ["-p", "2222", "--", "op@127.0.0.1"]
    assert 'UserKnownHostsFile="/kh"' in argv and argv[argv.index("-i") + 1] == "/k"


@pytest.mark.parametrize(
    ("env", "ascii_only"),
    [
        ({"TERM": "linux", "LANG": "C.UTF-8"}, True),
        ({"TERM": "xterm-256color", "LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({"TERM": "xterm", "LANG": "en_US.ISO-8859-1"}, True),
        ({"TERM": "xterm", "LANG": "en_US.UTF-8"}, False),
        ({"TERM": "xterm", "LANG": "C", "TOKWATT_GLYPHS": "unicode"}, False),
        ({"TERM": "xterm"}, False),
    ],
)
def test_ascii_is_for_terminals_that_have_nothing_else(env: dict[str, str], ascii_only: bool) -> None:
    assert must_be_plain(env) is ascii_only


async def test_the_whole_screen_keeps_its_columns_in_ascii(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=(160, 45)) as pilot:
        await open_cockpit(pilot)
        text = shown(app)
    made = plain(text)
    assert made.isascii() and "?" not in made.replace("? help", "") and len(made) == len(text)


def test_the_status_line_of_a_small_terminal_keeps_what_matters(still: None) -> None:
    profile = replace(fakes.PROFILE, name="glm5-nvfp4-expert-parallel-long")
    status = Status()
    status.snapshot = fakes.snapshot(
        profile=profile, run=replace(fakes.run(RunPhase.STARTING), started_at=fakes.NOW - 9)
    )
    (line,) = status.lines(80, 1)
    text = "".join(part for part, _ in line)
    assert width_of(line) <= 80
    assert "blackwell" in text and "starting 0:09" in text and "glm5-nvfp…" in text and "patches 1 restart" in text


def test_the_readme_tells_every_key_of_the_catalogue() -> None:
    table = (Path(__file__).parents[2] / "README.md").read_text().partition("## Keys")[2].partition("\n## ")[0]
    told = {NAMES.get(key, key) for key in re.findall(r"`([^`]+)`", table)}
    first = {NAMES.get(shown_key(verb.keys[0]), shown_key(verb.keys[0])) for verb in VERBS if verb.keys}
    assert first - told - set("2345") == set()  # `1` … `6` stands for them


def test_the_receipt_of_a_start_names_the_key_that_stops_it() -> None:
    receipt = Receipt()
    receipt.activity = Activity(
        1, "start", clean("start p"), started_at=0.0, outcome=Outcome.DONE, ms=5.0, undo="serve stop"
    )
    (line,) = receipt.lines(100, 1)
    told = "".join(text for text, _ in line)
    assert told.endswith("x t stops it") and "serve stop" not in told
