"""What every engine must hold, tested alike; what differs is in the recordings."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.domain.profile import ArgValue, EngineSection, LaunchSection, Profile
from console.domain.run import LogKind
from console.engines.protocol import Engine
from console.engines.registry import ENGINES, engine
from console.errors import UsageError
from console.remote.outpost.servers import what_runs
from tests.engines.recorded import content, read, watched


@dataclass(frozen=True)
class Recording:
    """What real servers of one kind printed and replied."""

    life: tuple[str, ...]
    """Logs of servers that became ready."""
    deaths: tuple[str, ...]
    """Logs of servers that did not, or died."""
    infos: tuple[str, ...]
    """Replies of the path that tells what is in force, of each version there is."""
    loads: dict[str, int] = field(default_factory=dict)
    """Replies that tell who is in flight, and how many."""
    titles: tuple[str, ...] = ()
    """Titles of processes as `ps` showed them."""
    strangers: tuple[str, ...] = ("python3 train.py", "bash", "/usr/sbin/sshd -D")


RECORDED = {
    "sglang": Recording(
        ("graph.log", "cpu-drained.log", "ctrl-c.log"),
        ("port-in-use.log", "unknown-flag.log", "mem-too-high.log", "cpu-port.log"),
        ("server_info.json", "cpu-server_info.json"),
        {"get_load.json": 0, "cpu-loads.json": 0},
        ("sglang::scheduler_TP0", "sglang::detokenizer", "/v/bin/python -m sglang.launch_server --model-path /m"),
    ),
    "vllm": Recording(
        ("vllm-life.log",),
        ("vllm-port.log", "vllm-flag.log", "vllm-mem.log", "vllm-core.log"),
        ("vllm-server_info.json", "vllm-server_info-text.json"),
        {"vllm-metrics.txt": 0},
        ("VLLM::EngineCore", "VLLM::Worker_TP0", "/v/bin/python -m vllm.entrypoints.cli.main serve /m", "/v/bin/vllm serve m"),
    ),
    "llamacpp": Recording(
        ("llamacpp-life.log",),
        ("llamacpp-port.log", "llamacpp-no-model.log", "llamacpp-memory.log", "llamacpp-cut.log"),
        ("llamacpp-props.json",),
        {"llamacpp-metrics.txt": 2, "llamacpp-slots.json": 0},
        ("/opt/llama/llama-server -m m.gguf",),
    ),
    "openai": Recording(
        ("llamacpp-life.log",),
        ("llamacpp-port.log",),
        ("llamacpp-models.json",),
        {"llamacpp-metrics.txt": 2},
    ),
}  # fmt: skip


@pytest.fixture(params=sorted(ENGINES))
def adapter(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


def test_every_engine_has_recordings() -> None:
    assert set(RECORDED) == set(ENGINES)
    assert all(kind == each.kind for kind, each in ENGINES.items())
    with pytest.raises(UsageError, match="'tgi' is not known") as caught:
        engine("tgi")
    assert all(kind in caught.value.hint for kind in ENGINES)


def test_paths_are_paths(adapter: Engine) -> None:
    paths = [
        adapter.ready_path,
        adapter.identity_path,
        adapter.info_path,
        *adapter.loads_paths,
        *adapter.older.values(),
    ]
    assert all(path.startswith("/") for path in paths)
    assert set(adapter.older) <= set(paths)
    for path in (adapter.abort[0], adapter.flush_path):
        assert path == "" or path.startswith("/")
    json.dumps(dict(adapter.abort[1]))
    assert 0 < adapter.default_port < 65536


def test_readiness_never_generates(adapter: Engine) -> None:
    """SGLang's `/health` makes a token each time it is asked."""
    assert adapter.ready_path not in ("/generate", "/v1/completions", "/health_generate")
    assert adapter.kind != "sglang" or adapter.ready_path != "/health"


def test_a_command_ends_with_the_port_and_keeps_every_value(adapter: Engine) -> None:
    args: dict[str, ArgValue] = {
        "text": "a b'c\"",
        "number": 7,
        "share": 0.5,
        "on": True,
        "off": False,
        "many": (1, 2),
        "json": {"a": ["é"]},
    }
    profile = Profile("p", engine=EngineSection(adapter.kind, "/v/python3"), launch=LaunchSection(port=4321, args=args))
    words = adapter.command(profile)
    assert words[0] == "/v/python3" and words[-2:] == ("--port", "4321")
    assert words[words.index("--text") + 1] == args["text"]
    assert words[words.index("--many") + 1 : words.index("--many") + 3] == ("1", "2")
    assert json.loads(words[words.index("--json") + 1]) == {"a": ["é"]}
    assert "--on" in words and "--off" not in words and "False" not in words
    own = EngineSection(adapter.kind, "/v/python3", ("numactl", "-N0", "serve"))
    assert adapter.command(Profile("p", engine=own))[:3] == ("numactl", "-N0", "serve")


def test_secrets_are_taken_out(adapter: Engine) -> None:
    args: dict[str, ArgValue] = {"api-key": "hunter2", "seed": 1}
    words = adapter.command(Profile("p", engine=EngineSection(adapter.kind), launch=LaunchSection(args=args)))
    shown = adapter.redacted(words)
    assert "hunter2" in words and "hunter2" not in " ".join(shown) and len(shown) == len(words)
    assert "hunter2" not in " ".join(adapter.redacted(("x", "--api-key=hunter2")))


