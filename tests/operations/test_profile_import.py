"""A command becomes a profile and the profile a command again."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.config.commands.written import toml_text
from console.config.profiles import load_profile, parse_profile
from console.domain.profile import ArgValue, EngineSection, HostSection, LaunchSection, Profile, Secret
from console.errors import FormatError, RefusedError, UsageError
from console.operations import profile_import, profiles

DATA = Path(__file__).parents[1] / "data" / "commands"

NAMES = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,6}){1,2}", fullmatch=True).filter(
    lambda name: not name.endswith(("token", "secret", "password", "passwd", "key", "auth", "size"))
)
VARIABLES = st.from_regex(r"X[A-Z0-9_]{0,8}Z", fullmatch=True)
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp", "Zs", "Pd", "Pi", "Pf", "Ps")), max_size=12
)
PLAIN = TEXTS.filter(lambda text: not text.startswith("-") and "\\" not in text)
JSON = st.dictionaries(
    PLAIN, st.one_of(st.integers(-9, 9), st.booleans(), PLAIN, st.lists(st.integers(0, 9))), min_size=1, max_size=3
)
VALUES: st.SearchStrategy[ArgValue] = st.one_of(
    st.just(True),
    st.integers(-(10**17), 10**17),
    st.floats(-1000, 1000).map(lambda number: round(number, 3)),
    PLAIN,
    st.tuples(PLAIN, st.integers(0, 99)),
    JSON,
)

ENGINES = st.sampled_from(
    [
        EngineSection("sglang"),
        EngineSection("sglang", "/e x/bin/python3"),
        EngineSection("sglang", "", ("numactl", "-N", "0", "sglang", "serve")),
    ]
)


@st.composite
def made(draw: st.DrawFn) -> Profile:
    env: dict[str, str | Secret] = dict(draw(st.dictionaries(VARIABLES, PLAIN, max_size=3)))
    if draw(st.booleans()):
        env["HF_TOKEN"] = Secret(draw(st.sampled_from(["env", "host-env"])))
    launch = LaunchSection(
        port=draw(st.integers(1, 65535)),
        workdir=draw(st.sampled_from(["", "/srv", "/a b/c'd"])),
        args={"model-path": "/m", **draw(st.dictionaries(NAMES, VALUES, max_size=5))},
        env=env,
        unset=draw(st.sampled_from([(), ("GONE",), ("GONE", "LOST")])),
        secret_args=draw(
            st.sampled_from([{}, {"api-key": Secret("env", "KEY")}, {"api-key": Secret("host-env", "KEY")}])
        ),
    )
    host = HostSection(container=draw(st.sampled_from(["", "box"])))
    return Profile("p", host=host, engine=draw(ENGINES), launch=launch)


@settings(max_examples=40, deadline=None)
@given(made())
def test_import_takes_back_what_command_prints(profile: Profile) -> None:
    again = profile_import.import_command(profiles.shell_command(profile), name="p").profile
    assert profiles.argv(again) == profiles.argv(profile)
    assert again.host == profile.host
    assert again.engine == profile.engine
    assert again.launch.env == profile.launch.env
    assert set(again.launch.unset) == set(profile.launch.unset)
    assert again.launch.secret_args == profile.launch.secret_args
    assert (again.launch.port, again.launch.workdir) == (profile.launch.port, profile.launch.workdir)
    assert profiles.shell_command(again) == profiles.shell_command(profile)


@settings(max_examples=30, deadline=None)
@given(made())
def test_what_is_written_is_what_is_read(profile: Profile) -> None:
    found = profile_import.import_command(profiles.shell_command(profile), name="p")
    read = parse_profile(toml_text(found.found, "x"), "p.toml")
    assert read.launch == found.profile.launch
    assert (read.host, read.engine, read.title) == (found.profile.host, found.profile.engine, found.profile.title)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(VARIABLES, PLAIN, max_size=3), st.lists(PLAIN, max_size=4))
def test_the_line_pastes_back_to_the_same_arguments(env: dict[str, str], values: list[str]) -> None:
    """A shell makes of the one line exactly the argument list; asked of a real one."""
    launch = LaunchSection(args={"model-path": "m", "xs": tuple(values)}, env=dict(env))
    profile = Profile("p", engine=EngineSection(python="show"), launch=launch)
    shell = "show() { printf '%s\\0' \"$@\"; }\n" + profiles.shell_command(profile)
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, check=True, env={"PATH": os.defpath, "LC_ALL": "C"}
    )
    assert done.stdout.decode().split("\0")[:-1] == list(profiles.argv(profile)[1:])


def test_a_command_is_kept_as_a_profile_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    text = profile_import.read_command(str(DATA / "C03.txt"))
    done = profile_import.keep(profile_import.import_command(text, place="C03.txt"))
    assert done.path == tmp_path / "tokwatt/profiles/deepseek-tp16.toml"
    written = done.path.read_text()
    assert written.startswith("# Imported from C03.txt, lines 1 to 9.\n# line 3: NCCL_DEBUG given twice: INFO counts\n")
    assert "mem-fraction-static = 0.85  # warning, line 8\n" in written
    assert load_profile(done.path).launch == done.profile.launch
    with pytest.raises(RefusedError, match="is there already, nothing is overwritten"):
        profile_import.keep(done)
    assert done.path.read_text() == written


def test_where_it_is_written(tmp_path: Path) -> None:
    found = profile_import.import_command("vllm serve m", name="mine")
    assert profile_import.keep(found, f"{tmp_path}/deep/").path == tmp_path / "deep/mine.toml"
    assert profile_import.keep(found, f"{tmp_path}/x.toml").path == tmp_path / "x.toml"
    with pytest.raises(UsageError, match=r"a profile's file ends in .toml"):
        profile_import.keep(found, f"{tmp_path}/x.sh")
    with pytest.raises(UsageError, match="is no name for a profile"):
        profile_import.import_command("vllm serve m", name="../x")
    (tmp_path / "link.toml").symlink_to("nowhere.toml")
    with pytest.raises(RefusedError):
        profile_import.keep(found, f"{tmp_path}/link.toml")


def test_a_broken_command_is_not_written(tmp_path: Path) -> None:
    text = 'vllm serve m \\\n --hf-overrides={"a":{"b":1}}\n'
    found = profile_import.import_command(text, place="a.sh")
    with pytest.raises(FormatError, match=r"^a.sh:2: --hf-overrides: the shell takes the quotes out of it") as caught:
        profile_import.keep(found, str(tmp_path / "a.toml"))
    assert caught.value.hint == """meant: '{"a":{"b":1}}'; --repair takes that"""
    assert not list(tmp_path.iterdir())
    repaired = profile_import.import_command(text, repair=True)
    assert profile_import.keep(repaired, str(tmp_path / "a.toml")).path is not None


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        (b"vllm serve m\n\xff", r"^x:2: not UTF-8 \(byte 0xff\)"),
        (b"a\nb\0", "^x:2: holds a NUL"),
        (b"a" * (profile_import.SIZE_LIMIT + 1), "^x: longer than 1 MiB"),
    ],
)
def test_what_is_no_text(raw: bytes, title: str) -> None:
    with pytest.raises(FormatError, match=title):
        profile_import.decoded(raw, "x")


def test_json_keys() -> None:
    text = profile_import.read_command(str(DATA / "C08.txt"))
    said = profile_import.fields(profile_import.import_command(text))
    assert said["ok"] is True and said["engine"] == "sglang" and said["flags"] == 13
    assert (said["log"], said["role"], said["nodes"], said["node_rank"]) == ("p0.log", "prefill", 2, 0)
    assert (said["unset"], said["lines"], said["launch_lines"]) == (["VLLM_PLUGINS"], [1, 4], [4])
    argv = said["argv"]
    assert isinstance(argv, list) and argv[:3] == ["python3", "-m", "sglang.launch_server"]


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("vllm serve org/m --tensor-parallel-size 8 --port 8001 --hf-overrides '{\"a\": 1}'",
         ["vllm", "serve", "org/m", "--tensor-parallel-size", "8", "--hf-overrides", '{"a": 1}', "--port", "8001"]),
        ("/e/bin/python3 -m vllm.entrypoints.cli.main serve m --middleware a --middleware b --port 1",
         ["/e/bin/python3", "-m", "vllm.entrypoints.cli.main", "serve", "m", "--middleware", "a", "--middleware", "b",
          "--port", "1"]),
        ("sglang serve --model-path m --tp 2 --port 1", ["sglang", "serve", "--model-path", "m", "--tp", "2", "--port", "1"]),
        ("/opt/llama-server -m x.gguf -ngl 99 --port 1",
         ["/opt/llama-server", "--model", "x.gguf", "--n-gpu-layers", "99", "--port", "1"]),
        ("numactl -N 0 python -u -m sglang.launch_server --model m --port 1",
         ["numactl", "-N", "0", "python", "-u", "-m", "sglang.launch_server", "--model", "m", "--port", "1"]),
    ],
)  # fmt: skip
def test_argument_lists_come_back(command: str, argv: list[str]) -> None:
    first = profile_import.import_command(command, name="p").profile
    assert list(profiles.argv(first)) == argv
    assert profile_import.import_command(profiles.shell_command(first), name="p").profile.launch == first.launch


def test_a_container_command_is_the_profiles_container() -> None:
    profile = Profile(
        "p", host=HostSection(container="box"), launch=LaunchSection(args={"model-path": "m"}, env={"A": "1"})
    )
    line = profiles.shell_command(replace(profile, launch=replace(profile.launch, workdir="/w")))
    assert line == "docker exec -w /w -e A=1 box python3 -m sglang.launch_server --model-path m --port 30000"
