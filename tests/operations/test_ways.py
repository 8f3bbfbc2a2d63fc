"""The words of a launch, what the host is asked before it, and what does not go with it."""

from __future__ import annotations

from typing import Any

import pytest
import tomli_w

from console.config.profiles import parse_profile
from console.domain.patch import Patch
from console.domain.profile import DOCKER_RUN, SLURM, SYSTEMD_RUN, Profile
from console.experiments import arms
from console.operations import profiles, units, ways
from console.operations.opening import at_home
from console.operations.via_check import remarks
from console.operations.winner import plain_profile

SECRET = "hf_0123456789abcdefghijklmn"


def profile_of(launch: str, rest: str = "") -> Profile:
    return parse_profile(f'schema = 1\n[engine]\nkind = "sglang"\n[launch]\nport = 8000\n{launch}\n{rest}', "p.toml")


def docker(options: str, rest: str = "") -> Profile:
    return profile_of(
        'via = "docker-run"\nworkdir = "/srv"', f'[launch.docker]\nimage = "img"\noptions = [{options}]\n{rest}'
    )


def test_secrets_are_inherited_and_never_words() -> None:
    profile = docker(
        '"--gpus", "all"',
        f'[launch.env]\nA = "1"\nHF_TOKEN = {{ from = "env" }}\nOTHER = "{SECRET}"\nMY_KEY = {{ from = "host-env" }}\nGONE = false\n',
    )
    found = ways.way(profile, ("python3", "-m", "sglang.launch_server"))
    assert found.words == (
        "docker", "run", "--rm", "--name", "tokwatt-{run}", "--env", "A=1", "--env", "HF_TOKEN", "--env", "OTHER",
        "--env", "MY_KEY", "--env", "GONE", "--workdir", "/srv", "--gpus", "all", "img",
        "python3", "-m", "sglang.launch_server",
    )  # fmt: skip
    env = {"A": "1", "HF_TOKEN": "x", "OTHER": SECRET}
    assert ways.inherited(profile, env) == {"HF_TOKEN": "x", "OTHER": SECRET}, "a client needs no more than it hands on"
    printed = profiles.shell_command(profile)
    assert printed.startswith('HF_TOKEN="$HF_TOKEN" OTHER="$OTHER" MY_KEY="${MY_KEY:?}" docker run --rm')
    assert SECRET not in printed


@pytest.mark.parametrize(
    ("via", "name"), [(SLURM, "srun"), (SYSTEMD_RUN, "systemd-run")],
)  # fmt: skip
def test_a_job_and_a_scope_inherit_all(via: str, name: str) -> None:
    profile = profile_of(f'via = "{via}"', '[launch.env]\nA = "1"\n')
    assert ways.inherited(profile, {"A": "1"}) == {"A": "1"}
    assert ways.way(profile, ("x",)).before[0] == name
    assert "A=1" not in ways.way(profile, ("x",)).words


def test_a_home_folder_is_the_hosts() -> None:
    profile = docker('"-v", "~/my models:/models"')
    assert "-v ~/'my models:/models' img" in profiles.shell_command(profile)
    there = at_home(profile, "/home/ada")
    assert there.launch.docker.options == ("-v", "/home/ada/my models:/models")


def test_what_the_host_looks_after() -> None:
    assert ways.unit(profile_of("")) is None
    told = ways.unit(docker(""))
    assert told == {"kind": DOCKER_RUN, "tool": "docker", "name": "tokwatt-{run}", "image": "img"}
    assert ways.in_image(docker("")) and not ways.in_image(profile_of('via = "slurm"'))
    pyxis = profile_of('via = "slurm"', '[launch.slurm]\noptions = ["--container-image=img"]')
    assert ways.in_image(pyxis)


@pytest.mark.parametrize(
    ("options", "path", "outside"),
    [
        ('"-v", "/data:/models:ro"', "/models/m", ["/data/m"]),
        ('"--volume=/data:/models/"', "/models", ["/data"]),
        ('"-v/a:/models", "-v", "/b:/models/m"', "/models/m/x", ["/b/x"]),
        ('"--mount", "type=bind,source=/data,target=/models,readonly"', "/models/m", ["/data/m"]),
        ('"-v", "models:/models"', "/models/m", []),
        ("", "/models/m", []),
    ],
)
def test_a_models_path_through_the_mounts(options: str, path: str, outside: list[str]) -> None:
    assert ways.host_paths(docker(options), [path]) == outside


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ('"--network", "host"', ""),
        ('"--net=host"', ""),
        ('"-p", "8000:8000"', ""),
        ('"--publish=127.0.0.1:8000:8000/tcp"', ""),
        ('"-p", "80:8000"', "-p 80:8000: port 8000 of the container is 80 of the host"),
        ('"-p", "9000:9000"', "port 8000 of the container is not reached from the host"),
        ("", "port 8000 of the container is not reached from the host"),
    ],
)
def test_whether_the_port_is_reached(options: str, fault: str) -> None:
    assert ways.reach_fault(docker(options)) == fault


@pytest.mark.parametrize(
    "text",
    [
        'via = "docker-run"\n[launch.docker]\nimage = "img"\noptions = ["--gpus", "all"]\nentrypoint = "engine"\n',
        'via = "slurm"\n[launch.slurm]\npartition = "gpu"\noptions = ["-N", "1"]\n',
        'via = "systemd-run"\n[launch.systemd]\nmanager = "system"\nproperties = { MemoryMax = "1G" }\n',
    ],
)
def test_a_saved_winner_is_launched_as_it_was_measured(text: str) -> None:
    profile = profile_of(text)
    kept = parse_profile(tomli_w.dumps(plain_profile(profile)), "kept.toml")
    assert kept.launch == profile.launch


