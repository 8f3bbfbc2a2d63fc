"""What vLLM asserts of its arguments before it loads anything, and what has no effect."""

from __future__ import annotations

import json
from collections.abc import Mapping

from console.domain.profile import Profile
from console.engines.demands import (
    Asked,
    Demand,
    ModelFacts,
    Range,
    longer_than_model,
    opposites,
    out_of_range,
    shared_heads,
)

SAME: Mapping[str, str] = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "ep": "enable-expert-parallel",
}
_RANGES: Mapping[str, Range] = {
    "gpu-memory-utilization": (0, False, 1, True, ""),
    "tensor-parallel-size": (1, True, None, True, ""),
    "pipeline-parallel-size": (1, True, None, True, ""),
    "data-parallel-size": (1, True, None, True, ""),
    "max-num-seqs": (1, True, None, True, ""),
    "max-num-batched-tokens": (1, True, None, True, ""),
    "block-size": (1, True, None, True, ""),
    "swap-space": (0, True, None, True, ""),
    "stream-interval": (1, True, None, True, ""),
}
_JSON = (
    "speculative-config",
    "compilation-config",
    "hf-overrides",
    "kv-transfer-config",
    "kv-events-config",
    "attention-config",
)
_GROUPS = ("gptq", "awq", "fp8", "modelopt", "compressed-tensors", "mxfp4")


def demands(profile: Profile, model: ModelFacts, gpus: int | None) -> list[Demand]:
    """Return what vLLM would refuse or not heed.

    Args:
        profile: Whose arguments.
        model: What its config.json says.
        gpus: How many the host has; `None` when that is not known.
    """
    asked = Asked(profile.launch.args, SAME)
    found = [*out_of_range(asked, _RANGES), *opposites(asked), *_tokens(asked), *_parallel(asked, model, gpus)]
    for name in _JSON:
        text = asked.text(name)
        if text is not None and not _is_object(text):
            found.append(Demand(name, f"is no JSON object: {text[:80]}"))
    if "enable-auto-tool-choice" in asked and "tool-call-parser" not in asked:
        found.append(Demand("enable-auto-tool-choice", "needs tool-call-parser"))
    if "enforce-eager" in asked and "compilation-config" in asked:
        found.append(Demand("compilation-config", "has no CUDA graphs: enforce-eager is given", fatal=False))
    if "lora-modules" in asked and "enable-lora" not in asked:
        found.append(Demand("lora-modules", "needs enable-lora"))
    return found + _model(asked, model, profile)


def _tokens(asked: Asked) -> list[Demand]:
    found = []
    tokens, seqs, length = (asked.number(name) for name in ("max-num-batched-tokens", "max-num-seqs", "max-model-len"))
    if tokens is not None and seqs is not None and tokens < seqs:
        said = f"is {tokens:.0f}, less than max-num-seqs {seqs:.0f}"
        found.append(Demand("max-num-batched-tokens", said))
    if tokens is not None and length is not None and tokens < length and "no-enable-chunked-prefill" in asked:
        said = f"is {tokens:.0f}, less than max-model-len {length:.0f}, without chunked prefill"
        found.append(Demand("max-num-batched-tokens", said))
    return found


def _parallel(asked: Asked, model: ModelFacts, gpus: int | None) -> list[Demand]:
    found = []
    tp, pp, dp, nodes = (
        asked.count(name) for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "nnodes")
    )
    local = asked.count("data-parallel-size-local", dp)
    if local > dp:
        found.append(Demand("data-parallel-size-local", f"is {local}, more than data-parallel-size {dp}"))
    if "data-parallel-external-lb" in asked and dp <= 1:
        found.append(Demand("data-parallel-external-lb", "needs data-parallel-size above 1"))
    if "enable-eplb" in asked and "enable-expert-parallel" not in asked:
        found.append(Demand("enable-eplb", "needs enable-expert-parallel"))
    if model.read and not model.experts and "enable-expert-parallel" in asked:
        found.append(Demand("enable-expert-parallel", f"{model.architecture or 'the model'} has no experts"))
    wanted = tp * pp * local // nodes
    if gpus is not None and wanted > gpus and gpus > 0:
        flag = asked.spelled("tensor-parallel-size" if "tensor-parallel-size" in asked else "data-parallel-size")
        found.append(Demand(flag, f"asks for {wanted} GPUs on this host, which has {gpus}"))
    return found


def _model(asked: Asked, model: ModelFacts, profile: Profile) -> list[Demand]:
    if not model.read:
        return []
    tp = asked.count("tensor-parallel-size")
    found = shared_heads(asked, "tensor-parallel-size", tp, model, "tensor parallel size")
    found += longer_than_model(asked, "max-model-len", model, "VLLM_ALLOW_LONG_MAX_MODEL_LEN", profile.launch.env)
    flag = asked.text("quantization")
    if flag is not None and model.quantization is not None:
        weights = model.quantization.lower()
        alike = any(flag.startswith(group) and weights.startswith(group) for group in _GROUPS)
        alike = alike or (flag.startswith("modelopt") and weights.startswith(("nvfp4", "fp8")))
        if not alike and flag != weights:
            found.append(Demand("quantization", f"is {flag}; config.json says {model.quantization}"))
    return found


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
