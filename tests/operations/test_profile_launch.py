"""What a launched server gets of the secrets and variables of its profile."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from console.config.profiles import load_profile, parse_profile
from console.errors import UsageError
from console.operations import launching, profile_check, server
from console.operations.desk import Desk
from tests.local import desk as desk  # a fixture

SHOW = """\
import json, os, sys
names = ("TOKEN", "GIVEN", "GONE", "COPIED", "PATH")
found = {name: os.environ.get(name) for name in names}
with open(sys.argv[1], "w") as file:
    json.dump({"argv": sys.argv[2:], "env": found}, file)
"""


def profile_text(out: Path, args: str = "", env: str = "") -> str:
    command = json.dumps([sys.executable, "-c", SHOW, str(out)])
    return f'[engine]\nkind = "llamacpp"\ncommand = {command}\n[launch]\nport = 1\n[launch.args]\n{args}\n[launch.env]\n{env}\n'


async def test_a_server_gets_secrets_and_lacks_what_was_taken_away(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("GONE", "of the login")
    monkeypatch.setenv("MY_KEY", "hunter2")
    monkeypatch.setenv("MY_TOKEN", "hunter3")
    out = tmp_path / "out.json"
    args = 'model-path = "m"\napi-key = { from = "env", name = "MY_KEY" }\nadmin-api-key = { from = "host-env", name = "HOME" }'
    env = 'TOKEN = { from = "env", name = "MY_TOKEN" }\nGIVEN = "1"\nGONE = false\nCOPIED = { from = "host-env", name = "HOME" }'
    env += '\nPATH = "/opt/none:${PATH}"'
    desk.profile = parse_profile(profile_text(out, args, env), str(tmp_path / "p.toml"))
    state = await launching.launch(desk, desk.profile, launching.Preflight((), (), 1e6))
    run = await server.find_run(desk, str(state["folder"]).rsplit("/", 1)[-1])
    while not out.exists() or not out.read_text():
        await desk.link.run(["true"])
    home = Path.home()
    said = json.loads(out.read_text())
    assert said["argv"] == ["--model-path", "m", "--api-key", "hunter2", "--admin-api-key", str(home), "--port", "1"]
    longer = said["env"].pop("PATH")
    assert longer.startswith("/opt/none:/") and longer.endswith(os.environ["PATH"].rpartition(":")[2])
    assert said["env"] == {"TOKEN": "hunter3", "GIVEN": "1", "GONE": None, "COPIED": str(home)}
    assert "hunter" not in " ".join(run.argv)
    kept = (Path(str(state["folder"])) / "launch.json").read_text()
    assert "hunter" not in kept


async def test_the_text_that_a_run_keeps_has_no_secret_and_says_so(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    secret, out = "hf_" + "AbCd1234" * 4, tmp_path / "out.json"
    clean_file, file = tmp_path / "clean.toml", tmp_path / "p.toml"
    clean_file.write_text(profile_text(out, 'model-path = "m"'))
    file.write_text(profile_text(out, f'model-path = "m"\nserved = "{secret}"', f'HUB = "{secret}"'))
    kept = []
    for path in (clean_file, file):
        desk.profile = load_profile(path)
        state = await launching.launch(desk, desk.profile, launching.Preflight((), (), 1e6))
        kept.append((Path(str(state["folder"])) / "launch.json").read_text())
    assert [json.loads(text)["profile_redacted"] for text in kept] == [False, True]
    assert json.loads(kept[0])["profile_text"] == clean_file.read_text() and secret not in kept[1]
    file.write_text(json.loads(kept[1])["profile_text"])
    found = [
        each for each in await profile_check.check(load_profile(file), None) if each.key.endswith((".HUB", ".served"))
    ]
    assert {(each.severity, each.text.partition(" ")[2]) for each in found} == {
        ("error", "was a secret, taken out when this text was kept")
    }


@pytest.mark.parametrize(
    ("args", "env", "title"),
    [
        (
            'api-key = { from = "env", name = "NOPE_KEY" }',
            "",
            "launch.args.NOPE_KEY is not in this console's environment",
        ),
        (
            "",
            'TOKEN = { from = "env", name = "NOPE_TOKEN" }',
            "launch.env.NOPE_TOKEN is not in this console's environment",
        ),
    ],
)
def test_a_secret_that_is_not_there_is_told_before_a_launch(args: str, env: str, title: str) -> None:
    with pytest.raises(UsageError, match=title):
        launching.environment(parse_profile(profile_text(Path("x"), args, env), "p.toml"))
