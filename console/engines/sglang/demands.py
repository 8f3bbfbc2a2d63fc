"""What SGLang asserts of its arguments, what it does not check although it should, and what has no effect."""

from __future__ import annotations

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
from console.engines.sglang.command import SHORT

_UNCHECKED = "SGLang does not check it"
_RANGES: Mapping[str, Range] = {
    "mem-fraction-static": (0, False, 1, False, _UNCHECKED),
    "page-size": (1, True, None, True, "0 ends in a bare ZeroDivisionError"),
    "tp-size": (1, True, None, True, ""),
    "pp-size": (1, True, None, True, ""),
    "dp-size": (1, True, None, True, ""),
    "ep-size": (1, True, None, True, ""),
    "nnodes": (1, True, None, True, ""),
    "node-rank": (0, True, None, True, ""),
    "max-running-requests": (1, True, None, True, ""),
    "max-total-tokens": (1, True, None, True, ""),
    "max-prefill-tokens": (1, True, None, True, ""),
    "context-length": (1, True, None, True, ""),
    "cuda-graph-max-bs": (1, True, None, True, ""),
    "decode-log-interval": (1, True, None, True, _UNCHECKED),
    "schedule-conservativeness": (0, True, None, True, ""),
    "swa-full-tokens-ratio": (0, False, 1, True, ""),
    "base-gpu-id": (0, True, None, True, ""),
    "gpu-id-step": (1, True, None, True, ""),
    "tokenizer-worker-num": (1, True, None, True, ""),
}
_CUTLASS = ("modelopt_fp4", "modelopt_fp8", "modelopt_mixed")
_TRTLLM = ("modelopt_fp4", "fp8", "modelopt_fp8", "compressed-tensors", "mxfp8")
_QUANTIZED = {"flashinfer_cutlass": _CUTLASS, "flashinfer_trtllm": _TRTLLM}
_OF_EXPERTS = ("ep-size", "moe-runner-backend", "moe-a2a-backend", "enable-eplb", "deepep-mode")
_GRAPH = ("cuda-graph-bs", "cuda-graph-max-bs", "enable-profile-cuda-graph", "disable-cuda-graph-padding")
_FAMILIES = (
    ("modelopt", "modelopt_fp4", "modelopt_fp8", "modelopt_mixed", "nvfp4", "fp8", "w4afp8"),
    ("gptq", "gptq_marlin", "marlin"),
    ("awq", "awq_marlin"),
    ("fp8", "w8a8_fp8", "mxfp8", "blockwise_int8", "fbgemm_fp8"),
    ("compressed-tensors", "w8a8_int8", "w8a8_fp8", "fp8", "w4afp8"),
    ("mxfp4", "quark", "petit_nvfp4"),
    ("auto-round", "gptq", "awq"),
)
_ONLINE = ("fp8", "mxfp8", "w8a8_fp8", "w8a8_int8", "bitsandbytes", "torchao", "blockwise_int8", "qoq", "mxfp4")
"""Made while the weights are loaded: the files need not hold it."""


def demands(profile: Profile, model: ModelFacts, gpus: int | None) -> list[Demand]:
    """Return what SGLang would refuse, let pass although it cannot work, or not heed.

    Args:
        profile: Whose arguments.
        model: What its config.json says.
        gpus: How many the host has; `None` when that is not known.
    """
    asked = Asked(profile.launch.args, SHORT)
    found = [*out_of_range(asked, _RANGES), *opposites(asked)]
    found += _parallel(asked, gpus)
    found += _memory(asked)
    found += _experts(asked, model)
    found += _speculative(asked)
    found += _alone(asked)
    found += _model(asked, model, profile)
    return found


