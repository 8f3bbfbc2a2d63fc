"""What a launch meets beside its package's commit: code that nothing recorded, start-up files, variables, the model."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import git, packages, recorded, resolving
from .calls import Call, Fault, Operation, Result
from .files import sha256_of
from .paths import strings, to_bytes, to_text

ASK = (
    "import site,sys,json\n"
    "own=getattr(site,'getusersitepackages',str)() if site.ENABLE_USER_SITE else ''\n"
    "said={'version':'%%d.%%d.%%d'%%sys.version_info[:3],'path':sys.path,'sites':[*site.getsitepackages(),own]}\n"
    "print('%s'+json.dumps(said)+'%s')" % (packages.MARK.decode(), packages.MARK.decode())
)

VARIABLES = (
    "CUDA_", "CUBLAS", "CUDNN", "NCCL_", "NVSHMEM_", "NVIDIA_", "UCX_", "GLOO_", "SGLANG_", "SGL_", "VLLM_",
    "TORCH", "PYTORCH_", "TRITON_", "FLASHINFER_", "TRTLLM_", "TVM_", "DG_", "OMP_", "MKL_", "HF_", "LD_PRELOAD",
    "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONOPTIMIZE", "MALLOC_",
)  # fmt: skip
"""Beginnings of names that engines, kernels and their libraries listen to."""

CODE = (".py", ".so", ".pyd")
STARTING = ("sitecustomize.py", "usercustomize.py")
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz", ".h5", ".msgpack", ".onnx")
SMALL = 64 << 20
"""A file of a model up to this size is hashed; of larger ones the size is told."""
PROSE = (".md", ".txt.orig", ".png", ".jpg", ".pdf")
MOST = 2000


def launch_code(call: Call) -> Result:
    """Tell of an interpreter's launch what no version and no commit tells.

    Args: `python`, `env`, `cwd` of the launch; `folder` of the engine package, or empty. What cannot be told is absent
    from the answer, with why under `reasons`.
    """
    found: Dict[str, Any] = {"reasons": {}}
    folder = call.text("folder", "")
    found["environment"] = {
        name: value for name, value in sorted(os.environ.items()) if name.upper().startswith(VARIABLES)
    }
    try:
        said = _interpreter(call)
        found["python"], found["startup"] = said["version"], _startup(said["path"], said["sites"])
    except Fault as fault:
        found["reasons"]["startup"] = fault.message
    if folder:
        try:
            found["edited"], found["added"] = _loose(call, folder)
        except (Fault, OSError) as error:
            found["reasons"]["added"] = error.message if isinstance(error, Fault) else str(error)
    return found, b""


def _interpreter(call: Call) -> Any:
    python = call.text("python", "") or "python3"
    return packages.asked(call, python, [python, "-c", ASK], b"", call.args.get("env") or {}, call.text("cwd", ""))


def _startup(path: List[str], sites: List[str]) -> Dict[str, str]:
    """Return the hash of every file that an interpreter runs before its program."""
    found: Dict[str, str] = {}
    wanted = []
    for site in sites:
        with contextlib.suppress(OSError):
            wanted += [os.path.join(site, name) for name in sorted(os.listdir(site)) if name.endswith(".pth")]
    for folder in path:
        wanted += [os.path.join(folder, name) for name in STARTING]
    for file in wanted[:MOST]:
        with contextlib.suppress(OSError, Fault):
            digest = sha256_of(to_bytes(file))
            if digest is not None:
                found[file] = digest
    return found


def _loose(call: Call, folder: str) -> Tuple[Dict[str, str], Dict[str, str]]:
    """Return files of a package that differ from its RECORD, and code in it and beside it that nothing recorded."""
    parent, name = os.path.split(os.path.abspath(folder))
    beside = recorded.Beside(parent)
    if beside.of(name):
        remembered = recorded.Remembered()
        package = resolving.described(folder, name)
        facts = recorded.check(call, package, remembered, {parent: beside}, want_added=True)
        remembered.save()
        shown = {one["shown"]: one for one in facts["files"]}
        edited = {path: str(one.get("found") or one["kind"]) for path, one in shown.items() if one["kind"] != "added"}
        added = [path for path, one in shown.items() if one["kind"] == "added"]
        tops = [path for path in _tops(parent) if path not in beside.paths()]
        return edited, _hashes(parent, [*added, *tops])
    try:
        listed = git.run(to_bytes(parent), ["ls-files", "-z", "--others", "--", "."], call)
        git.run(to_bytes(folder), ["ls-files", "--error-unmatch", "--", "__init__.py"], call)
    except Fault:
        tree = recorded.hashes_below(folder, recorded.Remembered(), call)
        lines = "".join("%s %s\n" % one for one in sorted(tree.items()))
        whole = hashlib.sha256(lines.encode("utf-8", "surrogateescape"))
        return {}, {name: whole.hexdigest()}  # no commit and no RECORD: the package as a whole
    paths = [to_text(path) for path in listed.split(b"\0") if path]
    return {}, _hashes(parent, [path for path in paths if _counts(path, name)])


def _tops(parent: str) -> Iterator[str]:
    """Return modules that lie directly in a folder of the search path: each hides a package of its name."""
    with contextlib.suppress(OSError):
        yield from (name for name in sorted(os.listdir(parent)) if name.endswith(CODE) and name not in STARTING)


def _counts(path: str, name: str) -> bool:
    """Whether a file that git does not track can be imported: anywhere in the package, or as a neighbour of it."""
    parts = path.split("/")
    if path.endswith((".pyc", ".pyo")) or any(part in recorded.NOT_CODE for part in parts):
        return False
    if parts[0] == name:
        return True
    if parts[0] in STARTING:
        return False  # told among the start-up files
    return path.endswith(CODE) and (len(parts) == 1 or (len(parts) == 2 and parts[1] == "__init__.py"))


def _hashes(parent: str, shown: List[str]) -> Dict[str, str]:
    found = {}
    for path in sorted(set(shown))[:MOST]:
        with contextlib.suppress(OSError, Fault):
            digest = sha256_of(to_bytes(os.path.join(parent, path)))
            if digest is not None:
                found[path] = digest
    return found


def model_print(call: Call) -> Result:
    """Tell what is in the place of each of `models`: hashes of its small files, sizes of the large ones.

    Args: `models` as paths or names of a hub; `env` of the launch, which may move the hub's cache; `revision`.
    A place that is not there is `null`.
    """
    env = {**os.environ, **(call.args.get("env") or {})}
    return {name: _print(name, env, call.text("revision", "")) for name in strings(call, "models")}, b""


def _print(name: str, env: Dict[str, str], revision: str) -> Optional[Dict[str, Any]]:
    place = name if os.path.exists(name) else _cached(name, env, revision)
    if not place:
        return None
    if not os.path.isdir(place):
        return {"place": place, **_sorted_out([(os.path.basename(place), place)])}
    names = [one for one in sorted(os.listdir(place)) if not one.startswith(".") and not one.lower().endswith(PROSE)]
    return {"place": place, **_sorted_out([(one, os.path.join(place, one)) for one in names[:MOST]])}


def _sorted_out(files: List[Tuple[str, str]]) -> Dict[str, Dict[str, Any]]:
    """Return files as `hashes` or, where they are large, as `sizes`; both follow links."""
    hashes: Dict[str, Any] = {}
    sizes: Dict[str, Any] = {}
    for name, path in files:
        try:
            info = os.stat(path)
            if not stat.S_ISREG(info.st_mode):
                continue
            if name.endswith(WEIGHTS) or info.st_size > SMALL:
                sizes[name] = info.st_size
            else:
                hashes[name] = sha256_of(to_bytes(path))
        except (OSError, Fault):
            continue
    return {"hashes": {name: digest for name, digest in hashes.items() if digest}, "sizes": sizes}


def _cached(name: str, env: Dict[str, str], revision: str) -> str:
    """Return the folder of a hub's model in its cache on this machine; empty where it is not, or not clear which."""
    if name.count("/") > 1 or name.startswith(("/", "~", ".")):
        return ""
    home = env.get("HF_HOME") or os.path.join(
        env.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    hub = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    top = os.path.join(os.path.expanduser(hub), "models--" + name.replace("/", "--"))
    for known in (revision, revision or "main"):
        with contextlib.suppress(OSError), open(os.path.join(top, "refs", known)) as file:
            revision = file.read().strip()
    snapshots = os.path.join(top, "snapshots")
    try:
        there = sorted(os.listdir(snapshots))
    except OSError:
        return ""
    if revision in there:
        return os.path.join(snapshots, revision)
    return os.path.join(snapshots, there[0]) if len(there) == 1 and not revision else ""


OPS: Dict[str, Operation] = {"launch_code": launch_code, "model_print": model_print}