def test_another_image_is_another_launch() -> None:
    def key(profile: Profile) -> tuple[str, str]:
        return arms.launch_key(profile, find_patch), arms.in_force_key(profile, {"tp_size": 1}, find_patch)

    one, other = docker('"--gpus", "all"'), docker('"--gpus", "device=1"')
    assert key(one)[0] != key(other)[0] and key(one)[1] != key(other)[1]
    assert arms.words(one, other) == ("via docker-run options --gpus device=1",)
    assert arms.words(profile_of(""), profile_of('via = "slurm"', '[launch.slurm]\npartition = "a"\n')) == (
        "via slurm partition a",
    )


def find_patch(name: str) -> Patch:
    raise AssertionError(name)


def test_what_does_not_go_together() -> None:
    profile = docker('"-p", "8000:8000"', '[launch.slurm]\npartition = "gpu"\n[patches]\non = ["fix"]\n')
    said = {each.key: each.text for each in remarks(profile)}
    assert said == {
        "launch.slurm.partition": "[launch.slurm] is not used: via is docker-run",
        "patches.on": "patches change files of the host: the package is in the image",
        "launch.args": "host is 127.0.0.1 by itself: a published port does not reach the container's own 127.0.0.1",
        "launch.docker.options": "the container gets no GPU",
    }
    scope = profile_of('via = "systemd-run"', "[launch.systemd.properties]\nLimitMEMLOCK = 1\nMemoryMax = 1\n")
    [wrong] = remarks(scope)
    assert (wrong.fatal, wrong.text) == (True, "a scope has no property LimitMEMLOCK")


@pytest.mark.parametrize(
    ("via", "lines", "cause"),
    [
        (DOCKER_RUN, 'Error: initializing source docker://localhost/nope:1: pinging container registry localhost: refused',
         "the image localhost/nope:1 can be had nowhere"),
        (DOCKER_RUN, "Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied",
         "no container was started: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied"),
        (DOCKER_RUN,
         'docker: Error response from daemon: Conflict. The container name "/sgl" is already in use by container "4f".',
         "the container name sgl is already in use"),
        (DOCKER_RUN, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?",
         "no Docker daemon answers"),
        (DOCKER_RUN, "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].",
         "no GPU for containers on this host"),
        (DOCKER_RUN, "Bind for 0.0.0.0:8000 failed: port is already allocated", "0.0.0.0:8000 is published by another container"),
        (DOCKER_RUN, 'OCI runtime create failed: exec: "sglang": executable file not found in $PATH', "the image has no sglang"),
        (SLURM, "srun: error: Unable to allocate resources: Requested node configuration is not available",
         "Slurm gives no resources: Requested node configuration is not available"),
        (SLURM, "slurmstepd-gpu7: error: *** STEP 9.0 ON gpu7 CANCELLED AT 2026-12-02T19:43:14 DUE TO TIME LIMIT ***",
         "Slurm ended the job at its time limit"),
        (SLURM, "slurmstepd-gpu7: error: Detected 1 oom_kill event in StepId=9.0. Some of the step tasks have been OOM Killed.",
         "Slurm killed it: the job's memory is used up"),
        (SLURM, "slurmstepd-vm: error: *** STEP 4.0 ON vm CANCELLED AT 2026-12-02T19:24:02 ***", "Slurm cancelled the job"),
        (SYSTEMD_RUN, "Unknown assignment: LimitMEMLOCK=1", "a scope has no property LimitMEMLOCK=1"),
        (SYSTEMD_RUN, "Failed to connect to bus: No medium found", "the service manager does not answer: No medium found"),
    ],
)  # fmt: skip
def test_why_launchers_give_up(via: str, lines: str, cause: str) -> None:
    found = units.launcher_fault(via, 126, ["an earlier line", lines])
    assert found is not None and found[0] == cause
    assert units.launcher_fault("", 126, [lines]) is None, "a plain process has no launcher that could have said it"


@pytest.mark.parametrize(
    ("told", "words", "obstacle"),
    [
        ({"kind": SLURM, "id": "7", "state": "PENDING", "reason": "Priority", "alive": True},
         "job 7, PENDING (Priority)", "job 7, PENDING (Priority)"),
        ({"kind": SLURM, "id": "7", "state": "RUNNING", "node": "gpu7", "elsewhere": True, "alive": True},
         "job 7, RUNNING on gpu7",
         'job 7, RUNNING on gpu7, another host: its port is reached with ssh = "gpu7" under [host]'),
        ({"kind": SLURM, "id": "7", "state": "RUNNING", "node": "gpu7", "alive": True}, "job 7, RUNNING on gpu7", ""),
        ({"kind": DOCKER_RUN, "id": "a" * 64, "state": "running", "alive": True}, f"container {'a' * 12}, running", ""),
        ({"kind": DOCKER_RUN, "id": "", "name": "n", "state": "starting", "alive": True}, "container n, starting",
         "container n, starting"),
    ],
)  # fmt: skip
def test_a_unit_in_words(told: dict[str, Any], words: str, obstacle: str) -> None:
    unit = units.unit_of({"unit": told})
    assert unit is not None
    assert (units.word(unit), units.obstacle(unit)) == (words, obstacle)