def _parallel(asked: Asked, gpus: int | None) -> list[Demand]:
    found = []
    tp, pp, dp, nodes = (asked.count(name) for name in ("tp-size", "pp-size", "dp-size", "nnodes"))
    attention = "enable-dp-attention" in asked
    if (tp * pp) % nodes:
        said = f"is {nodes}: tp-size × pp-size = {tp * pp} is not divisible by it"
        found.append(Demand(asked.spelled("nnodes"), said))
    rank = asked.number("node-rank")
    if rank is not None and rank >= nodes:
        found.append(Demand(asked.spelled("node-rank"), f"is {rank:.0f} of {nodes} nodes; they count from 0"))
    if nodes > 1 and "dist-init-addr" not in asked:
        found.append(Demand(asked.spelled("nnodes"), f"is {nodes}, and no dist-init-addr says where they meet"))
    if dp > 1 and nodes > 1 and not attention:
        said = f"is {dp} over {nodes} nodes: data parallel replicas stay on one"
        found.append(Demand(asked.spelled("dp-size"), said, "enable-dp-attention"))
    if attention and tp % dp:
        said = f"is {dp}: tp-size {tp} is not divisible by it (enable-dp-attention)"
        found.append(Demand(asked.spelled("dp-size"), said))
    if attention and dp == 1:
        found.append(Demand("enable-dp-attention", "does nothing with dp-size 1", "dp-size = …", fatal=False))
    if "enable-dp-lm-head" in asked and not attention:
        found.append(Demand("enable-dp-lm-head", "needs enable-dp-attention"))
    wanted = tp * pp // nodes * (1 if attention else dp)
    if gpus is not None and wanted > gpus and str(asked.value("device") or "cuda") == "cuda":
        said = f"asks for {wanted} GPUs on this host, which has {gpus}"
        found.append(Demand(asked.spelled("tp-size" if "tp-size" in asked else "dp-size"), said))
    return found


def _memory(asked: Asked) -> list[Demand]:
    found = []
    chunk, page = asked.number("chunked-prefill-size"), asked.number("page-size")
    if chunk is not None and page is not None and chunk > 0 and page >= 1 and chunk % page:
        said = f"is {chunk:.0f}, not divisible by page-size {page:.0f}"
        found.append(Demand(asked.spelled("chunked-prefill-size"), said))
    if chunk is not None and chunk <= 0 and chunk != -1:
        found.append(Demand(asked.spelled("chunked-prefill-size"), f"is {chunk:.0f}; -1 turns it off"))
    if "disable-radix-cache" in asked and "enable-hierarchical-cache" in asked:
        found.append(Demand("enable-hierarchical-cache", "and disable-radix-cache exclude each other"))
    if "disable-radix-cache" in asked and asked.text("schedule-policy") == "lpm":
        found.append(Demand("schedule-policy", "lpm does nothing without the radix cache", fatal=False))
    return found


def _experts(asked: Asked, model: ModelFacts) -> list[Demand]:
    found = []
    backend, quantization = asked.text("moe-runner-backend"), asked.text("quantization")
    tp, ep = asked.count("tp-size"), asked.count("ep-size")
    allowed = _QUANTIZED.get(backend or "")
    if allowed is not None and quantization is not None and quantization not in allowed:
        said = f"{backend} needs quantization {', '.join(allowed)} or none, not {quantization}"
        found.append(Demand("moe-runner-backend", said))
    if backend == "flashinfer_cutlass" and ep not in (1, tp):
        found.append(Demand(asked.spelled("ep-size"), f"is {ep}; {backend} needs 1 or tp-size {tp}"))
    if backend == "cutlass" and quantization in ("fp8", "mxfp8") and ep != 1:
        found.append(Demand(asked.spelled("ep-size"), f"is {ep}; cutlass with {quantization} needs 1"))
    if ep > 1 and tp % ep:
        found.append(Demand(asked.spelled("ep-size"), f"is {ep}: tp-size {tp} is not divisible by it"))
    if model.read and model.experts and ep > 1 and model.experts % ep and "ep-num-redundant-experts" not in asked:
        said = f"is {ep}: {model.experts} experts are not divisible by it"
        found.append(Demand(asked.spelled("ep-size"), said))
    if model.read and not model.experts:
        for name in _OF_EXPERTS:
            if name in asked and asked.value(name) not in (1, "auto", "none"):
                said = f"does nothing: {model.architecture or 'the model'} has no experts"
                found.append(Demand(asked.spelled(name), said, fatal=False))
    return found


