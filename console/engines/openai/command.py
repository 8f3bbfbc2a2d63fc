"""The command line of a server that is not Python's: what starts it stands in the profile."""

from __future__ import annotations

from collections.abc import Sequence

from console.domain.profile import Profile
from console.engines import argv

LLAMA_SERVER = "llama-server"
SECRET_FLAGS = ("api-key", "hf-token", "ssl-key-file", "api-key-file")
REPEATED = ("lora", "lora-scaled", "override-tensor", "override-kv", "control-vector", "middleware")

SAME = {
    "gpu-layers": "n-gpu-layers",
    "predict": "n-predict",
    "model-path": "model",
    "context-length": "ctx-size",
    "max-model-len": "ctx-size",
}
PATHS = ("model", "model-path", "mmproj", "model-draft", "chat-template-file", "grammar-file")


def command(profile: Profile, program: str) -> tuple[str, ...]:
    """Return the exact argument list; the port goes last, as with every engine."""
    start = profile.engine.command or tuple(word for word in (profile.engine.python or program,) if word)
    return (*start, *argv.words_of(profile.launch.args, REPEATED), "--port", str(profile.launch.port))


def redacted(words: Sequence[str]) -> tuple[str, ...]:
    """Return an argument list with the values of secret flags taken out."""
    return argv.redacted(words, SECRET_FLAGS)


def model_paths(profile: Profile) -> tuple[str, ...]:
    """Return the absolute paths that a launch needs."""
    return argv.absolute(profile.launch.args, PATHS)
