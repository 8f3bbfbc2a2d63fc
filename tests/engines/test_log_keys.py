"""Keys that an engine writes into its log are shown by nobody."""

from __future__ import annotations

import pytest

from console.engines.records import LogParser
from console.engines.registry import engine


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "[2026-01-01 10:00:00] server_args=ServerArgs(api_key='hunter2', admin_api_key=None, port=1)",
            "[2026-01-01 10:00:00] server_args=ServerArgs(api_key='*******', admin_api_key=None, port=1)",
        ),
        (
            "non-default args: {'api_key': ['a1', 'b2'], 'port': 1}",
            "non-default args: {'api_key': [**********], 'port': 1}",
        ),
        ("error: unknown argument: --api-key hunter2", "error: unknown argument: --api-key *******"),
        ("--admin-api-key=hunter2 --port 1", "--admin-api-key=******* --port 1"),
        ('{"api_key": "hunter2"}', '{"api_key": "*******"}'),
        ("usage: serve [--api-key API_KEY] [--port PORT]", "usage: serve [--api-key API_KEY] [--port PORT]"),
        ("an api_key is wanted", "an api_key is wanted"),
        ("my_api_key_count=3 api_keys: 2", "my_api_key_count=3 api_keys: 2"),
    ],
)
def test_a_key_is_starred(line: str, shown: str) -> None:
    for data in (f"{line}\nnext\n", line):
        parser = LogParser(engine("sglang").grammar())
        records = parser.feed(data.encode()) + parser.close()
        assert records[0].raw.split("\n")[0] == shown
        assert "hunter2" not in str(records)
        assert parser.offset == len(data)
