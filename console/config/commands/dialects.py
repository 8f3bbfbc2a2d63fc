"""How launch commands of each engine are spelled: what starts it, other names of one flag, what a value may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Dialect:
    """The spelling of one engine's launch command."""

    kind: str
    modules: tuple[str, ...]
    """`python -m` names that start it."""
    programs: tuple[str, ...]
    """Programs that start it."""
    subcommand: str
    """Word that follows a program, or a module ending in `main`, and starts the server."""
    usual: tuple[str, ...]
    """Words that tokwatt itself starts it with; the first is the interpreter where that is `python3`."""
    default_port: int
    model: str
    """Flag that names the model."""
    positional: bool = False
    """Whether the model may stand without its flag."""
    images: tuple[str, ...] = ()
    """Parts of names of container images whose entry point is the server."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Names behind one dash."""
    same: Mapping[str, str] = field(default_factory=dict)
    """Other long spellings of one flag."""
    whole: tuple[str, ...] = ()
    """Flags that abbreviations are tried on."""
    switches: frozenset[str] = frozenset()
    """Flags that take no value, where the next word could be mistaken for one."""
    repeated: frozenset[str] = frozenset()
    """Flags that count every time they are given."""
    gone: Mapping[str, str] = field(default_factory=dict)
    """Flags that present versions do not have, and what does the same."""
    dotted: bool = False
    """Whether `--a.b c` sets a part of the JSON value of `--a`."""
    underscores: bool = False
    """Whether `--a_b` is `--a-b`."""
    secret_variables: Mapping[str, str] = field(default_factory=dict)
    """Secret flag to the environment variable that does the same."""

    def canonical(self, name: str) -> str:
        """Return the one name of a flag."""
        if self.underscores:
            head, dot, tail = name.partition(".")
            name = head.replace("_", "-") + dot + tail
        name = self.same.get(name, name)
        if len(name) >= 4 and name not in self.whole:
            longer = [each for each in self.whole if each.startswith(name)]
            if len(longer) == 1:
                return longer[0]
        return name


_SGLANG_SAME = {
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "ep": "ep-size",
    "expert-parallel-size": "ep-size",
    "model": "model-path",
    "nccl-init-addr": "dist-init-addr",
}
_SGLANG_WHOLE = (
    "attention-backend", "chunked-prefill-size", "context-length", "cuda-graph-bs", "cuda-graph-max-bs", "deepep-config",
    "disable-cuda-graph", "disable-radix-cache", "dist-init-addr", "dp-size", "enable-dp-attention", "enable-metrics",
    "enable-torch-compile", "ep-size", "kv-cache-dtype", "load-format", "log-level", "log-requests", "max-prefill-tokens",
    "max-running-requests", "max-total-tokens", "mem-fraction-static", "model-path", "moe-a2a-backend",
    "moe-runner-backend", "node-rank", "page-size", "quantization", "reasoning-parser", "sampling-backend",
    "schedule-conservativeness", "schedule-policy", "served-model-name", "speculative-algorithm",
    "speculative-draft-model-path", "speculative-eagle-topk", "speculative-num-draft-tokens", "speculative-num-steps",
    "tokenizer-path", "tool-call-parser", "tp-size", "trust-remote-code", "watchdog-timeout",
)  # fmt: skip

SGLANG = Dialect(
    kind="sglang",
    modules=("sglang.launch_server", "sglang.cli.main"),
    programs=("sglang",),
    subcommand="serve",
    usual=("python3", "-m", "sglang.launch_server"),
    default_port=30000,
    model="model-path",
    same=_SGLANG_SAME,
    gone={
        "enable-ep-moe": "--ep-size",
        "enable-deepep-moe": "--moe-a2a-backend deepep",
        "enable-flashinfer-mla": "--attention-backend flashinfer",
        "enable-flashmla": "--attention-backend flashmla",
        "disable-mla": "nothing",
        "enable-mla": "nothing: it is the default",
        "disable-flashinfer": "--attention-backend triton",
    },
    whole=_SGLANG_WHOLE,
    switches=frozenset(
        [
            "trust-remote-code",
            "enable-metrics",
            "disable-cuda-graph",
            "disable-radix-cache",
            "enable-dp-attention",
            "enable-torch-compile",
            "skip-server-warmup",
        ]
    ),
)

