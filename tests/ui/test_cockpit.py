from __future__ import annotations

from dataclasses import replace

import pytest
from textual.worker import WorkerFailed

from console.domain.host import Host, Link, LinkState
from console.domain.run import Failure, RunPhase, Stall
from console.domain.text import SafeText
from console.errors import ConnectError, HostKeyUnknownError, RemoteError
from console.operations import dry_run
from console.operations.profile_check import Finding
from console.state.store import Snapshot
from console.ui.modals.confirm import ConfirmModal, HostKeyModal, MenuModal
from console.ui.modals.grep import GrepModal
from console.ui.modals.palette import PaletteModal, matching, place_of
from console.ui.modals.prompt import PromptModal
from console.ui.screens.bench import BenchScreen
from console.ui.screens.commands import CommandsScreen
from console.ui.screens.help import HelpScreen
from console.ui.screens.runs import RunsScreen
from tests.ui import fakes
from tests.ui.conftest import Bench
from tests.ui.waiting import open_cockpit, shown, until

WIDE = (160, 45)


async def test_wide_shows_every_pane_and_answers_the_operators_questions(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: "Decode batch" in shown(app))
        text = shown(app)
        for said in (
            "blackwell ● 12 ms",
            "sglang 0.5.9",
            "3f2a91c ±2",
            "▶ ready 41 min",
            "pid 41822",
            "glm5-nvfp4 •edited",
            "1 needs restart, 1 proven, 1 conflict",
            "1,998 of 4,800 W · 42 %",
            "3,740 tok/s",
            "target 5,816 (other model)",
            "/v1/loads, 0.4 s",
            "0.53 J/token",
            "needs restart allreduce-fusion-sm120",
            "found twice, lines 210 and 871",
            "Log  run 2026-12-02-7",
        ):
            assert said in text, said


async def test_small_terminals_show_one_pane_and_keys_change_it(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=(80, 24)) as pilot:
        await open_cockpit(pilot)
        assert "1,998/4,800 W" in shown(app)
        assert "bench.py" in shown(app)
        assert "flashinfer-cutlass-autotune" not in shown(app)
        await pilot.press("2")
        await until(pilot, lambda: "flashinfer-cutlass-autotune" in shown(app))
        assert "bench.py" not in shown(app)
        await pilot.press("4")
        await until(pilot, lambda: "power of limit" in shown(app))


async def test_resizing_changes_the_layout_and_too_small_says_so(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.resize_terminal(50, 12)
        await until(pilot, lambda: "50×12 is too small" in shown(app))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "1 Source   2 Patches" in shown(app))
        await pilot.resize_terminal(200, 60)
        await until(pilot, lambda: "power of limit" in shown(app) and "Decode batch" in shown(app))


