"""Whose requests a stop ends."""

from __future__ import annotations

import pytest

from console.operations.stopping import _published


@pytest.mark.parametrize(
    ("pid", "uid", "title", "may_be"),
    [
        (None, 0, "", True),
        (None, 1000, "", False),
        (7, 0, "/usr/bin/docker-proxy -host-port 30000", True),
        (7, 0, "python3 -m sglang.launch_server", False),
    ],
)
def test_requests_of_another_login_are_not_aborted(pid: int | None, uid: int, title: str, may_be: bool) -> None:
    """Who has the port of a container that is ours, where its process cannot be seen, is root's daemon or a stranger."""
    assert _published({"pid": pid, "uid": uid, "title": title}) is may_be
