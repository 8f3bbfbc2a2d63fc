"""`tokwatt profile …` in a shell."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from console.cli import main

DATA = Path(__file__).parents[1] / "data" / "commands"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def run(*argv: str) -> int:
    return main.run(["profile", *argv], lambda args: 99)


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    assert found["schema"] == 1
    return found


def test_import_command_and_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("import", str(DATA / "C01.txt"), "--name", "big") == 0
    said = capsys.readouterr()
    assert said.out == f"{tmp_path}/config/tokwatt/profiles/big.toml\n"
    assert "sglang, 18 flags, 3 variables" in said.err
    assert run("command", "big", "--json") == 0
    told = document(capsys)
    assert told["argv"][:5] == ["python3", "-m", "sglang.launch_server", "--model-path", "/data/models/Big-MoE-FP8"]
    assert told["argv"][-2:] == ["--port", "9000"]
    assert '{"enable_multithread_load": true}' in told["argv"]
    assert told["env"] == [
        "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "SGLANG_USE_AITER", "SGLANG_USE_AITER_UNIFIED_ATTN",
    ]  # fmt: skip
    assert run("show", "big", "--json") == 0
    shown = document(capsys)["profile"]
    file = f"{tmp_path}/config/tokwatt/profiles/big.toml"
    assert shown["layers"] == [file]
    assert shown["origins"]["launch.args.tp"] == {"file": file, "line": 13}
    assert Path(file).read_text().splitlines()[12] == "tp = 8"


def test_import_tells_what_it_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import", str(DATA / "C08.txt"), "--output", "-", "--json") == 0
    said = document(capsys)
    assert (said["path"], said["ok"], said["log"], said["unset"]) == (None, True, "p0.log", ["VLLM_PLUGINS"])
    warnings = {note["line"]: note for note in said["notes"] if note["severity"] == "warning"}
    assert warnings[5]["meant"].startswith("CUDA_VISIBLE_DEVICES=0 vllm serve /data0/")


def test_import_reads_standard_input_and_writes_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"HF_TOKEN=hf_0123456789abcdefghijklmn sglang serve --model-path $M\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("import", "-", "--output", "-", "--set", "M=/models/x") == 0
    said = capsys.readouterr()
    assert 'model-path = "/models/x"\n' in said.out
    assert 'HF_TOKEN = { from = "env" }' in said.out
    assert "hf_0123" not in said.out + said.err
    assert "warning: line 1: HF_TOKEN is a secret: its value is not kept" in said.err


def test_import_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "a.sh"
    broken.write_text('vllm serve m --hf-overrides {"a":1}\n')
    assert run("import", str(broken)) == 2
    assert f"{broken}:1: --hf-overrides: the shell takes the quotes out of it" in capsys.readouterr().err
    assert run("import", str(broken), "--json") == 2
    assert document(capsys)["ok"] is False
    assert not (tmp_path / "config").exists()
    assert run("import", str(broken), "--repair") == 0
    assert run("import", str(broken), "--repair") == 3
    assert "is there already, nothing is overwritten" in capsys.readouterr().err
    assert run("import", str(tmp_path / "gone.sh")) == 2
    assert run("import", str(broken), "--set", "1=2") == 2
    assert run("import", str(broken), "--repair", "--pick", "2", "--name", "b") == 2


def test_check_tells_by_its_exit_code(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text('[launch.args]\nmodel-path = "m"\n')
    bad.write_text('extends = "good"\n[launch.args]\npage-size = 0\n')
    assert run("check", str(good)) == 0
    assert "nothing wrong found" in capsys.readouterr().out
    assert run("check", str(bad)) == 2
    assert f"{bad}:3: error: page-size is 0; it must be at least 1" in capsys.readouterr().out
    assert run("check", str(bad), "--json") == 2
    said = document(capsys)
    assert (said["ok"], said["host"]) == (False, None)
    [finding] = said["findings"]
    assert (finding["key"], finding["file"], finding["line"]) == ("launch.args.page-size", str(bad), 3)


def test_show_tells_layers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('[launch.args]\nmodel-path = "m"\ntp-size = 8\n')
    (tmp_path / "arm.toml").write_text('extends = "base"\n[launch.args]\ntp-size = 4\nlog-level = false\n')
    assert run("show", "arm.toml") == 0
    said = capsys.readouterr().out
    assert "  extends   base\n" in said
    assert "  tp-size     4           arm.toml:3\n" in said
    assert "  model-path  m           base.toml:2\n" in said
    assert "  log-level   not given   arm.toml:4\n" in said
