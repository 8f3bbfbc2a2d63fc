"""What stands in front of a message: container, collector, stamp, ranks, level."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from console.domain.text import strip_sequences

_STAMP = re.compile(
    r"\[(?:(?P<date>\d{4}-\d\d-\d\d) )?(?P<clock>\d\d:\d\d:\d\d)(?P<part>[.,]\d+)?(?P<tags>(?: [^\]\s]+)*)\] ?"
)
_RANK = re.compile(r"([A-Za-z_]+?)_?(\d+)$")
_COMPOSE = re.compile(r"(?P<container>[A-Za-z0-9][\w.-]*-\d+) +\| ?")
_COMPOSE_NAMED = re.compile(r"(?P<container>[A-Za-z0-9][\w.-]*) +\| (?=\[\d|\(\w|[A-Z]+ \d\d-\d\d |\d{4}-\d\d-\d\dT)")
_RFC3339 = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)) (?:(?:stdout|stderr) [FP] )?"
)
_JOURNAL = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )?(?P<host>[\w.-]+) (?P<unit>[\w@.:-]+)\[(?P<pid>\d+)\]: "
)
_ACTOR = re.compile(r"\((?P<process>[A-Za-z_][\w.:-]*) pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\w.:]+))?\) ?")
_LEVELLED = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<clock>\d\d-\d\d \d\d:\d\d:\d\d) (?=\[\S+:\d+\])"
)
_LOGGING = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d) (?P<clock>\d\d:\d\d:\d\d)(?P<part>,\d{3})? - "
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) - (?P<name>[\w.]+): |"
    r"(?P<name2>[\w.]+) - (?P<level2>DEBUG|INFO|WARNING|ERROR|CRITICAL) - )"
)
_GLOG = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]:)?\[(?P<level>[IWEF])(?:(?P<month>\d\d?)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d\.\d+))?"
    r" ?(?P<where>[\w./-]+:\d+)\] "
)
_NCCL = re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] NCCL (?P<level>INFO|WARN) ")

_SEVERITIES = {"WARNING": "warning", "WARN": "warning", "W": "warning", "ERROR": "error", "E": "error", "F": "error"}
_SEVERITIES["CRITICAL"] = "error"


@dataclass(slots=True)
class Peeled:
    """A line without what stands in front of its message."""

    message: str
    source: dict[str, object] = field(default_factory=dict)
    time: str | None = None
    clock: str = ""
    severity: str = ""
    stamped: bool = False
    """Whether an engine's own stamp was there."""
    foreign: str = ""
    """Whose line it is when it is not the engine's: `logging`, `glog`, `nccl`, `levelled`."""

    @property
    def prefixed(self) -> bool:
        """Whether the line says of itself that it begins a record."""
        return self.stamped or bool(self.foreign)


def peel(line: str, utc_offset_s: int | None = None) -> Peeled:
    """Take prefixes off a line, from the outside in.

    Args:
        line: One line, control sequences and all.
        utc_offset_s: Offset of the log's local times; without it they have no zone and give no `time`.
    """
    peeled = Peeled(strip_sequences(line))
    match = _STAMP.match(peeled.message)
    if match is None:
        _outer(peeled)
        match = _STAMP.match(peeled.message)
    if match is not None:
        _stamp(peeled, match, utc_offset_s)
    elif peeled.message:
        _inner(peeled, utc_offset_s)
    return peeled


def _outer(peeled: Peeled) -> None:
    for _ in range(4):
        text = peeled.message
        if match := _COMPOSE.match(text) or _COMPOSE_NAMED.match(text):
            peeled.source["container"] = match["container"]
        elif match := _RFC3339.match(text):
            peeled.time = _iso(match["time"])
        elif match := _JOURNAL.match(text):
            peeled.source.update(host=match["host"], unit=match["unit"], pid=int(match["pid"]))
        elif match := _ACTOR.match(text):
            peeled.source.update(process=match["process"], pid=int(match["pid"]))
            if match["ip"]:
                peeled.source["ip"] = match["ip"]
        else:
            return
        peeled.message = text[match.end() :]


def _stamp(peeled: Peeled, match: re.Match[str], utc_offset_s: int | None) -> None:
    peeled.message = peeled.message[match.end() :]
    peeled.stamped = True
    clock = match["clock"] + (match["part"] or "").replace(",", ".")
    peeled.clock = f"{match['date']} {clock}" if match["date"] else clock
    if peeled.time is None and match["date"]:
        peeled.time = _zoned(match["date"], clock, utc_offset_s)
    if match["tags"]:
        ranks, others = {}, []
        for tag in match["tags"].split():
            rank = _RANK.match(tag)
            if rank:
                ranks[rank[1]] = int(rank[2])
            else:
                others.append(tag)
        if ranks:
            peeled.source["ranks"] = ranks
        if others:
            peeled.source["tags"] = others


def _inner(peeled: Peeled, utc_offset_s: int | None) -> None:
    text = peeled.message
    if match := _LEVELLED.match(text):
        peeled.foreign, peeled.clock, level = "levelled", match["clock"], match["level"]
    elif match := _LOGGING.match(text):
        level = match["level"] or match["level2"]
        clock = match["clock"] + (match["part"] or "").replace(",", ".")
        peeled.foreign, peeled.clock = "logging", f"{match['date']} {clock}"
        peeled.source["logger"] = match["name"] or match["name2"]
        peeled.time = peeled.time or _zoned(match["date"], clock, utc_offset_s)
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
    else:
        return
    peeled.severity = _SEVERITIES.get(level, "")
    peeled.message = text[match.end() :]


def _zoned(date: str, clock: str, utc_offset_s: int | None) -> str | None:
    if utc_offset_s is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{date} {clock[:15]}")
    except ValueError:
        return None
    return moment.replace(tzinfo=timezone(timedelta(seconds=utc_offset_s))).isoformat()


def _iso(text: str) -> str | None:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return None
    return text.replace(",", ".")
