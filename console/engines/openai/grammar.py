"""What the log lines of llama.cpp's server mean; of others, access lines, bars and failures."""

from __future__ import annotations

import re
from collections.abc import Mapping

from console.domain.run import LogKind
from console.engines import lines
from console.engines.openai import failures
from console.engines.protocol import Sense

_STAMP = re.compile(r"(?P<minutes>\d+)\.(?P<seconds>\d\d)\.(?P<ms>\d{3})\.(?P<us>\d{3}) (?P<level>[IWED]) ")
"""llama.cpp's own time since its start, and the level."""

_SPEED = re.compile(
    r"(?:slot\s+\S+:\s*)?id\s+(?P<slot>\d+)\s*\| task (?P<task>\d+) \|\s*(?P<what>prompt eval|eval) time =\s*"
    r"(?P<ms>[\d.]+) ms /\s*(?P<tokens>\d+) tokens .*?(?P<speed>[\d.]+|inf|nan) tokens per second"
)

PHASES: lines.Phases = lines.phases(
    ("arguments", "point", r"(?:srv\s+init: |main: )?(?:initializing \.\.\.$|build(?:_info)?: )"),
    ("weights", "begin", r"(?:srv\s+\w+: |main: )?loading model"),
    ("weights", "point", r"load_tensors: |llama_model_loader: "),
    (
        "kv cache",
        "begin",
        r"llama_context: |llama_kv_cache\w*: |(?:srv\s+load_model: )?initializing,? (?:slots, )?n_slots",
    ),
    ("warm-up", "begin", r"(?:common_init_from_params: )?warming up the model"),
    ("http", "begin", r"(?:srv\s+\w+: |main: )?model loaded"),
    ("ready", "point", r"(?:srv\s+\w+: |main: )?(?:server is )?listening on (?:http|unix)"),
    ("stopping", "point", r"(?:srv\s+\S+: )?(?:\S+: )?(?:cleaning up before exit|Received (?:second )?interrupt)"),
    # uvicorn, of servers that stand on it
    ("http", "begin", r"INFO:\s+(?:Started server process|Waiting for application startup)"),
    ("ready", "point", r"INFO:\s+Application startup complete"),
    ("stopping", "point", r"INFO:\s+(?:Shutting down|Application shutdown complete|Finished server process)"),
)
_SEVERITIES = {"W": "warning", "E": "error"}


def log_seconds(raw: str) -> float | None:
    """Return the seconds that llama.cpp counts in front of a line; `None` where it does not."""
    stamp = _STAMP.match(raw)
    if stamp is None:
        return None
    return int(stamp["minutes"]) * 60 + int(stamp["seconds"]) + int(stamp["ms"]) / 1e3 + int(stamp["us"]) / 1e6


class OpenAiGrammar:
    """Reader of one log."""

    own = frozenset({"json"})
    flood = lines.ACCESS_LINE
    flood_words = r"HTTP/\d"

    def __init__(self) -> None:
        self._usage = ""

    def sense(self, message: str, ranks: Mapping[str, int], clock: str, stamped: bool) -> Sense:
        """Return what a message means."""
        severity, plain = "", message
        if stamp := _STAMP.match(message):
            severity, plain = _SEVERITIES.get(stamp["level"], ""), message[stamp.end() :]
        if (asked := lines.access(plain)) is not None:
            return Sense(LogKind.ACCESS, asked)
        if "tokens per second" in plain and (speed := _SPEED.search(plain[:600])):
            return _speed(speed)
        if plain.startswith("usage: "):
            self._usage = message
            return Sense(values={"folded": "usage"})
        if not severity:
            if not stamp and (bar := lines.progress(plain)) is not None:
                return Sense(LogKind.PROGRESS, bar)
            for name, step, pattern in PHASES:
                if pattern.match(plain):
                    return Sense(LogKind.PHASE, {"phase": name, "step": step, **_figures(plain)})
        if found := failures.signature(plain, severity == "error", self._usage):
            values = {"signature": found.name, **found.values}
            return Sense(LogKind.FAILURE, values, "error", found.cause, found.lines)
        return Sense(severity=severity)


def _speed(found: re.Match[str]) -> Sense:
    """Return the speed of one finished request: it is no speed of the server, and so no decode line."""
    name = "input_throughput_tok_s" if found["what"].startswith("prompt") else "request_throughput_tok_s"
    values = {"slot": int(found["slot"]), "task": int(found["task"]), "tokens": int(found["tokens"])}
    return Sense(values={**values, name: lines.number(found["speed"])})


_FIGURES = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("slots", r"n_slots = (\d+)"),
        ("ctx_per_slot", r"n_ctx_slot = (\d+)"),
        ("threads", r"n_threads = (\d+)"),
    )
)


def _figures(message: str) -> dict[str, object]:
    return {name: int(match[1]) for name, pattern in _FIGURES if (match := pattern.search(message[:300]))}
