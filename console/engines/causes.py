"""Why servers die: signatures of what every engine stands on (Python, torch, CUDA, NCCL, compilers, the host)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LINES_KEPT = 12
SEARCHED = 64 * 1024
SEARCHED_LINE = 4096
"""Characters of a folded record, and of a single line, in which a cause is looked for."""

TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Found:
    """A failure recognised in one record."""

    name: str
    cause: str
    lines: tuple[str, ...]
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a failure looks like, and its cause in words."""

    name: str
    pattern: re.Pattern[str]
    cause: str
    r"""A template of the pattern's groups: `\g<port> is taken`."""
    anywhere: bool = False
    """Whether it may stand in a stamped message that is no traceback."""
    needs: str = ""
    """A word that must be in the record, too."""


def sig(name: str, pattern: str, cause: str, anywhere: bool = False, needs: str = "") -> Signature:
    """Return a signature."""
    return Signature(name, re.compile(pattern, re.MULTILINE), cause, anywhere, needs)


COMMON: tuple[Signature, ...] = (
    # memory of the GPU
    sig(
        "gpu-memory",
        r"CUDA out of memory\. Tried to allocate (?P<need>[\d.]+ \w+)\. GPU (?P<gpu>\d+) has a total capacity of "
        r"(?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free\.(?: Process (?P<pid>\d+) has (?P<held>[\d.]+ \w+))?",
        r"GPU \g<gpu> is out of memory: \g<need> asked, \g<free> of \g<total> free",
    ),
    sig("gpu-memory", r"OutOfMemoryError: (?P<what>.{0,200})", r"out of GPU memory: \g<what>"),
    sig("gpu-memory", r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation", "out of GPU memory"),
    # ports and addresses
    sig(
        "port",
        r"\[Errno 98\] error while attempting to bind on address \('(?P<address>[^']*)', (?P<port>\d+)",
        r"port \g<port> is taken: \g<address>:\g<port> is already in use",
        anywhere=True,
    ),
    sig("port", r"OSError: \[Errno 98\] (?:Address already in use)", "a port is taken: address already in use"),
    sig("port", r"zmq\.error\.ZMQError: Address already in use", "a port between the processes is taken (ZMQ)"),
    sig(
        "rendezvous-port",
        r"DistNetworkError: .*?port: (?P<port>\d+).*EADDRINUSE",
        r"the rendezvous port \g<port> is taken",
    ),
    sig(
        "address",
        r"\[Errno 99\] (?:error while attempting to bind on address \('(?P<address>[^']*)'|Cannot assign)",
        r"--host is not an address of this machine",
        anywhere=True,
    ),
    sig("privileged-port", r"\[Errno 13\] error while attempting to bind on address \('[^']*', (?P<port>\d+)",
        r"port \g<port> may only be opened by root", anywhere=True),
    # the command line
    sig("unknown-flag", r"error: unrecognized arguments: (?P<flag>.*)", r"unknown argument: \g<flag>"),
    sig(
        "bad-choice",
        r"error: argument (?P<flag>\S+): invalid choice: (?P<value>'[^']*'|\S+)",
        r"\g<flag> cannot be \g<value>",
    ),
    sig("ambiguous-flag", r"error: ambiguous option: (?P<flag>.*)", r"ambiguous argument: \g<flag>"),
    sig("bad-argument", r"error: argument (?P<flag>\S+): (?P<what>.*)", r"\g<flag>: \g<what>"),
    sig(
        "missing-argument", r"error: the following arguments are required: (?P<flag>.*)", r"missing argument: \g<flag>"
    ),
    # the model
    sig(
        "no-model",
        r"(?:OSError|HFValidationError|RepositoryNotFoundError|LocalEntryNotFoundError|ValueError): (?:"
        r"(?:Repo id must be|Incorrect path_or_model_id|Invalid repository ID)[^\n]*?: ?['\"](?P<path>[^'\"]*)|"
        r"(?P<what>.{0,120}(?:is not a local folder|couldn't connect|does not appear to have)))",
        r"the model is not there: \g<path>\g<what>",
    ),
    sig("no-model", r"FileNotFoundError: .*?(?P<what>[^\s'\"]*/config\.json)", r"the model is not there: no \g<what>"),
    sig("no-weights", r"Cannot find any model weights with `?(?P<what>[^`\n]{0,200})", r"no weights in \g<what>"),
    sig("no-access", r"GatedRepoError|401 Client Error|403 Client Error", "the hub refuses access to the model"),
    sig(
        "weights-file",
        r"SafetensorError: (?P<what>Error while deserializing header: \w+|.{0,160})",
        r"a weights file is damaged or incomplete: \g<what>",
    ),
    sig(
        "architecture",
        r"has model type `(?P<what>[^`]+)` but Transformers does not recognize",
        r"the installed transformers does not know the model type \g<what>",
    ),
    sig(
        "architecture",
        r"Model architectures (?P<what>\[[^\]]*\]) (?:are not supported|failed)",
        r"this version of the engine does not support \g<what>",
    ),
    sig(
        "quantization",
        r"Quantization method specified in the model config \((?P<have>[^)]*)\) does not match the quantization "
        r"method specified in the `?quantization`? argument \((?P<asked>[^)]*)\)",
        r"quantization \g<asked> is asked for, the model is \g<have>",
    ),
    sig(
        "json",
        r"Error: .{0,40}config file at '(?P<what>[^'{}]+)' is not a valid JSON file",
        r"the config file at '\g<what>' is not a valid JSON file",
    ),
    sig("json", r"json\.decoder\.JSONDecodeError: (?P<what>.{0,160})", r"a JSON value or file cannot be read: \g<what>"),
    # GPU, driver, CUDA
    sig("gpu-count", r"CUDA error: invalid device ordinal", "more GPUs are asked for than there are"),
    sig("gpu-count", r"(?:tp_size|world size|tensor.parallel.size)\D{0,20}\d+\D{0,60}(?:available GPUs|number of GPUs|GPUs available)",
        "more GPUs are asked for than there are"),
    sig(
        "driver",
        r"NVIDIA driver on your system is too old \(found version (?P<what>\d+)\)",
        r"the CUDA driver (\g<what>) is too old for this torch",
    ),
    sig(
        "driver",
        r"(?P<what>CUDA driver version is insufficient for CUDA runtime version|forward compatibility was attempted on "
        r"non supported HW|Driver/library version mismatch|unsupported display driver / cuda driver combination|"
        r"system not yet initialized|the provided PTX was compiled with an unsupported toolchain)",
        r"driver and CUDA do not fit: \g<what>",
    ),
    sig(
        "gpu-missing",
        r"No CUDA GPUs are available|CUDA driver initialization failed|Found no NVIDIA driver|"
        r"cuInit.{0,40}(?:fail|error)|Torch not compiled with CUDA enabled",
        "no usable GPU: the CUDA driver does not answer",
    ),
    sig("gpu-fault", r"(?P<what>uncorrectable ECC error encountered|GPU is lost|fallen off the bus|NVLink error|Xid \(.{0,60}\): \d+)",
        r"the GPU has a hardware fault: \g<what>"),
    sig(
        "no-kernel",
        r"(?P<what>no kernel image is available|Unsupported architecture|No valid tactics available|"
        r"NotImplementedError.{0,80}SM\s?\d+|sm_?\d+a? is not supported|SM\s?\d+ is not supported|"
        r"only supports? (?:Ampere|Hopper|Blackwell|SM\s?\d+)[^\n]{0,80}|requires SM\s?(?:>=|<=)?\s?\d+[^\n]{0,60})",
        r"a kernel is missing for this GPU: \g<what>",
    ),
    sig(
        "shared-memory",
        r"out of resource: shared memory, Required: (?P<need>\d+), Hardware limit: (?P<limit>\d+)",
        r"a Triton kernel needs \g<need> bytes of shared memory, this GPU has \g<limit>",
    ),
    sig("gpu-access", r"CUDA error: (?P<what>an illegal memory access was encountered|device-side assert triggered|"
        r"misaligned address|unspecified launch failure|an illegal instruction was encountered)", r"a GPU kernel crashed: \g<what>"),
    # kernels built on the host
    sig(
        "build",
        r"^(?P<what>.{0,200}(?:\berror: |fatal error: |nvcc fatal|ptxas fatal).{0,200})",
        r"building a kernel failed: \g<what>",
        needs="ninja",
    ),
    sig(
        "build",
        r"ninja: build stopped|returned non-zero exit status.*ninja|Command '\['ninja'|Error building extension|"
        r"CalledProcessError: Command '?\[[^\]]*(?:nvcc|gcc|g\+\+|clang|cicc|hipcc|ptxas)|Internal Triton PTX codegen error",
        "building a kernel failed",
    ),
    sig("no-compiler", r"(?:Could not find (?P<what>nvcc)|CUDA_HOME environment variable is not set|"
        r"Failed to find C compiler)", "a kernel must be built, and there is no compiler"),
    # processes that talk to each other
    sig(
        "nccl",
        r"Watchdog caught collective operation timeout: WorkNCCL\(.*?OpType=(?P<op>\w+)",
        r"NCCL hung: \g<op> timed out",
        anywhere=True,
    ),
    sig("nccl", r"Duplicate GPU detected : (?P<what>[^\n]{0,120})", r"NCCL: two ranks use one GPU: \g<what>"),
    sig("nccl", r"^Last error:\s+(?P<what>[^\n]{1,200})", r"NCCL error: \g<what>", needs="nccl"),
    sig("nccl", r"NCCL error: (?P<what>[^\n.;]{0,120})", r"NCCL error: \g<what>", anywhere=True),
    sig("nccl", r"ncclUnhandledCudaError|DistBackendError", "NCCL error"),
    sig("rendezvous", r"DistStoreError: (?P<what>Timed out after \d+ seconds[^\n]{0,120})", r"not all ranks came: \g<what>"),
    # the host
    sig("disk-full", r"\[Errno 28\] No space left on device(?:: '(?P<what>[^']*)')?|No space left on device",
        r"no space left on device \g<what>"),
    sig("shm", r"unable to (?:open|allocate|mmap) shared memory|insufficient shared memory|Bus error",
        "shared memory (/dev/shm) is too small"),
    sig("permission", r"PermissionError: \[Errno 13\] Permission denied(?:: '(?P<what>[^']*)')?", r"permission denied: \g<what>"),
    sig("open-files", r"\[Errno 24\] Too many open files", "too many open files"),
    sig("host-memory", r"\[Errno 12\] Cannot allocate memory|^MemoryError|std::bad_alloc", "the host has no memory left"),
    sig("host-memory", r"Out of memory: Killed process (?P<pid>\d+) \((?P<what>[^)]*)\)|oom-kill:.*task=(?P<task>[^,]*),pid=(?P<task_pid>\d+)",
        r"the kernel killed \g<what>\g<task> (pid \g<pid>\g<task_pid>): the host had no memory left", anywhere=True),
    # what is installed
    sig(
        "no-module",
        r"ModuleNotFoundError: No module named '(?P<what>[^']*)'|No module named (?P<other>[\w.]+)$",
        r"the Python package \g<what>\g<other> is not installed for this interpreter",
    ),
    sig("library", r"(?:ImportError|OSError): (?P<what>[^\s:]+\.so[.\d]*): cannot open shared object file",
        r"the library \g<what> is not there"),
    sig("library", r"ImportError: .*?(?P<what>undefined symbol: \S+|version `[^']+' not found)",
        r"an installed package does not fit the others: \g<what>"),
    sig("library", r"ImportError: (?P<what>cannot import name .{0,160})", r"an installed package does not fit the others: \g<what>"),
    sig("no-start", r"^tokwatt: cannot start (?P<what>.*)", r"the server could not be started: \g<what>"),
    sig("no-file", r"can't open file '(?P<what>[^']*)'", r"\g<what> does not exist"),
)  # fmt: skip

HINTS: Mapping[str, str] = {
    "gpu-memory": "spread the model over more GPUs, or lower the share of memory it takes",
    "port": "stop its owner, or change port under [launch]",
    "rendezvous-port": "a left-over process may hold it; serve status tells",
    "address": "use 127.0.0.1 or 0.0.0.0",
    "privileged-port": "choose a port above 1023",
    "no-model": "check model-path on the host",
    "no-weights": "check that the download is complete",
    "no-access": "HF_TOKEN must be one that may read this model",
    "weights-file": "compare the file's size and hash with the source's; a Git LFS pointer has 130 bytes",
    "architecture": "upgrade the engine (or transformers), or choose another model",
    "quantization": "leave quantization out, or name the model's own",
    "json": "check the quotes of JSON values in the launch arguments, and config.json",
    "gpu-count": "lower tp-size, or check CUDA_VISIBLE_DEVICES",
    "driver": "choose a torch built for the driver's CUDA version; nvidia-smi tells it",
    "gpu-missing": "check nvidia-smi on the host and CUDA_VISIBLE_DEVICES",
    "gpu-fault": "look at dmesg and nvidia-smi -q; the card may need a reset",
    "no-kernel": "choose another backend flag",
    "shared-memory": "choose another attention or MoE backend, or a smaller block size",
    "gpu-access": "launch with CUDA_LAUNCH_BLOCKING=1 to find the kernel; try another backend",
    "build": "check nvcc, CUDA_HOME and TORCH_CUDA_ARCH_LIST on the host",
    "no-compiler": "install the compiler, or set CUDA_HOME under [launch.env]",
    "nccl": "launch with NCCL_DEBUG=INFO; check P2P (NCCL_P2P_DISABLE=1), IOMMU and the interface variables",
    "rendezvous": "check that every node reaches the first one's address and port",
    "disk-full": "free space there, or move the cache (HF_HOME, FLASHINFER_WORKSPACE_BASE)",
    "shm": "enlarge it (docker run --shm-size, or --ipc=host)",
    "permission": "check who owns it; the server runs as the login's user",
    "open-files": "raise the limit (ulimit -n)",
    "host-memory": "the host's memory is used up: look at what else runs there",
    "no-module": "check [engine] python",
    "library": "reinstall the packages together, in versions that belong together",
}
"""What to try; an engine's own words come before these."""

COMPILER = re.compile(
    r"^(?P<what>[^\s:(]+[:(]\d+(?:[:,]\d+)?\)?: (?:fatal )?error[ :].*|(?:nvcc|ptxas) fatal\s*:.*|"
    r"(?:collect2|ld|/\S*/ld): (?:error: |cannot find ).*)",
    re.MULTILINE,
)
"""A compiler's complaint: many lines above the exception that says no more than that a build failed."""

_WORTH_A_LOOK = re.compile(
    r"rror|xception|fatal|[Kk]illed|[Ff]ail|[Nn]ot |No |[Oo]ut of|atchdog|NCCL|nccl|used by|crashed|too old|"
    r"nsupported|mismatch|annot|Traceback|is dead|^tokwatt|oom-kill|[Rr]equire|only support|Duplicate|lost|Xid"
)
_THROWN = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?(?P<what>[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout)\b.*)$", re.MULTILINE
)


