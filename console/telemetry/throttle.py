"""Clock event reasons of NVML and nvidia-smi in plain words."""

from __future__ import annotations

WORDS = (
    (0x0000000000000002, "application clocks"),
    (0x0000000000000004, "power cap"),
    (0x0000000000000008, "hardware slowdown"),
    (0x0000000000000010, "sync boost"),
    (0x0000000000000020, "thermal (software)"),
    (0x0000000000000040, "thermal (hardware)"),
    (0x0000000000000080, "power brake"),
    (0x0000000000000100, "display clocks"),
)
"""By bit; bit 1 only says that the GPU is idle, which slows nothing down."""


def throttle_words(bits: int) -> tuple[str, ...]:
    """Return the active reasons, the unknown ones as hexadecimal numbers."""
    known = tuple(word for bit, word in WORDS if bits & bit)
    rest = bits & ~1 & ~sum(bit for bit, _ in WORDS)
    return (*known, f"{rest:#x}") if rest else known
