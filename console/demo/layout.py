"""The files of the pretend host: an interpreter, a git checkout to read and patch, tools, a model's folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from console.errors import ConsoleError

VERSION = "0.5.9"
MODEL = "demo/GLM-5-NVFP4"
"""Repository id, found in the login's cache of the model hub."""
MARKER = "TOKWATT_DEMO_ID"
"""Environment variable that every process of the pretend host carries."""

_METADATA = f"Metadata-Version: 2.1\nName: sglang\nVersion: {VERSION}\nSummary: stand-in of the tokwatt demo host\n"

_AUTHOR = {"NAME": "demo", "EMAIL": "demo@tokwatt.invalid"}


def build(folder: Path) -> None:
    """Make the host's files in a folder, unless they are there from the same template already."""
    stamp, digest = folder / "machine" / "template", _digest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    clear(folder)
    home = folder / "home"
    home.mkdir(parents=True)
    machine = folder / "machine"
    _copy(resources.files("console.demo") / "template" / "machine", machine)
    _model(home / ".cache" / "huggingface" / "hub" / f"models--{MODEL.replace('/', '--')}" / "snapshots" / "main")
    _checkout(home / "sglang")
    _interpreter(home / "ml-env", home / "sglang" / "python")
    _tools(folder)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = demo\n\temail = demo@tokwatt.invalid\n[advice]\n\tdetachedHead = false\n"
    )
    stamp.write_text(digest)


def clear(folder: Path) -> None:
    """Take the host's files away; its keys stay, so that it is still the host that is known."""
    for name in ("home", "bin", "lib", "machine"):
        shutil.rmtree(folder / name, ignore_errors=True)


def environment(folder: Path, marker: str) -> dict[str, str]:
    """Return the environment of a login on the pretend host; whatever is written stays in its folder."""
    home = folder / "home"
    env = {
        "HOME": str(home),
        "USER": os.environ.get("USER") or "demo",
        "LOGNAME": os.environ.get("USER") or "demo",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "PATH": f"{folder / 'bin'}:{home / 'ml-env' / 'bin'}:{os.environ.get('PATH', os.defpath)}",
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        # A real card of this machine must not answer for the pretend ones: NVML is not to be loaded.
        "LD_LIBRARY_PATH": ":".join(filter(None, (str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH")))),
        "GIT_CONFIG_NOSYSTEM": "1",
        MARKER: marker,
    }
    for name in ("TOKWATT_DEMO_SPEED", "TOKWATT_DEMO_CRASH", "TMPDIR"):
        if name in os.environ:
            env[name] = os.environ[name]
    return env


def package_folder(folder: Path) -> Path:
    """Return where the engine package lies."""
    return folder / "home" / "sglang" / "python" / "sglang"


def _digest() -> str:
    found = hashlib.sha256(sys.version.encode() + sys.base_prefix.encode())
    for name, data in _files(resources.files("console.demo") / "template", ""):
        found.update(name.encode() + b"\0" + data + b"\0")
    return found.hexdigest()


def _files(part: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for item in sorted(part.iterdir(), key=lambda entry: entry.name):
        if item.is_dir():
            found += _files(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".txt"):
            found.append((prefix + item.name.removesuffix(".txt"), item.read_bytes()))
    return found


def _copy(part: Traversable, to: Path) -> None:
    for name, data in _files(part, ""):
        path = to / (".gitignore" if name == "gitignore" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _model(folder: Path) -> None:
    _copy(resources.files("console.demo") / "template" / "models", folder)
    for number in range(1, 13):
        (folder / f"model-{number:05d}-of-00012.safetensors").write_bytes(b"")


def _checkout(folder: Path) -> None:
    """Make the checkout with a history: the first import, the mixture of experts, the release."""
    template = resources.files("console.demo") / "template" / "sglang"
    _copy(template, folder)
    source = folder / "python" / "sglang"
    later = [source / "srt" / "layers" / "communicator.py", source / "srt" / "model_executor" / "step_time.py"]
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A")
    _git(folder, "rm", "-q", "--cached", *map(str, later), str(folder / "python" / "pyproject.toml"))
    _commit(folder, "Serve a model: ranks, batches, HTTP", "2026-01-12T09:00:00+00:00")
    _git(folder, "add", str(later[0]), str(later[1]))
    _commit(folder, "Fuse the all-reduce with residual and norm on SM90 and SM100", "2026-01-26T14:30:00+00:00")
    _git(folder, "add", "-A")
    _commit(folder, f"Release {VERSION}", "2026-02-10T08:00:00+00:00")
    _git(folder, "tag", f"v{VERSION}")
    _dist_info(folder / "python")


def _dist_info(folder: Path) -> None:
    info = folder / f"sglang-{VERSION}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(_METADATA)
    (info / "INSTALLER").write_text("pip\n")
    (info / "top_level.txt").write_text("sglang\n")


def _interpreter(folder: Path, source: Path) -> None:
    """Make an environment with an editable installation of the checkout."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    packages = next((folder / "lib").glob("python3*")) / "site-packages"
    (packages / "__editable__.sglang.pth").write_text(f"{source}\n")
    _dist_info(packages)


def _tools(folder: Path) -> None:
    tools = folder / "bin"
    tools.mkdir()
    python = folder / "home" / "ml-env" / "bin" / "python3"
    smi = tools / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\nexec "{python}" -I -S "{folder / "machine" / "nvidia_smi.py"}" "$@"\n')
    smi.chmod(0o755)
    (folder / "lib").mkdir()
    (folder / "lib" / "libnvidia-ml.so.1").write_bytes(b"")


def _commit(folder: Path, text: str, date: str) -> None:
    _git(folder, "commit", "-q", "-m", text, date=date)


def _git(folder: Path, *args: str, date: str = "2026-02-10T08:00:00+00:00") -> None:
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_{key}": value for key, value in _AUTHOR.items()}
        env[f"GIT_{who}_DATE"] = date
    try:
        done = subprocess.run(["git", "-c", "gc.auto=0", *args], cwd=folder, env=env, capture_output=True, check=False)
    except FileNotFoundError:
        raise ConsoleError("the demo host needs git on this machine", hint="install git") from None
    if done.returncode:
        raise ConsoleError(f"demo host: git {args[0]} failed", done.stderr.decode("utf-8", "replace"))
