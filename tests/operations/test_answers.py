"""What an HTTP port says of the server behind it, and which of its ports is the one for HTTP."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from console.domain import readiness
from console.domain.run import Run, RunPhase
from console.operations import running, servers
from console.operations.desk import Desk
from console.remote.link import HostLink


@pytest.mark.parametrize(
    ("status", "said"),
    [(200, readiness.OK), (401, readiness.OK), (403, readiness.OK), (500, readiness.UNWELL), (503, readiness.UNWELL)],
)
async def test_a_server_that_asks_for_its_key_answers(local_link: HostLink, status: int, said: str) -> None:
    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Front) as front:
        thread = Thread(target=front.serve_forever)
        thread.start()
        try:
            run = Run("", "", "sglang", "", "", front.server_port, 0.0, phase=RunPhase.READY)
            assert await running.answers(Desk(local_link), run) == said
        finally:
            front.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("ports", "argv", "port"),
    [
        ([26585, 30000], ["sglang", "--port", "30000"], 30000),
        ([26585], ["sglang", "--port", "30000"], None),
        ([26585], ["sglang", "--port=30000"], None),
        ([26585, 26586], ["sglang"], None),
        ([26585], ["sglang"], 26585),
        ([], ["sglang"], None),
    ],
)
def test_a_socket_between_its_processes_is_not_its_port(ports: list[int], argv: list[str], port: int | None) -> None:
    told = {"ports": ports, "ports_sure": True, "kind": "sglang", "network": "", "published": {}}
    assert servers._port(told, 30000, argv) == port
