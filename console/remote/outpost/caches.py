"""Caches on this host that hold what a changed source was compiled or tuned to."""

from __future__ import annotations

import itertools
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .calls import Call, Operation, Result

_TRITON = re.compile(rb"@triton\.(?:jit|autotune)|\bimport triton\b")
_INDUCTOR = re.compile(rb"\btorch\.compile\b|torch\._inductor|torch\._dynamo")
_FLASHINFER = re.compile(rb"flashinfer", re.I)
_TUNES = re.compile(rb"autotune|AutoTuner", re.I)
_NATIVE = (".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp", ".jinja")


def stale(
    files: Sequence[Tuple[str, Optional[bytes], Optional[bytes]]], env: Optional[Dict[str, str]] = None
) -> List[str]:
    """Return a sentence for every cache that is there and that the changed sources feed.

    Args:
        files: (path, bytes before, bytes after) of what was written.
        env: Environment to look the places up in; this process's own by default.
    """
    known = dict(os.environ) if env is None else env
    home = known.get("HOME") or os.path.expanduser("~")
    said = []
    for name, places, holds, kind in _CACHES:
        fed = sorted(
            {os.path.basename(path) for path, before, after in files if kind(path, before or b"", after or b"")}
        )
        for place in places(known, home) if fed else ():
            if os.path.isdir(place):
                said.append("%s: %s (%s) %s" % (", ".join(fed[:3]), name, place, holds))
    return said


def _triton(path: str, before: bytes, after: bytes) -> bool:
    return path.endswith(".py") and bool(_TRITON.search(before) or _TRITON.search(after))


def _inductor(path: str, before: bytes, after: bytes) -> bool:
    return path.endswith(".py") and bool(_INDUCTOR.search(before) or _INDUCTOR.search(after))


def _flashinfer(path: str, before: bytes, after: bytes) -> bool:
    return path.endswith(_NATIVE) or bool(_FLASHINFER.search(before) or _FLASHINFER.search(after))


def _tuned(path: str, before: bytes, after: bytes) -> bool:
    return any(_FLASHINFER.search(data) and _TUNES.search(data) for data in (before, after))


def _native(path: str, before: bytes, after: bytes) -> bool:
    return path.endswith(_NATIVE)


_CACHES: Sequence[Tuple[str, Any, str, Any]] = (
    (
        "Triton cache",
        lambda env, home: [
            env.get("TRITON_CACHE_DIR") or os.path.join(env.get("TRITON_HOME") or home, ".triton/cache")
        ],
        "is keyed by source: the old kernels stay unused, the new ones compile at the next start",
        _triton,
    ),
    (
        "Inductor cache",
        lambda env, home: [
            env.get("TORCHINDUCTOR_CACHE_DIR")
            or os.path.join("/tmp", "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", env.get("USER") or _login()))
        ],
        "may hold graphs traced through the old code: clear it when in doubt",
        _inductor,
    ),
    (
        "FlashInfer cache",
        lambda env, home: [os.path.join(env.get("FLASHINFER_WORKSPACE_BASE") or home, ".cache/flashinfer")],
        "is keyed by FlashInfer's version and build options, not by this source",
        _flashinfer,
    ),
    (
        "SGLang's autotune cache",
        lambda env, home: [
            os.path.join(env.get("SGLANG_CACHE_DIR") or os.path.join(home, ".cache/sglang"), "flashinfer/autotune")
        ],
        "is warm: it answers for a tuning that this change would do anew",
        _tuned,
    ),
    (
        "PyTorch extensions cache",
        lambda env, home: [env.get("TORCH_EXTENSIONS_DIR") or os.path.join(home, ".cache/torch_extensions")],
        "holds builds of the old source",
        _native,
    ),
)


def _login() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return str(os.getuid())


MOST_ENTRIES = 2000


def warmth(call: Call) -> Result:
    """Tell of each cache that is there how many entries lie in its top folder, and when one was last added.

    A launch over warm caches is ready sooner and may run kernels that were tuned before: two runs of unlike warmth
    are told apart.
    """
    known = dict(os.environ)
    home = known.get("HOME") or os.path.expanduser("~")
    found: Dict[str, Any] = {}
    for name, places, _, _ in _CACHES:
        for place in places(known, home):
            try:
                with os.scandir(place) as entries:
                    count = sum(1 for _ in itertools.islice(entries, MOST_ENTRIES))
                found[name] = {"place": place, "entries": count, "changed": os.stat(place).st_mtime}
            except OSError:
                continue
    return found, b""


OPS: Dict[str, Operation] = {"cache_warmth": warmth}