VLLM = Dialect(
    kind="vllm",
    modules=("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main"),
    programs=("vllm",),
    subcommand="serve",
    usual=("python3", "-m", "vllm.entrypoints.cli.main", "serve"),
    default_port=8000,
    model="model",
    positional=True,
    images=("vllm-openai", "vllm-cpu", "vllm-rocm"),
    short={
        "tp": "tensor-parallel-size",
        "pp": "pipeline-parallel-size",
        "dp": "data-parallel-size",
        "dcp": "decode-context-parallel-size",
        "pcp": "prefill-context-parallel-size",
        "dpn": "data-parallel-rank",
        "dpr": "data-parallel-start-rank",
        "dpl": "data-parallel-size-local",
        "dpa": "data-parallel-address",
        "dpp": "data-parallel-rpc-port",
        "dpb": "data-parallel-backend",
        "dph": "data-parallel-hybrid-lb",
        "dpe": "data-parallel-external-lb",
        "dpm": "data-parallel-multi-port-external-lb",
        "dc": "diffusion-config",
        "asc": "api-server-count",
        "ep": "enable-expert-parallel",
        "q": "quantization",
        "n": "nnodes",
        "r": "node-rank",
        "sc": "speculative-config",
        "cc": "compilation-config",
        "ac": "attention-config",
        "O": "optimization-level",
    },
    whole=(
        "chat-template",
        "compilation-config",
        "data-parallel-size",
        "enable-expert-parallel",
        "enforce-eager",
        "gpu-memory-utilization",
        "kv-cache-dtype",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "pipeline-parallel-size",
        "quantization",
        "served-model-name",
        "speculative-config",
        "tensor-parallel-size",
        "tokenizer",
        "trust-remote-code",
    ),
    switches=frozenset(
        [
            "trust-remote-code",
            "enforce-eager",
            "enable-expert-parallel",
            "enable-prefix-caching",
            "enable-lora",
            "enable-auto-tool-choice",
            "no-enable-prefix-caching",
            "enable-chunked-prefill",
            "headless",
            "disable-log-requests",
            "async-scheduling",
            "data-parallel-hybrid-lb",
            "data-parallel-external-lb",
        ]
    ),
    repeated=frozenset(["middleware"]),
    gone={
        "rope-scaling": "--hf-overrides",
        "rope-theta": "--hf-overrides",
        "speculative-model": "--speculative-config",
        "num-speculative-tokens": "--speculative-config",
        "guided-decoding-backend": "--structured-outputs-config",
        "use-v2-block-manager": "nothing: it is the only one",
        "num-scheduler-steps": "nothing: it went with the old engine",
        "disable-frontend-multiprocessing": "nothing",
        "worker-use-ray": "--distributed-executor-backend ray",
        "task": "--runner and --convert",
    },
    dotted=True,
    underscores=True,
    secret_variables={"api-key": "VLLM_API_KEY"},
)

LLAMA_CPP = Dialect(
    kind="llamacpp",
    modules=(),
    programs=("llama-server", "llama-server.exe"),
    subcommand="",
    usual=("llama-server",),
    default_port=8080,
    model="model",
    images=("llama.cpp:server", "llama.cpp:full"),
    short={
        "m": "model", "c": "ctx-size", "ngl": "n-gpu-layers", "np": "parallel", "fa": "flash-attn", "t": "threads",
        "tb": "threads-batch", "b": "batch-size", "ub": "ubatch-size", "ctk": "cache-type-k", "ctv": "cache-type-v",
        "hf": "hf-repo", "hfr": "hf-repo", "hff": "hf-file", "a": "alias", "ts": "tensor-split", "sm": "split-mode",
        "mg": "main-gpu", "cb": "cont-batching", "nocb": "no-cont-batching", "to": "timeout", "dev": "device",
        "md": "model-draft", "ngld": "gpu-layers-draft", "n": "n-predict", "ot": "override-tensor", "s": "seed",
        "ncmoe": "n-cpu-moe", "cmoe": "cpu-moe", "lv": "verbosity", "v": "verbose",
    },
    same={"gpu-layers": "n-gpu-layers", "predict": "n-predict", "log-verbosity": "verbosity"},
    repeated=frozenset(["lora", "lora-scaled", "override-tensor", "override-kv", "control-vector"]),
    secret_variables={"api-key": "LLAMA_API_KEY"},
)  # fmt: skip

DIALECTS = (SGLANG, VLLM, LLAMA_CPP)


def dialect(kind: str) -> Dialect:
    """Return how an engine's commands are spelled; plainly where nothing is known of it."""
    for each in DIALECTS:
        if each.kind == kind:
            return each
    return Dialect(kind, (), (), "", (), 8000, "model")
