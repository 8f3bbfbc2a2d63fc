"""Asked for beside in force, and two runs beside each other."""

from __future__ import annotations

from console.config.profiles import parse_profile
from console.operations.argument_table import between_runs, differences_between, fields

PROFILE = parse_profile(
    """\
[launch]
port = 30000
[launch.args]
model-path = "/m"
tp = 8
max-running-requests = 2048
disable-cuda-graph = true
log-level = false
deepep-config = { a = 1 }
unheard-of = 3
api-key = "hunter2"
""",
    "p.toml",
)
RESOLVED = {
    "model_path": "/m",
    "tp_size": 8,
    "max_running_requests": 1536,
    "disable_cuda_graph": True,
    "deepep_config": '{"a": 1}',
    "log_level": "info",
    "api_key": "hunter2",
    "port": 30000,
    "page_size": 1,
}


def test_differences_first_defaults_last() -> None:
    rows = differences_between(PROFILE, RESOLVED)
    assert [(row.name, row.asked, row.in_force, row.state) for row in rows] == [
        ("max-running-requests", 2048, 1536, "different"),
        ("model-path", "/m", "/m", "as asked"),
        ("tp", 8, 8, "as asked"),
        ("disable-cuda-graph", True, True, "as asked"),
        ("deepep-config", {"a": 1}, '{"a": 1}', "as asked"),
        ("api-key", "•••", "•••", "as asked"),
        ("port", 30000, 30000, "as asked"),
        ("unheard-of", 3, None, "not told"),
        ("log-level", None, "info", "default"),
        ("page-size", None, 1, "default"),
    ]
    assert fields(rows)[0] == {
        "name": "max-running-requests", "asked": 2048, "in_force": 1536, "state": "different",
    }  # fmt: skip


def test_nothing_is_told_of_a_server_that_says_nothing() -> None:
    assert {row.state for row in differences_between(PROFILE, {})} == {"not told"}


def test_another_port_is_a_difference() -> None:
    assert differences_between(PROFILE, {**RESOLVED, "port": 1})[1].state == "different"


def test_two_runs() -> None:
    left = {"tp_size": 8, "args": '{"a": 1, "b": 2}', "bs": (1, 2), "gone": None, "api_key": "x"}
    right = {"tp_size": 4, "args": '{"b":2,"a":1}', "bs": [1, 2], "new": 1, "api_key": "y"}
    rows = between_runs(left, right)
    assert [(row.name, row.left, row.right, row.same) for row in rows] == [
        ("api-key", "•••", "•••", False),
        ("gone", None, None, False),
        ("new", None, 1, False),
        ("tp-size", 8, 4, False),
        ("args", '{"a": 1, "b": 2}', '{"b":2,"a":1}', True),
        ("bs", (1, 2), [1, 2], True),
    ]
