"""What SGLang's log lines mean: key/value sets in any order, unknown keys kept."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping

from console.domain.run import LogKind
from console.engines import lines
from console.engines.causes import COMPILER
from console.engines.clocks import seconds_between
from console.engines.protocol import Sense
from console.engines.sglang import failures

_BATCHES = ("Decode batch", "Prefill batch")
_BATCH = re.compile(r"\w+ batch(?: \[(\d+)\])?[.,]?\s*")
_IDLE = re.compile(r"#running-req: 0(?!\d)")
_ATTRIBUTE = re.compile(r"(\w+)=([^\s,)]+)(?: ?(GB))?")
_NUMBER = re.compile(
    r"(?P<key>#?[A-Za-z][\w# ]*?)\s*(?:=|: )(?P<value>-?\d+(?:\.\d+)?)(?![\w.])(?: ?(?P<unit>GB|s\b))?"
)
_NCCL_COMM = re.compile(r"rank (?P<rank>\d+) nranks (?P<nranks>\d+) cudaDev (?P<cudaDev>\d+)")
_BATCH_STATE = re.compile(r"\.(batch_size|available_size|evictable_size)\(\)=(\d+)")
_HINT = re.compile(r"Config file not found at (?P<path>.+?\.json)")

NAMES = {
    "#running-req": "running_req",
    "#queue-req": "queue_req",
    "#token": "tokens",
    "#full token": "tokens",
    "#swa token": "swa_tokens",
    "#new-seq": "new_seq",
    "#new-token": "new_token",
    "#cached-token": "cached_token",
    "#pending-token": "pending_token",
    "cache hit rate": "cache_hit_rate",
    "pre-allocated usage": "prealloc_usage",
    "gen throughput (token/s)": "gen_throughput_tok_s",
    "input throughput (token/s)": "input_throughput_tok_s",
    "est. decode TFLOPS/s (per GPU)": "est_decode_tflops_per_gpu",
    "est. prefill TFLOPS/s (per GPU)": "est_prefill_tflops_per_gpu",
    "est. read BW (GB/s per GPU)": "est_read_gb_s_per_gpu",
    "est. write BW (GB/s per GPU)": "est_write_gb_s_per_gpu",
}
"""Keys of batch lines with units or counts in them; every other key is kept under its own words."""

USAGES = {"token_usage": "kv", "full_token_usage": "kv", "swa_token_usage": "swa", "mamba_usage": "mamba"}

PHASES: lines.Phases = lines.phases(
    ("arguments", "point", r"server_args="),
    ("distributed", "begin", r"Init (?:torch distributed|parallel) begin"),
    ("distributed", "point", r"sglang is using nccl=="),
    ("distributed", "end", r"Init (?:torch distributed|parallel) ends"),
    ("weights", "begin", r"Load weight begin"),
    ("weights", "end", r"Load weight end"),
    ("kv cache", "point", r"Using KV cache dtype|(?=.*KV).*#tokens: \d+"),
    ("kv cache", "end", r"Memory pool end"),
    ("autotune", "begin", r"Running FlashInfer autotune"),
    ("autotune", "end", r"FlashInfer autotune completed"),
    (
        "prefill graphs",
        "begin",
        r"Capture piecewise CUDA graph begin|Capture \w+ prefill (?:cuda|CUDA) graph begin",
    ),
    ("prefill graphs", "end", r"Capture piecewise CUDA graph end|Capture \w+ prefill (?:cuda|CUDA) graph end"),
    ("cuda graphs", "begin", r"Capture (?:\w+ )*(?:cuda|CUDA) graph begin"),
    ("cuda graphs", "end", r"Capture (?:\w+ )*(?:cuda|CUDA) graph end"),
    ("http", "begin", r"max_total_num_tokens=\d+"),
    ("http", "point", r"INFO:\s+(?:Started server process|Waiting for application startup)"),
    ("http", "point", r"INFO:\s+Application startup complete"),
    ("http", "end", r"INFO:\s+Uvicorn running on"),
    ("ready", "point", r"The server is fired up and ready to roll!"),
    ("stopping", "point", r"SIGTERM received|Gracefully exiting|INFO:\s+Shutting down|kill_process_tree called"),
    ("stopping", "point", r"INFO:\s+(?:Waiting for application shutdown|Application shutdown complete)"),
)
_PHASE_FIRST = frozenset("sILULKMRFCmTSGkPD")

_WARNINGS = (
    "KV cache pool is full. Retract requests",
    "Decode out of memory happened",
    "Health check failed",
    "The memory capacity is unbalanced",
    "Custom allreduce is disabled",
    "Fail to set RLIMIT_NOFILE",
    "SIGTERM received",
)

GAP_S = 10.0
"""A pause this long before a decode line, and several times its neighbours', was idle time."""


