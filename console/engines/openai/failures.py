"""Why llama.cpp's server died: its own words, before what every engine's ground says."""

from __future__ import annotations

import re

from console.engines.causes import Found, Signature, found_in, is_traceback, proof, searched, sig, thrown
from console.engines.finder import Ways
from console.engines.signatures import COMMON, HINTS

OWN: tuple[Signature, ...] = (
    sig(
        "port",
        r"couldn't bind HTTP server socket, hostname: (?P<address>[^,\s]*), port: (?P<port>\d+)",
        r"port \g<port> is taken, or may not be opened: \g<address>:\g<port> cannot be bound",
    ),
    sig(
        "no-model",
        r"(?:gguf_init_from_file\w*|\w+): failed to open (?:GGUF )?file '(?P<path>[^']*)' \((?P<why>[^)]*)\)",
        r"the model is not there: \g<path> (\g<why>)",
    ),
    sig(
        "weights-file",
        r"(?P<what>(?:gguf_init_from_\w+: )(?:failed to read[^\n]{0,120}|invalid magic[^\n]{0,120}|[^\n]{0,120}corrupt[^\n]{0,60})|"
        r"tensor '[^']*' data is not within the file bounds[^\n]{0,80})",
        r"the model's file is damaged or incomplete: \g<what>",
    ),
    sig(
        "architecture",
        r"unknown model architecture: '(?P<what>[^']*)'",
        r"this version of llama.cpp does not know the architecture \g<what>",
    ),
    sig(
        "host-memory",
        r"ggml_aligned_malloc: insufficient memory \(attempted to allocate (?P<need>[\d.]+ \w+)\)",
        r"the host's memory does not suffice: \g<need> asked",
    ),
    sig(
        "gpu-memory",
        r"(?:cudaMalloc failed: out of memory|allocating (?P<need>[\d.]+ MiB) on device (?P<gpu>\d+): cudaMalloc failed)",
        r"GPU \g<gpu> is out of memory: \g<need> asked",
    ),
    sig(
        "kv-memory",
        r"failed to allocate (?:buffers? for )?(?P<what>kv cache|compute buffers?|compute pp buffers?)",
        r"no memory for the \g<what>",
    ),
    sig(
        "assertion",
        r"(?P<what>GGML_ASSERT\([^\n]{0,200}\) failed|GGML_ABORT[^\n]{0,200})",
        r"llama.cpp failed an assertion: \g<what>",
    ),
    sig("unknown-flag", r"error: invalid argument: (?P<flag>\S+)", r"unknown argument: \g<flag>"),
    sig("bad-argument", r"error while handling argument \"(?P<flag>[^\"]+)\": (?P<what>[^\n]*)", r"\g<flag>: \g<what>"),
)

LATER = re.compile(
    r"failed to load model|failed to create(?:_| )context|exiting due to|Failed to init server|error loading model|"
    r"encountered an error while trying to fit params|failed to initialize the context|failed to allocate (?:\w+ )?buffer of size"
)
"""What is said after the cause has been said."""

WAYS = Ways(
    hints={
        **HINTS,
        "gpu-memory": "lower n-gpu-layers or ctx-size, or use a smaller quantization",
        "kv-memory": "lower ctx-size or parallel, or set cache-type-k and cache-type-v to q8_0",
        "host-memory": "lower ctx-size or parallel, or free memory of the host",
        "no-model": "check the model's path on the host",
        "weights-file": "compare the file's size and hash with the source's",
        "no-module": "check the words of [engine] command",
    },
    phase_hints={"kv cache": "lower ctx-size or parallel", "weights": "lower n-gpu-layers"},
    consequence=re.compile(r".*exiting due to|Killed$|Aborted"),
    asked=re.compile(r"Received (?:second )?interrupt|Shutting down"),
    over=re.compile(r"Finished server process|cleaning up before exit"),
)


def signature(message: str, error: bool, usage: str = "") -> Found | None:
    """Return the failure that a record tells of, if it does.

    Args:
        message: The record without its stamp, continuation lines included.
        error: Whether the server said itself that it is one.
        usage: The usage text printed before, for near misses.
    """
    text = searched(message, is_traceback(message))
    for candidate in OWN:
        if match := candidate.pattern.search(text):
            groups = {key: value for key, value in match.groupdict().items() if value}
            values: dict[str, object] = {key: int(value) if key == "port" else value for key, value in groups.items()}
            return Found(candidate.name, " ".join(match.expand(candidate.cause).split()), proof(text, match), values)
    folded = is_traceback(message)
    if LATER.search(text):
        line = text.rstrip().rpartition("\n")[2]
        return Found("child", thrown(text) if folded else line.strip()[:200], (line,)) if error or folded else None
    if found := found_in(message, COMMON, False, usage):
        return found
    if folded:
        return Found("uncaught", thrown(message), tuple(message.rstrip().split("\n")[-3:]))
    return None