async def test_zoom_gives_the_pane_the_screen_and_escape_takes_it_back(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("3", "plus")
        await until(pilot, lambda: app.cockpit.has_class("-single"))
        assert app.cockpit.log_pane.display and not app.cockpit.source.display
        await pilot.press("escape")
        await until(pilot, lambda: not app.cockpit.has_class("-single"))
        assert app.is_running


async def test_nothing_connects_before_the_first_frame(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    app, desk, _ = cockpit()
    seen: list[int] = []
    ready = type(app).on_ready

    async def watched(self: object) -> None:
        seen.append(len([call for call in desk.calls if call[0] == "open_desk"]))
        await ready(app)

    monkeypatch.setattr(type(app), "on_ready", watched)
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
    assert seen == [0]
    assert [call[0] for call in desk.calls].count("open_desk") == 1


async def test_space_toggles_at_once_since_the_diff_is_on_screen(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("2")
        assert '+            "flashinfer_cutlass",' in shown(app)
        await pilot.press("space")
        await until(pilot, lambda: ("toggle", "flashinfer-cutlass-autotune", False, False) in desk.calls)
        await until(pilot, lambda: "be071c15 → 4c9e02d1" in shown(app))
        assert "z undoes" in shown(app)


@pytest.mark.parametrize("kind", ["drifted", "fuzz", "dirty"])
async def test_drift_fuzz_and_dirty_files_ask_with_another_key(cockpit: Bench, kind: str) -> None:
    from console.domain.host import GitState
    from console.domain.patch import DiskState

    status = fakes.patches()[0]
    git = fakes.snapshot().git
    assert git is not None
    if kind == "drifted":
        status = replace(status, disk=DiskState.DRIFTED, reason="line 1841 differs")
    elif kind == "fuzz":
        status = replace(status, disk=DiskState.CONFLICT, needs_fuzz=True)
    else:
        git = GitState(git.top, git.commit, git.branch, ("python/sglang/srt/model_executor/model_runner.py",))
    app, desk, _ = cockpit(fakes.snapshot(patches=(status,), git=git))
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("2", "space")
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        await pilot.press("space")
        assert isinstance(app.screen, ConfirmModal)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.cockpit)
        assert not [call for call in desk.calls if call[0] == "toggle"]
        await pilot.press("space")
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        await pilot.press("y")
        await until(pilot, lambda: ("toggle", status.name, kind == "drifted", kind == "fuzz") in desk.calls)


async def test_a_failed_write_stays_until_it_was_read(cockpit: Bench) -> None:
    app, _, operations = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        operations.error = RemoteError("model_runner.py: read-only file system", "EROFS", "remount it", kind="erofs")
        await pilot.press("2", "space")
        await until(pilot, lambda: "read-only file system" in shown(app))
        assert "EROFS" in shown(app) and "remount it" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: "read-only file system" not in shown(app))


async def test_what_is_no_console_error_is_a_bug_and_ends_the_app(cockpit: Bench) -> None:
    app, _, operations = cockpit()
    with pytest.raises(WorkerFailed):
        async with app.run_test(size=WIDE) as pilot:
            await open_cockpit(pilot)
            operations.error = ZeroDivisionError("a bug")
            await pilot.press("2", "space")
            await until(pilot, lambda: not app.is_running)


FACTS = {
    "gpus": [{"name": "RTX PRO 6000", "driver": "580.95", "power_limit_w": 450.0}] * 8,
    "model": {"architectures": ["Glm5ForCausalLM"], "hidden_size": 6144, "weights_mib": 400000, "shards": 90},
    "disks": [{"path": "/models", "free_mib": 90000}],
}


@pytest.mark.parametrize(
    ("blocking", "findings", "key", "started"),
    [
        ((), (), "y", ("start",)),
        (("port 30000 is taken by pid 7 (root): vllm serve",), (), "y", None),
        ((), (Finding("error", "launch.args.tp", "no such flag; it is tp-size now"),), "y", None),
        ((), (Finding("error", "launch.args.tp", "no such flag; it is tp-size now"),), "F", ("start", True)),
    ],
)
async def test_a_start_is_shown_with_what_it_would_meet_before_it_is_made(
    cockpit: Bench,
    monkeypatch: pytest.MonkeyPatch,
    blocking: tuple[str, ...],
    findings: tuple[Finding, ...],
    key: str,
    started: tuple[object, ...] | None,
) -> None:
    async def looked(desk: object) -> dry_run.DryRun:
        warned = ("pid 9 (nobody: train.py) holds 60,000 MiB of a GPU",)
        return dry_run.DryRun("python3 -m sglang.launch_server", {}, ("cutlass",), FACTS, blocking, warned, findings)

    monkeypatch.setattr(dry_run, "dry_run", looked)
    app, desk, _ = cockpit(fakes.snapshot(run=None))
    async with app.run_test(size=(80, 24)) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x", "s")
        await until(pilot, lambda: "start" in shown(app) and "holds 60,000 MiB" in shown(app))
        for text in ("sglang.launch_server", "8 × RTX PRO 6000", "450 W", "Glm5ForCausalLM", "cutlass", *blocking):
            assert text in " ".join(shown(app).split())
        for finding in findings:
            assert finding.key in shown(app)
        asked = app.screen
        await pilot.press("s")
        assert app.screen is asked and not [call for call in desk.calls if call[0] == "start"]
        await pilot.press(key)
        if started is None:
            assert app.screen is asked
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.cockpit)
            assert not [call for call in desk.calls if call[0] == "start"]
        else:
            await until(pilot, lambda: started in desk.calls)


