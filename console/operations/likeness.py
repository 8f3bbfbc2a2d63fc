"""Whether two runs are alike enough that their numbers say something of each other; why not, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from console.domain.machine import changes, kept
from console.domain.text import dash
from console.journal.records import RunEntry

MODEL_FLAGS = ("model-path", "model", "hf-repo")
"""Flags that name what is served, where the server does not tell."""

UNKNOWN = "unknown"


def unlike(a: RunEntry, b: RunEntry) -> str:
    """Return why two runs must not be compared; empty when they may be."""
    moved = [one.said for one in changes(kept(a.identity), kept(b.identity)) if one.decides]
    served = (
        ("badge", a.badge or "none (a real host)", b.badge or "none (a real host)"),
        ("model", model_of(a), model_of(b)),
        ("model files", *_both(a, b, "model_files")),
    )
    if apart := _apart(served):
        return apart
    if moved:  # before the GPUs' names and limits, which it tells more of
        return f"another machine state: {'; '.join(moved)}"
    if apart := _apart((("GPUs", *_gpus(a, b)),)):
        return apart
    if unmeasured := [entry.id for entry in (a, b) if not entry.measurements]:
        return f"nothing was measured of {' and '.join(unmeasured)}"
    return _apart(
        (
            ("lengths", _protocol(a, _lengths), _protocol(b, _lengths)),
            ("cache protocol", _protocol(a, _cache), _protocol(b, _cache)),
            ("load", _protocol(a, _load), _protocol(b, _load)),
            ("vantage", _vantages(a), _vantages(b)),
        )
    )


def _apart(facts: Iterable[tuple[str, str, str]]) -> str:
    """Return the first fact that differs, in words; empty when none does."""
    return next((f"{what} {one} against {other}" for what, one, other in facts if one != other), "")


def model_of(entry: RunEntry) -> str:
    """Return the model that a run served, by what it told, else by what it was asked for."""
    resolved, asked = entry.identity.get("resolved") or {}, asked_for(entry)
    told = (resolved.get("model_path"), resolved.get("model"), *(asked.get(f"--{name}") for name in MODEL_FLAGS))
    return str(next(filter(None, told), None) or _served(entry) or UNKNOWN)


def _served(entry: RunEntry) -> str:
    """Return the model that a command names without a flag: `vllm serve MODEL`."""
    argv = [str(word) for word in entry.identity.get("argv") or ()]
    at = argv.index("serve") + 1 if "serve" in argv else len(argv)
    return argv[at] if at < len(argv) and not argv[at].startswith("-") else ""


_USUAL = {"input_spread": 0.0, "output_spread": 0.0, "ignore_eos": True, "loop": "closed"}
"""What measurements from before these were told had."""


def _protocol(entry: RunEntry, words: Callable[[Mapping[str, Any]], str]) -> str:
    """Return how a run was measured, in words; several ways where its measurements differ."""
    return " and ".join(sorted({words({**_USUAL, **one.protocol}) for one in entry.measurements}))


def _lengths(protocol: Mapping[str, Any]) -> str:
    """Return `1024 in, 256 out`, with spreads and an end of the model's own choice where there are such."""
    said = []
    for side, word in (("input", "in"), ("output", "out")):
        spread = protocol[f"{side}_spread"]
        said.append(
            f"{dash(protocol.get(f'{side}_tokens'))} {word}" + (f" (up to {spread:.0%} shorter)" if spread else "")
        )
    return ", ".join(said) + ("" if protocol["ignore_eos"] else ", ended by the model")


def _cache(protocol: Mapping[str, Any]) -> str:
    told = protocol.get("flushed")
    return "unknown" if told is None else "flushed before" if told else "not flushed"


def _load(protocol: Mapping[str, Any]) -> str:
    """Return `closed loop`, or `open loop at 5 req/s, poisson`, and the interface where it is told."""
    rate, api = protocol.get("request_rate_req_s"), protocol.get("api")
    arrival = f", {protocol['arrival']}" if protocol.get("arrival") else ""
    at = f" at {rate:g} req/s{arrival}" if rate else arrival
    return f"{protocol['loop']} loop{at}" + (f" by {api}" if api else "")


def _vantages(entry: RunEntry) -> str:
    return " and ".join(sorted({one.vantage for one in entry.measurements}))


def _both(a: RunEntry, b: RunEntry, name: str) -> tuple[str, str]:
    """Return what two runs say of a fact; where one does not know it, it excludes nothing."""
    one, other = _fact(a, name), _fact(b, name)
    return (one, other) if one and other else ("", "")


def _fact(entry: RunEntry, name: str) -> str:
    return ", ".join(f"{key} {digest[:12]}" for key, digest in sorted((entry.identity.get(name) or {}).items()))


def _gpus(a: RunEntry, b: RunEntry) -> tuple[str, str]:
    """Return the GPUs of two runs in words: their power limits only where both are known."""
    sides = [list(one.identity.get("gpus") or ()) for one in (a, b)]
    limits = all(gpu.get("power_limit_w") is not None for side in sides for gpu in side)
    one, other = (gpu_words(side, limits=limits) for side in sides)
    return (one, other) if one and other else ("", "")


def gpu_words(gpus: Iterable[Mapping[str, Any]], *, limits: bool = True) -> str:
    """Return `8 × NVIDIA RTX PRO 6000 at 600 W`, or how many are which."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        limit = gpu.get("power_limit_w") if limits else None
        word = str(gpu.get("name") or "GPU") + ("" if limit is None else f" at {limit:,.0f} W")
        counts[word] = counts.get(word, 0) + 1
    return ", ".join(f"{count} × {word}" for word, count in counts.items())


def asked_for(entry: RunEntry) -> dict[str, object]:
    """Return the flags that a run was launched with, but where it listened."""
    from console.patching.process import arguments

    found = arguments(tuple(entry.identity.get("argv") or ()))
    return {f"--{name}": value for name, value in found.items() if name not in ("port", "host")}
