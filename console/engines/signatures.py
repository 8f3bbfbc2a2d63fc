"""Why servers die: signatures of what every engine stands on (Python, torch, CUDA, NCCL, compilers, the host)."""

from __future__ import annotations

from collections.abc import Mapping

from console.engines.causes import Signature, sig

COMMON: tuple[Signature, ...] = (
    # memory of the GPU
    sig(
        "gpu-memory",
        r"CUDA out of memory\. Tried to allocate (?P<need>[\d.]+ \w+)\. GPU (?P<gpu>\d+) has a total capacity of "
        r"(?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free\.(?: Process (?P<pid>\d+) has (?P<held>[\d.]+ \w+))?",
        r"GPU \g<gpu> is out of memory: \g<need> asked, \g<free> of \g<total> free",
    ),
    sig("gpu-memory", r"OutOfMemoryError: (?P<what>.{0,200})", r"the GPU is out of memory: \g<what>"),
    sig("gpu-memory", r"CUDA out of memory (?P<what>occurred when [^.\n]{0,120})", r"the GPU is out of memory: \g<what>"),
    sig("gpu-memory", r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation", "the GPU is out of memory"),
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
        "hub",
        r"^(?:OSError: We couldn't connect to '(?P<what>https?://[^']+)'|(?:[\w.]+\.)?(?:ConnectionError|MaxRetryError|ProxyError|"
        r"ConnectTimeout|SSLError)[:(].{0,120}?host=\\?['\"](?P<host>[^'\"\\]+))",
        r"the model is not on the host, and the hub (\g<what>\g<host>) is not reached",
    ),
    sig(
        "remote-code",
        r"(?:(?P<what>\S+) contains custom code which must be executed|requires you to execute the configuration file)",
        r"the model brings code of its own, which is not allowed: \g<what>",
    ),
    sig(
        "architecture",
        r"Unrecognized model in (?P<what>\S+?)\. Should have a `model_type` key",
        r"config.json of \g<what> has no model_type that the installed transformers knows",
    ),
    sig(
        "weights-mismatch",
        r"(?P<what>Following weights were not initialized from checkpoint: .{0,160}|There is no module or parameter named .{0,120}|"
        r"^KeyError: '(?:model|language_model|transformer|lm_head|visual)\.[^']{1,160}'|"
        r"^AssertionError: param_data\.shape=.{0,160}|size mismatch for .{0,160})",
        r"the weights do not fit what the engine makes of the model: \g<what>",
    ),
    sig(
        "divide",
        r"(?P<what>(?:Weight \w+ = )?\d+ (?:is not divisible by|must be divisible by) (?:[a-z ]*block_[nk] = )?\d+)",
        r"a size of the model is not to be divided so: \g<what>",
    ),
    sig(
        "divide",
        r"^[ \t]+assert (?P<what>[^\n]*%[^\n]*== 0)[^\n]*\n(?:[ \t]*[\^~ ]+\n)?AssertionError",
        r"a size of the model is not to be divided so: \g<what>",
    ),
    sig(
        "no-model",
        r"(?:OSError|HFValidationError|RepositoryNotFoundError|LocalEntryNotFoundError|ValueError): (?:"
        r"(?:Repo id must be|Incorrect path_or_model_id|Invalid repository ID)[^\n]*?: ?['\"](?P<path>[^'\"]*)|"
        r"(?P<what>.{0,120}(?:is not a local folder|couldn't connect|does not appear to have)))",
        r"the model is not there: \g<path>\g<what>",
    ),
    sig("no-model", r"FileNotFoundError: .*?(?P<what>[^\s'\"]*/config\.json)", r"the model is not there: no \g<what>"),
    sig("no-weights", r"FileNotFoundError: .*?(?P<what>[^\s'\"]+\.(?:safetensors|bin|gguf|pt))", r"a weights file is not there: \g<what>"),
    sig("no-weights", r"Cannot find any model weights with `?(?P<what>[^`\n]{0,200})", r"no weights in \g<what>"),
    sig("no-access", r"GatedRepoError|401 Client Error|403 Client Error", "the hub refuses access to the model"),
    sig(
        "weights-file",
        r"SafetensorError: (?P<what>Error while deserializing header: [^\n]{1,120}|.{0,160})",
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
        r"(?P<what>libcuda\.so\.1): cannot open shared object file",
        r"no usable GPU: the driver's library \g<what> is not there",
    ),
    sig(
        "gpu-missing",
        r"(?P<what>Failed to infer device type|Current node has no GPU available)",
        r"no usable GPU: \g<what>",
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
        r"quantization method (?P<what>\S+) is not supported for the current GPU\. Minimum capability: (?P<need>\d+)\. "
        r"Current capability: (?P<have>\d+)",
        r"a kernel is missing for this GPU: quantization \g<what> needs compute capability \g<need>, it has \g<have>",
    ),
    sig(
        "dtype",
        r"Bfloat16 is only supported on GPUs with compute capability of at least (?P<need>[\d.]+)\. Your (?P<gpu_name>.{0,60}?) GPU "
        r"has compute capability (?P<have>[\d.]+)",
        r"Bfloat16 needs compute capability \g<need>, \g<gpu_name> has \g<have>",
    ),
    sig(
        "no-kernel",
        r"(?P<what>No compiled \w+ for (?:CUDA )?(?:current )?device[^\n]{0,60}|No valid attention backend found[^\n]{0,60}|"
        r"FlashAttention (?:forward )?only supports[^\n]{0,80}|expected sm_?\d+[^\n]{0,40}|Check failed: \(?(?:major|sm)\b[^\n]{0,60}|"
        r"only supports? sm_?\d+[^\n]{0,60})",
        r"a kernel is missing for this GPU: \g<what>",
    ),
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
        "toolkit",
        r"ptxas fatal\s*: Value '(?P<what>sm_\w+)' is not defined|nvcc fatal\s*: Unsupported gpu architecture '(?P<arch>\w+)'",
        r"the CUDA compiler on the host does not know this GPU: \g<what>\g<arch>",
    ),
    sig(
        "no-compiler",
        r"(?P<what>\S*\b(?:nvcc|gcc|g\+\+|c\+\+|cc|ninja|cmake|ptxas)): (?:command )?not found|No such file or directory: "
        r"'(?P<path>(?:[^']*/)?(?:nvcc|gcc|g\+\+|c\+\+|cc|ninja|cmake|ptxas))'",
        r"a kernel must be built, and there is no compiler: \g<what>\g<path> is not there",
    ),
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
    sig("build", r"(?P<what>(?:NVCC|NVRTC) compilation failed)", r"building a kernel failed: \g<what>"),
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
    sig(
        "shm",
        r"(?P<what>Error while creating shared memory segment /dev/shm/\S+[^\n]{0,120})",
        r"shared memory (/dev/shm) is too small: \g<what>",
    ),
    sig("nccl", r"^Last error:\s+(?P<what>[^\n]{1,200})", r"NCCL error: \g<what>", needs="nccl"),
    sig("nccl", r"NCCL error: (?P<what>[^\n.;]{0,120})", r"NCCL error: \g<what>", anywhere=True),
    sig("nccl", r"ncclUnhandledCudaError|DistBackendError", "NCCL error"),
    sig(
        "rendezvous",
        r"DistNetworkError: The client socket has timed out after (?P<ms>\d+) ?ms while trying to connect to "
        r"\((?P<address>[^,)]+), (?P<port>\d+)\)",
        r"the first node does not answer at \g<address>:\g<port>",
    ),
    sig(
        "interface",
        r"gloo\S* connect \[(?P<address>[^\]]+)\]:(?P<port>\d+): (?P<what>[^\n]{0,80})",
        r"a rank is not reached at \g<address>:\g<port>: \g<what>",
    ),
    sig("rendezvous", r"DistStoreError: (?P<what>Timed out after \d+ seconds[^\n]{0,120})", r"not all ranks came: \g<what>"),
    # the host
    sig("disk-full", r"\[Errno 28\] No space left on device(?:: '(?P<what>[^']*)')?|No space left on device",
        r"no space left on device \g<what>"),
    sig("shm", r"unable to (?:open|allocate|mmap) shared memory|insufficient shared memory|Bus error",
        "shared memory (/dev/shm) is too small, or a mapped file was cut off"),
    sig("permission", r"PermissionError: \[Errno 13\] Permission denied(?:: '(?P<what>[^']*)')?", r"permission denied: \g<what>"),
    sig("open-files", r"\[Errno 24\] Too many open files", "too many open files"),
    sig("host-memory", r"DefaultCPUAllocator: can't allocate memory: you tried to allocate (?P<need>\d+ bytes)",
        r"the host's memory does not suffice: \g<need> asked", anywhere=True),
    sig("host-memory", r"\[Errno 12\] Cannot allocate memory|^MemoryError|std::bad_alloc", "the host has no memory left"),
    sig("host-memory", r"Out of memory: Killed process (?P<pid>\d+) \((?P<what>[^)]*)\)|oom-kill:.*task=(?P<task>[^,]*),pid=(?P<task_pid>\d+)",
        r"the kernel killed \g<what>\g<task> (pid \g<pid>\g<task_pid>): the host had no memory left", anywhere=True),
    sig("host-memory", r"(?P<what>Detected \d+ oom[_-]kill event[^\n]{0,60}|task \d+: Out Of Memory|Failed with result 'oom-kill'|"
        r"OOMKilled)", r"the host's memory did not suffice: \g<what>", anywhere=True),
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
    sig("library", r"(?P<what>operator torchvision::nms does not exist)",
        r"an installed package does not fit the others: \g<what>"),
    sig("library", r"ImportError: (?P<what>cannot import name .{0,160})", r"an installed package does not fit the others: \g<what>"),
    sig("no-start", r"^tokwatt: cannot start (?P<what>.*)", r"the server could not be started: \g<what>"),
    sig("no-file", r"can't open file '(?P<what>[^']*)'", r"\g<what> does not exist"),
    # ends of native code: what they say is seldom the cause, and often all there is
    sig("native", r"Fatal Python error: Segmentation fault|^!{5,} ?Segfault encountered|^Segmentation fault\b",
        "the process crashed (segmentation fault)"),
    sig("native", r"terminate called after throwing an instance of '(?P<kind>[^']+)'\n\s*what\(\):\s*(?P<what>[^\n]{1,200})",
        r"the process crashed: \g<what>"),
    sig("native", r"Fatal Python error: (?P<what>[^\n]{1,120})", r"the process crashed: \g<what>"),
)  # fmt: skip

