"""Why a vLLM server died: what only vLLM says, before what every engine's ground says."""

from __future__ import annotations

import re

from console.engines.causes import Found, Signature, crash, found_in, is_traceback, sig, thrown
from console.engines.finder import Ways
from console.engines.signatures import COMMON, HINTS

SIGNATURES: tuple[Signature, ...] = (
    sig(
        "kv-memory",
        r"Free memory on device(?: \w+:\d+)? \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired "
        r"GPU memory utilization \((?P<share>[\d.]+), (?P<asked>[\d.]+) GiB\)",
        r"the GPU has only \g<free> of \g<total> GiB free, gpu-memory-utilization \g<share> asks for \g<asked> GiB",
        anywhere=True,
    ),
    sig(
        "kv-memory",
        r"No available memory for the cache blocks",
        "the weights leave no memory for the KV cache",
        anywhere=True,
    ),
    sig(
        "context",
        r"(?:To serve at least one request with the models's|the model's) max seq len \((?P<asked>\d+)\)[\s\S]{0,60}?"
        r"(?:\(?(?P<need>[\d.]+) GiB KV cache is needed|is larger than the maximum number of tokens that can be stored "
        r"in KV cache \((?P<most>\d+)\))",
        r"max-model-len \g<asked> needs more KV cache than there is",
        anywhere=True,
    ),
    sig(
        "context-model",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\([^)\d]*(?P<most>\d+)",
        r"max-model-len \g<asked> is more than the model's \g<most>",
        anywhere=True,
    ),
    sig(
        "host-memory",
        r"Available memory on node \d+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on (?P<when>[\w ]+?) is less than "
        r"(?:requested|desired)[\w ]*? \((?:[\d.]+, )?(?P<asked>[\d.]+) GiB\)",
        r"the host's memory does not suffice on \g<when>: \g<asked> GiB asked, \g<free> of \g<total> GiB free",
        anywhere=True,
    ),
    sig(
        "host-memory",
        r"(?:Not enough (?:available )?memory|not enough (?:available )?(?:CPU|host) memory|exceeds? (?:the )?available "
        r"(?:CPU |host |system )?memory|"
        r"Available memory on node[^\n]{0,200}is less than desired)(?P<what>[^\n]{0,200})",
        r"the host's memory does not suffice\g<what>",
        anywhere=True,
    ),
    sig(
        "gpu-count",
        r"World size \((?P<asked>\d+)\) is larger than the number of available GPUs \((?P<have>\d+)\)|"
        r"tensor parallel size \((?P<tp>\d+)\)[^\n]{0,80}number of (?:required )?GPUs",
        "more GPUs are asked for than there are",
        anywhere=True,
    ),
    sig(
        "gpu-count",
        r"Cannot provide a placement group of (?P<what>.{0,120})within",
        r"the Ray cluster has not the GPUs that are asked for: \g<what>",
        anywhere=True,
    ),
    sig(
        "heads",
        r"Total number of attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size \((?P<tp>\d+)\)",
        r"tensor-parallel-size \g<tp> does not divide the model's \g<heads> attention heads",
        anywhere=True,
    ),
    sig(
        "no-model",
        r"(?:Invalid repository ID or local directory specified: '|No model (?:found|weights) (?:at|in) ')(?P<path>[^']*)'",
        r"the model is not there: \g<path>",
        anywhere=True,
    ),
    sig(
        "shm-broadcast",
        r"No available shared memory broadcast block found in (?P<seconds>\d+) second",
        r"a worker made no step for \g<seconds> s (the processes' shared queue stands still)",
        anywhere=True,
    ),
    *COMMON,
    sig(
        "assertion",
        r"pydantic[\w.]*ValidationError: [^\n]*\n(?:(?P<field>[^\s\n][^\n]*)\n)?\s*(?P<what>[^\n]{0,300}?)(?: \[type=[^\n]*)?$",
        r"the arguments do not go together: \g<field> \g<what>",
    ),
)

_WEAK_WORDS = ("shm-broadcast",)

