"""The process of the pretend host: `python -m console.demo.host FOLDER`; lives until told to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from console.demo import layout, processes
from console.demo.keys import keys_in
from console.demo.server import DemoServer


async def serve(folder: Path) -> None:
    """Be the host until SIGTERM; SIGUSR1 cuts every connection."""
    keys = keys_in(folder)
    layout.build(folder)
    server = DemoServer(folder, keys)
    await server.start()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, server.drop_connection)
    me = processes.proc(os.getpid())
    facts = {"port": server.port, "pid": me.pid, "start_ticks": me.start_ticks}
    beside = folder / ".host.json.new"
    beside.write_text(json.dumps(facts))
    beside.replace(folder / "host.json")
    await stop.wait()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
