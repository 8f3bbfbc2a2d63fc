"""What spoils a start is told from what the host said, and nothing is made of what it did not say."""

from __future__ import annotations

from typing import Any

from console.operations.dry_run import _warnings


def card(index: int, used: float | None = 4.0, limit: float | None = 600.0) -> dict[str, Any]:
    return {
        "index": index, "memory_total_mib": 97887.0, "memory_used_mib": used, "power_limit_w": limit, "power_default_w": 600.0,
    }  # fmt: skip


def said(**facts: Any) -> dict[str, Any]:
    return {"gpus": None, "gpu_processes": None, "disks": [], **facts}


def test_nothing_known_is_nothing_told() -> None:
    assert _warnings(said()) == [] == _warnings(said(gpus=[card(0), card(1, None, None)]))


def test_holders_caps_and_unbalanced_memory_are_named() -> None:
    holder = {"pid": 42, "user": "bob", "title": "python train.py", "memory_mib": 40000.0}
    told = _warnings(said(gpus=[card(0), card(1, 40004.0, 450.0)], gpu_processes=[holder]))
    assert told == [
        "pid 42 (bob: python train.py) holds 40,000 MiB of a GPU",
        "unbalanced memory: from 57,883 to 97,883 MiB are free on the GPUs",
        "GPU 1 is capped at 450 of 600 W",
    ]


def test_a_full_disk_is_named() -> None:
    disks = [{"path": "/var", "free_mib": 12.0}, {"path": "/none", "free_mib": None}, {"path": "/big", "free_mib": 9e5}]
    assert _warnings(said(disks=disks)) == ["only 12 MiB are free at /var"]
