"""What stands in front of a message: container, collector, stamp, ranks, level."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from console.domain.text import strip_sequences
from console.engines.clocks import Zone

_STAMP = re.compile(
    r"\[(?:(?P<date>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d:\d\d)(?P<part>[.,]\d+)?(?P<tags>(?: [^\]\s]+)*)\]"
)
_RANK = re.compile(r"([A-Za-z_]+?)_?(\d+)$")
_PROCESS_RANK = re.compile(r"_([A-Z]{2,})(\d+)")
_RANKED = re.compile(r"\[rank(?P<rank>\d+)\]: ?(?!\[[IWEF]\d)")
_POD = re.compile(r"\[pod/(?P<pod>[\w.-]+)/(?P<container>[\w.-]+)\] ")
_COMPOSE = re.compile(r"(?P<container>[A-Za-z0-9][\w.-]*-\d+) +\| ?")
_LLAMA = r"srv |slot |main: |llama_|load_|ggml_|gguf_|build: |common_init"
"""What lines of llama.cpp begin with, which have no stamp."""
_LLAMA = r"srv |slot |main: |llama_|load_|ggml_|gguf_|build: |common_init"
"""What lines of llama.cpp begin with, which have no stamp."""
_COMPOSE_NAMED = re.compile(
    r"(?P<container>[A-Za-z0-9][\w.-]*) +\| (?=\[\d|\(\w|[A-Z]+:? +\S*\d\d|\d{4}-\d\d-\d\dT|Traceback|"
    rf"{_LLAMA})"
)
_NAMED = re.compile(r"(?P<container>[A-Za-z0-9][\w.-]*) +\| ?")
_RFC3339 = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)) (?:(?:stdout|stderr) [FP] )?"
)
_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? )?(?P<host>[\w.-]+) (?P<unit>[\w@.:/-]+)\[(?P<pid>\d+)\]: "
)
_TASK = re.compile(
    r" *(?P<task>\d{1,5}): (?=\[\d|\(\w+ pid=|(?:INFO|WARNING|ERROR)[ :]|\[gpu=|Traceback|  File |\w+Error|"
    rf"{_LLAMA})"
)
"""`srun --label`."""
_LABEL = re.compile(r" *(?P<task>\d{1,5}): ?")
_OLD_RANK = re.compile(r"(?:(?P<clock>\d\d:\d\d:\d\d)(?: -)? )?\[gpu(?:_id)?=(?P<gpu>\d+)\] (?=\S)")
"""SGLang's until 0.2."""
_ACTOR = re.compile(r"\((?P<process>[A-Za-z_][\w.:-]*) pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\w.:]+))?\) ?")
_LEVELLED = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<clock>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d) (?=\[?[^\s\[]+:\d+\])"
)
_LOGGING = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?P<part>,\d{3})? - "
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) - (?P<name>[\w.]+): |"
    r"(?P<name2>[\w.]+) - (?P<level2>DEBUG|INFO|WARNING|ERROR|CRITICAL) - )"
)
_GLOG = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]:)?\[(?P<level>[IWEF])(?:(?P<month>\d\d?)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?))?"
    r" ?(?P<where>[\w./-]+:\d+)\] "
)
_NCCL = re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] NCCL (?P<level>INFO|WARN) ")

_BASIC = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?P<name>[A-Za-z_][\w.]*):(?=\S)")
_WHERE = re.compile(r"\[[^\[\]\s]+:\d+\] ?")

_MESSAGE = re.compile(r'"(?:message|msg)" ?:')
_ZONED = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")

_SEVERITIES = {"WARNING": "warning", "WARN": "warning", "W": "warning", "ERROR": "error", "E": "error", "F": "error"}
_SEVERITIES["CRITICAL"] = "error"

TASK = "task"
STAMP_LIMIT = 512
"""Characters in which a stamp ends."""

LAYERS = 6
"""Collectors that may have written one before the other."""


