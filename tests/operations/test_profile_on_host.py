"""A profile against the install and the model of its host."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from console.config.profiles import load_profile
from console.domain.profile import Profile
from console.operations.desk import Desk
from console.operations.install_flags import install_flags
from console.operations.profile_check import check
from tests.local import desk as desk  # a fixture

FILLERS = "".join(f"        parser.add_argument('--filler-{number}-flag')\n" for number in range(60))
SOURCE = f"""\
print("a banner of the imports")
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument('--model-path', '--model')
        parser.add_argument('--mem-fraction-static', type=float)
        parser.add_argument('--tensor-parallel-size', '--tp-size', type=int)
        parser.add_argument('--context-length', type=int)
        parser.add_argument('--attention-backend', choices=['triton', 'flashinfer'] + MORE)
        parser.add_argument('--disable-cuda-graph', action='store_true')
{FILLERS}"""


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk) -> Profile:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    package = tmp_path / "lib" / "sglang"
    (package / "srt").mkdir(parents=True)
    for folder in (package, package / "srt"):
        (folder / "__init__.py").touch()
    (package / "srt" / "server_args.py").write_text("MORE = ['made at run time']\n" + SOURCE)
    model = tmp_path / "model"
    model.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32, "max_position_embeddings": 4096}
    (model / "config.json").write_text(json.dumps(config))
    file = tmp_path / "p.toml"
    file.write_text(f"""\
[engine]
python = "{sys.executable}"
[launch]
port = 1
[launch.args]
model-path = "{model}"
tp-size = 5
context-len = 9000
mem-fraction-statc = 0.5
attention-backend = "made at run time"
[launch.env]
PYTHONPATH = "{tmp_path}/lib"
""")
    desk.profile = load_profile(file)
    return desk.profile


async def test_flags_are_asked_of_the_install_and_its_model_is_read(desk: Desk, profile: Profile) -> None:
    said: list[str] = []
    desk.say = said.append
    found = [each for each in await check(profile, desk) if each.key.startswith("launch.args")]
    assert [(each.severity, each.line, each.text.split(" (")[0]) for each in found] == [
        ("error", 7, "tp-size is 5: 32 attention heads are not divisible by 5"),
        ("error", 8, "context-len is 9000; the model's config.json allows 4096"),
        ("error", 9, "mem-fraction-statc is not a flag of this install"),
        ("warning", 8, "context-len is an abbreviation"),
    ]
    assert found[2].hint == "did you mean mem-fraction-static?"
    assert said == ["asking sglang of unknown version for its flags, once for this install …"]


async def test_what_an_install_said_is_kept_until_its_source_changes(desk: Desk, profile: Profile) -> None:
    said: list[str] = []
    desk.say = said.append
    first = await install_flags(desk, profile)
    again = await install_flags(desk, profile, ask=False)
    assert (first.how, again.how, again.known) == ("asked", "asked", first.known)
    assert len(said) == 1
    source = Path(profile.launch.env["PYTHONPATH"] if isinstance(profile.launch.env["PYTHONPATH"], str) else "")
    changed = source / "sglang" / "srt" / "server_args.py"
    changed.write_text(changed.read_text().replace("--context-length", "--context-size"))
    third = await install_flags(desk, profile)
    assert "context-size" in third.known and "context-length" not in third.known
    assert len(said) == 2


async def test_an_install_that_cannot_be_asked_is_read(desk: Desk, profile: Profile) -> None:
    said: list[str] = []
    desk.say = said.append
    folder = profile.launch.env["PYTHONPATH"]
    assert isinstance(folder, str)
    source = Path(folder) / "sglang" / "srt" / "server_args.py"
    source.write_text("import a_package_that_is_not_there\n" + source.read_text())
    found = await install_flags(desk, profile)
    assert found.how == "read"
    assert {"mem-fraction-static", "tp-size", "filler-59-flag"} <= set(found.known)
    assert said[-1] == "it does not tell: ModuleNotFoundError: No module named 'a_package_that_is_not_there'"


async def test_an_install_that_is_not_there_is_told(desk: Desk, profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "lib" / "sglang").rename(tmp_path / "lib" / "gone")
    found = await check(profile, desk)
    [finding] = [each for each in found if each.key == "engine.python"]
    assert finding.severity == "warning"
    assert "the install could not be read" in finding.text and "has no package 'sglang'" in finding.text


async def test_a_model_without_its_weights(desk: Desk, profile: Profile, tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model-00001.safetensors", "b": "model-00002.safetensors"}}
    (tmp_path / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "model" / "model-00001.safetensors").touch()
    texts = [each.text for each in await check(profile, desk)]
    assert "model-00002.safetensors of the model's index is not there" in texts
    (tmp_path / "model" / "config.json").write_text("{")
    texts = [each.text for each in await check(profile, desk)]
    assert any(text.startswith(f"{tmp_path}/model: config.json: ") for text in texts)


async def test_a_model_whose_positions_are_stretched(desk: Desk, profile: Profile, tmp_path: Path) -> None:
    config = {
        "architectures": ["X"],
        "max_position_embeddings": 4096,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    }
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert not [each for each in await check(profile, desk) if "config.json" in each.text]