async def test_a_start_that_stalls_is_announced_once(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fakes.snapshot().run
    assert run is not None
    said: list[str] = []
    app, desk, _ = cockpit(fakes.snapshot(run=replace(run, phase=RunPhase.STARTING)))
    monkeypatch.setattr(app, "announce", said.append)
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        stall = Stall("distributed init", "stalled in distributed init since 09:40:13", fakes.NOW)
        for silent_s in (60.0, 61.0):
            desk.store.update(run=replace(run, phase=RunPhase.STARTING, stall=replace(stall, silent_s=silent_s)))
            await until(pilot, lambda: bool(said))
            await pilot.pause()
    assert said == ["tokwatt: the start has stalled (distributed init)"]


async def test_server_menu_tells_the_blast_radius_and_confirms_with_another_key(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, MenuModal))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, ConfirmModal))
        assert "1,024 requests in flight would be lost" in shown(app)
        assert "then in force: allreduce-fusion-sm120" in shown(app)
        await pilot.press("r")
        assert not [call for call in desk.calls if call[0] == "restart"]
        await pilot.press("y")
        await until(pilot, lambda: ("restart", "2026-12-02-7") in desk.calls)


async def test_readonly_refuses_before_anything_is_asked(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    desk.readonly = True
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, MenuModal))
        await pilot.press("t")
        await until(pilot, lambda: "--readonly" in shown(app))
        assert not [call for call in desk.calls if call[0] == "stop"]


async def test_lost_link_dims_the_panes_and_says_when_it_tries_again(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        desk.link.state = LinkState(
            Link.LOST, heard_at=fakes.MONO - 4, retry_at=fakes.MONO + 2, error="blackwell: connection reset"
        )
        await until(pilot, lambda: "last heard 4.0 s ago, trying again in 2 s" in shown(app))
        assert app.cockpit.has_class("-stale")
        assert "Decode batch" in shown(app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "last heard" not in shown(app))
        assert not app.cockpit.has_class("-stale")


async def test_an_unknown_host_key_is_shown_and_asked(cockpit: Bench) -> None:
    app, desk, operations = cockpit()
    operations.error = HostKeyUnknownError("blackwell", 2222, "SHA256:abcdef", "ssh-ed25519", "line")
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HostKeyModal))
        assert "SHA256:abcdef" in shown(app)
        operations.error = None
        await pilot.press("a")
        await open_cockpit(pilot)
        assert desk.calls[-1][0] != "open_desk" or desk.calls[-1][1]["accept_key"] == "SHA256:abcdef"
        asked = [call[1]["accept_key"] for call in desk.calls if call[0] == "open_desk"]
        assert asked == [None, "SHA256:abcdef"]


async def test_a_refused_connection_says_why_and_can_be_tried_again(cockpit: Bench) -> None:
    app, _, operations = cockpit()
    operations.error = ConnectError("blackwell: nobody answers", "timed out after 20 s", "is the host up?")
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "nobody answers" in shown(app))
        assert "is the host up?" in shown(app)
        assert "reading…" not in shown(app)
        operations.error = None
        await pilot.press("ctrl+r")
        await open_cockpit(pilot)
        assert "● 12 ms" in shown(app)
        assert app.cockpit.receipt.fault is None and "nobody answers" not in shown(app)


async def test_empty_panes_say_what_would_be_here_and_the_key_for_it(cockpit: Bench) -> None:
    app, _, _operations = cockpit(Snapshot(host=Host("blackwell"), link=LinkState(Link.UP, 12.0)))
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        text = shown(app)
        assert "x s starts one" in text
        assert "no run yet: x s starts the server" in text
        assert "c captures one" in text
        assert "waiting for the first reading" in text


