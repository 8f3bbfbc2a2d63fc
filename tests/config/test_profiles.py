"""Profiles: what is read, and how every fault is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit

from console.config import edit, paths
from console.config.profiles import load_profile, parse_profile
from console.domain.profile import Profile, Secret
from console.errors import FormatError, UsageError

FULL = """\
schema = 1
title = "T"
[host]
ssh = "blackwell"
nodes = ["blackwell-2"]
[engine]
python = "/env/bin/python3"
[launch]
port = 31000
workdir = "/root"
[launch.args]
model-path = "/m"
tp-size = 8
mem-fraction-static = 0.85
disable-cuda-graph = true
cuda-graph-bs = [1, 2, 4]
deepep-config = { normal = { num_sms = 96 } }
[launch.env]
OMP_NUM_THREADS = 1
HF_TOKEN = { from = "env" }
[patches]
on = ["a", "b"]
[bench]
concurrency = [256, 512]
[target]
output_tok_s = 5816
from = "elsewhere"
[winner]
run = "2026-12-02-1"
"""


def test_every_section_is_read() -> None:
    profile = parse_profile(FULL, "/x/glm.toml")
    assert (profile.name, profile.path, profile.title) == ("glm", "/x/glm.toml", "T")
    assert (profile.host.ssh, profile.engine.python, profile.launch.port) == ("blackwell", "/env/bin/python3", 31000)
    assert profile.host.nodes == ("blackwell-2",)
    assert list(profile.launch.args) == [
        "model-path", "tp-size", "mem-fraction-static", "disable-cuda-graph", "cuda-graph-bs", "deepep-config",
    ]  # fmt: skip
    assert profile.launch.args["cuda-graph-bs"] == (1, 2, 4)
    assert profile.launch.args["deepep-config"] == {"normal": {"num_sms": 96}}
    assert profile.launch.env == {"OMP_NUM_THREADS": "1", "HF_TOKEN": Secret("env")}
    assert (profile.patches_on, profile.bench.concurrency) == (("a", "b"), (256, 512))
    assert (profile.target.output_tok_s, profile.target.origin) == (5816, "elsewhere")
    assert profile.winner == {"run": "2026-12-02-1"}


def test_an_empty_file_is_a_profile() -> None:
    assert parse_profile("", "p.toml").launch.port == 30000


@pytest.mark.parametrize(
    ("text", "title", "hint"),
    [
        ("[launch]\nprot = 1", "p.toml:2: launch.prot is not a known key", "did you mean port?"),
        ("\n[lunch]\nport = 1", "p.toml:2: lunch is not a known key", "did you mean launch?"),
        ("[launch]\n\nport = 'x'", "p.toml:3: launch.port must be an integer, not a string", ""),
        ("[launch]\nport = 70000", "p.toml:2: launch.port is 70000; a TCP port is 1 to 65535", ""),
        ("[launch.args]\nport = 1", "p.toml:2: launch.args.port does not belong here", "write port = … under [launch]"),
        ("[launch.args]\n--tp = 1", "p.toml:2: launch.args.--tp starts with a dash", "write tp = …"),
        ("[launch]\nargs = 3", "p.toml:2: launch.args must be a table, not an integer", ""),
        ("[launch]\nargs = {a = [1, [2]]}", "p.toml:2: launch.args.a must hold strings or numbers only", ""),
        ("[launch.args]\nk = {from='env'}", "p.toml:2: launch.args.k asks for a secret", "use env"),
        ("[launch.env]\nA = true", "p.toml:2: launch.env.A must be a string, not true or false", 'write "1" or "0"'),
        ("[launch.env]\nA = {from='moon'}", 'p.toml:2: launch.env.A must be a string or { from = "env" }', ""),
        ("[bench]\nconcurrency = [1, 'a']", "p.toml:2: bench.concurrency[2] must be an integer, not a string", ""),
        ("[bench]\nconcurrency = [0]", "p.toml:2: bench.concurrency[1] is 0; at least one stream is needed", ""),
        ("[limits]\nttft_ms = 'a'", "p.toml:2: limits.ttft_ms must be a number, not a string", ""),
        ("schema = 2", "p.toml:1: schema is 2; this tokwatt reads schema 1", ""),
        ("extends = 'nope'", "p.toml:1: extends = 'nope': no such profile", ""),
        ("x = ", "p.toml:1: not TOML: Invalid value (at end of document)", ""),
        ("a = 1\nb = 'x\n", "p.toml:3: not TOML: Expected", ""),
        ("a = 1\na = 2\n", "p.toml:2: not TOML: ", ""),
    ],
)
def test_faults_name_file_line_and_key(text: str, title: str, hint: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_profile(text, "p.toml")
    assert caught.value.title.startswith(title)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_lines_are_found_behind_long_values() -> None:
    text = "title = '''\n[launch]\nport = 1\n'''\n[bench]\nconcurrency = [\n 1, # ]\n 2,\n]\nrepeats = 'x'\n"
    with pytest.raises(FormatError, match=r"^p.toml:10: bench.repeats must be an integer"):
        parse_profile(text, "p.toml")


def test_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(FormatError, match=r"p.toml:2: not UTF-8"):
        load_profile(path)


def test_layers(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(FULL)
    child = tmp_path / "child.toml"
    child.write_text('extends = "base"\n[launch.args]\ntp-size = 4\ndisable-cuda-graph = false\n[patches]\non = []\n')
    profile = load_profile(child)
    assert profile.name == "child"
    assert (profile.launch.args["tp-size"], profile.launch.args["disable-cuda-graph"]) == (4, False)
    assert (profile.launch.args["model-path"], profile.launch.port) == ("/m", 31000)
    assert profile.patches_on == ()
    assert profile.winner is None, "evidence belongs to the file that it was measured for"


def layered(folder: Path, base: str, arm: str) -> Profile:
    (folder / "base.toml").write_text(base)
    (folder / "arm.toml").write_text(f'extends = "base"\n{arm}')
    return load_profile(folder / "arm.toml")


def test_an_arm_is_a_short_file(tmp_path: Path) -> None:
    """It takes arguments and variables of its base away with `false`, and another spelling replaces a flag."""
    base = """\
