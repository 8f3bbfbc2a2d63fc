"""The command line of a vLLM launch, and how what was asked for compares with what is in force."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from console.domain.profile import Profile
from console.engines import argv
from console.engines.protocol import Difference

MODULE = "vllm.entrypoints.cli.main"
"""What the program `vllm` runs, in every version since 0.6."""

SECRET_FLAGS = ("api-key", "hf-token", "ssl-keyfile-password")
MODEL = ("model", "model-tag")
"""Names under which a profile may have what stands first on the line."""

REPEATED = ("middleware",)
SAME = {
    "model-tag": "model",
    "max-seq-len": "max-model-len",
    "num-gpu-blocks": "num-gpu-blocks-override",
    "kv-cache-memory": "kv-cache-memory-bytes",
    "task": "runner",
    "device": "device",
}
"""Other spellings of one flag."""

IN_LOG = {"max_seq_len": "max_model_len", "enforce_eager": "enforce_eager", "model_tag": "model"}
"""Names in the log's line of the configuration, to those of flags."""

_ARGS = re.compile(r"non-default args: (?P<body>\{.*\})", re.DOTALL)
_CONFIG = re.compile(r"Initializing a (?:V\d )?LLM engine \(v(?P<version>[^)]*)\) with config: (?P<body>.*)", re.DOTALL)


def command(profile: Profile) -> tuple[str, ...]:
    """Return the exact argument list of a launch: the model stands first, behind `serve` without its flag."""
    args = {name: value for name, value in profile.launch.args.items() if name not in MODEL}
    model = next((profile.launch.args[name] for name in MODEL if name in profile.launch.args), None)
    start = profile.engine.command or (profile.engine.python or "python3", "-m", MODULE, "serve")
    named = [model] if isinstance(model, str) else []
    if named and start[-1] != "serve":
        named.insert(0, "--model")  # `api_server` takes a model without its flag, and serves its default all the same
    return (*start, *named, *argv.words_of(args, REPEATED), "--port", str(profile.launch.port))


def redacted(words: Sequence[str]) -> tuple[str, ...]:
    """Return an argument list with the values of secret flags taken out."""
    return argv.redacted(words, SECRET_FLAGS)


def model_paths(profile: Profile) -> tuple[str, ...]:
    """Return the absolute paths of model, tokenizer and chat template."""
    return argv.absolute(profile.launch.args, (*MODEL, "tokenizer", "hf-config-path"))


def differences(profile: Profile, resolved: Mapping[str, object]) -> tuple[Difference, ...]:
    """Return the arguments that are in force otherwise than asked for."""
    found = []
    for name, value in profile.launch.args.items():
        head, negated = (name.removeprefix("no-"), True) if name.startswith("no-") else (name, False)
        key = SAME.get(head, head).replace("-", "_")
        if key not in resolved or value is False or "." in name:
            continue
        asked: object = list(value) if isinstance(value, tuple) else value
        if negated and value is True:
            asked = False
        if not _same(key, asked, resolved[key]):
            found.append(Difference(name, asked, resolved[key]))
    return tuple(found)


def resolved_from_log(message: str) -> Mapping[str, object]:
    """Return the arguments that a line of the log tells: those given, or the configuration made of them."""
    if match := _CONFIG.search(message):
        pairs = argv.keywords(match["body"].partition("\n")[0])
        found = {IN_LOG.get(name, name): value for name, value in pairs.items()}
        if isinstance(dtype := found.get("dtype"), str):
            found["dtype"] = dtype.removeprefix("torch.")
        return found
    if match := _ARGS.search(message):
        return {IN_LOG.get(name, name): value for name, value in argv.mapping(match["body"]).items()}
    return {}


def _same(key: str, asked: object, in_force: object) -> bool:
    if key == "dtype" and asked in ("auto", "half", "float"):
        return asked == "auto" or {"half": "float16", "float": "float32"}[str(asked)] == in_force
    if isinstance(asked, Mapping) and isinstance(in_force, Mapping):
        return all(name in in_force and argv.same(value, in_force[name]) for name, value in asked.items())
    return argv.same(asked, in_force)


def side_ports(profile: Profile) -> Mapping[int, str]:
    """Return the ports between its processes that a launch is told to open, and the flags or variables that do."""
    found = argv.ports_of(profile.launch.args, ("data-parallel-rpc-port", "master-port", "dpp"))
    env = {name: value for name, value in profile.launch.env.items() if isinstance(value, str)}
    found.update(argv.ports_of(env, ("MASTER_PORT", "VLLM_PORT", "VLLM_DP_MASTER_PORT")))
    return found
