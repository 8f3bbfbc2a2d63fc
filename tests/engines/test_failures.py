"""The first cause, in words, with what to try and the lines that prove it."""

from __future__ import annotations

import pytest

from console.domain.run import LogKind
from console.operations import logs
from tests.engines.recorded import content, read, watched

HEAD = "[2026-01-02 03:04:00] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.9)\n"
HIT = "[2026-01-02 03:05:00 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
FRAME = '  File "/opt/sglang/srt/managers/scheduler.py", line 2181, in run\n    self.step()\n'
END = "\n[2026-01-02 03:05:01] Received sigquit from a child process. It usually means the child failed.\nKilled\n"

THROWN = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 94.97 GiB of "
    "which 1.12 GiB is free. Process 4711 has 80.10 GiB memory in use. Including non-PyTorch memory": (
        "GPU 1 is out of memory: 2.00 GiB asked, 1.12 GiB of 94.97 GiB free; process 4711 holds 80.10 GiB of it",
        "process 4711 holds 80.10 GiB",
    ),
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": (
        "a kernel is missing for this GPU: no kernel image is available",
        "backend",
    ),
    "AssertionError: sm_120 is not supported by this kernel": ("a kernel is missing for this GPU: sm_120", "backend"),
    "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use `--attention-backend flashinfer`.": (
        "a kernel is missing for this GPU: requires SM>=80 and SM<=90",
        "attention-backend",
    ),
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. "
    "Reducing block sizes or `num_stages` may help.": (
        "a Triton kernel needs 131072 bytes of shared memory, this GPU has 101376",
        "another attention or MoE backend",
    ),
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered": (
        "a GPU kernel crashed: an illegal memory access was encountered",
        "CUDA_LAUNCH_BLOCKING",
    ),
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/ProcessGroupNCCL.cpp:3690, unhandled system error (run "
    "with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclSystemError: System call (e.g. socket, malloc) or "
    "external library call failed or device error.\nLast error:\nError while creating shared memory segment "
    "/dev/shm/nccl-KZQBdN (size 9637888), error: No space left on device (28)": (
        "shared memory (/dev/shm) is too small: Error while creating shared memory segment /dev/shm/nccl-KZQBdN",
        "--shm-size",
    ),
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, invalid usage\nLast error:\nDuplicate GPU "
    "detected : rank 1 and rank 0 both on CUDA device 4000": (
        "NCCL: two ranks use one GPU: rank 1 and rank 0 both on CUDA device 4000 on TP1",
        "NCCL_DEBUG",
    ),
    "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update": (
        "the CUDA driver (12040) is too old for this torch",
        "driver's CUDA version",
    ),
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non "
    "supported HW": ("driver and CUDA do not fit: forward compatibility", "driver's CUDA version"),
    "OSError: [Errno 28] No space left on device: '/root/.cache/flashinfer/x.so'": (
        "no space left on device /root/.cache/flashinfer/x.so",
        "HF_HOME",
    ),
    "PermissionError: [Errno 13] Permission denied: '/models/GLM'": ("permission denied: /models/GLM", "who owns it"),
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory": (
        "the library libcudart.so.12 is not there",
        "reinstall",
    ),
    "ImportError: /x/sgl_kernel/common_ops.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab": (
        "an installed package does not fit the others: undefined symbol: _ZN3c104cuda9SetDeviceEab",
        "reinstall",
    ),
    "ModuleNotFoundError: No module named 'flashinfer'": (
        "the Python package flashinfer is not installed for this interpreter",
        "[engine] python",
    ),
    "ValueError: The checkpoint you are trying to load has model type `glm5_moe` but Transformers does not recognize this "
    "architecture.": ("the installed transformers does not know the model type glm5_moe", "upgrade"),
    "ValueError: Model architectures ['Glm5ForCausalLM'] are not supported for now.": (
        "this version of the engine does not support ['Glm5ForCausalLM']",
        "upgrade",
    ),
    "ValueError: Quantization method specified in the model config (fp8) does not match the quantization method specified "
    "in the `quantization` argument (modelopt_fp4).": (
        "quantization modelopt_fp4 is asked for, the model is fp8",
        "leave quantization out",
    ),
    "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge": (
        "a weights file is damaged or incomplete: Error while deserializing header: HeaderTooLarge",
        "Git LFS",
    ),
    "RuntimeError: Cannot find any model weights with `/models/GLM`": ("no weights in /models/GLM", "download"),
    "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 3 column 5 (char 40)": (
        "a JSON value or file cannot be read: Expecting ',' delimiter",
        "quotes",
    ),
    "AssertionError: rpc_port 30100 is used by a process already": (
        "SGLang's internal rpc_port 30100 is taken",
        "not the HTTP port",
    ),
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.": (
        "not all ranks came: Timed out after 601 seconds",
        "every node",
    ),
    "RuntimeError: the group size 32 does not divide 48": (
        "Scheduler failed: RuntimeError: the group size 32 does not divide 48 on TP1",
        "",
    ),
    "OSError: [Errno 24] Too many open files": ("too many open files", "ulimit"),
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 8284802048 bytes. Error code 12 (Cannot allocate memory)": (
        "the host's memory does not suffice: 8284802048 bytes asked",
        "max-total-tokens",
    ),
}