[launch.args]
model-path = "m"
tp = 8
disable-cuda-graph = true
deepep-config = { a = 1, b = 2 }
[launch.env]
A = "1"
HF_TOKEN = { from = "env" }
[patches]
on = ["x", "y"]
"""
    arm = """\
[launch.args]
tp-size = 4
disable-cuda-graph = false
deepep-config = { a = 3 }
[launch.env]
A = false
B = "2"
"""
    profile = layered(tmp_path, base, arm)
    expected = {"model-path": "m", "disable-cuda-graph": False, "deepep-config": {"a": 3}, "tp-size": 4}
    assert profile.launch.args == expected
    assert profile.launch.env == {"HF_TOKEN": Secret("env"), "B": "2"}
    assert profile.launch.unset == ("A",)
    assert profile.patches_on == ("x", "y")
    assert profile.layers == (f"{tmp_path}/arm.toml", f"{tmp_path}/base.toml")
    assert profile.origins["launch.args.tp-size"] == (f"{tmp_path}/arm.toml", 3)
    assert profile.origins["launch.args.model-path"] == (f"{tmp_path}/base.toml", 2)
    assert profile.origins["launch.env.A"] == (f"{tmp_path}/arm.toml", 7)
    assert profile.origins["patches.on"] == (f"{tmp_path}/base.toml", 10)
    assert "launch.port" not in profile.origins, "a default stands nowhere"


def test_an_own_profile_may_extend_the_shipped_one_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "profiles" / "glm5-nvfp4.toml"
    own.parent.mkdir()
    own.write_text('extends = "glm5-nvfp4"\n[launch.args]\ntp-size = 4\n')
    profile = load_profile(own)
    assert (profile.launch.args["tp-size"], profile.launch.args["quantization"]) == (4, "modelopt_fp4")
    assert profile.layers[1] == str(paths.shipped_folder() / "glm5-nvfp4.toml")
    own.rename(own.with_name("alone.toml"))
    (tmp_path / "profiles" / "alone.toml").write_text('extends = "alone"\n')
    with pytest.raises(FormatError, match=r"alone.toml:1: extends goes in a circle: alone → alone"):
        load_profile(tmp_path / "profiles" / "alone.toml")


def test_a_missing_base_below_the_first_is_told_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('\nextends = "gone"\n')
    (tmp_path / "arm.toml").write_text('extends = "base"\n')
    with pytest.raises(FormatError, match=rf"^{tmp_path}/base.toml:2: extends = 'gone': no such profile"):
        load_profile(tmp_path / "arm.toml")


def test_a_fault_of_the_arm_is_told_with_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=rf"^{tmp_path}/arm.toml:4: launch.port must be an integer, not a string"):
        layered(tmp_path, "[launch]\nport = 1\n", "\n[launch]\nport = 'x'\n")


def test_flags_whose_value_is_a_secret(tmp_path: Path) -> None:
    text = '[launch.args]\napi-key = { from = "env" }\nadmin-api-key = { from = "host-env", name = "ADMIN" }\n'
    launch = parse_profile(text, "p.toml").launch
    assert launch.args == {}
    assert launch.secret_args == {"api-key": Secret("env", "API_KEY"), "admin-api-key": Secret("host-env", "ADMIN")}


def test_a_fault_of_the_base_is_told_with_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("\n\n[launch]\nport = 'x'\n")
    (tmp_path / "child.toml").write_text('extends = "base"\n')
    with pytest.raises(FormatError, match=r"base.toml:4: launch.port must be an integer"):
        load_profile(tmp_path / "child.toml")


def test_layers_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('extends = "b"\n')
    (tmp_path / "b.toml").write_text('extends = "a"\n')
    with pytest.raises(FormatError, match="goes in a circle"):
        load_profile(tmp_path / "a.toml")


@pytest.mark.parametrize("path", paths.all_profiles(), ids=lambda path: str(path.stem))
def test_shipped_profiles_are_right(path: Path) -> None:
    assert load_profile(path).title


def test_lookup_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    shipped = paths.find_profile("glm5-nvfp4")
    assert shipped.parent == paths.shipped_folder()
    own = tmp_path / "config/tokwatt/profiles/glm5-nvfp4.toml"
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert paths.find_profile("glm5-nvfp4") == own
    here = tmp_path / "profiles/glm5-nvfp4.toml"
    here.parent.mkdir()
    here.write_text("")
    assert paths.find_profile("glm5-nvfp4.toml").resolve() == here
    assert paths.find_profile(str(own)) == own
    with pytest.raises(UsageError, match="not found") as caught:
        paths.find_profile("glm5-nvfp5")
    assert caught.value.hint == "did you mean glm5-nvfp4?"
    with pytest.raises(UsageError, match="no such profile file"):
        paths.find_profile("./nope.toml")


def test_edits_keep_every_other_byte(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    text = "# mine\n[launch]   # here\nport = 1  # why\n\n[launch.args]\ntp-size = 8 # eight\n"
    path.write_text(text)
    path.chmod(0o640)
    edit.set_values(path, {("launch", "port"): 2, ("bench", "repeats"): 3})
    changed = path.read_text()
    assert changed.startswith(text.replace("port = 1", "port = 2"))
    assert tomlkit.parse(changed)["bench"] == {"repeats": 3}
    assert path.stat().st_mode & 0o777 == 0o640
    edit.set_values(path, {("launch", "port"): 1, ("bench", "repeats"): None})
    assert path.read_text().startswith(text)


def test_a_symlink_keeps_leading_where_it_led(tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("")
    (tmp_path / "link.toml").symlink_to("real.toml")
    edit.write_whole(tmp_path / "link.toml", b"a = 1\n")
    assert (tmp_path / "link.toml").is_symlink()
    assert (tmp_path / "real.toml").read_text() == "a = 1\n"