def _speculative(asked: Asked) -> list[Demand]:
    algorithm = (asked.text("speculative-algorithm") or "").upper()
    parts = [name for name in asked if name.startswith("speculative-") and name != "speculative-algorithm"]
    if not algorithm:
        return (
            [Demand(asked.spelled(parts[0]), "does nothing without speculative-algorithm", fatal=False)]
            if parts
            else []
        )
    found = []
    shape = [name for name in ("speculative-eagle-topk", "speculative-num-draft-tokens") if name in asked]
    if algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE") and shape and "speculative-num-steps" not in asked:
        found.append(Demand(shape[0], "is given without speculative-num-steps: all three, or none"))
    if algorithm in ("STANDALONE", "EAGLE3") and not {"speculative-draft-model-path", "speculative-draft-model"} & set(
        asked
    ):
        found.append(Demand("speculative-algorithm", f"{algorithm} needs speculative-draft-model-path"))
    if algorithm in ("STANDALONE", "NGRAM") and "enable-dp-attention" in asked:
        found.append(Demand("speculative-algorithm", f"{algorithm} does not work with enable-dp-attention"))
    topk, steps, drafts = (
        asked.number(f"speculative-{name}") for name in ("eagle-topk", "num-steps", "num-draft-tokens")
    )
    if topk == 1 and steps is not None and drafts is not None and drafts != steps + 1:
        said = f"is {drafts:.0f}; with eagle-topk 1 SGLang makes it num-steps + 1 = {steps + 1:.0f}"
        found.append(Demand("speculative-num-draft-tokens", said, fatal=False))
    if "enable-mixed-chunk" in asked:
        found.append(Demand("enable-mixed-chunk", "does not work with speculative decoding", fatal=False))
    return found


def _alone(asked: Asked) -> list[Demand]:
    found = []
    if "disable-cuda-graph" in asked:
        for name in _GRAPH:
            if name in asked:
                found.append(Demand(name, "does nothing: disable-cuda-graph is given", fatal=False))
    if "disable-cuda-graph-padding" in asked and "enable-torch-compile" in asked:
        found.append(Demand("enable-torch-compile", "does not work with disable-cuda-graph-padding"))
    served = asked.text("served-model-name")
    if served is not None and ":" in served:
        found.append(Demand("served-model-name", f"{served} holds a colon, which SGLang keeps for LoRA adapters"))
    mode = asked.text("disaggregation-mode")
    if mode == "decode" and "enable-hierarchical-cache" in asked:
        found.append(Demand("enable-hierarchical-cache", "does nothing on a decode server", fatal=False))
    if "enable-metrics" not in asked and "enable-metrics-for-all-schedulers" in asked:
        found.append(Demand("enable-metrics-for-all-schedulers", "does nothing without enable-metrics", fatal=False))
    return found


def _model(asked: Asked, model: ModelFacts, profile: Profile) -> list[Demand]:
    if not model.read:
        return []
    tp = asked.count("tp-size")
    share = tp // asked.count("dp-size") if "enable-dp-attention" in asked else tp
    found = shared_heads(asked, "tp-size", share, model, "tensor parallel ranks of the attention")
    unless = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
    found += longer_than_model(asked, "context-length", model, unless, profile.launch.env)
    return found + _quantization(asked, model)


def _quantization(asked: Asked, model: ModelFacts) -> list[Demand]:
    flag = asked.text("quantization")
    if flag is None:
        return []
    if model.quantization is None:
        if flag in _ONLINE:
            return []
        return [Demand("quantization", f"is {flag}, and config.json tells of no quantized weights", fatal=False)]
    weights = model.quantization.lower()
    if weights == flag or any(weights in family and flag in family for family in _FAMILIES):
        return []
    if weights.startswith(("nvfp4", "fp8", "w4a")) and flag.startswith("modelopt"):
        return []
    return [Demand("quantization", f"is {flag}; config.json says {model.quantization}")]