def test_recorded_lives_come_up(adapter: Engine) -> None:
    for name in RECORDED[adapter.kind].life:
        watch = watched(read(content(name), kind=adapter.kind), kind=adapter.kind)
        rungs = watch.ladder()
        assert (rungs[0].name, rungs[-1].name) == ("start", "ready"), name
        assert watch.ready_clock or watch.ready_s is not None
        assert watch.failure(ended=True) is None
        began = [rung.started_s for rung in rungs if rung.started_s is not None]
        assert len(began) == len(rungs) and all(rung.ended_s is not None for rung in rungs)


def test_recorded_deaths_have_a_cause_lines_and_a_place(adapter: Engine) -> None:
    for name in RECORDED[adapter.kind].deaths:
        watch = watched(read(content(name), kind=adapter.kind), kind=adapter.kind)
        failure, record = watch.failure(ended=True), watch.failure_record(ended=True)
        assert failure is not None and failure.cause and failure.lines, name
        assert record is not None and record.kind is LogKind.FAILURE
        assert not watch.ready


def _cut(data: bytes, size: Callable[[], int]) -> list[bytes]:
    chunks, at = [], 0
    while at < len(data):
        step = size()
        chunks.append(data[at : at + step])
        at += step
    return chunks


def test_any_chunks_give_the_same_records(adapter: Engine) -> None:
    """Also between the two bytes of a letter, and between a carriage return and what it draws over."""
    source = random.Random(7)
    for name in (RECORDED[adapter.kind].life[-1], *RECORDED[adapter.kind].deaths):
        data = content(name)[:60_000]
        whole = read(data, kind=adapter.kind)
        for size in (lambda: 1, lambda: source.randint(1, 40), lambda: source.randint(1, 4000)):
            assert read(_cut(data, size), kind=adapter.kind) == whole


def test_values_are_json(adapter: Engine) -> None:
    for name in (*RECORDED[adapter.kind].life, *RECORDED[adapter.kind].deaths):
        for record in read(content(name)[:200_000], kind=adapter.kind):
            json.dumps(dict(record.values), allow_nan=False)


def test_what_is_in_force_of_every_version(adapter: Engine) -> None:
    for name in RECORDED[adapter.kind].infos:
        resolved = adapter.resolved(json.loads(content(name)))
        assert resolved and all(isinstance(key, str) for key in resolved), name
        key = next(key for key, value in resolved.items() if isinstance(value, int) and not isinstance(value, bool))
        flag, value = key.replace("_", "-"), resolved[key]
        assert isinstance(value, int)
        same = Profile("p", engine=EngineSection(adapter.kind), launch=LaunchSection(args={flag: value}))
        other = Profile("p", engine=EngineSection(adapter.kind), launch=LaunchSection(args={flag: value + 1}))
        assert not adapter.differences(same, resolved)
        assert [found.resolved for found in adapter.differences(other, resolved)] == [value]


def test_nothing_is_in_force_of_a_reply_that_is_no_such_reply(adapter: Engine) -> None:
    assert not adapter.resolved_from_log("GET / HTTP/1.1")
    for reply in ({}, {"detail": "Not Found"}, {"error": {"code": 404}}):
        adapter.resolved(reply)


def test_requests_in_flight(adapter: Engine) -> None:
    for name, count in RECORDED[adapter.kind].loads.items():
        text = content(name).decode()
        assert adapter.in_flight(json.loads(text) if name.endswith(".json") else text) == count
    for nonsense in (None, "", "Internal Server Error", {}, [], [1], {"detail": "Not Found"}, 7):
        assert adapter.in_flight(nonsense) is None


def test_processes_are_known_by_their_titles(adapter: Engine) -> None:
    patterns = [re.compile(title) for title in (*adapter.titles, *adapter.workers)]

    def known(title: str) -> bool:
        return any(pattern.match(one) for one in what_runs(title.split(" ")) for pattern in patterns)

    recording = RECORDED[adapter.kind]
    assert all(known(title) for title in recording.titles)
    assert not any(known(title) for title in recording.strangers)


@given(st.text(max_size=400), st.booleans())
@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_no_message_is_too_strange(kind: str, text: str, stamped: bool) -> None:
    adapter = ENGINES[kind]
    sense = adapter.grammar().sense(text, {}, "", stamped)
    json.dumps(dict(sense.values), allow_nan=False)
    adapter.resolved_from_log(text)


@given(
    st.dictionaries(
        st.text("abcdefghij -#()/", min_size=1, max_size=12).map(str.strip).filter(bool),
        st.one_of(st.integers(0, 10**9), st.floats(0, 1e6).map(lambda value: round(value, 2))),
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_unknown_fields_in_any_order_are_kept_by_vllm(extra: dict[str, float], order: random.Random) -> None:
    known = ["Avg generation throughput: 45.6 tokens/s", "Running: 4 reqs", "GPU KV cache usage: 1.2%"]
    parts = known + [f"{name} x: {value}" for name, value in extra.items()]
    order.shuffle(parts)
    message = "Engine 000: Avg prompt throughput: 12.3 tokens/s, " + ", ".join(parts)
    sense = ENGINES["vllm"].grammar().sense(message, {}, "", True)
    names = ("input_throughput_tok_s", "gen_throughput_tok_s", "running_req", "gpu_kv_cache_usage_pct")
    assert sense.kind is LogKind.DECODE
    assert [sense.values[name] for name in names] == [12.3, 45.6, 4, 1.2]
    assert len(sense.values) >= 6 + len({re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in extra})
