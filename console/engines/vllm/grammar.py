"""What vLLM's log lines mean: its statistics of every version read, its start-up, its bars."""

from __future__ import annotations

import re
from collections.abc import Mapping

from console.domain.run import LogKind
from console.engines import lines
from console.engines.causes import COMPILER
from console.engines.protocol import Sense
from console.engines.vllm import failures

_WHERE = re.compile(r"\[[\w.\-/]+:\d+\] ?")
_STATS = re.compile(
    r"(?:Engine (?P<engine>\d+): |(?P<engines>\d+) Engines Aggregated: )?"
    r"(?=Avg (?:prompt|prefill) throughput: |Avg (?:generation|decode) throughput: )"
)
_OLD_HITS = re.compile(r"Prefix cache hit rate: GPU: (?P<gpu>[\d.]+|nan)%, CPU: (?P<cpu>[\d.]+|nan)%")
_SPEC = "SpecDecoding metrics: "
_POSITIONS = re.compile(r"Per-position acceptance rate: (?P<rates>[\d.nan]+(?:, [\d.nan]+)*)(?:, |$)")
_PORT = re.compile(r"'port': (\d+)")
_BINDING = re.compile(r"in (?:create_server_socket|setup_server)\b")
"""The HTTP port is bound first of all; the exception does not name it."""

_HINT = re.compile(r"Config file not found at (?:\[')?(?P<path>.+?\.json)")
_PERCENT_OF_CACHE = re.compile(r"(?P<device>\w+)_kv_cache_usage_pct")

NAMES = {
    "avg_prompt_throughput": "input_throughput",
    "avg_prefill_throughput": "input_throughput",
    "avg_generation_throughput": "gen_throughput",
    "avg_decode_throughput": "gen_throughput",
    "waiting": "queue",
    "pending": "queue",
    "mean_acceptance_length": "accept_len",
    "avg_draft_acceptance_rate": "draft_acceptance_rate",
}
"""Keys that have one name over the versions, and over the engines; every other is kept under its own words."""

PHASES: lines.Phases = lines.phases(
    ("arguments", "point", r"non-default args: "),
    ("engine", "begin", r"Initializing a (?:V\d )?LLM engine"),
    ("distributed", "begin", r"world_size=\d+|(?:Initializing )?DP ?group|vLLM is using nccl=="),
    ("distributed", "end", r"rank \d+ in world size \d+ is assigned"),
    ("weights", "begin", r"Starting to load model "),
    ("weights", "point", r"Loading weights took|Loading (?:drafter|draft) model|Using \w+ (?:attention )?backend"),
    ("weights", "end", r"Model loading took "),
    ("compile", "begin", r"Dynamo bytecode transform time|Start compiling|Warming up model for the compilation"),
    ("compile", "point", r"Cache the graph|Compiling a graph|Directly load the compiled graph"),
    ("compile", "end", r"torch\.compile takes|torch\.compile took|Warming up done"),
    (
        "kv cache",
        "begin",
        r"Available KV cache memory:|Initial free memory|Memory profiling takes|Explicitly set \(",
    ),
    ("kv cache", "end", r"(?:[\w+ ]+ )?KV cache size: |# (?:GPU|CUDA|\w+) blocks: "),
    ("kv cache", "point", r"Maximum concurrency for "),
    ("autotune", "begin", r"Running FlashInfer autotune"),
    ("autotune", "end", r"FlashInfer autotun\w+ (?:completed|finished|done)"),
    ("cuda graphs", "begin", r"Capturing (?:cudagraphs|CUDA graphs|the model) "),
    ("cuda graphs", "end", r"Graph capturing finished in "),
    ("warm-up", "end", r"init engine \(profile, create kv cache, warmup model\) took "),
    ("http", "begin", r"Starting vLLM (?:API server|server)"),
    ("http", "point", r"Started server process|Waiting for application startup"),
    ("ready", "point", r"Application startup complete"),
    (
        "stopping",
        "point",
        r"\[shutdown\] (?!.*exited unexpectedly)|Shutting down|Waiting for application shutdown|Application shutdown complete|"
        r"Received (?:shutdown signal|SIG\w+)|Finished server process",
    ),
)
_UVICORN = re.compile(r"INFO:\s+")
_QUOTED = frozenset(("logger.py", "request_logger.py"))
"""Where vLLM logs what users sent."""

_WARNED = (
    "WARNING:",
    "No available shared memory broadcast block found",
)


