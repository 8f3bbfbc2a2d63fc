"""`via` under `[launch]`: what a profile may say of it, and what it is told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.config.profiles import load_profile, parse_profile
from console.config.vias import of_scope
from console.domain.profile import DockerSection, SlurmSection, SystemdSection
from console.errors import FormatError


def launch(text: str) -> str:
    return f"schema = 1\n[launch]\n{text}\n"


def test_every_table_is_read() -> None:
    docker = parse_profile(
        launch(
            'via = "docker-run"\n[launch.docker]\nimage = "img:1"\noptions = ["--gpus", "all"]\nname = "sgl"\n'
            'entrypoint = "engine"\nruntime = "podman"'
        ),
        "p.toml",
    ).launch
    assert docker.docker == DockerSection("img:1", ("--gpus", "all"), "sgl", "engine", "podman")
    slurm = parse_profile(
        launch('via = "slurm"\n[launch.slurm]\npartition = "gpu"\noptions = ["--gres=gpu:8", "-N", "1"]'), "p.toml"
    ).launch
    assert slurm.slurm == SlurmSection("gpu", ("--gres=gpu:8", "-N", "1"))
    systemd = parse_profile(
        launch(
            'via = "systemd-run"\n[launch.systemd]\nmanager = "system"\noptions = ["--slice=a.slice"]\n'
            '[launch.systemd.properties]\nMemoryMax = "200G"\nCPUWeight = 500\nDelegate = true'
        ),
        "p.toml",
    ).launch
    properties = {"MemoryMax": "200G", "CPUWeight": "500", "Delegate": "yes"}
    assert systemd.systemd == SystemdSection("system", properties, ("--slice=a.slice",))


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ('via = "docker_run"', "p.toml:3: launch.via is 'docker_run'", "did you mean docker-run?"),
        ("via = 1", "p.toml:3: launch.via must be a string, not an integer", ""),
        ('via = "docker-run"', "p.toml:3: launch.via is 'docker-run' and no image is named", "[launch.docker]"),
        ('[launch.docker]\nimagee = "x"', "p.toml:4: launch.docker.imagee is not a known key", "did you mean image?"),
        ('[launch.docker]\nimage = "--gpus all"', "p.toml:4: launch.docker.image is '--gpus all', no image", "options"),
        ('[launch.docker]\nimage = "x"\nname = "a/b"', "p.toml:5: launch.docker.name is 'a/b'", ""),
        ('[launch.docker]\nentrypoint = "sh"', "p.toml:4: launch.docker.entrypoint is 'sh'", "replace"),
        ('[launch.docker]\nruntime = "docker run"', "p.toml:4: launch.docker.runtime is 'docker run'", "podman"),
        ('[launch.docker]\noptions = "--gpus all"', "launch.docker.options must be an array, not a string", ""),
        ('[launch.docker]\noptions = ["-d"]', "p.toml:4: launch.docker.options[1] -d does not belong here", "foreground"),
        ('[launch.docker]\noptions = ["-it"]', "launch.docker.options[1] -it does not belong here", "foreground"),
        ('[launch.docker]\noptions = ["--init", "--name=x"]', "options[2] --name does not belong here", "name = "),
        ('[launch.docker]\noptions = ["--gpus all"]', "options[1] is '--gpus all', one word", 'write "--gpus", "all"'),
        ('[launch.docker]\noptions = ["all"]', "options[1] is 'all', no option", "each word by itself"),
        ('[launch.docker]\noptions = [""]', "options[1] is empty", ""),
        (
            '[launch.docker]\noptions = ["--env", "HF_TOKEN=abc"]', "options[2] holds a secret", "HF_TOKEN = { from = ",
        ),
        ('[launch.docker]\noptions = ["--env=HF_TOKEN=abc"]', "options[1] holds a secret", "[launch.env]"),
        ('[launch.slurm]\noptions = ["-J", "x"]', "p.toml:4: launch.slurm.options[1] -J does not belong", "its own"),
        ('[launch.slurm]\noptions = ["--output=x"]', "launch.slurm.options[1] --output does not belong", "foreground"),
        ('[launch.systemd]\nmanager = "root"', "p.toml:4: launch.systemd.manager is 'root'", "user, system"),
        ('[launch.systemd.properties]\nmemory = 1', "p.toml:4: launch.systemd.properties.memory is not the name", ""),
        (
            "[launch.systemd.properties]\nMemoryMax = [1]",
            "p.toml:4: launch.systemd.properties.MemoryMax cannot be an array", "",
        ),
        ('[launch.systemd]\noptions = ["--user"]', "launch.systemd.options[1] --user does not belong", "manager"),
    ],
)  # fmt: skip
def test_a_fault_names_file_line_and_key(text: str, said: str, hint: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_profile(launch(text), "p.toml")
    assert said in caught.value.title
    assert hint in caught.value.hint


def test_one_container_is_enough() -> None:
    text = 'schema = 1\n[host]\ncontainer = "box"\n[launch]\nvia = "slurm"\n'
    with pytest.raises(FormatError, match=r"p\.toml:5: launch\.via is 'slurm', and \[host\] container = 'box'"):
        parse_profile(text, "p.toml")


def test_layers_lie_over_each_other(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        'schema = 1\n[launch]\nvia = "docker-run"\n[launch.docker]\noptions = ["--gpus", "all"]\nname = "sgl"\n'
        'image = "img:1"\n'
    )
    arm = tmp_path / "arm.toml"
    arm.write_text('schema = 1\nextends = "base"\n[launch.docker]\nimage = "img:2"\n')
    profile = load_profile(arm)
    assert profile.launch.docker == DockerSection("img:2", ("--gpus", "all"), "sgl")
    assert profile.origins["launch.docker.image"] == (str(arm), 4)
    assert profile.origins["launch.docker.options"] == (str(tmp_path / "base.toml"), 5)
    arm.write_text('schema = 1\nextends = "base"\n[launch]\nvia = "process"\n')
    assert load_profile(arm).launch.via == "process"


def test_a_base_may_leave_the_image_to_its_arms(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('schema = 1\n[launch]\nvia = "docker-run"\n')
    arm = tmp_path / "arm.toml"
    arm.write_text('schema = 1\nextends = "base"\n[launch.docker]\nimage = "img:2"\n')
    assert load_profile(arm).launch.docker.image == "img:2"


@pytest.mark.parametrize(
    ("name", "has"),
    [("MemoryMax", True), ("AllowedCPUs", True), ("IOWeight", True), ("TasksMax", True), ("StartupCPUWeight", True),
     ("Slice", True), ("RuntimeMaxSec", True), ("LimitMEMLOCK", False), ("User", False), ("Nice", False),
     ("Environment", False), ("WorkingDirectory", False)],
)  # fmt: skip
def test_what_a_scope_has(name: str, has: bool) -> None:
    assert of_scope(name) is has