class SglangGrammar:
    """Reader of one log; remembers per rank whether the server was idle before a decode line."""

    own = frozenset({"json"})
    flood = rf"\[[^\]\n]*\] (?:Decode|Prefill) batch|(?:\[[^\]\n]*\] )?{lines.ACCESS_LINE}"
    flood_words = r"(?:Decode|Prefill) batch|HTTP/\d"

    def __init__(self) -> None:
        self._idle: dict[tuple[tuple[str, int], ...], bool] = {}
        self._last: dict[tuple[tuple[str, int], ...], tuple[str, float]] = {}
        self._usage = ""

    def sense(self, message: str, ranks: Mapping[str, int], clock: str, stamped: bool) -> Sense:
        """Return what a message means."""
        if message.startswith(_BATCHES):
            return self._batch(message, tuple(ranks.items()), clock)
        if (asked := lines.access(message)) is not None:
            return Sense(LogKind.ACCESS, asked)
        if not stamped and (bar := lines.progress(message)) is not None:
            return Sense(LogKind.PROGRESS, _with_attributes(bar))
        if message.startswith(("Receive: ", "Finish: ")):
            return Sense()  # echoes what users sent
        if message.startswith("usage: "):
            self._usage = message
            return Sense(values={"folded": "usage"})
        return self._other(message, stamped)

    def _other(self, message: str, stamped: bool) -> Sense:
        if stamped and message[:1] in _PHASE_FIRST:
            for name, step, pattern in PHASES:
                if pattern.match(message):
                    severity = "warning" if message.startswith(_WARNINGS) else ""
                    return Sense(LogKind.PHASE, {"phase": name, "step": step, **_numbers(message)}, severity)
        if found := failures.signature(message, stamped, self._usage):
            values = {"signature": found.name, **found.values}
            return Sense(LogKind.FAILURE, values, "error", found.cause, found.lines)
        if hint := _HINT.search(message[:4096]):
            return Sense(values={"hint": message.partition(".")[0], "path": hint["path"]}, severity="warning")
        if message.startswith(_WARNINGS):
            return Sense(values=_pairs(message.partition(". ")[2].rpartition(". ")[2]), severity="warning")
        if not stamped and (complaint := COMPILER.match(message[:4096])):
            what = complaint["what"][:300]
            return Sense(values={"compiler": what}, severity="error", lines=(what,))
        if message.startswith("self.cur_batch.batch_size()="):
            return Sense(values={key: int(value) for key, value in _BATCH_STATE.findall(message)})
        if comm := _NCCL_COMM.search(message[:400]):
            return Sense(values={key: int(value) for key, value in comm.groupdict().items()})
        if message.startswith("ERROR:"):
            return Sense(severity="error")
        return Sense()

    def _batch(self, message: str, key: tuple[tuple[str, int], ...], clock: str) -> Sense:
        if message[0] == "P":
            if _IDLE.search(message):
                self._idle[key] = True
            return Sense(LogKind.PREFILL, BatchValues(message))
        first = bool(self._idle) and self._idle.pop(key, False)
        before, usual_s = self._last.get(key, ("", 0.0))
        if clock != before:
            gap_s = seconds_between(before, clock) or 0.0
            long = gap_s > max(GAP_S, 5 * usual_s)
            self._last[key] = (clock, usual_s if long else gap_s)
            first = first or long
        return Sense(LogKind.DECODE, BatchValues(message, first))


class BatchValues(Mapping[str, object]):
    """The key/value pairs of a batch line, read when they are first asked for: most lines of a flood are only kept."""

    __slots__ = ("_first", "_text", "_values")

    def __init__(self, message: str, first_after_idle: bool = False) -> None:
        self._text = message
        self._first = first_after_idle
        self._values: dict[str, object] | None = None

    def __getitem__(self, name: str) -> object:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())

    def _read(self) -> dict[str, object]:
        if self._values is None:
            self._values = _batch_values(self._text, self._first)
            self._text = ""
        return self._values


def _batch_values(message: str, first_after_idle: bool) -> dict[str, object]:
    head = _BATCH.match(message)
    values = _pairs(message[head.end() :] if head else message)
    if head and head[1] is not None:
        values["iteration"] = int(head[1])
    usages = {pool: value for name, pool in USAGES.items() if isinstance(value := values.get(name), float)}
    if usages:
        values["kv_usage"] = max(usages.values())
        values["binding_pool"] = max(usages, key=lambda pool: usages[pool])
    if first_after_idle:
        values["first_after_idle"] = True
    return values


def _pairs(text: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for part in text.strip().rstrip(",").split(", "):
        key, colon, value = part.strip().rpartition(": ")
        if colon:
            name, worth = named(key, value.strip().rstrip(","))
            values[name] = worth
            if name.endswith("_graph") and isinstance(worth, bool):
                values["graph_kind"] = name.removesuffix("_graph")
    return values


def named(key: str, value: str) -> tuple[str, object]:
    """Return the name, with its unit, and the value of one pair of a batch line."""
    name = _name(key)
    if value.endswith("%"):
        return f"{name}_pct", _number(value[:-1])
    if value in ("True", "False"):
        return name, value == "True"
    return name, _number(value)


@functools.lru_cache(maxsize=1024)
def _name(key: str) -> str:
    return NAMES.get(key) or lines.word(key)


def _number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else None


def _with_attributes(bar: dict[str, object]) -> dict[str, object]:
    """Return where a bar stands, with the `name=value` pairs that SGLang puts into its label."""
    label = str(bar["label"])
    told = {f"{name}_gb" if unit else name: _number(text) for name, text, unit in _ATTRIBUTE.findall(label)}
    return {**bar, "label": re.sub(r"\s*\([^)]*\)$", "", label), **told}


def _numbers(message: str) -> dict[str, object]:
    """Return the `name=value` and `name: value` pairs of a start-up line, units in their names."""
    if len(message) > 2000:
        return {}
    values: dict[str, object] = {}
    for match in _NUMBER.finditer(message):
        name = lines.word(match["key"].rpartition(". ")[2])
        name = "elapsed" if name == "time_elapsed" else name
        values[f"{name}_{match['unit'].lower()}" if match["unit"] else name] = _number(match["value"])
    return values
