"""Stand-ins for programs that launch: `docker`, Slurm's and systemd's, as much of them as a run asks for.

Each is told the name that it was called by, and keeps what it knows below `$STAND_INS`. What they print is what
the real ones printed (`tests/data/README.md`).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = {
    "docker": ("docker",),
    "slurm": ("srun", "squeue", "scancel", "sinfo"),
    "systemd": ("systemd-run", "systemctl", "loginctl"),
}


def put_on_path(folder: Path, *families: str) -> Path:
    """Write the programs of these families into a folder, and return it for the PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for family in families:
        for name in NAMES[family]:
            program = folder / name
            code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.stand_ins import {family} as one"
            code += f"; sys.exit(one.main({name!r}, sys.argv[1:]))"
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -c "{code}" "$@"\n')
            program.chmod(0o755)
    return folder
