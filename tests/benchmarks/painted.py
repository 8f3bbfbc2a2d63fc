"""The cockpit over a real link; each first paint of a sample writes how old that sample was on the host's clock."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from textual.drivers.linux_driver import LinuxDriver

from console.remote.target import Target
from console.ui.app import TokwattApp
from console.ui.options import Options


def main() -> None:
    """Run it on this terminal: `painted TARGET FILE`, the target as JSON."""
    said = json.loads(sys.argv[1])
    said["key_files"] = tuple(said["key_files"])
    app = TokwattApp(Options((said["name"],), target=Target(**said)))
    write, last = LinuxDriver.write, [0.0]
    with Path(sys.argv[2]).open("w", buffering=1) as out:

        def told(self: LinuxDriver, data: str) -> None:
            write(self, data)
            sample = app.snapshot.gpus
            if sample is not None and sample.gpus and sample.time != last[0]:
                last[0] = sample.time
                out.write(f"{(time.time() - sample.time) * 1000:.1f}\n")

        LinuxDriver.write = told  # type: ignore[method-assign]
        app.run()


if __name__ == "__main__":
    main()
