"""The state of this machine that measurements depend on: what `nvidia-smi` tells of links and limits, and /sys beside it."""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import subprocess
import threading
from typing import Any, Dict, List, Optional

from .calls import Call, Operation, Result

SMI_S = 25
LIMIT = 256 * 1024

FIELDS = (
    "index,uuid,name,pci.bus_id,driver_version,pstate,persistence_mode,compute_mode,vbios_version,mig.mode.current,"
    "power.limit,enforced.power.limit,power.default_limit,power.min_limit,power.max_limit,"
    "clocks.applications.graphics,clocks.default_applications.graphics,clocks.applications.memory,"
    "clocks.default_applications.memory,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.memory,"
    "ecc.mode.current,ecc.mode.pending,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total,"
    "ecc.errors.corrected.aggregate.total,ecc.errors.uncorrected.aggregate.total,"
    "pcie.link.gen.current,pcie.link.gen.max,pcie.link.gen.gpumax,pcie.link.width.current,pcie.link.width.max"
).split(",")
"""Asked for at first; names that this driver does not know are left out one by one."""

ASKED = {
    "banner": [],
    "topo": ["topo", "-m"],
    "r": ["topo", "-p2p", "r"],
    "w": ["topo", "-p2p", "w"],
    "n": ["topo", "-p2p", "n"],
}

_BAD_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
_NVIDIA = "0x10de"


def machine(call: Call) -> Result:
    """Tell everything at once; the texts of `nvidia-smi` are read where they arrive.

    Args: `python` (interpreter that launches the engine), `sites` (folders of packages): where NCCL is looked for.
    """
    said: Dict[str, Any] = {
        "kernel": "%s %s" % (platform.system(), platform.release()),
        "governor": _governor(),
        "numa": _numa(),
        "cards": _cards(),
        "nccl": _nccl(call.text("python", ""), [str(site) for site in call.args.get("sites") or ()]),
        "smi": None,
    }
    smi = shutil.which("nvidia-smi")
    if smi is not None:
        said["smi"] = _ask_all(smi)
    return said, b""


def _ask_all(smi: str) -> Dict[str, Any]:
    """Ask side by side: with many GPUs and no persistence mode each start takes seconds."""
    found: Dict[str, Any] = {}
    workers = [
        threading.Thread(target=lambda name=name, words=words: found.update({name: _run([smi, *words])}), daemon=True)
        for name, words in ASKED.items()
    ]
    for worker in workers:
        worker.start()
    found["query"] = _query(smi)
    for worker in workers:
        worker.join()
    return found


def _query(smi: str) -> Dict[str, Any]:
    fields = list(FIELDS)
    while True:
        said = _run([smi, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"])
        bad = _BAD_FIELD.search(said["text"])
        if not bad or bad.group(1) not in fields:
            return dict(said, fields=fields)
        fields.remove(bad.group(1))


def _run(argv: List[str]) -> Dict[str, Any]:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, LC_ALL="C"),
            timeout=SMI_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"status": None, "text": "", "reason": "no answer within %d s" % SMI_S}
    except OSError as error:
        return {"status": None, "text": "", "reason": error.strerror or str(error)}
    return {"status": done.returncode, "text": done.stdout[:LIMIT].decode("utf-8", "replace")}


def _nccl(python: str, sites: List[str]) -> str:
    """Return the version of the NCCL wheel beside the engine; empty where there is none."""
    program = shutil.which(python or "python3") or ""
    top = os.path.dirname(os.path.dirname(program))
    if top:
        sites = [*sites, *glob.glob(os.path.join(top, "lib/python3*", "*-packages"))]
        if top == "/usr":  # Debian's own interpreter loads what pip put here first
            sites = [*glob.glob("/usr/local/lib/python3*/dist-packages"), *sites]
    for site in sites:
        for info in sorted(glob.glob(os.path.join(glob.escape(site), "nvidia_nccl_*.dist-info"))):
            return os.path.basename(info)[: -len(".dist-info")].rpartition("-")[2]
    return ""


def _governor() -> str:
    """Return the frequency governor of the processors, counted where they differ; empty where the kernel tells none."""
    counts: Dict[str, int] = {}
    for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"):
        text = _line(path)
        if text:
            counts[text] = counts.get(text, 0) + 1
    if len(counts) <= 1:
        return "".join(counts)
    return ", ".join("%s x %d" % (name, count) for name, count in sorted(counts.items()))


def _numa() -> Dict[str, str]:
    found = {}
    for folder in glob.glob("/sys/devices/system/node/node[0-9]*"):
        cores = _line(os.path.join(folder, "cpulist"))
        if cores:
            found[os.path.basename(folder)[4:]] = cores
    return found


def _cards() -> List[Dict[str, Any]]:
    """Return link and NUMA node of every NVIDIA display or compute card, as the kernel sees them."""
    found = []
    for folder in sorted(glob.glob("/sys/bus/pci/devices/*")):
        if _line(os.path.join(folder, "vendor")) != _NVIDIA:
            continue
        if (_line(os.path.join(folder, "class")) or "")[:4] != "0x03":
            continue
        names = ("numa_node", "current_link_speed", "max_link_speed", "current_link_width", "max_link_width")
        card: Dict[str, Any] = {name: _line(os.path.join(folder, name)) for name in names}
        card["bus"] = os.path.basename(folder)
        found.append(card)
    return found


def _line(path: str) -> Optional[str]:
    try:
        with open(path) as file:
            return file.readline(200).strip()
    except (OSError, ValueError):
        return None


OPS: Dict[str, Operation] = {"machine": machine}