@dataclass(slots=True)
class Peeled:
    """A line without what stands in front of its message."""

    message: str
    source: dict[str, object] = field(default_factory=dict)
    time: str | None = None
    clock: str = ""
    severity: str = ""
    stamped: bool = False
    """Whether SGLang's kind of stamp was there."""
    foreign: str = ""
    """Family of another kind of stamp: `levelled` (vLLM's), `logging`, `basic`, `glog`, `nccl`, `json`."""

    @property
    def prefixed(self) -> bool:
        """Whether the line says of itself that it begins a record."""
        return self.stamped or bool(self.foreign)

    @property
    def writer(self) -> object:
        """Who wrote the line, as far as collectors and processes say: what continues what is decided among equals."""
        source = self.source
        if not source:
            return None
        ranks = source.get("ranks")
        rank = ranks.get("rank") if isinstance(ranks, dict) else None
        writer = source.get("container"), source.get("process"), source.get("pid"), rank
        return writer if any(part is not None for part in writer) else None

    def without_where(self) -> str:
        """Return the message without the `[file.py:123]` that vLLM repeats before each line of a record."""
        return _WHERE.sub("", self.message, count=1) if self.message.startswith("[") else self.message


def peel(line: str, zone: Zone | None = None) -> Peeled:
    """Take prefixes off a line, from the outside in.

    Args:
        line: One line, control sequences and all.
        zone: What its stamps lack, and who collected the lines before.
    """
    zone = zone or Zone()
    peeled = Peeled(strip_sequences(line))
    if _stamp(peeled, zone):
        return peeled
    _outer(peeled, zone.collectors)
    if not _stamp(peeled, zone) and peeled.message:
        _inner(peeled, zone)
    return peeled


def _outer(peeled: Peeled, collectors: set[str]) -> None:
    for _ in range(LAYERS):
        text = peeled.message
        if match := _COMPOSE.match(text):
            peeled.source["container"] = match["container"]
        elif match := _COMPOSE_NAMED.match(text):
            peeled.source["container"] = match["container"]
            collectors.add(match["container"])
        elif collectors and (match := _collected(text, collectors)) is not None:
            peeled.source |= {
                name: int(value) if name == "task" else value for name, value in match.groupdict().items()
            }
        elif match := _RFC3339.match(text):
            peeled.time = _iso(match["time"])
        elif match := _JOURNAL.match(text):
            peeled.source.update(host=match["host"], unit=match["unit"], pid=int(match["pid"]))
        elif match := _ACTOR.match(text):
            peeled.source.update(process=match["process"], pid=int(match["pid"]))
            if match["ip"]:
                peeled.source["ip"] = match["ip"]
            if ranks := _PROCESS_RANK.findall(match["process"]):
                peeled.source["ranks"] = {name: int(number) for name, number in ranks}
        elif match := _RANKED.match(text):
            peeled.source["ranks"] = {"rank": int(match["rank"])}
        elif match := _TASK.match(text):
            peeled.source["task"] = int(match["task"])
            collectors.add(TASK)
        elif match := _POD.match(text):
            peeled.source.update(pod=match["pod"], container=match["container"])
        elif text.startswith('{"log":') and (logged := _docker_json(text)) is not None:
            peeled.message, peeled.time = logged
            continue
        else:
            return
        peeled.message = text[match.end() :]


def _collected(text: str, collectors: set[str]) -> re.Match[str] | None:
    named = _NAMED.match(text) if "|" in text[:80] else None
    if named is not None and named["container"] in collectors:
        return named
    return _LABEL.match(text) if TASK in collectors else None


def _docker_json(text: str) -> tuple[str, str | None] | None:
    """Return message and time of a line of Docker's own log files."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    if not isinstance(line, dict) or not isinstance(line.get("log"), str):
        return None
    moment = line.get("time")
    return strip_sequences(line["log"].rstrip("\r\n")), _iso(moment) if isinstance(moment, str) else None


def _stamp(peeled: Peeled, zone: Zone) -> bool:
    """Take SGLang's stamp off, if there is one."""
    found = stamp_of(peeled.message)
    if found is None:
        return _old_stamp(peeled)
    stamp, end = found
    peeled.message = peeled.message[end:]
    peeled.stamped = True
    peeled.clock = stamp.clock
    if peeled.time is None and stamp.date:
        peeled.time = zone.moment(stamp.date, stamp.time_of_day)
    if not peeled.source:
        peeled.source = stamp.source
        return True
    outer = peeled.source.get("ranks")
    peeled.source |= stamp.source
    if isinstance(outer, dict) and stamp.ranks:
        peeled.source["ranks"] = {**outer, **stamp.ranks}
    return True


