"""Installs real engines, each into a venv of its own: `python tests/real_engine/install.py sglang vllm llamacpp`.

The venv is kept until its pins change. `TORCH_INDEX_URL` names the index of torch where the usual one
gives a CUDA build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENVS = HERE.parents[1] / ".venvs"
STEPS = (("-torch", ()), ("", ()), ("-bare", ("--no-deps",)))
"""Pin files in the order of their installation, by what stands behind the engine's name; none need be there."""


def venv_of(engine: str) -> Path:
    """Return the folder of an engine's venv."""
    return VENVS / engine


def pins_of(engine: str) -> str:
    """Return what a venv is keyed by."""
    digest = hashlib.sha256(sys.version.encode())
    digest.update(os.environ.get("TORCH_INDEX_URL", "").encode())
    for file in (HERE / "requirements" / f"{engine}{suffix}.txt" for suffix, _ in STEPS):
        digest.update(file.read_bytes() if file.exists() else b"-")
    return digest.hexdigest()


def install(engine: str) -> None:
    """Bring the venv to its pins; it is made anew when they have changed."""
    venv, pins = venv_of(engine), pins_of(engine)
    stamp = venv / ".pins"
    if stamp.is_file() and stamp.read_text() == pins:
        return
    print(f"installing {engine} into {venv.relative_to(VENVS.parent)} (some minutes, some GB)", flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin/python")
    for suffix, flags in STEPS:
        file = HERE / "requirements" / f"{engine}{suffix}.txt"
        if not file.exists():
            continue
        index = os.environ.get("TORCH_INDEX_URL") if suffix == "-torch" else None
        command = [python, "-m", "pip", "install", "--quiet", *flags, "--requirement", str(file)]
        subprocess.run([*command, *(("--index-url", index) if index else ())], check=True)
        if (HERE / "requirements" / f"{engine}-torch.txt").exists():
            refuse_cuda(python)
    stamp.write_text(pins)


def refuse_cuda(python: str) -> None:
    """End when the torch of an interpreter was built for a GPU."""
    code = "import torch; print(torch.__version__, torch.version.cuda or torch.version.hip or '')"
    version, *gpu = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    if gpu:
        sys.exit(f"torch {version} is built for a GPU ({gpu[0]}): set TORCH_INDEX_URL to an index of processor builds")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        install(name)