@pytest.mark.parametrize("line", THROWN, ids=[line[:60] for line in THROWN])
def test_what_a_scheduler_throws(line: str) -> None:
    cause, hint = THROWN[line]
    records = read((HEAD + HIT + FRAME + line + "\n" + END).encode())
    failure = watched(records).failure()
    assert failure is not None, [record.values for record in records]
    assert failure.cause.startswith(cause)
    assert hint in failure.hint
    assert failure.lines and all(shown in line + FRAME for shown in failure.lines[-1:])


NVCC = """[1/3] /usr/local/cuda/bin/nvcc -c fused_moe.cu -o fused_moe.o
FAILED: fused_moe.o
/opt/flashinfer/csrc/fused_moe.cu(212): error: namespace "cute" has no member "SM120_TMA_LOAD"
/opt/flashinfer/csrc/fused_moe.cu(213): error: too many errors
ninja: build stopped: subcommand failed.
"""


def test_a_failed_build_names_the_first_complaint_of_the_compiler() -> None:
    """Inside the exception, and printed by the compiler long before it."""
    wanted = '/opt/flashinfer/csrc/fused_moe.cu(212): error: namespace "cute" has no member "SM120_TMA_LOAD"'
    inside = HEAD + HIT + FRAME + "RuntimeError: Ninja build failed. Ninja output:\n" + NVCC + END
    before = HEAD + NVCC.replace("ninja: build stopped: subcommand failed.\n", "") + HIT + FRAME
    before += "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n" + END
    for text in (inside, before):
        failure = watched(read(text.encode())).failure()
        assert failure is not None
        assert failure.cause == f"building a kernel failed: {wanted}"
        assert failure.lines[0] == wanted


def test_a_missing_header_of_triton_is_told() -> None:
    text = (
        HEAD
        + "/tmp/tmpq/main.c:5:10: fatal error: Python.h: No such file or directory\ncompilation terminated.\n"
        + HIT
    )
    text += FRAME + "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpq/main.c', '-O3']' returned "
    failure = watched(read((text + "non-zero exit status 1.\n" + END).encode())).failure()
    assert failure is not None
    assert failure.cause.endswith("main.c:5:10: fatal error: Python.h: No such file or directory")


@pytest.mark.parametrize(
    ("phase", "line", "hint"),
    [
        ("weights", "Load weight begin. avail mem=90.00 GB", "do not fit"),
        ("cuda graphs", "Capture cuda graph begin. This can take up to several minutes. avail mem=9.00 GB", "cuda-graph-max-bs"),
        ("while serving", "The server is fired up and ready to roll!", "max-running-requests"),
    ],
)  # fmt: skip
def test_out_of_memory_by_phase(phase: str, line: str, hint: str) -> None:
    thrown = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 94.97 "
    )
    text = (
        HEAD + f"[2026-01-02 03:04:50 TP1] {line}\n" + HIT + FRAME + thrown + "GiB of which 0.12 GiB is free.\n" + END
    )
    failure = watched(read(text.encode())).failure()
    assert failure is not None
    assert phase in failure.cause and hint in failure.hint


def test_another_process_that_holds_the_card_is_told_from_a_flag_that_is_too_low() -> None:
    """The same words of SGLang; what was free before the weights, and what it set aside, tell them apart."""
    held = watched(read(content("gpu-in-use.log"))).failure()
    low = watched(read(content("mem-too-low.log"))).failure()
    assert held is not None and low is not None
    assert held.cause == (
        "the weights leave no GPU memory for the KV cache (during: kv cache); only 11.69 GB of it were free before the "
        "weights, so others hold at least 70 GB of the card"
    )
    assert held.hint == "stop the process that holds the card; mem-fraction-static is not the cause"
    assert held.lines[0].endswith("Load weight begin. avail mem=11.69 GB")
    assert low.cause == "the weights leave no GPU memory for the KV cache (during: kv cache)"
    assert low.hint == "raise mem-fraction-static (0.02)"


def test_a_peer_that_is_gone_is_no_cause_when_one_is_known() -> None:
    """Other ranks print a closed connection first; the rank that failed comes later in the file."""
    closed = HIT + FRAME + "RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.1]:4711\n"
    crash = "[2026-01-02 03:05:01] Subprocess scheduler_0 (pid=46) crashed with exit code -11. Triggering SIGQUIT\n"
    failure = watched(read((HEAD + closed + crash + END).encode())).failure()
    assert failure is not None and failure.cause == "scheduler_0 crashed (segmentation fault)"
    alone = watched(read((HEAD + closed + END).encode()))
    assert alone.failure() is None
    told = alone.failure(ended=True)
    assert told is not None and told.cause.startswith("another process was lost: RuntimeError: [gloo")