HINTS: Mapping[str, str] = {
    "gpu-memory": "spread the model over more GPUs, or lower the share of memory it takes",
    "port": "stop its owner, or change port under [launch]",
    "rendezvous-port": "a left-over process may hold it; serve status tells",
    "address": "use 127.0.0.1 or 0.0.0.0",
    "privileged-port": "choose a port above 1023",
    "unknown-flag": "profile check names the flags that this install takes, and new names of old ones",
    "ambiguous-flag": "write the flag whole",
    "bad-choice": "the usage in the log has the choices; profile check tells them before a launch",
    "bad-argument": "profile check tells what this install takes for it",
    "missing-argument": "add it under [launch.args]",
    "no-model": "check model-path on the host",
    "hub": "check model-path; else download it before, or set a proxy or HF_ENDPOINT under [launch.env]",
    "remote-code": "set trust-remote-code = true, if you trust that code",
    "weights-mismatch": "compare the checkpoint with the engine's version and with quantization",
    "divide": "choose a smaller tp-size that divides the model's heads and sizes",
    "dtype": 'set dtype = "half"',
    "toolkit": "point CUDA_HOME (and TRITON_PTXAS_PATH) to a CUDA that knows this GPU",
    "interface": "set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME; the host's own name must not stand for 127.0.1.1",
    "native": "look at the stack in the log; launch with PYTHONFAULTHANDLER=1, and try another backend",
    "no-weights": "check that the download is complete",
    "no-access": "HF_TOKEN must be one that may read this model",
    "weights-file": "compare the file's size and hash with the source's; a Git LFS pointer has 130 bytes",
    "architecture": "upgrade the engine (or transformers), or choose another model",
    "quantization": "leave quantization out, or name the model's own",
    "json": "check the quotes of JSON values in the launch arguments, and config.json",
    "gpu-count": "lower tp-size, or check CUDA_VISIBLE_DEVICES",
    "driver": "choose a torch built for the driver's CUDA version; nvidia-smi tells it",
    "gpu-missing": "check nvidia-smi on the host and CUDA_VISIBLE_DEVICES; a container needs --gpus all",
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
