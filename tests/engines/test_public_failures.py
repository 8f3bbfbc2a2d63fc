"""Failures as public threads show them, with other names and numbers: the last record of the file tells the first cause."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from console.operations import logs
from tests.engines.recorded import content

DAY = "2026-03-04 05:06:"
ARGUMENTS = f"[{DAY}00] server_args=ServerArgs(model_path='/models/q', tp_size=8, mem_fraction_static=0.88)\n"
CAPTURE = f"[{DAY}42 TP1] Capture cuda graph begin. This can take up to several minutes. avail mem=9.60 GB\n"
SIGQUIT = f"\n[{DAY}59] Received sigquit from a child process. It usually means the child failed.\nKilled\n"
HIT = f"[{DAY}58 TP1] Scheduler hit an exception: "
TRACE = 'Traceback (most recent call last):\n  File "/opt/sglang/srt/managers/scheduler.py", line 10, in run\n    self.step()\n'
CHAINED = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
NINJA = "RuntimeError: Ninja build failed. Ninja output:\n[1/4] nvcc -c x.cu -o x.o\nFAILED: x.o\n"
STOPPED = "\nninja: build stopped: subcommand failed."

SGLANG = {
    "torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing"
    f"{CHAINED}{TRACE}Exception: Capture cuda graph failed: CUDA error: operation failed due to a previous error": (
        "CUDA graph capture failed: AcceleratorError: CUDA error: operation not permitted when stream is capturing",
        "disable-cuda-graph",
    ),
    f"subprocess.CalledProcessError: Command '['/opt/ptxas', '--gpu-name=sm_120a']' returned non-zero exit status 255."
    f"{CHAINED}{TRACE}triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
    "ptxas fatal   : Value 'sm_120a' is not defined for option 'gpu-name'": (
        "the CUDA compiler on the host does not know this GPU: sm_120a",
        "TRITON_PTXAS_PATH",
    ),
    f"{NINJA}nvcc fatal   : Unsupported gpu architecture 'compute_120a'{STOPPED}": (
        "the CUDA compiler on the host does not know this GPU: compute_120a",
        "CUDA_HOME",
    ),
    f"{NINJA}/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found{STOPPED}": (
        "a kernel must be built, and there is no compiler: /usr/local/cuda/bin/nvcc is not there",
        "install the compiler",
    ),
    "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'": (
        "a kernel must be built, and there is no compiler: ninja is not there",
        "install the compiler",
    ),
    "RuntimeError: Failed: Assertion error /x/csrc/apis/../jit/compiler.hpp:206 'NVCC compilation failed'": (
        "building a kernel failed: NVCC compilation failed",
        "nvcc",
    ),
    "AssertionError: 20 is not divisible by 8": ("a size of the model is not to be divided so: 20 is not", "tp-size"),
    "ValueError: Weight output_partition_size = 576 is not divisible by weight quantization block_n = 128.": (
        "a size of the model is not to be divided so: Weight output_partition_size = 576",
        "tp-size",
    ),
    "    assert self.total_num_kv_heads % attn_tp_size == 0\n           ^^^^^^^^^^^^^^^^^^^^\nAssertionError": (
        "a size of the model is not to be divided so: self.total_num_kv_heads % attn_tp_size == 0",
        "tp-size",
    ),
    "    assert moe_ep_size <= moe_tp_size\nAssertionError": (
        "Scheduler failed: AssertionError: moe_ep_size <= moe_tp_size",
        "",
    ),
    'FileNotFoundError: No such file or directory: "/models/q/model-00003-of-00009.safetensors"': (
        "a weights file is not there: /models/q/model-00003-of-00009.safetensors",
        "download",
    ),
    "KeyError: 'model.layers.3.mlp.experts.w2_weight_scale_inv'": (
        "the weights do not fit what the engine makes of the model: KeyError: 'model.layers.3",
        "checkpoint",
    ),
    "ValueError: The repository /models/q contains custom code which must be executed to correctly load the model.\n"
    "Please pass the argument `trust_remote_code=True` to allow custom code to be run.": (
        "the model brings code of its own, which is not allowed: /models/q",
        "trust-remote-code",
    ),
    "ValueError: Unrecognized model in /models/q. Should have a `model_type` key in its config.json, or": (
        "config.json of /models/q has no model_type",
        "upgrade",
    ),
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cache.": (
        "the model is not on the host, and the hub (https://huggingface.co) is not reached",
        "HF_ENDPOINT",
    ),
    "requests.exceptions.ConnectionError: (MaxRetryError('HTTPSConnectionPool(host=\\'huggingface.co\\', port=443)": (
        "the model is not on the host, and the hub (huggingface.co) is not reached",
        "proxy",
    ),
    "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
    "(10.0.0.1, 50000).": ("the first node does not answer at 10.0.0.1:50000", "first one's address"),
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:144] connect [127.0.1.1]:43971: Connection refused": (
        "a rank is not reached at 127.0.1.1:43971: Connection refused",
        "GLOO_SOCKET_IFNAME",
    ),
    "AssertionError: expected sm90 or sm100": ("a kernel is missing for this GPU: expected sm90 or sm100", "moe-runner"),
    "tvm.error.InternalError: Check failed: major == 10 (12 vs. 10) :": (
        "a kernel is missing for this GPU: Check failed: major == 10 (12 vs. 10)",
        "backend",
    ),
    "RuntimeError: operator torchvision::nms does not exist": (
        "an installed package does not fit the others: operator torchvision::nms",
        "reinstall",
    ),
}  # fmt: skip


def verdict(text: str) -> Mapping[str, object]:
    told = logs.as_json(list(logs.records([text.encode()]))[-1])
    assert told["kind"] == "failure", told
    return told


def hint_of(told: Mapping[str, object]) -> str:
    values = told["values"]
    assert isinstance(values, Mapping)
    return str(values.get("hint", ""))


@pytest.mark.parametrize("thrown", SGLANG, ids=[text.replace("\n", " ")[:50] for text in SGLANG])
def test_what_sglangs_scheduler_threw(thrown: str) -> None:
    cause, hint = SGLANG[thrown]
    told = verdict(ARGUMENTS + CAPTURE + HIT + TRACE + thrown + SIGQUIT)
    assert str(told["cause"]).startswith(cause)
    assert hint in hint_of(told)
    assert told["lines"]


API, CORE = "(APIServer pid=101) ", "(EngineCore_DP0 pid=202) "
STARTED = "".join(
    f"{who}INFO 08-19 15:04:{second:02d} [{where}] {said}\n"
    for who, second, where, said in (
        (API, 1, "utils.py:233", "non-default args: {'model_tag': '/m/q', 'tensor_parallel_size': 2}"),
        (CORE, 10, "core.py:77", "Initializing a V1 LLM engine (v0.11.0) with config: model='/m/q'"),
        (CORE, 13, "gpu_model_runner.py:2602", "Starting to load model /m/q..."),
        (CORE, 20, "gpu_model_runner.py:2653", "Model loading took 17.20 GiB and 7.02 seconds"),
        (CORE, 31, "gpu_worker.py:298", "Available KV cache memory: 60.11 GiB"),
    )
)
GRAPHS = (
    f"{CORE}Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|████      | 27/67 [00:01<00:02, 17.2it/s]\n"
)
FRAMES = 'Traceback (most recent call last):\n  File "/opt/vllm/v1/engine/core.py", line 7, in run\n    self.step()\n'
OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 560.00 MiB. GPU 0 has a total capacity of 23.64 GiB of "
OUT += "which 209.06 MiB is free. Including non-PyTorch memory, this process has 23.41 GiB memory in use."
FRONT = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.split("\n"))


def core_failed(thrown: str, before: str = "") -> str:
    """The engine's exception, again by multiprocessing, and then its front end's: the loudest and last."""
    error = f"{CORE}ERROR 08-19 15:04:45 [core.py:708] "
    text = STARTED + before + prefixed(error, f"EngineCore failed to start.\n{FRAMES}{thrown}")
    return text + prefixed(CORE, f"Process EngineCore_DP0:\n{FRAMES}{thrown}") + prefixed(API, FRAMES + FRONT)


VLLM = {
    OUT: ("GPU 0 is out of memory: 560.00 MiB asked, 209.06 MiB of 23.64 GiB free (during: cuda graphs)", "enforce-eager"),
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering": (
        "the GPU is out of memory: occurred when warming up sampler with 1024 dummy requests (during: cuda graphs)",
        "max-num-seqs",
    ),
    "ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. Minimum capability: 100. "
    "Current capability: 90.": (
        "a kernel is missing for this GPU: quantization modelopt_fp4 needs compute capability 100, it has 90",
        "quantization",
    ),
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute "
    "capability 7.5. You can use float16": ("Bfloat16 needs compute capability 8.0, Tesla T4 has 7.5", 'dtype = "half"'),
    "RuntimeError: No compiled cutlass_scaled_mm for CUDA device capability: 120": (
        "a kernel is missing for this GPU: No compiled cutlass_scaled_mm for CUDA device capability: 120",
        "backend",
    ),
    "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=576)": (
        "a kernel is missing for this GPU: No valid attention backend found for cuda",
        "backend",
    ),
    "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered": (
        "a weights file is damaged or incomplete: Error while deserializing header: incomplete metadata, file not fully",
        "size and hash",
    ),
    "ValueError: There is no module or parameter named 'language_model' in Qwen3ForCausalLM": (
        "the weights do not fit what the engine makes of the model: There is no module or parameter named 'language_model'",
        "checkpoint",
    ),
    "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}] within 1800 seconds.": (
        "the Ray cluster has not the GPUs that are asked for",
        "tensor-parallel-size",
    ),
    "RuntimeError: Failed to infer device type, please set the environment variable": (
        "no usable GPU: Failed to infer device type",
        "--gpus all",
    ),
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for CompilationConfig\ncudagraph_modes\n  Unexpected "
    "keyword argument [type=unexpected_keyword_argument, input_value='FULL', input_type=str]\n    For further information": (
        "the arguments do not go together: cudagraph_modes Unexpected keyword argument",
        "",
    ),
    "TimeoutError: RPC call to sample_tokens timed out.": (
        "the engine failed: TimeoutError: RPC call to sample_tokens timed out.",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("thrown", VLLM, ids=[text.replace("\n", " ")[:50] for text in VLLM])
def test_what_vllms_engine_threw_is_told_and_not_what_its_front_end_says_last(thrown: str) -> None:
    cause, hint = VLLM[thrown]
    told = verdict(core_failed(thrown, GRAPHS))
    assert str(told["cause"]).startswith(cause)
    assert hint in hint_of(told)
    assert told["source"] == {"process": "EngineCore_DP0", "pid": 202, "ranks": {"DP": 0}}


def test_the_verdict_of_a_file_that_ends_with_its_failure_is_that_record_with_what_to_try() -> None:
    text = (
        ARGUMENTS
        + "Traceback (most recent call last):\n  File \"x.py\", line 1, in f\nModuleNotFoundError: No module named 'q'\n"
    )
    records = list(logs.records([text.encode()]))
    assert len(records) == 2
    told = logs.as_json(records[-1])
    assert str(told["raw"]).startswith("Traceback") and "[engine] python" in hint_of(told)


def test_a_port_that_is_taken_and_an_orderly_end() -> None:
    """Versions before 0.5.12 print nothing behind it that tells an end."""
    text = ARGUMENTS + f"[{DAY}56] INFO:     Application startup complete.\n"
    text += f"[{DAY}56] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use\n"
    text += (
        f"[{DAY}56] INFO:     Waiting for application shutdown.\n[{DAY}56] INFO:     Application shutdown complete.\n"
    )
    assert verdict(text)["cause"] == "port 30000 is taken: 0.0.0.0:30000 is already in use"


def test_a_server_that_works_on_has_not_failed() -> None:
    error = f"{CORE}ERROR 08-19 15:04:45 [core.py:708] NCCL error: unhandled system error\n"
    stats = f"{API}INFO 08-19 15:04:50 [loggers.py:127] Engine 000: Avg prompt throughput: 1.8 tokens/s, Avg generation throughput: "
    stats += (
        "158.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.3%, Prefix cache hit rate: 68.2%\n"
    )
    kinds = [record.kind.value for record in logs.records([(STARTED + error + stats).encode()])]
    assert kinds[-2:] == ["failure", "decode"]


def test_lines_chosen_from_several_logs_are_told_each_by_itself() -> None:
    text = "AssertionError: rpc_port 30100 is used by a process already\nOSError: [Errno 99] Cannot assign requested address\n"
    kinds = [(record.kind.value, record.cause) for record in logs.records([text.encode()])]
    assert kinds == [
        ("failure", "SGLang's internal rpc_port 30100 is taken"),
        ("failure", "--host is not an address of this machine"),
    ]


def test_the_schedulers_exit_code_is_told() -> None:
    text = (
        ARGUMENTS
        + f"[{DAY}50] Rank 0 scheduler is dead. Please check if there are relevant logs.\n[{DAY}51] Exit code: -9\n"
    )
    text += 'Traceback (most recent call last):\n  File "engine.py", line 7, in f\n    data = reader.recv()\nEOFError\n'
    told = verdict(text)
    assert told["cause"] == "the scheduler was killed (SIGKILL)" and "dmesg" in hint_of(told)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=8812.0. Some of the step tasks have been OOM Killed.\n",
         "the host's memory did not suffice: Detected 1 oom_kill event in StepId=8812.0."),
        ("Bus error (core dumped)\n", "shared memory (/dev/shm) is too small, or a mapped file was cut off"),
        ("Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"x.py\", line 4 in f\n",
         "the process crashed (segmentation fault)"),
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  NVLS init failed\nAborted\n",
         "the process crashed: NVLS init failed"),
        ("Loading safetensors checkpoint shards:  12% Completed | 1/8 [00:10<01:10, 10.0s/it]\nKilled\n",
         "killed (SIGKILL); the log does not tell by whom (during: arguments)"),
    ],
)  # fmt: skip
def test_ends_outside_of_python(text: str, cause: str) -> None:
    assert str(verdict(ARGUMENTS + text)["cause"]).startswith(cause)


def test_a_long_exception_is_one_record() -> None:
    """Its paragraphs are parted by empty lines; the first of the errors it lists is the cause."""
    text = 'Traceback (most recent call last):\n  File "/opt/sgl_kernel/load.py", line 188, in f\n    raise ImportError(error)\n'
    text += "ImportError: \n[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\nAttempted locations:\n1. sm100/*\n\n"
    text += "GPU Info:\n- Compute capability: 120\n\nError details from previous import attempts:\n"
    text += "- ImportError: libnvrtc.so.12: cannot open shared object file: No such file\n- ModuleNotFoundError: No module named 'x'\n"
    [told] = [logs.as_json(record) for record in logs.records([text.encode()])]
    assert str(told["cause"]).startswith("sgl_kernel does not load: libnvrtc.so.12")


COLLECTED = {
    "crlf": "{}\r\n",
    "compose": "llm-1  | {}\n",
    "compose, container_name": "llm  | {}\n",
    "coloured": "\x1b[36mllm-1  | \x1b[0m{}\n",
    "docker logs -t": "2026-03-04T05:06:07.123456789Z {}\n",
    "containerd": "2026-03-04T05:06:07.123456789Z stderr F {}\n",
    "journald": "Mar 04 05:06:07 gpu-7 llm[812]: {}\n",
    "kubectl --prefix": "[pod/llm-0/main] {}\n",
    "srun --label": "3: {}\n",
}
KILLED = ARGUMENTS + f"[{DAY}21 TP0] Load weight begin. avail mem=93.40 GB\nKilled\n"
LLAMA = "build: 6500 (abc) with cc\nload_tensors: loading model tensors\nggml_backend_cuda_buffer_type_alloc_buffer: allocating "
LLAMA += "4096.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_model_load: error loading model\n"


@pytest.mark.parametrize("collector", COLLECTED)
@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("sglang", ARGUMENTS + CAPTURE + HIT + TRACE + OUT + SIGQUIT),
        ("sglang", KILLED),
        ("vllm", core_failed(OUT, GRAPHS)),
        ("llamacpp", LLAMA),
    ],
    ids=["scheduler", "killed", "front end", "llama.cpp"],
)
def test_whoever_collected_the_lines_the_cause_is_the_same(collector: str, engine: str, text: str) -> None:
    plain = [logs.as_json(record) for record in logs.records([text.encode()], engine=engine)][-1]
    lines = "".join(COLLECTED[collector].format(line) for line in text.rstrip("\n").split("\n"))
    told = [logs.as_json(record) for record in logs.records([lines.encode()], engine=engine)][-1]
    assert plain["kind"] == told["kind"] == "failure"
    assert (told["cause"], told["lines"]) == (plain["cause"], plain["lines"])


NOISE = "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: There appear to be 1 leaked semaphore objects\n"
NOISE += "  warnings.warn('resource_tracker: There appear to be %d '\nroot@gpu-7:/workspace# \n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("usage: launch_server.py [-h]\nlaunch_server.py: error: unrecognized arguments: --x\n", "unknown argument: --x"),
        (f"{TRACE}ImportError: /x/common_ops.abi3.so: undefined symbol: _ZN3c10\n", "an installed package does not fit"),
        (f"{ARGUMENTS}{TRACE}Exception: data did not match any variant of untagged enum ModelWrapper\n",
         "Exception: data did not match any variant"),
    ],
)  # fmt: skip
def test_noise_behind_a_failed_start_takes_nothing_away(text: str, cause: str) -> None:
    assert str(verdict(text + NOISE)["cause"]).startswith(cause)


def test_an_exception_in_the_middle_of_a_start_is_no_end() -> None:
    text = f"{ARGUMENTS}{TRACE}ImportError: cannot import name 'optional' from 'x'\n".replace(
        "ImportError: c", "KeyError: 'c"
    )
    kinds = [record.kind.value for record in logs.records([(text + CAPTURE + NOISE).encode()])]
    assert kinds.count("failure") == 1 and kinds[-1] == "other"


def test_a_front_end_that_still_answers_has_not_ended() -> None:
    """A08: an engine's process failed, and another request was served."""
    kinds = [record.kind.value for record in logs.records([content("A08.log")])]
    assert kinds == ["other", "phase", "decode", "other", "failure", "other", "access"]


def test_an_asynchronous_error_of_nccl_alone_is_no_end() -> None:
    """A15: the lines of several servers."""
    records = list(logs.records([content("A15.log")]))
    assert len(records) == 7 and records[-1].kind.value == "other"


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("llamacpp-port.log", "port 31910 is taken"),
        ("llamacpp-no-model.log", "the model is not there"),
        ("llamacpp-cut.log", "the model's file is damaged or incomplete"),
        ("llamacpp-memory.log", "the host's memory does not suffice"),
        ("vllm-core.log", "the engine core ended unexpectedly"),
        ("vllm-mem.log", "the host's memory does not suffice"),
    ],
)
def test_files_of_real_servers_end_with_their_first_cause(name: str, cause: str) -> None:
    told = [logs.as_json(record) for record in logs.records([content(name)])][-1]
    assert told["kind"] == "failure" and str(told["cause"]).startswith(cause), told