def test_which_rank_nccl_hung_on() -> None:
    line = (
        "[rank3]:[E1211 09:42:50.285517203 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for 600012 milliseconds\n"
    )
    failure = watched(read((HEAD + line + END).encode())).failure()
    assert failure is not None
    assert failure.cause == "NCCL hung: ALLREDUCE timed out on rank3"


def test_the_kernel_is_named_as_killer_only_with_evidence() -> None:
    crash = "[2026-01-02 03:05:01] Subprocess scheduler_0 (pid=46) crashed with exit code -9. Triggering SIGQUIT\n"
    plain = watched(read((HEAD + crash + END).encode())).failure()
    assert plain is not None and plain.cause == "scheduler_0 was killed (SIGKILL)" and "dmesg" in plain.hint
    kernel = "[  812.1] Out of memory: Killed process 46 (sglang::schedul) total-vm:9kB, anon-rss:8kB\n"
    shown = watched(read((HEAD + kernel + crash + END).encode())).failure()
    assert shown is not None
    assert shown.cause == "the kernel killed sglang::schedul (pid 46): the host had no memory left"


def test_killed_alone_is_told_for_what_it_is() -> None:
    """No cause is known, and nobody is named; an end that was asked for is none."""
    text = HEAD + "[2026-01-02 03:05:00] Decode batch, #running-req: 1\n"
    records = read((text + "Killed\n").encode())
    assert [record.kind for record in records if record.kind is LogKind.FAILURE] == []
    watch = watched(records)
    assert watch.ended and watch.failure() is None
    told = watch.failure(ended=True)
    assert told is not None and told.cause == "killed (SIGKILL); the log does not tell by whom (while serving)"
    assert "dmesg" in told.hint and told.lines == ("Killed",)
    asked = watched(read((text + "[2026-01-02 03:05:09] SIGTERM received. signum=15\nKilled\n").encode()))
    assert asked.ended and asked.failure(ended=True) is None


@pytest.mark.parametrize(
    ("left", "ended"), [("0. Remaining requests remaining_rids=[]", True), ("2.", False), ("10.", False)]
)
def test_a_drain_is_over_when_nothing_remains(left: str, ended: bool) -> None:
    """SGLang 0.5.9 kills itself then without a further word."""
    text = (
        HEAD + "[2026-01-02 03:05:00] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...\n"
    )
    watch = watched(
        read((text + f"[2026-01-02 03:05:05] Gracefully exiting... Remaining number of requests {left}\n").encode())
    )
    assert watch.stopping and watch.ended is ended


def test_a_stall_ends_in_one_incident() -> None:
    """A13: the watchdog is the cause, 137 its consequence; nothing is said of memory."""
    failure = watched(read(content("A13.log"))).failure()
    assert failure is not None
    assert failure.cause == (
        "the scheduler made no step for 300 s (watchdog) on TP3, stalled since 2025-10-29 11:26:58"
    )


def test_the_last_record_of_a_failed_file_repeats_the_cause_with_its_lines() -> None:
    text = HEAD + HIT + FRAME + "ModuleNotFoundError: No module named 'flashinfer'\n" + END
    *_, last = logs.records([text.encode()])
    told = logs.as_json(last)
    assert told["kind"] == "failure"
    assert told["cause"] == "the Python package flashinfer is not installed for this interpreter"
    assert told["lines"] == ["ModuleNotFoundError: No module named 'flashinfer'"]


def test_messages_of_users_and_of_healthy_servers_are_no_failures() -> None:
    lines = [
        "[2026-01-02 03:04:05] Receive: obj=GenerateReqInput(text='CUDA out of memory. error: unrecognized arguments: x')",
        "[2026-01-02 03:04:06] No module named 'tilelang'",
        "[2026-01-02 03:04:06] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        "[2026-01-02 03:04:07] Ignore import error when loading sglang.srt.models.x: No module named 'y'",
        "nanobind: leaked 64 types!",
    ]
    records = read(("\n".join(lines) + "\n").encode())
    assert len(records) == 5
    assert not [record.raw for record in records if record.kind is LogKind.FAILURE]


def test_a_broken_config_is_named_by_its_file_although_the_parser_failed_first() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/x/configuration_utils.py", line 884, in _get_config_dict\n'
        "    config_dict = cls._dict_from_json_file(resolved_config_file)\n"
        "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column 38 (char 37)\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/x/configuration_utils.py", line 889, in _get_config_dict\n'
        "    f\"It looks like the config file at '{resolved_config_file}' is not a valid JSON file.\"\n"
        "OSError: It looks like the config file at '/m/config.json' is not a valid JSON file.\n"
    )
    failure = watched(read((HEAD + text).encode())).failure(ended=True)
    assert failure is not None and failure.cause == "the config file at '/m/config.json' is not a valid JSON file"
