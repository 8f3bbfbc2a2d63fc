"""Launchers around a launch become the way that a profile launches, and come back as they were pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.config.commands.imported import Imported, import_text
from console.config.commands.written import toml_text
from console.config.profiles import parse_profile
from console.domain.profile import DockerSection, SlurmSection, SystemdSection
from console.operations.profiles import shell_command

SERVE = "python3 -m sglang.launch_server --model-path m --port 30000"


def said(found: Imported) -> str:
    return "\n".join(note.sentence() for note in found.notes)


def test_srun_and_its_options() -> None:
    found = import_text(f"HF_TOKEN=$HF_TOKEN srun -N 1 -p gpu --gres=gpu:8 -J glm -o glm.log -D /srv {SERVE}")
    launch = found.profile.launch
    assert (launch.via, launch.workdir) == ("slurm", "/srv")
    assert launch.slurm == SlurmSection("gpu", ("-N", "1", "--gres=gpu:8"))
    assert "-J glm is not kept: tokwatt gives every run its own" in said(found)
    assert "-o glm.log is not kept: a run keeps its launcher in the foreground" in said(found)


@pytest.mark.parametrize(
    "text",
    [
        f"sbatch --parsable -p gpu --time=8:00:00 --wrap '{SERVE}'",
        f'sbatch -p gpu --time=8:00:00 --wrap="{SERVE}"',
        f"#!/bin/bash\n#SBATCH -p gpu   # the big one\n#SBATCH --time=8:00:00\n#SBATCH --mail-type=END\ncd /w\n{SERVE}\n",
        f"#!/bin/bash\n#SBATCH --partition=cpu --time=8:00:00\nsrun -p gpu {SERVE}\n",
    ],
)
def test_batch_jobs(text: str) -> None:
    found = import_text(text)
    assert found.profile.launch.via == "slurm"
    assert found.profile.launch.slurm == SlurmSection("gpu", ("--time=8:00:00",))
    assert found.profile.launch.args == {"model-path": "m"}


def test_a_job_that_is_there_already_is_not_asked_for() -> None:
    found = import_text(f"srun --jobid 7 --overlap {SERVE}")
    assert found.profile.launch.via == "process"
    assert "srun --jobid is not kept" in said(found)


def test_systemd_run() -> None:
    text = (
        "systemd-run --user --unit=sgl -p MemoryMax=200G --property=LimitMEMLOCK=infinity -E A=1 "
        f"--slice=serving.slice --working-directory=/w --collect {SERVE}"
    )
    found = import_text(text)
    launch = found.profile.launch
    assert (launch.via, launch.workdir, launch.env) == ("systemd-run", "/w", {"A": "1"})
    assert launch.systemd == SystemdSection("user", {"MemoryMax": "200G"}, ("--slice=serving.slice",))
    assert "LimitMEMLOCK=infinity is not kept: a scope has no property LimitMEMLOCK" in said(found)
    assert "a scope, where it was a service" in said(found)
    assert import_text(f"systemd-run --scope {SERVE}").profile.launch.systemd.manager == "system"


def test_one_way_inside_another_is_told() -> None:
    found = import_text(f"srun -p gpu docker run --network=host img {SERVE}")
    assert found.profile.launch.docker == DockerSection("img", ("--network=host",))
    assert "slurm around docker run is not kept: a profile launches in one way" in said(found)
    found = import_text(f"systemd-run --user bash -c 'srun -p gpu {SERVE}'")
    assert (found.profile.launch.via, found.profile.launch.slurm.partition) == ("slurm", "gpu")
    assert "systemd-run around slurm is not kept" in said(found)


def test_what_a_shell_in_a_container_says_is_the_containers() -> None:
    found = import_text(f"cd /here && docker run --rm img bash -lc 'export NCCL_DEBUG=INFO; {SERVE}'")
    launch = found.profile.launch
    assert (launch.via, launch.docker.image, launch.workdir) == ("docker-run", "img", "")
    assert launch.env == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("pasted", "printed"),
    [
        (
            f"docker run -d --rm --gpus all --name sgl -e A='x y' -e HF_TOKEN img {SERVE}",
            f"HF_TOKEN=\"$HF_TOKEN\" docker run --rm --name sgl --env 'A=x y' --env HF_TOKEN --gpus all img {SERVE}",
        ),
        (
            "docker run vllm/vllm-openai:v1 --model m --port 9000",
            "docker run --rm --name tokwatt-RUN vllm/vllm-openai:v1 --model m --port 9000",
        ),
        (
            "docker run --entrypoint python3 vllm/vllm-openai -m vllm.entrypoints.cli.main serve m --port 9",
            "docker run --rm --name tokwatt-RUN --entrypoint python3 vllm/vllm-openai "
            "-m vllm.entrypoints.cli.main serve m --port 9",
        ),
        (
            f"A=1 srun -p gpu --gres=gpu:8 {SERVE}",
            f"A=1 srun --job-name tokwatt-RUN --ntasks=1 --export=ALL --partition=gpu --gres=gpu:8 {SERVE}",
        ),
        (
            f"systemd-run --user --scope -p MemoryMax=1G {SERVE}",
            f"systemd-run --user --scope --quiet --unit tokwatt-RUN --property MemoryMax=1G -- {SERVE}",
        ),
    ],
)
def test_the_command_comes_back(pasted: str, printed: str, tmp_path: Path) -> None:
    found = import_text(pasted)
    kept = parse_profile(toml_text(found, "here"), str(tmp_path / "p.toml"))
    assert kept.launch == found.profile.launch
    assert shell_command(kept) == printed
