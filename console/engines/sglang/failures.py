"""Why an SGLang server died: the first cause, with the lines that prove it and what to try."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from console.domain.run import Failure, LogKind, LogRecord
from console.domain.text import clean

LINES_KEPT = 12
SEARCHED = 64 * 1024
SEARCHED_LINE = 4096
"""Characters of a folded record, and of a single line, in which a cause is looked for."""


@dataclass(frozen=True, slots=True)
class Found:
    """A failure recognised in one record."""

    name: str
    cause: str
    lines: tuple[str, ...]
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Signature:
    name: str
    pattern: re.Pattern[str]
    cause: Callable[[re.Match[str]], str]
    anywhere: bool = False
    """Whether it may stand in a stamped message that is no traceback."""
    needs: str = ""
    """A word that must be in the record, too."""


def _say(text: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match.expand(text)


def _sig(name: str, pattern: str, cause: str, anywhere: bool = False, needs: str = "") -> _Signature:
    return _Signature(name, re.compile(pattern, re.MULTILINE), _say(cause), anywhere, needs)


SIGNATURES: tuple[_Signature, ...] = (
    _sig(
        "gpu-memory",
        r"CUDA out of memory\. Tried to allocate (?P<need>[\d.]+ \w+)\. GPU (?P<gpu>\d+) has a total capacity of "
        r"(?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free",
        r"GPU \g<gpu> is out of memory: \g<need> asked, \g<free> of \g<total> free",
    ),
    _sig("gpu-memory", r"OutOfMemoryError: (?P<what>.{0,200})", r"out of GPU memory: \g<what>"),
    _sig(
        "kv-memory",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "the weights leave no GPU memory for the KV cache",
    ),
    _sig("graph-capture", r"Capture cuda graph failed: (?P<what>.{0,200})", r"CUDA graph capture failed: \g<what>"),
    _sig("mamba-memory", r"Not enough space for mamba cache", "no space left in the mamba state cache"),
    _sig(
        "port",
        r"\[Errno 98\] error while attempting to bind on address \('(?P<address>[^']*)', (?P<port>\d+)",
        r"port \g<port> is taken: \g<address>:\g<port> is already in use",
        anywhere=True,
    ),
    _sig(
        "rendezvous-port",
        r"DistNetworkError: .*?port: (?P<port>\d+).*EADDRINUSE",
        r"the rendezvous port \g<port> is taken",
    ),
    _sig(
        "internal-port",
        r"(?P<name>\w*port) (?P<port>\d+) is used by a process already",
        r"SGLang's internal \g<name> \g<port> is taken",
        anywhere=True,
    ),
    _sig(
        "address",
        r"\[Errno 99\] (?:error while attempting to bind on address \('(?P<address>[^']*)'|Cannot assign)",
        r"--host is not an address of this machine",
        anywhere=True,
    ),
    _sig("unknown-flag", r"error: unrecognized arguments: (?P<flag>.*)", r"unknown argument: \g<flag>"),
    _sig(
        "bad-choice",
        r"error: argument (?P<flag>\S+): invalid choice: (?P<value>'[^']*'|\S+)",
        r"\g<flag> cannot be \g<value>",
    ),
    _sig("ambiguous-flag", r"error: ambiguous option: (?P<flag>.*)", r"ambiguous argument: \g<flag>"),
    _sig("bad-argument", r"error: argument (?P<flag>\S+): (?P<what>.*)", r"\g<flag>: \g<what>"),
    _sig(
        "missing-argument", r"error: the following arguments are required: (?P<flag>.*)", r"missing argument: \g<flag>"
    ),
    _sig(
        "no-model",
        r"(?:OSError|HFValidationError|RepositoryNotFoundError|LocalEntryNotFoundError): (?:Repo id must be|"
        r"(?P<what>.{0,120}(?:is not a local folder|couldn't connect|does not appear to have)))",
        "the model is not there",
    ),
    _sig(
        "context",
        r"User-specified context_length \((?P<asked>\d+)\) is greater than the derived context_length "
        r"\((?P<most>\d+)\)",
        r"context-length \g<asked> is more than the model's \g<most>",
    ),
    _sig("gpu-count", r"CUDA error: invalid device ordinal", "more GPUs are asked for than there are"),
    _sig(
        "gpu-missing",
        r"No CUDA GPUs are available|CUDA driver initialization failed|NVIDIA driver .*too old",
        "no usable GPU: the CUDA driver does not answer",
    ),
    _sig(
        "no-kernel",
        r"(?P<what>no kernel image is available|Unsupported architecture|No valid tactics available|"
        r"NotImplementedError.{0,80}SM\s?\d+)",
        r"a kernel is missing for this GPU: \g<what>",
    ),
    _sig(
        "build",
        r"^(?P<what>.{0,200}(?:\berror: |fatal error: |nvcc fatal).{0,200})",
        r"building a kernel failed: \g<what>",
        needs="ninja",
    ),
    _sig(
        "build",
        r"ninja: build stopped|returned non-zero exit status.*ninja|Command '\['ninja'",
        "building a kernel failed",
    ),
    _sig(
        "nccl",
        r"Watchdog caught collective operation timeout: WorkNCCL\(.*?OpType=(?P<op>\w+)",
        r"NCCL hung: \g<op> timed out",
        anywhere=True,
    ),
    _sig("nccl", r"NCCL error: (?P<what>[^\n.;]{0,120})", r"NCCL error: \g<what>", anywhere=True),
    _sig("nccl", r"ncclUnhandledCudaError|DistBackendError", "NCCL error"),
    _sig(
        "watchdog",
        r"^(?P<who>\w+ )?[Ww]atchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d+)",
        r"the scheduler made no step for \g<seconds> s (watchdog)",
        anywhere=True,
    ),
    _sig("warm-up", r"Initialization failed\. warmup error: (?P<what>.{0,200})", r"the warm-up failed: \g<what>", True),
    _sig("no-start", r"^tokwatt: cannot start (?P<what>.*)", r"the server could not be started: \g<what>"),
    _sig(
        "no-module",
        r"ModuleNotFoundError: No module named '(?P<what>[^']*)'|No module named (?P<other>[\w.]+)$",
        r"the Python package \g<what>\g<other> is not installed for this interpreter",
    ),
    _sig("no-file", r"can't open file '(?P<what>[^']*)'", r"\g<what> does not exist"),
)

CRASHED = re.compile(r"Subprocess (?P<who>\S+) \(pid=(?P<pid>\d+)\) crashed with exit code (?P<code>-?\d+)")
CHILD = re.compile(
    r"(?:Child process unexpectedly failed with an exit code (?P<code>-?\d+)|Rank \d+ scheduler is dead)"
)
CONSEQUENCE = re.compile(
    r"Received sigquit from a child proces|SIGQUIT received|Killed$|kill_process_tree called|.* exited with code \d+$"
)
FATAL_HEAD = re.compile(r"(?P<who>\w+) hit an exception: Traceback")
_HIT_LAST = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?(?P<what>[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout)\b.*)$", re.M
)

HINTS = {
    "gpu-memory": "lower mem-fraction-static, or spread over more GPUs (tp-size)",
    "kv-memory": "free the GPU of other processes first; else raise mem-fraction-static or use more GPUs",
    "graph-capture": "lower mem-fraction-static or cuda-graph-max-bs, or try disable-cuda-graph",
    "mamba-memory": "raise the mamba cache size, or lower max-running-requests",
    "port": "stop its owner, or change port under [launch]",
    "rendezvous-port": "set nccl-port or dist-init-addr; a left-over process may hold it",
    "internal-port": "a left-over of an earlier run may hold it; it is not the HTTP port",
    "address": "use 127.0.0.1 or 0.0.0.0",
    "no-model": "check model-path on the host",
    "context": "lower context-length",
    "gpu-count": "lower tp-size, or check CUDA_VISIBLE_DEVICES",
    "no-kernel": "choose another backend flag",
    "build": "check nvcc, CUDA_HOME and TORCH_CUDA_ARCH_LIST on the host",
    "nccl": "launch with NCCL_DEBUG=INFO; check P2P (NCCL_P2P_DISABLE=1), IOMMU and the interface variables",
    "watchdog": "read the stack dump in the log; the first rank that stopped tells where",
    "no-module": "check [engine] python",
    "killed": "look for the out-of-memory killer in the host's kernel log (dmesg)",
}

PHASE_HINTS = {
    "weights": "the weights do not fit: use more GPUs (tp-size) or a smaller quantization",
    "kv cache": "lower mem-fraction-static",
    "cuda graphs": "lower mem-fraction-static or cuda-graph-max-bs",
    "prefill graphs": "lower mem-fraction-static, or disable-piecewise-cuda-graph",
    "ready": "lower max-running-requests or chunked-prefill-size",
}


def signature(message: str, stamped: bool, usage: str = "") -> Found | None:
    """Return the failure that a record tells of, if it does.

    Args:
        message: The record without prefixes, continuation lines included.
        stamped: Whether the engine's stamp stood before it.
        usage: The usage text printed before, for near misses.
    """
    folded = "\n" in message and "Traceback (most recent call last)" in message
    fatal_head = FATAL_HEAD.match(message)
    if message.startswith("ERROR:") and folded and not fatal_head:
        return None  # a request failed, not the server
    message = _searched(message, folded)
    for candidate in SIGNATURES:
        if (stamped and not folded and not candidate.anywhere) or candidate.needs not in message:
            continue
        if match := candidate.pattern.search(message):
            return Found(candidate.name, _cause(candidate, match, usage), _proof(message, match), _values(match))
    if crashed := CRASHED.match(message):
        return Found("killed", _crash(crashed["who"], int(crashed["code"])), (message,), {"code": int(crashed["code"])})
    if fatal_head or (folded and not stamped):
        thrown = _HIT_LAST.findall(message)
        what = thrown[-1] if thrown else message.rstrip().rpartition("\n")[2]
        who = f"{fatal_head['who']} failed: " if fatal_head else ""
        proof = tuple(message.rstrip().split("\n")[-3:])
        return Found("exception", f"{who}{what[:300]}", proof)
    return None


def _searched(message: str, folded: bool) -> str:
    """Return the part of a record that is looked at: patterns must not run over megabytes."""
    most = SEARCHED if folded else SEARCHED_LINE
    return message if len(message) <= most else f"{message[: most // 2]}\n{message[-most // 2 :]}"


def _values(match: re.Match[str]) -> dict[str, object]:
    values: dict[str, object] = {key: value for key, value in match.groupdict().items() if value is not None}
    for key in ("port", "gpu", "seconds"):
        if key in values:
            values[key] = int(str(values[key]))
    return values


def _cause(found: _Signature, match: re.Match[str], usage: str) -> str:
    cause = " ".join(found.cause(match).split())
    if found.name == "unknown-flag" and usage:
        known = sorted(set(re.findall(r"--[a-z0-9][\w-]*", usage)))
        for word in match["flag"].split():
            if word.startswith("--") and (close := difflib.get_close_matches(word, known, n=1, cutoff=0.6)):
                return f"{cause} (did you mean {close[0]}?)"
    return cause


def _proof(message: str, match: re.Match[str]) -> tuple[str, ...]:
    start = message.rfind("\n", 0, match.start()) + 1
    end = message.find("\n", match.end())
    return tuple(message[start : end if end >= 0 else len(message)].split("\n")[:LINES_KEPT])


def _crash(who: str, code: int) -> str:
    how = {-9: "was killed (SIGKILL)", -11: "crashed (segmentation fault)", -6: "aborted"}.get(code)
    return f"{who} {how or f'ended with exit code {code}'}"


class FailureFinder:
    """Finds the first cause among a log's records."""

    def __init__(self) -> None:
        self._first: LogRecord | None = None
        self._phase = ""
        self._open_phase = ""
        self._ranks: list[str] = []
        self._weak: LogRecord | None = None
        self._ended_by: LogRecord | None = None
        self._phase_then = ""
        self.stopping = False
        """Whether the log shows that an end was asked for."""

    @property
    def ended(self) -> bool:
        """Whether the log shows an end."""
        return self._ended_by is not None

    def see(self, record: LogRecord) -> None:
        """Take the next record."""
        if record.kind is LogKind.PHASE:
            self._see_phase(record)
        elif record.kind in (LogKind.DECODE, LogKind.PREFILL):
            self._revive(record)
        elif record.kind is LogKind.FAILURE:
            self._see_failure(record)
        elif CONSEQUENCE.match(_message(record)):
            self._ended_by = record

    def _see_phase(self, record: LogRecord) -> None:
        name, step = str(record.values.get("phase")), record.values.get("step")
        if name == "arguments":
            self._first = self._weak = self._ended_by = None  # another launch in the same file
            self._ranks, self.stopping = [], False
        if name == "stopping":
            if "kill_process_tree" in record.raw:
                self._ended_by = record
            elif "SIGTERM" in record.raw or "Shutting down" in record.raw:
                self.stopping = True
            return
        self._phase, self._open_phase = name, "" if step == "end" else name
        if name == "ready" and self._weak is self._first:
            self._weak = None

    def _see_failure(self, record: LogRecord) -> None:
        name = record.values.get("signature")
        if self._first is None or (self._first.values.get("signature") in ("exception",) and self._weak is self._first):
            if name == "exception" and not FATAL_HEAD.search(record.raw):
                self._weak = record
            elif name == "killed" and self.stopping:
                return
            self._first = record
            self._phase_then = self._failing_phase()
        if name == self._first.values.get("signature"):
            ranks = record.source.get("ranks")
            if isinstance(ranks, dict):
                self._ranks.append(" ".join(f"{key}{value}" for key, value in ranks.items()))

    def _failing_phase(self) -> str:
        if self._open_phase == "weights" or self._phase == "weights":
            return "weights" if self._open_phase == "weights" else "kv cache"
        return self._open_phase or self._phase

    def _revive(self, record: LogRecord) -> None:
        """A server that goes on working a minute later did not die of it."""
        if self._first is not None and record.clock[:16] > self._first.clock[:16] and self._ended_by is None:
            self._first = self._weak = None
            self._ranks = []

    def record(self, *, ended: bool = False) -> LogRecord | None:
        """Return the record of the first cause."""
        if self._first is not None and (self._first is not self._weak or ended):
            return self._first
        return None

    def failure(self, *, ended: bool = False) -> Failure | None:
        """Return the first cause as the operator shall read it."""
        first = self.record(ended=ended)
        if first is None:
            return None
        name = str(first.values.get("signature"))
        cause, hint = first.cause, HINTS.get(name, "")
        if name in ("gpu-memory", "kv-memory", "graph-capture") and self._phase_then:
            cause += f" (during: {self._phase_then})" if self._phase_then != "ready" else " (while serving)"
            if name == "gpu-memory":
                hint = PHASE_HINTS.get(self._phase_then, hint)
        if self._ranks and name in ("watchdog", "exception", "nccl"):
            cause += f" on {', '.join(dict.fromkeys(self._ranks))}"
        if since := _stalled_since(first):
            cause += f", stalled since {since}"
        return Failure(cause, tuple(clean(line) for line in first.lines), hint)


def _stalled_since(record: LogRecord) -> str:
    seconds = record.values.get("seconds")
    if record.values.get("signature") != "watchdog" or not isinstance(seconds, int):
        return ""
    try:
        return str(datetime.fromisoformat(record.clock) - timedelta(seconds=seconds))
    except ValueError:
        return ""


def _message(record: LogRecord) -> str:
    raw = record.raw
    return raw.partition("] ")[2] if raw.startswith("[") else raw