def found_in(message: str, signatures: Iterable[Signature], stamped: bool, usage: str = "") -> Found | None:
    """Return the failure that a record tells of.

    Args:
        message: The record without prefixes, continuation lines included.
        signatures: What to look for, in this order.
        stamped: Whether an engine's stamp stood before it: then it tells a failure only in a traceback.
        usage: The usage text printed before, for near misses.
    """
    folded = is_traceback(message)
    message = searched(message, folded)
    if not _WORTH_A_LOOK.search(message):
        return None
    for candidate in signatures:
        if (stamped and not folded and not candidate.anywhere) or candidate.needs not in message:
            continue
        if match := candidate.pattern.search(message):
            return Found(candidate.name, _cause(candidate, match, usage), proof(message, match), _values(match))
    return None


def is_traceback(message: str) -> bool:
    """Return whether a record is, or holds, a traceback."""
    return "\n" in message and TRACEBACK in message


def searched(message: str, folded: bool) -> str:
    """Return the part of a record that is looked at: patterns must not run over megabytes."""
    most = SEARCHED if folded else SEARCHED_LINE
    return message if len(message) <= most else f"{message[: most // 2]}\n{message[-most // 2 :]}"


def thrown(message: str) -> str:
    """Return the last exception line of a traceback, or its last line."""
    lines = _THROWN.findall(message)
    return (lines[-1] if lines else message.rstrip().rpartition("\n")[2])[:300]


