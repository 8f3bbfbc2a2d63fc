"""The command line of a profile, and what an install says of its flags."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.config import paths, secrecy
from console.config.profiles import load_profile
from console.domain.profile import ArgValue, EngineSection, LaunchSection, Profile, Secret
from console.engines.sglang import command, flags
from console.operations import profile_check, profiles
from tests.wheels import sglang_059

__all__ = ["sglang_059"]


def _profile(args: dict[str, ArgValue], **env: str | Secret) -> Profile:
    launch = LaunchSection(port=30001, workdir="/my work", args=args, env=env)
    return Profile("p", engine=EngineSection(python="/env/bin/python3"), launch=launch)


def test_every_kind_of_value() -> None:
    words = command.command(
        _profile({"a": True, "b": False, "c": (1, "x y"), "d": {"k": [1, True]}, "e": 0.9, "f": "it's", "g": -1})
    )
    assert words == (
        "/env/bin/python3", "-m", "sglang.launch_server",
        "--a", "--c", "1", "x y", "--d", '{"k":[1,true]}', "--e", "0.9", "--f", "it's", "--g", "-1",
        "--port", "30001",
    )  # fmt: skip
    assert json.loads(words[8]) == {"k": [1, True]}


@given(st.dictionaries(st.from_regex(r"[a-z][a-z-]{0,8}[a-z]", fullmatch=True), st.text(max_size=20), max_size=4))
def test_the_shell_line_pastes_back(args: dict[str, str]) -> None:
    profile = _profile({**args, "api-key": "hunter2"}, HF_TOKEN=Secret("env"), PLAIN="a b'c")
    line = profiles.shell_command(profile)
    assert "hunter2" not in line
    words = shlex.split(line)
    assert words[:5] == ["cd", "/my work", "&&", "HF_TOKEN=$HF_TOKEN", "PLAIN=a b'c"]
    assert tuple(words[5:]) == command.redacted(command.command(profile))


async def test_secrets_that_were_written_down(tmp_path: Path) -> None:
    """They reach the process, and nothing that is shown or kept."""
    file = tmp_path / "p.toml"
    file.write_text(
        '[launch.args]\nmodel-path = "/m"\nadmin-api-key = "hunter2"\n'
        '[launch.env]\nMY_TOKEN = "hunter3"\nTOKENIZERS_PARALLELISM = "true"\n'
    )
    profile = load_profile(file)
    assert "hunter2" in command.command(profile)
    kept = secrecy.without_secrets(file.read_text(), profile)
    for shown in (profiles.shell_command(profile), json.dumps(profiles.fields(profile)), kept):
        assert "hunter" not in shown
        assert "/m" in shown and "true" in shown
    flag, variable = await profile_check.check(profile, None)
    assert (flag.line, flag.severity, flag.hint) == (3, "warning", 'write admin-api-key = { from = "env", name = "…" }')
    assert (variable.line, variable.severity, variable.hint) == (5, "warning", 'write MY_TOKEN = { from = "env" }')


SOURCE = (
    "CHOICES = ['triton', 'flashinfer']\n"
    "def add(parser):\n"
    "    parser.add_argument('--mem-fraction-static', type=float)\n"
    "    parser.add_argument('--tensor-parallel-size', '--tp-size', type=int)\n"
    "    parser.add_argument('--attention-backend', choices=CHOICES)\n"
    "    parser.add_argument('--disable-cuda-graph', action='store_true')\n"
    "    parser.add_argument('--lora-strict', action=argparse.BooleanOptionalAction)\n"
    + "".join(f"    parser.add_argument('--filler-{n}-flag')\n" for n in range(60))
)


def test_flags_are_read_from_the_source() -> None:
    known = flags.flags_of(SOURCE.encode())
    assert known["tp-size"].choices == () and known["disable-cuda-graph"].switch
    assert known["attention-backend"].choices == ("triton", "flashinfer")
    args: dict[str, ArgValue] = {
        "mem-fraction-statik": 0.8,
        "attention-backend": "flashinfr",
        "disable-cuda-graph": 1,
        "mem-frac": 0.8,
        "filler": 1,
        "tp-size": 8,
        "no-lora-strict": True,
        "gone": False,
    }
    told = {fault.flag: f"{fault.what} {fault.hint}".strip() for fault in flags.faults(args, known)}
    assert told.pop("filler").startswith("is ambiguous: ")
    assert told == {
        "mem-fraction-statik": "is not a flag of this install did you mean mem-fraction-static?",
        "attention-backend": "cannot be 'flashinfr' did you mean flashinfer?",
        "disable-cuda-graph": "takes no value write true",
        "mem-frac": "is an abbreviation write mem-fraction-static",
    }


@pytest.mark.wheels
def test_flags_of_a_real_install(sglang_059: Path) -> None:
    known = flags.flags_of((sglang_059 / "sglang" / flags.SOURCE).read_bytes())
    assert len(known) > 300
    assert "flashinfer_cutlass" in known["moe-runner-backend"].choices
    shipped = load_profile(paths.shipped_folder() / "glm5-nvfp4.toml")
    assert flags.faults(shipped.launch.args, known) == ()
    told = flags.faults({"mem-fraction-statik": 0.8, "attention-backend": "flashinfr", "tp": 8}, known)
    assert [(fault.hint, fault.fatal) for fault in told] == [
        ("did you mean mem-fraction-static?", True), ("did you mean flashinfer?", True), ("write tp-size", False),
    ]  # fmt: skip


def test_a_source_of_another_shape_says_nothing() -> None:
    assert flags.flags_of(b"x = 1\n") == {}
    assert flags.flags_of(b"def (") == {}


def test_arguments_of_both_log_shapes() -> None:
    old = "server_args=ServerArgs(model_path='/m, x', tp_size=8, a=None, b=<Mode.X: 'x'>, c=[1, 2], d={'k': (1,)})"
    assert command.resolved_from_log(f"[2026-01-02 03:04:05] {old}") == {
        "model_path": "/m, x", "tp_size": 8, "a": None, "b": "<Mode.X: 'x'>", "c": [1, 2], "d": {"k": (1,)},
    }  # fmt: skip
    assert command.resolved_from_log("server_args={'tp_size': 8, 'x': None}") == {"tp_size": 8, "x": None}
    assert command.resolved_from_log("Load weight begin.") == {}