class VllmGrammar:
    """Reader of one log."""

    own = frozenset({"levelled", "logging", "json"})
    flood = (
        r"(?:\(\w+ pid=\d+\) )?(?:INFO \d\d-\d\d \d\d:\d\d:\d\d \[[\w./-]+:\d+\] (?:Engine \d+: )?Avg |"
        rf"{lines.ACCESS_LINE})"
    )
    flood_words = r"throughput: |HTTP/\d"

    def __init__(self) -> None:
        self._usage = ""
        self._port = "8000"

    def sense(self, message: str, ranks: Mapping[str, int], clock: str, stamped: bool) -> Sense:
        """Return what a message means."""
        where = ""
        if stamped and (place := _WHERE.match(message)):
            where, message = place[0].partition(":")[0][1:], message[place.end() :]
        if where in _QUOTED:
            return Sense()
        if stamped and (stats := _stats(message)) is not None:
            return Sense(LogKind.DECODE, stats)
        if stamped and message.startswith(_SPEC):
            return Sense(values=_speculation(message.removeprefix(_SPEC)))
        if stamped and (hits := _OLD_HITS.match(message)):
            return Sense(values={"prefix_cache_hit_rate_pct": lines.number(hits["gpu"])})
        if (asked := lines.access(message)) is not None:
            return Sense(LogKind.ACCESS, asked)
        if not stamped and (bar := lines.progress(message)) is not None:
            return Sense(LogKind.PROGRESS, bar)
        if message.startswith("usage: "):
            self._usage = message
            return Sense(values={"folded": "usage"})
        return self._other(message, stamped)

    def _other(self, message: str, stamped: bool) -> Sense:
        uvicorn = None if stamped else _UVICORN.match(message)
        if stamped or uvicorn:
            plain = message[uvicorn.end() :] if uvicorn else message
            for name, step, pattern in PHASES:
                if pattern.match(plain):
                    if name == "arguments":
                        self._port = asked[1] if (asked := _PORT.search(plain)) else "8000"
                    return Sense(LogKind.PHASE, {"phase": name, "step": step, **_figures(plain)})
        if found := failures.signature(message, stamped, self._usage):
            values = {"signature": found.name, **found.values}
            cause = found.cause
            if found.name == "port" and _BINDING.search(message):
                values["port"], cause = int(self._port), f"port {self._port} is taken: {cause.partition(': ')[2]}"
            return Sense(LogKind.FAILURE, values, "error", cause, found.lines)
        if hint := _HINT.search(message[:4096]):
            return Sense(values={"hint": message.partition(".")[0], "path": hint["path"]}, severity="warning")
        if not stamped and (complaint := COMPILER.match(message[:4096])):
            what = complaint["what"][:300]
            return Sense(values={"compiler": what}, severity="error", lines=(what,))
        if message.startswith("ERROR:"):
            return Sense(severity="error")
        return Sense(severity="warning" if message.startswith(_WARNED) else "")


def _stats(message: str) -> dict[str, object] | None:
    """Return the pairs of the periodic line; a true average over its interval."""
    head = _STATS.match(message)
    if head is None:
        return None
    values: dict[str, object] = {}
    message, _, hits = message.partition("\n")
    for name in ("engine", "engines"):
        if head[name]:
            values[name] = int(head[name])
    last = ""
    for part in message[head.end() :].rstrip(". ").split(", "):
        key, colon, text = part.partition(": ")
        if not colon:
            if last:
                values[last] = f"{values[last]}, {part}"  # some values have commas of their own
            continue
        name = lines.word(key)
        last, worth = lines.measured(NAMES.get(name, name), text.strip())
        values[last] = worth
    usages = {found["device"]: value for name, value in values.items() if (found := _PERCENT_OF_CACHE.fullmatch(name))}
    usage = usages.get("gpu", next(iter(usages.values()), None))
    if isinstance(usage, (int, float)):
        values["kv_usage"] = usage / 100
    if rates := _OLD_HITS.match(hits):
        values["prefix_cache_hit_rate_pct"] = lines.number(rates["gpu"])
    return values


def _speculation(text: str) -> dict[str, object]:
    """Return the pairs of the line that tells of speculative decoding; its speeds are not the engine's."""
    values: dict[str, object] = {}
    if positions := _POSITIONS.search(text):
        values["per_position_acceptance_rate"] = [lines.number(rate) for rate in positions["rates"].split(", ")]
        text = text[: positions.start()] + text[positions.end() :]
    for part in text.rstrip(", ").split(", "):
        key, colon, value = part.partition(": ")
        if colon:
            name = lines.word(key)
            name, worth = lines.measured(NAMES.get(name, name), value.strip())
            values[name] = worth
    return values


_FIGURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("mem_usage_gib", r"took (?P<n>[\d.]+) GiB|, took (?P<m>[\d.]+) GiB"),
        ("elapsed_s", r"(?:and|in|took|took:|time:) (?P<n>[\d.]+) (?:s\b|secs?\b|seconds)"),
        ("avail_mem_gib", r"Available KV cache memory: (?P<n>[\d.]+) GiB"),
        ("tokens", r"KV cache size: (?P<n>[\d,]+) tokens"),
        ("max_concurrency", r"per request: (?P<n>[\d.]+)x"),
        ("version", r"engine \(v(?P<n>[^)]+)\)"),
        ("world_size", r"world_size=(?P<n>\d+)"),
    )
)


def _figures(message: str) -> dict[str, object]:
    """Return the figures of a start-up line, units in their names."""
    found: dict[str, object] = {}
    head = message[:600]
    for key, pattern in _FIGURES:
        if match := pattern.search(head):
            text = next(group for group in match.groups() if group is not None)
            found[key] = text if key == "version" else lines.number(text)
    return found
