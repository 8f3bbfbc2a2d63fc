"""`srun`, `squeue`, `scancel` and `sinfo` of a cluster of one node and one partition, `gpu`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from tests.stand_ins.holding import POLL_S, STATE, alive, follow, hold, options, put, read

JOBS = STATE / "jobs"
NODE = os.uname().nodename
VALUED = {"--job-name", "--partition", "--gres", "--time", "--jobs", "--user", "--name", "--states", "--format"}


def main(name: str, words: list[str]) -> int:
    """Do what was asked; return the exit status."""
    if (STATE / "controller-down").exists():
        print(f"{name}: error: Unable to contact slurm controller (connect failure)", file=sys.stderr)
        return 1
    given, rest = options(words, VALUED)
    if name == "srun":
        return _srun(dict(given), rest)
    if name == "squeue":
        return _squeue(dict(given))
    if name == "scancel":
        return _scancel(dict(given), rest[0])
    if dict(given).get("--partition", "gpu") == "gpu":
        print("gpu*|up|1|" + ("alloc" if (STATE / "busy").exists() else "idle"))
    return 0


def _told(about: Path) -> dict[str, object]:
    told = read(about)
    if told.get("state") == "RUNNING" and "exit" in told:
        told["state"] = "CANCELLED" if told.get("cancelled") else "COMPLETED" if told["exit"] == 0 else "FAILED"
    if told.get("state") == "PENDING" and not alive(told["srun"]):
        told["state"] = "CANCELLED"
    return told


def _srun(given: dict[str, str], argv: list[str]) -> int:
    if given.get("--partition", "gpu") != "gpu":
        print(f"srun: error: invalid partition specified: {given['--partition']}", file=sys.stderr)
        print("srun: error: Unable to allocate resources: Invalid partition name specified", file=sys.stderr)
        return 1
    JOBS.mkdir(parents=True, exist_ok=True)
    number = 1 + len(list(JOBS.glob("*.json")))
    about = JOBS / f"{number}.json"
    put(about, name=given["--job-name"], state="PENDING", reason="Resources", node="", srun=os.getpid())
    if (STATE / "busy").exists():
        print(f"srun: job {number} queued and waiting for resources", file=sys.stderr)
        while (STATE / "busy").exists():
            if read(about)["state"] == "CANCELLED":
                print("srun: Job has been cancelled", file=sys.stderr)
                said = "Unable to allocate resources: Job/step already completing or completed"
                print(f"srun: error: {said}", file=sys.stderr)
                return 1
            time.sleep(POLL_S)
        print(f"srun: job {number} has been allocated resources", file=sys.stderr)
    put(about, state="RUNNING", reason="None", node=NODE)
    hold(about, argv, {**os.environ, "SLURM_JOB_ID": str(number)}, "", client=os.getpid())
    status = follow(about)
    if status:
        print(f"srun: error: {NODE}: task 0: Exited with exit code {status}", file=sys.stderr)
    return status


def _squeue(given: dict[str, str]) -> int:
    if "--jobs" in given:
        about = JOBS / f"{given['--jobs']}.json"
        if not about.exists():
            print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
            return 1
        found = [about]
    else:
        found = [about for about in JOBS.glob("*.json") if read(about)["name"] == given["--name"]]
    for about in found:
        told = _told(about)
        print(f"{about.stem}|{told['state']}|{told['reason']}|{told['node']}|{told['name']}")
    return 0


def _scancel(given: dict[str, str], number: str) -> int:
    about = JOBS / f"{number}.json"
    told = _told(about)
    if told.get("state") == "PENDING":
        put(about, state="CANCELLED")
    elif told.get("state") == "RUNNING":
        name = given.get("--signal", "KILL")
        if name == "TERM":
            with about.with_suffix(".log").open("a") as log:
                said = f"*** STEP {number}.0 ON {NODE} CANCELLED AT 2026-12-02T19:24:02 ***"
                log.write(f"slurmstepd-{NODE}: error: {said}\n")
        else:
            put(about, cancelled=True)
        group = int(str(told["pid"]))
        os.killpg(group, getattr(signal, f"SIG{name}"))
    return 0
