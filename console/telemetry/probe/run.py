"""The probe's start and end: which source, how often, and the end with standard input.

`python -m console.telemetry.probe.run --hz 10 [--source auto|nvml|nvidia-smi] [--ticks N]` runs it by hand.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import threading
import time
from typing import Any, Optional

from .lines import say
from .nvml import Reader
from .smi import Smi

END_PATIENCE_S = 1.0


def main() -> None:
    """Read GPUs until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--source", default=os.environ.get("TOKWATT_GPU_SOURCE", "auto"))
    parser.add_argument("--ticks", type=int, default=0, help="end after so many, for use by hand; 0 goes on")
    args = parser.parse_args()
    period_s = 1.0 / min(max(args.hz, 0.1), 10.0)
    smi = Smi(int(period_s * 1000))
    threading.Thread(target=_end_with_input, args=(smi,), daemon=True, name="end").start()
    reader = _nvml(1.0 / period_s) if args.source in ("auto", "nvml") else None
    if reader is not None:
        _ticks(reader, period_s, args.ticks)
    elif args.source in ("auto", "nvidia-smi"):
        smi.stream()
    else:
        say("unavailable", source="", reason="GPU readings are switched off by TOKWATT_GPU_SOURCE")
        threading.Event().wait()


def _end_with_input(smi: Smi) -> None:
    """Wait for the end of standard input; a call stuck in the driver does not hold us."""
    try:
        while os.read(0, 4096):  # not through `sys.stdin`, whose lock would be held at our own end
            continue
    except (OSError, ValueError):
        pass  # a closed input is an ended one
    smi.end()
    os._exit(0)


def _nvml(hz: float) -> Optional[Reader]:
    """Return a reader, or say why there is none."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")  # looked for first: compiling pynvml takes half a second
    except OSError as error:
        say("unavailable", source="nvml", reason="NVML Shared Library Not Found (%s)" % error)
        return None
    try:
        import pynvml
    except Exception as error:  # noqa: BLE001 - whatever an odd ctypes does, nvidia-smi may still answer
        say("unavailable", source="nvml", reason="pynvml: %s" % error)
        return None
    nvml: Any = pynvml
    try:
        nvml.nvmlInit()
        reader = Reader(nvml, hz)
        reader.start()
    except nvml.NVMLError as error:
        say("unavailable", source="nvml", reason="NVML: %s" % error)
        return None
    return reader


def _ticks(reader: Reader, period_s: float, count: int) -> None:
    due = time.monotonic()
    done = 0
    while not count or done < count:
        reader.tick()
        done += 1
        due += period_s
        pause = due - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        else:  # late: no burst of ticks to catch up
            due = time.monotonic()


if __name__ == "__main__":
    main()
