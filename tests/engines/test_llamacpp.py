"""llama.cpp's server, and servers of which only the protocol is known."""

from __future__ import annotations

import json

import pytest

from console.domain.profile import ArgValue, EngineSection, LaunchSection, Profile
from console.domain.run import LogKind
from console.engines.registry import engine
from tests.engines.recorded import content, of_kind, read, watched

LLAMA, OPENAI = engine("llamacpp"), engine("openai")

DIED = {
    "llamacpp-port": ("port 31910 is taken", "couldn't bind HTTP server socket"),
    "llamacpp-no-model": ("the model is not there: /models/nope.gguf (No such file or directory)", "failed to open GGUF"),
    "llamacpp-cut": ("the model's file is damaged or incomplete", "failed to read key-value pairs"),
    "llamacpp-memory": ("the host's memory does not suffice: 3906.50 MB asked", "insufficient memory"),
}  # fmt: skip


def test_a_life_without_stamps() -> None:
    """It counts microseconds since its start, and tells the speed of requests, which is none of the server's."""
    records = read(content("llamacpp-life.log"), kind="llamacpp")
    watch = watched(records, kind="llamacpp")
    assert watch.ready and (watch.ready_clock, watch.first_clock) == ("", "")
    assert watch.ready_s == pytest.approx(0.124422)
    assert [rung.name for rung in watch.ladder()] == ["start", "arguments", "weights", "kv cache", "http", "ready"]
    assert [rung.note for rung in watch.ladder() if rung.note] == ["4 slots"]
    assert watch.failure(ended=True) is None
    assert not of_kind(records, LogKind.DECODE)
    speeds = [record.values for record in records if "tokens" in record.values]
    assert [values.get("request_throughput_tok_s") for values in speeds] == [None, 2659.57]
    assert [record.severity for record in records if "CORS" in record.raw] == ["warning"]


def test_a_server_whose_port_answers_while_it_loads_is_not_ready() -> None:
    """Other versions open the port first, and answer 503."""
    text = (
        "main: HTTP server is listening, hostname: 127.0.0.1, port: 8080, http threads: 15\n"
        "main: loading model\nsrv    load_model: loading model '/models/m.gguf'\n"
    )
    assert not watched(read(text.encode(), kind="llamacpp"), kind="llamacpp").ready
    text += "main: model loaded\nmain: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
    watch = watched(read(text.encode(), kind="llamacpp"), kind="llamacpp")
    assert watch.ready
    assert [rung.name for rung in watch.ladder()][-3:] == ["weights", "http", "ready"]


@pytest.mark.parametrize("name", DIED)
def test_the_first_cause_of_a_death(name: str) -> None:
    cause, proof = DIED[name]
    watch = watched(read(content(f"{name}.log"), kind="llamacpp"), kind="llamacpp")
    failure = watch.failure(ended=True)
    assert failure is not None and failure.cause.startswith(cause) and failure.hint
    assert any(proof in line for line in failure.lines)
    assert not watch.ready


def test_commands() -> None:
    plain = Profile("p", engine=EngineSection("llamacpp"), launch=LaunchSection(args={"model": "/m.gguf"}, port=8080))
    assert LLAMA.command(plain) == ("llama-server", "--model", "/m.gguf", "--port", "8080")
    wrapped = EngineSection("llamacpp", command=("/v/bin/python", "server.py"))
    args: dict[str, ArgValue] = {"lora": ("a", "b"), "api-key": "hunter2"}
    words = LLAMA.command(Profile("p", engine=wrapped, launch=LaunchSection(args=args, port=1)))
    assert words == (
        "/v/bin/python", "server.py", "--lora", "a", "--lora", "b", "--api-key", "hunter2", "--port", "1",
    )  # fmt: skip
    assert "hunter2" not in LLAMA.redacted(words)
    assert LLAMA.help_command(Profile("p", engine=wrapped)) == ("/v/bin/python", "server.py", "--help")


def test_what_is_in_force() -> None:
    resolved = LLAMA.resolved(json.loads(content("llamacpp-props.json")))
    told = {name: resolved[name] for name in ("model", "alias", "parallel", "ctx_per_slot", "sampling.top_k")}
    assert told == {
        "model": "/models/tiny.gguf", "alias": "tiny", "parallel": 4, "ctx_per_slot": 1024, "sampling.top_k": 40,
    }  # fmt: skip
    assert "chat_template" not in resolved and {"metrics", "slots", "props"} <= resolved.keys()
    asked = Profile("p", launch=LaunchSection(args={"parallel": 8, "model": "/models/tiny.gguf"}))
    [difference] = LLAMA.differences(asked, resolved)
    assert (difference.name, difference.requested, difference.resolved) == ("parallel", 8, 4)
    models = OPENAI.resolved(json.loads(content("llamacpp-models.json")))
    assert (models["alias"], models["model.n_ctx_train"]) == ("tiny", 2048)


def test_requests_in_flight() -> None:
    assert LLAMA.in_flight(content("llamacpp-metrics.txt").decode()) == 2
    slots = json.loads(content("llamacpp-slots.json"))
    assert LLAMA.in_flight(slots) == 0
    slots[1]["is_processing"] = True
    assert LLAMA.in_flight(slots) == 1
    assert LLAMA.in_flight({"error": {"code": 501}}) is None


def test_another_server_by_its_uvicorn() -> None:
    text = b"INFO:     Started server process [7]\nINFO:     Application startup complete.\n"
    assert watched(read(text, kind="openai"), kind="openai").ready
    trace = b"Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\nModuleNotFoundError: No module named 'x'\n"
    failure = watched(read(trace, kind="openai"), kind="openai").failure(ended=True)
    assert failure is not None and failure.cause.startswith("the Python package x is not installed")