async def test_source_goes_from_tree_to_file_to_def_and_back(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        source = app.cockpit.source
        await pilot.press("enter")
        await until(pilot, lambda: "model_executor/" in shown(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "model_runner.py" in shown(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: source.views[-1] == "code" and source._symbols[1])
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"mxfp4", "enter")
        await until(pilot, lambda: source.code.line_number == 20)
        await pilot.press("d")
        await until(pilot, lambda: "only def _should_run_flashinfer_autotune" in shown(app))
        assert source.code.count() == 17
        assert source.code.line_number == 20
        await pilot.press("escape")
        await until(pilot, lambda: source.code.count() == 31)
        await pilot.press("escape")
        await until(pilot, lambda: source.views == ["tree"])
        await pilot.press("escape", "escape")
        assert app.is_running


async def test_grep_streams_hits_and_enter_jumps(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, GrepModal))
        await pilot.press(*"cutlass", "enter")
        await until(pilot, lambda: "9 lines in 3 files" in shown(app))
        assert "test/[bold]x[/oops].py" in shown(app)
        await pilot.press("n", "enter")
        await until(pilot, lambda: app.cockpit.source.code.line_number == 23)
        assert ("open", "srt/model_executor/model_runner.py") in desk.calls


async def test_a_bad_pattern_is_an_error_and_no_crash(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await open_cockpit(pilot)
        await pilot.press("3", "slash")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"[a-z", "enter")
        await until(pilot, lambda: "[a-z: not a regular expression" in shown(app))


async def test_log_follows_filters_and_finds_errors(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        view = app.cockpit.log_pane.view
        await until(pilot, lambda: view.count() > 40)
        assert view.following
        await pilot.press("3", "n")
        await until(pilot, lambda: not view.following and "Attention backend" in shown(app))
        assert "! [2026-12-02 14:01:02 TP0] Attention backend not set. Use [flashinfer]" in shown(app)
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press(*"load weight", "enter")
        await until(pilot, lambda: view.count() == 1)
        await pilot.press("escape")
        await until(pilot, lambda: view.count() > 40)
        await pilot.press("G")
        await until(pilot, lambda: view.following)


async def test_starting_and_failing_show_the_ladder(cockpit: Bench) -> None:
    app, desk, _ = cockpit(fakes.snapshot(run=fakes.starting()))
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: "✓ weights 38.2 s" in shown(app))
        assert "autotune 6:15" in shown(app) and "50% 11/22" in shown(app)
        assert "◔ starting 6:57" in shown(app)
        failure = Failure(
            "CUDA out of memory on rank 3", (SafeText("torch.OutOfMemoryError"),), "lower mem-fraction-static"
        )
        desk.store.update(run=replace(fakes.starting(), phase=RunPhase.FAILED, failure=failure, exit_status=1))
        await until(pilot, lambda: "CUDA out of memory on rank 3" in shown(app))
        assert "✗ failed, exit 1" in shown(app)


async def test_measuring_fills_the_ladder_and_goes_on_behind(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("b")
        await until(pilot, lambda: "1,964 ± 14" in shown(app))
        assert "1,024: measuring 62 % · 3,741 tok/s now · repeat 3 of 3" in shown(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.cockpit)
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, BenchScreen))
        assert desk.calls.count(("measure",)) == 1
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "what will be sealed" in shown(app) and "too good by luck" in shown(app))
        await pilot.press("s")  # not offered before it was measured afresh
        await pilot.press("m")
        await until(pilot, lambda: ("afresh",) in desk.calls and "seal and save it" in shown(app))
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, PromptModal))
        await pilot.press("enter")
        await until(pilot, lambda: ("save", "glm5-nvfp4-winner", False) in desk.calls)


async def test_other_screens_open_and_close(cockpit: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        for key, screen, said in (
            ("question_mark", HelpScreen, "tokwatt patch apply"),
            ("at", CommandsScreen, "connected, outpost started"),
            ("6", RunsScreen, "nothing was measured yet"),
        ):
            await pilot.press(key)
            await until(pilot, lambda kind=screen, said=said: isinstance(app.screen, kind) and said in shown(app))  # type: ignore[misc]
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.cockpit)


