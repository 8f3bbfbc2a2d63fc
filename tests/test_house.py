"""The house's rules that import contracts cannot see: what really loads, and what is sent."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SENT = ["console/remote/outpost", "console/telemetry/probe", "console/bench/load"]


def _loaded(code: str) -> set[str]:
    program = f"import sys; {code}; print('\\n'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(out.stdout.split())


def test_the_front_door_loads_no_heavy_library() -> None:
    loaded = _loaded("from console.cli.main import parser; parser()")
    assert "console.cli.main" in loaded
    assert not loaded & {"asyncssh", "httpx", "textual", "rich", "pygments", "tree_sitter", "cryptography", "sqlite3"}


def test_the_cockpit_loads_no_connection_library_before_its_first_frame() -> None:
    loaded = _loaded("import console.ui.app")
    assert "textual.app" in loaded
    assert not loaded & {"asyncssh", "httpx", "tree_sitter", "cryptography", "sqlite3", "plotext"}


@pytest.mark.parametrize("folder", SENT)
def test_sent_programs_are_old_python_and_import_nothing_of_ours(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    allowed = {*sys.stdlib_module_names, "pynvml"}
    for file in files:
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                tops = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                tops = {(node.module or "").split(".")[0]}
            else:
                assert not (isinstance(node, ast.ImportFrom) and node.level > 1), (
                    f"{file}:{node.lineno} leaves its folder"
                )
                continue
            assert tops <= allowed, f"{file}:{node.lineno} imports {tops - allowed}"


def test_nothing_names_a_machine_path() -> None:
    words = ["/work" + "/main", "/work" + "/shared", ".." + "/shared", "." + "library"]
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT)
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".tcss", ".sh", ".yml", ""}:
            text = path.read_text(errors="replace")
            assert not [word for word in words if word in text], name
