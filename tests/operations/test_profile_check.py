"""What would keep a launch from being what its profile says."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.config import paths
from console.config.profiles import load_profile, parse_profile
from console.engines.demands import ModelFacts, model_facts
from console.engines.sglang.demands import demands as sglang_demands
from console.engines.vllm.demands import demands as vllm_demands
from console.operations.profile_check import ERROR, WARNING, Finding, check

DENSE = ModelFacts("LlamaForCausalLM", 32, 8, None, 8192, None, read=True)
EXPERTS = ModelFacts("DeepseekV3ForCausalLM", 128, 128, 256, 163840, "fp8", read=True)


def asked(args: str, kind: str, model: ModelFacts, gpus: int | None) -> list[tuple[str, str, bool]]:
    text = f'[engine]\nkind = "{kind}"\n[launch.args]\n{args}\n'
    ask = sglang_demands if kind == "sglang" else vllm_demands
    return [(each.flag, each.text, each.fatal) for each in ask(parse_profile(text, "p.toml"), model, gpus)]


@pytest.mark.parametrize(
    ("args", "model", "flag", "text", "fatal"),
    [
        ("mem-fraction-static = 1.7", ModelFacts(), "mem-fraction-static",
         "is 1.7; it must be above 0 and below 1 (SGLang does not check it)", True),
        ("page-size = 0", ModelFacts(), "page-size",
         "is 0; it must be at least 1 (0 ends in a bare ZeroDivisionError)", True),
        ("tp = 3\nnnodes = 2\ndist-init-addr = 'a:1'", ModelFacts(), "nnodes",
         "is 2: tp-size × pp-size = 3 is not divisible by it", True),
        ("nnodes = 2\ntp = 2\nnode-rank = 2\ndist-init-addr = 'a:1'", ModelFacts(), "node-rank",
         "is 2 of 2 nodes; they count from 0", True),
        ("nnodes = 2\ntp = 2", ModelFacts(), "nnodes", "is 2, and no dist-init-addr says where they meet", True),
        ("tp = 8\ndp = 3\nenable-dp-attention = true", ModelFacts(), "dp",
         "is 3: tp-size 8 is not divisible by it (enable-dp-attention)", True),
        ("enable-dp-attention = true", ModelFacts(), "enable-dp-attention", "does nothing with dp-size 1", False),
        ("chunked-prefill-size = 4100\npage-size = 64", ModelFacts(), "chunked-prefill-size",
         "is 4100, not divisible by page-size 64", True),
        ("disable-radix-cache = true\nenable-hierarchical-cache = true", ModelFacts(), "enable-hierarchical-cache",
         "and disable-radix-cache exclude each other", True),
        ("moe-runner-backend = 'flashinfer_cutlass'\nquantization = 'fp8'", ModelFacts(), "moe-runner-backend",
         "flashinfer_cutlass needs quantization modelopt_fp4, modelopt_fp8, modelopt_mixed or none, not fp8", True),
        ("moe-runner-backend = 'flashinfer_cutlass'\ntp = 8\nep = 4", ModelFacts(), "ep",
         "is 4; flashinfer_cutlass needs 1 or tp-size 8", True),
        ("tp = 8\nep-size = 3", ModelFacts(), "ep-size", "is 3: tp-size 8 is not divisible by it", True),
        ("ep-size = 2\ntp = 2", DENSE, "ep-size", "does nothing: LlamaForCausalLM has no experts", False),
        ("tp-size = 5", DENSE, "tp-size",
         "is 5: 32 attention heads are not divisible by 5 (tensor parallel ranks of the attention)", True),
        ("context-length = 16384", DENSE, "context-length",
         "is 16384; the model's config.json allows 8192", True),
        ("quantization = 'awq'", EXPERTS, "quantization", "is awq; config.json says fp8", True),
        ("quantization = 'modelopt_fp4'", DENSE, "quantization",
         "is modelopt_fp4, and config.json tells of no quantized weights", False),
        ("disable-cuda-graph = true\ncuda-graph-max-bs = 8", ModelFacts(), "cuda-graph-max-bs",
         "does nothing: disable-cuda-graph is given", False),
        ("speculative-num-steps = 3", ModelFacts(), "speculative-num-steps",
         "does nothing without speculative-algorithm", False),
        ("speculative-algorithm = 'EAGLE'\nspeculative-eagle-topk = 1", ModelFacts(), "speculative-eagle-topk",
         "is given without speculative-num-steps: all three, or none", True),
        ("served-model-name = 'a:b'", ModelFacts(), "served-model-name",
         "a:b holds a colon, which SGLang keeps for LoRA adapters", True),
    ],
)  # fmt: skip
def test_what_sglang_demands(args: str, model: ModelFacts, flag: str, text: str, fatal: bool) -> None:
    assert asked(args, "sglang", model, None) == [(flag, text, fatal)]


@pytest.mark.parametrize(
    ("args", "model", "flag", "text", "fatal"),
    [
        ("gpu-memory-utilization = 1.2", ModelFacts(), "gpu-memory-utilization",
         "is 1.2; it must be above 0 and at most 1", True),
        ("max-num-batched-tokens = 64\nmax-num-seqs = 128", ModelFacts(), "max-num-batched-tokens",
         "is 64, less than max-num-seqs 128", True),
        ("tensor-parallel-size = 3", DENSE, "tensor-parallel-size",
         "is 3: 32 attention heads are not divisible by 3 (tensor parallel size)", True),
        ("enable-expert-parallel = true", DENSE, "enable-expert-parallel", "LlamaForCausalLM has no experts", True),
        ("enable-auto-tool-choice = true", ModelFacts(), "enable-auto-tool-choice", "needs tool-call-parser", True),
        ("enable-eplb = true", ModelFacts(), "enable-eplb", "needs enable-expert-parallel", True),
        ("hf-overrides = '{a:1}'", ModelFacts(), "hf-overrides", "is no JSON object: {a:1}", True),
        ("enable-prefix-caching = true\nno-enable-prefix-caching = true", ModelFacts(), "enable-prefix-caching",
         "and no-enable-prefix-caching say the opposite", True),
        ("max-model-len = 9000", DENSE, "max-model-len", "is 9000; the model's config.json allows 8192", True),
    ],
)  # fmt: skip
def test_what_vllm_demands(args: str, model: ModelFacts, flag: str, text: str, fatal: bool) -> None:
    assert asked(args, "vllm", model, None) == [(flag, text, fatal)]


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("sglang", "tp-size = 8\nquantization = 'modelopt_fp4'\nmoe-runner-backend = 'flashinfer_cutlass'"),
        ("sglang", "tp = 8\ndp = 8\nenable-dp-attention = true\nchunked-prefill-size = -1"),
        ("sglang", "tp = 16\nnnodes = 2\nnode-rank = 1\ndist-init-addr = 'a:1'"),
        ("sglang", "speculative-algorithm = 'EAGLE'\nspeculative-num-steps = 3\nspeculative-eagle-topk = 1\n"
                   "speculative-num-draft-tokens = 4"),
        ("vllm", "tensor-parallel-size = 8\nmax-model-len = 4096\nenable-prefix-caching = true"),
        ("vllm", "speculative-config = { method = 'mtp' }\ngpu-memory-utilization = 1"),
    ],
)  # fmt: skip
def test_what_is_right_is_left_alone(kind: str, args: str) -> None:
    assert asked(args, kind, ModelFacts(), 8) == []


def test_more_gpus_than_there_are() -> None:
    assert asked("tp = 16", "sglang", ModelFacts(), 8) == [("tp", "asks for 16 GPUs on this host, which has 8", True)]
    assert asked("tp = 16\nnnodes = 2\ndist-init-addr = 'a:1'", "sglang", ModelFacts(), 8) == []
    assert asked("tp = 4\ndp = 2", "sglang", ModelFacts(), 8) == []
    said = [("data-parallel-size", "asks for 4 GPUs on this host, which has 2", True)]
    assert asked("data-parallel-size = 4", "vllm", ModelFacts(), 2) == said


def test_facts_of_a_model() -> None:
    said = {
        "architectures": ["Qwen3ForCausalLM"],
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 32768,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        "experts": None,
        "quantization": None,
    }
    facts = model_facts(said)
    assert (facts.architecture, facts.heads, facts.kv_heads, facts.experts) == ("Qwen3ForCausalLM", 32, 8, None)
    assert (facts.positions, facts.quantization, facts.read) == (131072, None, True)
    assert model_facts({"fault": "has no config.json"}) == ModelFacts()
    assert model_facts({"architectures": "x", "num_attention_heads": "many"}) == ModelFacts(read=True)


async def found_in(text: str) -> list[Finding]:
    return list(await check(parse_profile(text, "p.toml"), None))


async def test_findings_name_key_file_and_line() -> None:
    text = '[launch.args]\nmodel-path = "${MODEL}"\ntp = 8\ntensor-parallel-size = 4\nhf = "{a"\n'
    found = await found_in(text)
    assert [(each.severity, each.place, each.key) for each in found] == [
        (ERROR, "p.toml:2", "launch.args.model-path"),
        (ERROR, "p.toml:4", "launch.args.tensor-parallel-size"),
        (ERROR, "p.toml:5", "launch.args.hf"),
    ]
    assert found[0].text == "${MODEL} stays as it is: no shell reads a profile"
    assert found[1].text == "tensor-parallel-size and tp are one flag: the engine takes the last"


@pytest.mark.parametrize(
    ("text", "severity", "key", "said"),
    [
        ('[engine]\nkind = "tgi"\n', ERROR, "engine.kind", "engine 'tgi' is not known"),
        ("", ERROR, "launch.args", "no model is named"),
        ('[launch.args]\nmodel-path = "m"\n[patches]\non = ["nope"]\n', ERROR, "patches.on", "patch 'nope': not found"),
        ('[launch.args]\nmodel-path = "m"\n[patches]\non = ["flashinfer-cutlass-autotune"]\n', WARNING, "patches.on",
         "flashinfer-cutlass-autotune is never reached: moe-runner-backend is not given"),
        ('[launch.args]\nmodel-path = "m"\n[launch.env]\nHF_TOKEN = "abc"\n', WARNING, "launch.env.HF_TOKEN",
         "HF_TOKEN looks like a secret written down"),
        ('[launch.args]\nmodel-path = "m"\napi-key = { from = "env" }\n', WARNING, "launch.args.api-key",
         "api-key is readable by every login of the host while the server runs: it is an argument"),
        ('[launch.args]\nmodel-path = "m"\ncontext-length = 1000\n', ERROR, "bench.input_tokens",
         "requests of 1024 in and 256 out are longer than context-length = 1000"),
    ],
)  # fmt: skip
async def test_what_the_file_alone_tells(text: str, severity: str, key: str, said: str) -> None:
    [finding] = await found_in(text)
    assert (finding.severity, finding.key) == (severity, key)
    assert finding.text.startswith(said)


async def test_a_finding_stands_in_the_layer_that_brings_it_in(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('[launch.args]\nmodel-path = "m"\npage-size = 0\nmem-fraction-static = 2\n')
    (tmp_path / "arm.toml").write_text('extends = "base"\n\n[launch.args]\nmem-fraction-static = 1.5\n')
    found = await check(load_profile(tmp_path / "arm.toml"), None)
    assert [each.place for each in found] == [f"{tmp_path}/arm.toml:4", f"{tmp_path}/base.toml:3"]


@pytest.mark.parametrize("path", sorted(paths.shipped_folder().glob("*.toml")), ids=lambda path: str(path.stem))
async def test_shipped_profiles_have_no_errors(path: Path) -> None:
    assert [each for each in await check(load_profile(path), None) if each.severity == ERROR] == []