def _old_stamp(peeled: Peeled) -> bool:
    match = _OLD_RANK.match(peeled.message) if "[gpu" in peeled.message[:20] else None
    if match is None:
        return False
    peeled.source["ranks"] = {"gpu": int(match["gpu"])}
    peeled.stamped, peeled.clock = True, match["clock"] or ""
    peeled.message = peeled.message[match.end() :]
    return True


@dataclass(frozen=True, slots=True)
class Stamp:
    """What stands in a stamp."""

    date: str
    time_of_day: str
    clock: str
    source: dict[str, object]
    """Ranks, and what else stands there; shared by the records of one moment."""
    ranks: Mapping[str, int]


def stamp_of(text: str) -> tuple[Stamp, int] | None:
    """Return the stamp that a line begins with, and where the message begins; `None` when there is none."""
    if text[:1] != "[" or not text[1:2].isdigit():
        return None
    end = text.find("]", 9, STAMP_LIMIT) + 1
    stamp = _read_stamp(text[:end]) if end else None
    if stamp is None:
        return None
    return stamp, end + 1 if text[end : end + 1] == " " else end


@functools.lru_cache(maxsize=4096)
def _read_stamp(text: str) -> Stamp | None:
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    date, clock, part, tags = match.groups()
    ranks: dict[str, int] = {}
    others = []
    for tag in tags.split():
        if rank := _RANK.match(tag):
            ranks[rank[1]] = int(rank[2])
        else:
            others.append(tag)
    source: dict[str, object] = {"ranks": ranks} if ranks else {}
    if others:
        source["tags"] = others
    clock += (part or "").replace(",", ".")
    return Stamp(date or "", clock, f"{date} {clock}" if date else clock, source, ranks)


def _inner(peeled: Peeled, zone: Zone) -> None:
    text = peeled.message
    if match := _LEVELLED.match(text):
        peeled.foreign, peeled.clock, level = "levelled", match["clock"], match["level"]
        date, _, clock = peeled.clock.partition(" ")
        peeled.time = peeled.time or zone.moment(date, clock)
    elif match := _LOGGING.match(text):
        level = match["level"] or match["level2"]
        clock = match["clock"] + (match["part"] or "").replace(",", ".")
        peeled.foreign, peeled.clock = "logging", f"{match['date']} {clock}"
        peeled.source["logger"] = match["name"] or match["name2"]
        peeled.time = peeled.time or zone.moment(match["date"], clock)
    elif match := _GLOG.match(text):
        peeled.foreign, level = "glog", match["level"]
        if match["clock"]:
            peeled.clock = f"{int(match['month']):02d}-{match['day']} {match['clock']}"
        if match["rank"]:
            peeled.source["ranks"] = {"rank": int(match["rank"])}
        peeled.source["where"] = match["where"]
    elif match := _NCCL.match(text):
        peeled.foreign, level = "nccl", match["level"]
        peeled.source.update(host=match["host"], pid=int(match["pid"]), process="NCCL", device=int(match["device"]))
    elif match := _BASIC.match(text):
        peeled.foreign, level = "basic", match["level"]
        peeled.source["logger"] = match["name"]
    else:
        if text.startswith("{") and _MESSAGE.search(text):
            _json_line(peeled, text)
        return
    peeled.severity = _SEVERITIES.get(level, "")
    peeled.message = text[match.end() :]
    if peeled.foreign == "levelled" and not peeled.message.startswith("["):
        peeled.message = f"[{peeled.message}"  # as vLLM writes it since 0.7


def _json_line(peeled: Peeled, text: str) -> None:
    """Take a line of a logger that writes JSON: message, level and time under the names that are usual."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return
    told = {str(key).lower().lstrip("@"): value for key, value in line.items()} if isinstance(line, dict) else {}
    message = told.get("message", told.get("msg"))
    if not isinstance(message, str):
        return
    peeled.foreign, peeled.message = "json", strip_sequences(message)
    level = next((str(told[key]).upper() for key in ("levelname", "level", "severity") if key in told), "")
    peeled.severity = _SEVERITIES.get(level, "")
    when = next((str(told[key]) for key in ("asctime", "timestamp", "time", "ts") if key in told), "")
    if _iso(when) is not None:
        peeled.clock = when[:19].replace("T", " ")
        peeled.time = peeled.time or (_iso(when) if _ZONED.search(when) else None)
    if isinstance(name := told.get("name", told.get("logger")), str):
        peeled.source["logger"] = name


def _iso(text: str) -> str | None:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return None
    return text.replace(",", ".")
