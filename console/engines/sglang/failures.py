"""Why an SGLang server died: what only SGLang says, before what every engine's ground says."""

from __future__ import annotations

import re
from dataclasses import replace

from console.engines.causes import Found, Signature, crash, first_thrown, found_in, is_traceback, sig, thrown
from console.engines.finder import Ways
from console.engines.signatures import COMMON, HINTS

SIGNATURES: tuple[Signature, ...] = (
    sig(
        "library",
        r"Could not load any common_ops library[\s\S]{0,2000}?^- ImportError: (?P<what>[^\n]{1,200})",
        r"sgl_kernel does not load: \g<what>",
    ),
    sig(
        "graph-capture",
        r"Capture cuda graph failed: (?P<what>(?!CUDA out of memory).{0,200})",
        r"CUDA graph capture failed: \g<what>",
    ),
    *(candidate for candidate in COMMON if candidate.name == "gpu-memory"),
    sig(
        "gpu-memory",
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size|alloc_req_slots runs out of memory",
        "no room left in the KV cache for the requests that run",
    ),
    sig(
        "kv-memory",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "the weights leave no GPU memory for the KV cache",
    ),
    sig(
        "unbalanced",
        r"The memory capacity is unbalanced\. (?P<what>[^\n]{0,160})",
        r"the GPUs have unequal free memory: \g<what>",
    ),
    sig("mamba-memory", r"Not enough space for mamba cache", "no space left in the mamba state cache"),
    sig(
        "internal-port",
        r"(?P<name>\w*port) (?P<port>\d+) is used by a process already",
        r"SGLang's internal \g<name> \g<port> is taken",
        anywhere=True,
    ),
    sig(
        "context",
        r"User-specified context_length \((?P<asked>\d+)\) is greater than the derived context_length "
        r"\((?P<most>\d+)\)",
        r"context-length \g<asked> is more than the model's \g<most>",
    ),
    *(candidate for candidate in COMMON if candidate.name != "gpu-memory"),
    sig(
        "watchdog",
        r"^(?P<who>\w+ )?[Ww]atchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d+)",
        r"the scheduler made no step for \g<seconds> s (watchdog)",
        anywhere=True,
    ),
    sig("warm-up", r"Initialization failed\. warmup error: (?P<what>.{0,200})", r"the warm-up failed: \g<what>", True),
    sig(
        "assertion",
        r"server_args\.py\"?, line \d+[\s\S]{0,2000}^(?:AssertionError|ValueError|NotImplementedError)(?:: (?P<what>.{0,300}))?$",
        r"the arguments do not go together: \g<what>",
    ),
)

CRASHED = re.compile(r"Subprocess (?P<who>\S+) \(pid=(?P<pid>\d+)\) crashed with exit code (?P<code>-?\d+)")
EXIT = re.compile(r"Exit code: (-?[1-9]\d*)$")
"""Of the scheduler that was said to be dead in the line before."""
CHILD = re.compile(
    r"(?:Child process unexpectedly failed with an exit code (?P<code>-?\d+)|Rank (?P<rank>\d+) scheduler is dead)"
)
FATAL_HEAD = re.compile(r"(?P<who>\w+) hit an exception: Traceback")
_PEER = re.compile(
    r"Connection (?:closed|reset) by peer|^(?:EOFError|BrokenPipeError|ConnectionResetError)\b|remote process exited|"
    r"ncclRemoteError",
    re.MULTILINE,
)

WAYS = Ways(
    hints={
        **HINTS,
        "gpu-memory": "lower mem-fraction-static, or spread over more GPUs (tp-size)",
        "kv-memory": "free the GPU of other processes first; else raise mem-fraction-static or use more GPUs",
        "host-memory": "lower max-total-tokens (on a processor the KV cache lies in the host's memory), or free memory there",
        "graph-capture": "lower mem-fraction-static or cuda-graph-max-bs, or try disable-cuda-graph",
        "unbalanced": "a left-over process may hold one of the GPUs; serve status tells",
        "mamba-memory": "raise the mamba cache size, or lower max-running-requests",
        "rendezvous-port": "set nccl-port or dist-init-addr; a left-over process may hold it",
        "internal-port": "a left-over of an earlier run may hold it; it is not the HTTP port",
        "context": "lower context-length",
        "watchdog": "read the stack dump in the log; the first rank that stopped tells where",
        "divide": "choose a smaller tp-size (or ep-size) that divides the model's heads and sizes",
        "killed": "look for the out-of-memory killer in the host's kernel log (dmesg)",
        "no-kernel": "choose another attention-backend or moe-runner-backend",
        "peer-lost": "another process of the run ended first; look at what it said",
    },
    phase_hints={
        "weights": "the weights do not fit: use more GPUs (tp-size) or a smaller quantization",
        "kv cache": "lower mem-fraction-static",
        "autotune": "lower mem-fraction-static, or disable-flashinfer-autotune",
        "cuda graphs": "lower mem-fraction-static or cuda-graph-max-bs",
        "prefill graphs": "lower mem-fraction-static, or disable-piecewise-cuda-graph",
        "ready": "lower max-running-requests or chunked-prefill-size",
    },
    consequence=re.compile(
        r"Received sigquit from a child proces|SIGQUIT received|Killed$|kill_process_tree called|"
        r".* exited with code \d+$"
    ),
    asked=re.compile(r"SIGTERM|Shutting down"),
    over=re.compile(r"kill_process_tree|Remaining number of requests 0\b"),  # 0.5.9 says no more
)


def signature(message: str, stamped: bool, usage: str = "") -> Found | None:
    """Return the failure that a record tells of, if it does.

    Args:
        message: The record without prefixes, continuation lines included.
        stamped: Whether the engine's stamp stood before it.
        usage: The usage text printed before, for near misses.
    """
    folded = is_traceback(message)
    fatal_head = FATAL_HEAD.match(message)
    if message.startswith("ERROR:") and folded and not fatal_head:
        return None  # a request failed, not the server
    if folded and _PEER.search(message):
        return Found("peer-lost", f"another process was lost: {thrown(message)}", _last_lines(message))
    if found := found_in(message, SIGNATURES, stamped, usage):
        return _with_first(found, message) if found.name == "graph-capture" and folded else found
    if stamped and (code_told := EXIT.match(message)):
        code = int(code_told[1])
        return Found("killed" if code < 0 else "child", crash("the scheduler", code), (message,), {"code": code})
    if crashed := CRASHED.match(message):
        code = int(crashed["code"])
        return Found("killed", crash(crashed["who"], code), (message,), {"code": code})
    if child := CHILD.match(message):
        if child["code"]:
            return Found(
                "child", crash("a child process", int(child["code"])), (message,), {"code": int(child["code"])}
            )
        return Found("child", f"the scheduler of rank {child['rank']} died", (message,))
    if fatal_head or (folded and not stamped):
        who = f"{fatal_head['who']} failed: " if fatal_head else ""
        return Found("exception" if fatal_head else "uncaught", f"{who}{thrown(message)}", _last_lines(message))
    return None


def _with_first(found: Found, message: str) -> Found:
    """Return a failed capture with the exception that it began with, where that says something else."""
    first = first_thrown(message)
    if "graph failed" in first or first.partition(": ")[2] in found.cause:
        return found
    return replace(found, cause=f"CUDA graph capture failed: {first}", lines=(first, *found.lines))


def _last_lines(message: str) -> tuple[str, ...]:
    return tuple(message.rstrip().split("\n")[-3:])