async def test_the_palette_finds_verbs_and_goes_to_places(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("colon")
        await until(pilot, lambda: isinstance(app.screen, PaletteModal))
        await pilot.press(*"srt/utils.py:9", "enter")
        await until(pilot, lambda: app.cockpit.source.code.line_number == 9)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, PaletteModal))
        await pilot.press(*"help", "enter")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


def test_places_and_words() -> None:
    assert place_of("srt/a.py:12-20") == ("srt/a.py", 12, 20)
    assert place_of("1841") == ("", 1841, None)
    assert place_of("restart") is None
    assert next(verb.id for verb in matching("restart")) == "restart_server"


async def test_quit_closes_the_link_and_leaves(cockpit: Bench) -> None:
    app, desk, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)
    assert desk.link.closed
    assert app.return_value == 0


async def test_states_have_words_without_colour(cockpit: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        assert app.no_color
        assert "◐ needs restart" in shown(app) and "● proven" in shown(app) and "✗ conflict" in shown(app)
        assert "power c…" in shown(app)


async def test_both_themes_paint(cockpit: Bench) -> None:
    app, _, _ = cockpit()
    async with app.run_test(size=WIDE) as pilot:
        await open_cockpit(pilot)
        before = app.theme
        await pilot.press("ctrl+t")
        await until(pilot, lambda: app.theme != before)
        assert "3,740 tok/s" in shown(app)


async def test_the_gpu_pane_says_what_changed_of_the_machine_and_which_link_is_narrow(cockpit: Bench) -> None:
    changed = "power limit 600 → 450 W on GPU 3"
    filled = replace(fakes.snapshot(), machine=fakes.MACHINE, machine_changes=(changed,), base_run="2026-11-30-4")
    app, _, _ = cockpit(filled)
    async with app.run_test(size=(200, 60)) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: f"since base run 2026-11-30-4: {changed}" in shown(app))
        assert "GPU 6: link x8 gen5, below its best (x16 gen5): 8 of 16 lanes" in shown(app)
        assert "machine changed" in shown(app)
        await pilot.press("8")
        await until(pilot, lambda: "GPU7    SYS  SYS  SYS  SYS NODE NODE NODE    ·" in shown(app))
        assert "peer access: read and write work between all GPUs" in shown(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_matrix_fits_small_screens(cockpit: Bench, size: tuple[int, int]) -> None:
    app, _, _ = cockpit(replace(fakes.snapshot(), machine=fakes.MACHINE))
    async with app.run_test(size=size) as pilot:
        await open_cockpit(pilot)
        await pilot.press("8")
        await until(pilot, lambda: "GPU0      · NODE NODE NODE  SYS  SYS  SYS  SYS" in shown(app))
        await pilot.press("8")
        await pilot.press("4")
        await until(pilot, lambda: "GPU 6: link x8 gen5" in shown(app))


async def test_a_lost_gpu_stays_with_grey_values_and_advice_and_means_stand_beside_peaks(cockpit: Bench) -> None:
    filled = fakes.snapshot()
    assert filled.gpus is not None
    first, second, *rest = filled.gpus.gpus
    peak = replace(first, power_draw_w=831.0, power_mean_w=532.0, power_limit_w=700.0)
    lost = replace(second, lost=True, lost_at=fakes.NOW - 60, reasons={"gpu": "GPU is lost"})
    app, _, _ = cockpit(replace(filled, gpus=replace(filled.gpus, gpus=(peak, lost, *rest))))
    async with app.run_test(size=(200, 60)) as pilot:
        await open_cockpit(pilot)
        await until(pilot, lambda: "831   532" in shown(app))
        assert "GPU 1: GPU is lost; reset it or reboot the host; a launch on more than 7 GPUs will fail" in shown(app)
        assert "headroom" in shown(app)
