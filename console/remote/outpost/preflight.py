"""What a launch would meet, looked at in one go: ports, program, folders, disks, model, GPUs, left-overs."""

from __future__ import annotations

import json
import os
import shutil
import socket
from typing import Any

from . import gpus, launchers, processes
from .basics import state_home
from .calls import Call, Operation, Result

CONFIG_LIMIT = 4 * 1024 * 1024
WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt")
FACTS = (
    "architectures",
    "model_type",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rope_scaling",
    "vocab_size",
    "dtype",
    "torch_dtype",
)
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


def _preflight(call: Call) -> Result:
    """Return what a launch would meet.

    Arguments: `port`; `ports`, more of them; `bind`, the address that the server will listen on;
    `unit`, what the launch makes (`units`); `program`, `cwd`, `paths` that must be there; `model`, its folder; `caches`, folders that it fills.
    """
    program, cwd = call.text("program", ""), call.text("cwd", "")
    found = shutil.which(program) if program else None
    wanted = [call.number("port"), *(int(port) for port in call.args.get("ports", []))]
    taken = processes.listeners_of(wanted)
    cards = gpus.cards()
    return {
        "listeners": [entry for entry in taken if entry["port"] == wanted[0]],
        "taken": [entry for entry in taken if entry["port"] != wanted[0]],
        "bind_fault": bind_fault(call.text("bind", "")),
        "program": found,
        "unit": launchers.look(call.args.get("unit")),
        "program_exists": found is not None or (bool(program) and os.path.exists(program)),
        "cwd_is_folder": not cwd or os.path.isdir(cwd),
        "missing": [path for path in call.args.get("paths", []) if not os.path.exists(path)],
        "free_mib": free_mib(state_home()),
        "disks": [disk(path) for path in (state_home(), *call.args.get("caches", []), "/dev/shm") if path],
        "memory": host_memory(),
        "model": model_facts(call.text("model", "")),
        "gpus": cards,
        "gpu_processes": gpus.holders() if cards is not None else None,
        "user": processes.user_name(os.geteuid()),
        "namespace": os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"),
    }, b""


def bind_fault(address: str) -> dict[str, Any] | None:
    """Return why a server could not listen on an address at all; `None` when it can."""
    if not address:
        return None
    try:
        family, kind, number, _, place = socket.getaddrinfo(address, 0, 0, socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, number) as probe:
            probe.bind(place)
    except OSError as error:
        return {"address": address, "errno": error.errno, "message": error.strerror or str(error)}
    return None


def free_mib(path: str) -> float:
    """Return the space left where a path is, or will be."""
    return shutil.disk_usage(_existing(path)).free / 1048576


def disk(path: str) -> dict[str, Any]:
    """Return where a path lies and how much is left there."""
    path = os.path.expanduser(path)
    try:
        usage = shutil.disk_usage(_existing(path))
    except OSError as error:
        return {"path": path, "free_mib": None, "total_mib": None, "reason": error.strerror}
    return {"path": path, "free_mib": usage.free / 1048576, "total_mib": usage.total / 1048576}


def _existing(path: str) -> str:
    while path and not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    return path or "/"


def host_memory() -> dict[str, float]:
    """Return the memory of the host in MiB."""
    found = {}
    for line in processes.lines_of("/proc/meminfo"):
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            found[name] = int(rest.split()[0]) / 1024
    return {"total_mib": found.get("MemTotal", 0.0), "available_mib": found.get("MemAvailable", 0.0)}


def model_facts(path: str) -> dict[str, Any] | None:
    """Return what a model's folder says of it; `None` for one that is no folder here."""
    if not path or not os.path.isdir(path):
        return None
    try:
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            config = json.loads(file.read(CONFIG_LIMIT))
    except FileNotFoundError:
        return {"path": path, "fault": "has no config.json"}
    except (OSError, ValueError) as error:
        return {"path": path, "fault": "config.json: %s" % error}
    if not isinstance(config, dict):
        return {"path": path, "fault": "config.json is no object"}
    text = config.get("text_config")
    merged = {**text, **config} if isinstance(text, dict) else config
    found: dict[str, Any] = {name: merged[name] for name in FACTS if name in merged}
    found["experts"] = next((merged[name] for name in EXPERTS if name in merged), None)
    found["experts_per_token"] = merged.get("num_experts_per_tok")
    found["quantization"] = _quantization(path, merged)
    return {"path": path, **found, **_weights(path)}


def _quantization(path: str, config: dict[str, Any]) -> str | None:
    said = config.get("quantization_config")
    if isinstance(said, dict):
        return str(said.get("quant_method") or said.get("quant_algo") or "") or None
    try:  # NVIDIA's ModelOpt writes it beside the config
        with open(os.path.join(path, "hf_quant_config.json"), encoding="utf-8") as file:
            told = json.loads(file.read(CONFIG_LIMIT))
        return str(told["quantization"]["quant_algo"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _weights(path: str) -> dict[str, Any]:
    """Return the size of the weights, and the shards that an index names and that are not there."""
    size, names = 0, set()
    for name in os.listdir(path):
        if name.endswith(WEIGHTS):
            try:
                size += os.stat(os.path.join(path, name)).st_size
            except OSError:
                continue  # a link to nowhere is a missing shard
            names.add(name)
    missing: list[str] = []
    try:
        with open(os.path.join(path, "model.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        missing = sorted(set(index["weight_map"].values()) - names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        missing = []
    return {"weights_mib": size / 1048576, "shards": len(names), "shards_missing": missing[:20]}


OPS: dict[str, Operation] = {"preflight": _preflight}
