"""A real SGLang that does not come up, or whose launcher dies: the right state, with the right words."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.domain.run import RunPhase
from console.errors import ConsoleError, RefusedError, UsageError
from console.operations import server
from tests.real_engine.conftest import READY_S, Bay, alive, until
from tests.real_engine.model import write_model

pytestmark = [pytest.mark.real_engine, pytest.mark.sshd, pytest.mark.timeout(900)]


async def test_a_wrong_flag_is_the_one_line_that_matters(bay: Bay) -> None:
    profile = bay.profile(args="chunked-prefil-sizes = 128")
    desk = await bay.desk(profile)
    with pytest.raises(UsageError, match="chunked-prefil-sizes is not a flag of this install") as refused:
        await server.start(desk)
    assert refused.value.hint.startswith("did you mean chunked-prefill-size?") and not bay.runs()
    with pytest.raises(ConsoleError, match="failed: unknown argument: --chunked-prefil-sizes 128") as caught:
        await server.wait_ready(desk, await server.start(desk, force=True), deadline_s=READY_S)
    assert "did you mean --chunked-prefill-size?" in caught.value.title
    [run] = bay.runs()
    await until((run / "exit").exists)
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, 2)
    assert found.failure is not None
    [line] = found.failure.lines
    assert "error: unrecognized arguments: --chunked-prefil-sizes 128" in line
    assert (run / "server.log").stat().st_size > 10_000


async def test_a_broken_model_is_told_by_its_first_cause(bay: Bay) -> None:
    model = write_model(bay.folder / "broken")
    (model / "config.json").write_text('{"architectures": ["Qwen2ForCausalLM"')
    desk = await bay.desk(bay.profile(model=model))
    with pytest.raises(ConsoleError, match=r"failed: .*config\.json' is not a valid JSON file"):
        await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)
    await until((bay.runs()[0] / "exit").exists)
    found = await server.status(desk)
    assert found is not None and (found.phase, found.exit_status) == (RunPhase.FAILED, 1)
    assert not list(alive(found))


async def test_a_cache_that_the_host_has_no_memory_for_is_told_with_what_to_lower(bay: Bay) -> None:
    """The processes are limited, not the host: 4 GB of caches where each may map 14."""
    profile = bay.profile(args="")
    words = json.dumps(["prlimit", "--as=14000000000", str(bay.python), "-m", "sglang.launch_server"])
    text = profile.read_text().replace("max-total-tokens = 32768", "max-total-tokens = 4000000000")
    profile.write_text(text.replace('kind = "sglang"', f'kind = "sglang"\ncommand = {words}'))
    desk = await bay.desk(profile)
    with pytest.raises(ConsoleError, match=r"failed: the host's memory does not suffice: \d+ bytes asked"):
        await server.wait_ready(desk, await server.start(desk), deadline_s=READY_S)
    await until((bay.runs()[0] / "exit").exists)
    found = await server.status(desk)
    assert found is not None and found.phase is RunPhase.FAILED and found.failure is not None
    assert found.exit_status in (1, 137)  # its end is a SIGKILL of its own tree
    assert "lower max-total-tokens" in found.failure.hint
    assert "DefaultCPUAllocator: can't allocate memory" in " ".join(found.failure.lines)
    [open_rung] = [rung for rung in found.ladder if rung.started_s is not None and rung.ended_s is None]
    assert open_rung.name == "kv cache"
    await until(lambda: not list(alive(found)))


class Stranger(http.server.BaseHTTPRequestHandler):
    """Answers whatever is asked, so that the engine's own warm-up succeeds against it."""

    def do_GET(self) -> None:
        body = json.dumps({"is_generation": True, "model_path": "another", "text": "", "meta_info": {}}).encode()
        with contextlib.suppress(ConnectionError):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def stranger_on(port: int) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Stranger) as stranger:
        thread = threading.Thread(target=stranger.serve_forever)
        thread.start()
        try:
            yield
        finally:
            stranger.shutdown()
            thread.join()


async def test_a_port_that_was_taken_meanwhile_is_a_failure_whatever_is_printed(bay: Bay) -> None:
    profile = bay.profile()
    desk = await bay.desk(profile)
    run = await server.start(desk)
    with stranger_on(bay.port):
        with pytest.raises(ConsoleError, match=f"failed: port {bay.port} is taken"):
            await server.wait_ready(desk, run, deadline_s=READY_S)
        await until(lambda: "fired up and ready to roll" in Path(run.log).read_text() or not list(alive(run)))
        found = await server.status(await bay.desk(profile))
        assert found is not None and found.phase is RunPhase.FAILED and found.failure is not None
        assert found.failure.cause.startswith(f"port {bay.port} is taken")
        assert "Errno 98" in found.failure.lines[-1]
        if list(alive(run)):
            await server.stop(desk, found, grace_s=5)
        assert not list(alive(run))
        with pytest.raises(RefusedError, match=f"port {bay.port} is taken by pid {os.getpid()}"):
            await server.start(desk)


async def test_orphans_of_a_launcher_killed_in_the_middle_of_a_start_are_named_and_ended(bay: Bay) -> None:
    """Its workers are importing then, and have not yet asked to die with their parent."""
    desk = await bay.desk(bay.profile())
    run = await server.start(desk)
    await until(lambda: len(list(alive(run))) >= 4)
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    for pid in set(alive(run)) - {run.process.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # they would end by themselves at a moment of their own
    await until((bay.runs()[0] / "exit").exists)
    orphans = list(alive(run))
    assert len(orphans) >= 2
    found = await server.status(desk)
    assert found is not None and found.phase is RunPhase.FAILED and found.failure is not None
    assert found.failure.cause.startswith("killed by signal 9")  # by whom, where the kernel's log may be read
    assert f"{len(orphans)} of its processes live on" in found.failure.hint
    assert all(str(pid) in found.failure.hint for pid in orphans)
    with pytest.raises(RefusedError, match=f"run {run.id} is not gone"):
        await server.start(desk)
    stopped = await server.stop(desk, found, grace_s=5)
    assert stopped.phase is RunPhase.EXITED and not list(alive(run))