def proof(message: str, match: re.Match[str]) -> tuple[str, ...]:
    """Return the whole lines of a match."""
    start = message.rfind("\n", 0, match.start()) + 1
    end = message.find("\n", match.end())
    return tuple(message[start : end if end >= 0 else len(message)].split("\n")[:LINES_KEPT])


def crash(who: str, code: int) -> str:
    """Return how a child process ended, in words."""
    how = {
        -9: "was killed (SIGKILL)",
        -11: "crashed (segmentation fault)",
        -6: "aborted",
        -4: "crashed (illegal instruction: built for another processor)",
        -7: "crashed (bus error: shared memory may be too small)",
        -15: "was ended (SIGTERM)",
    }.get(code)
    return f"{who} {how or f'ended with exit code {code}'}"


def _values(match: re.Match[str]) -> dict[str, object]:
    values: dict[str, object] = {key: value for key, value in match.groupdict().items() if value is not None}
    for key in ("port", "gpu", "seconds", "pid", "task_pid"):
        if key in values:
            values[key] = int(str(values[key]))
    return values


def _cause(candidate: Signature, match: re.Match[str], usage: str) -> str:
    cause = " ".join(match.expand(candidate.cause).split())
    groups = match.groupdict()
    if candidate.name == "gpu-memory" and groups.get("held"):
        cause += f"; process {groups['pid']} holds {groups['held']} of it"
    if candidate.name == "unknown-flag" and usage:
        known = sorted(set(re.findall(r"--[a-z0-9][\w-]*", usage)))
        for word in match["flag"].split():
            if word.startswith("--") and (close := difflib.get_close_matches(word, known, n=1, cutoff=0.6)):
                return f"{cause} (did you mean {close[0]}?)"
    return cause