DIED = re.compile(
    r"(?:(?:Engine core|Worker) proc (?P<core>\S+)|(?P<worker>Worker(?:Proc)? ?\S*)(?: pid \d+)?) (?:died(?: unexpectedly)?|"
    r"(?:hit an exception|failed))(?:[^\n]*exit ?code:? (?P<code>-?\d+))?"
)
GONE = re.compile(r"\[shutdown\] \w+: (?P<who>[\w ]+?) exited unexpectedly")
"""The server ends in order then, with status 0."""

CORE_FAILED = re.compile(r"(?:EngineCore (?:failed to start|encountered a fatal error)|WorkerProc failed to start)\.?")
CONSEQUENCE = re.compile(
    r"EngineDeadError|Engine core initialization failed|EngineCore encountered an issue\. See stack trace|"
    r"Frontend process failed during engine core|WorkerProc initialization failed|"
    r"cancelled|Executor failed"
)

WAYS = Ways(
    hints={
        **HINTS,
        "gpu-memory": "lower gpu-memory-utilization or max-num-seqs, or use more GPUs (tensor-parallel-size)",
        "kv-memory": "free the GPU of other processes first; else raise gpu-memory-utilization, or lower max-model-len",
        "context": "lower max-model-len, or raise gpu-memory-utilization",
        "context-model": "lower max-model-len",
        "gpu-count": "lower tensor-parallel-size, or check CUDA_VISIBLE_DEVICES",
        "host-memory": "lower VLLM_CPU_KVCACHE_SPACE, or free memory of the host",
        "no-model": "check the model's path on the host",
        "divide": "choose a smaller tensor-parallel-size that divides the model's heads and sizes",
        "heads": "choose a tensor-parallel-size that divides them",
        "shm-broadcast": "look at what the workers do (py-spy dump); NCCL or a kernel may hang",
        "killed": "look for the out-of-memory killer in the host's kernel log (dmesg)",
        "no-kernel": "choose another attention backend, or another quantization",
    },
    phase_hints={
        "weights": "the weights do not fit: use more GPUs (tensor-parallel-size) or a smaller quantization",
        "compile": "lower max-num-batched-tokens, or gpu-memory-utilization",
        "kv cache": "lower gpu-memory-utilization or max-num-batched-tokens",
        "cuda graphs": "lower gpu-memory-utilization or max-num-seqs, or try enforce-eager",
        "ready": "lower gpu-memory-utilization or max-num-seqs",
    },
    consequence=re.compile(
        r"Engine core initialization failed|EngineDeadError|Killed$|Aborted|Process \w+:$|.* exited with code \d+$"
    ),
    asked=re.compile(r"\[shutdown\] API server: shutdown triggered|Received (?:shutdown signal|SIG)"),
    over=re.compile(r"Finished server process|Application shutdown complete|\[shutdown\] API server: shutting down"),
)


def signature(message: str, stamped: bool, usage: str = "") -> Found | None:
    """Return the failure that a record tells of, if it does.

    Args:
        message: The record without prefixes, continuation lines included.
        stamped: Whether vLLM's own stamp stood before it.
        usage: The usage text printed before, for near misses.
    """
    folded = is_traceback(message)
    if folded and "Exception in ASGI application" in message[:200]:
        return None  # a request failed, not the server
    if gone := GONE.match(message):
        return Found("killed", f"the {gone['who']} ended unexpectedly: killed, or crashed without a word", (message,))
    if found := found_in(message, SIGNATURES, stamped, usage):
        if found.name in _WEAK_WORDS:
            return None
        return found
    if not folded and (died := DIED.search(message[:2000])):
        who = died["core"] or died["worker"]
        code = int(died["code"]) if died["code"] else None
        cause = crash(who, code) if code is not None else f"{who} died"
        return Found("child", cause, (message.partition("\n")[0],), {"code": code} if code is not None else {})
    if folded:
        if CONSEQUENCE.search(thrown(message)):
            return Found("child", thrown(message), _last_lines(message))
        return Found("uncaught", f"{_who(message)}{thrown(message)}", _last_lines(message))
    return None


def _who(message: str) -> str:
    return "the engine failed: " if CORE_FAILED.search(message[:2000]) else ""


def _last_lines(message: str) -> tuple[str, ...]:
    return tuple(message.rstrip().split("\n")[-3:])
