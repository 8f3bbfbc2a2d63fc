"""What `nvidia-smi` and NVML say when they fail, as a state with a plain reason."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuFault:
    """A failure of the GPU tools themselves."""

    reason: str
    bus_id: str = ""
    """Of the GPU that fell off the bus, when it is one GPU's fault."""


LOST = "GPU is lost: the values are its last ones"
"""Reason of a GPU that is missing, where nobody said why."""

_LOST = re.compile(
    r"Unable to determine the device handle for GPU\s?([0-9A-Fa-f:.]+?):?\s*:? *(?:Unknown Error|.*lost.*)", re.I
)
_LIBRARY = re.compile(r"NVML library version:\s*([\d.]+)")
_BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')


def fault_in(text: str) -> GpuFault | None:
    """Return the fault that a text of nvidia-smi tells of, `None` when it tells of none."""
    lost = _LOST.search(text)
    if lost:
        bus = lost[1].rstrip(".:")
        return GpuFault(
            f"GPU {bus} is lost (fell off the bus): reset it or reboot the host; it cannot be used until then", bus
        )
    if "Driver/library version mismatch" in text:
        library = _LIBRARY.search(text)
        version = f" ({library[1]})" if library else ""
        return GpuFault(f"driver/library mismatch{version}: reboot or reload the kernel module")
    if "Failed to initialize NVML" in text and "Unknown Error" in text:
        return GpuFault("NVML unknown error: often a container that lost its devices")
    if "couldn't communicate with the NVIDIA driver" in text or "Driver Not Loaded" in text:
        return GpuFault("NVIDIA driver not loaded")
    if "No devices were found" in text:
        return GpuFault("no GPUs visible")
    bad = _BAD_FIELD.search(text)
    if bad:
        return GpuFault(f"this driver does not know the field {bad[1]}")
    if "Failed to initialize NVML" in text:
        return GpuFault(text.strip().splitlines()[0])
    if "No such file or directory" in text and "nvidia-smi" in text:
        return GpuFault("no nvidia-smi on this host")
    if "NVMLError" in text or "NVML Shared Library Not Found" in text:
        return GpuFault("no NVML library on this host")
    return None
