"""A profile: host, engine, launch arguments, patches on, benchmark plan and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

ArgValue = str | int | float | bool | tuple[str | int | float, ...] | Mapping[str, object]
"""One launch argument: `True` is the flag alone, a tuple several values, a mapping JSON."""


def itself_in(name: str) -> re.Pattern[str]:
    """Return the pattern of a variable's own name in its value: `PATH = "/opt/bin:${PATH}"`, the rest being the host's."""
    return re.compile(rf"\$(?:\{{{re.escape(name)}\}}|{re.escape(name)}\b)")


@dataclass(frozen=True, slots=True)
class Secret:
    """An environment variable whose value is not in the profile."""

    source: str
    """`env`: of the console's environment, sent on standard input. `host-env`: of the host's."""
    name: str = ""
    """Variable that holds it, where that has another name."""


@dataclass(frozen=True, slots=True)
class HostSection:
    """`[host]`: where the engine runs."""

    ssh: str = ""
    """Alias of `~/.ssh/config`, `user@host:port`, or `local`."""
    container: str = ""
    runtime: str = "docker"
    nodes: tuple[str, ...] = ()
    """Further hosts of an engine that runs on several: a tab each in the cockpit, their readings summed."""


@dataclass(frozen=True, slots=True)
class EngineSection:
    """`[engine]`: which engine, and the interpreter that launches it."""

    kind: str = "sglang"
    python: str = ""
    """Path of the interpreter; empty means the `python3` of the login."""
    command: tuple[str, ...] = ()
    """Words before the arguments, where they are not the engine's usual ones: `["/opt/llama/llama-server"]`."""


PROCESS, DOCKER_RUN, SLURM, SYSTEMD_RUN = "process", "docker-run", "slurm", "systemd-run"
"""The ways of launching, as `via` under `[launch]` names them."""

VIAS = (PROCESS, DOCKER_RUN, SLURM, SYSTEMD_RUN)
VIA_TABLES = {DOCKER_RUN: "docker", SLURM: "slurm", SYSTEMD_RUN: "systemd"}
"""The table under `[launch]` that each of them reads."""


@dataclass(frozen=True, slots=True)
class DockerSection:
    """`[launch.docker]`: the container that `via = "docker-run"` makes for a run."""

    image: str = ""
    options: tuple[str, ...] = ()
    """Words between `run` and the image: `["--gpus", "all", "--network", "host"]`."""
    name: str = ""
    """Name of the container; empty gives each run a name of its own."""
    entrypoint: str = ""
    """Empty: the words behind the image are the whole command. `engine`: the image's entry point is the
    engine, and gets the arguments alone. `replace`: `--entrypoint` with the engine's program."""
    runtime: str = "docker"
    """Program that makes it: `docker`, `podman`, `nerdctl`, or a path."""


@dataclass(frozen=True, slots=True)
class SlurmSection:
    """`[launch.slurm]`: the job that `via = "slurm"` asks `srun` for."""

    partition: str = ""
    options: tuple[str, ...] = ()
    """More words of `srun`: `["--gres=gpu:8", "--time=08:00:00"]`."""


@dataclass(frozen=True, slots=True)
class SystemdSection:
    """`[launch.systemd]`: the scope that `via = "systemd-run"` puts the server into."""

    manager: str = "user"
    """`user`: the login's own service manager. `system`: the host's."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of the scope: `MemoryMax`, `AllowedCPUs`, …"""
    options: tuple[str, ...] = ()
    """More words of `systemd-run`: `["--slice=serving.slice"]`."""


@dataclass(frozen=True, slots=True)
class LaunchSection:
    """`[launch]`: how the engine is started."""

    port: int = 30000
    workdir: str = ""
    args: Mapping[str, ArgValue] = field(default_factory=dict)
    """Flags without `--`, in the order of the file."""
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    """Variables that the server must not have, whatever the host's login gives; `NAME = false` in the file."""
    secret_args: Mapping[str, Secret] = field(default_factory=dict)
    """Flags whose value is not in the profile: `api-key = { from = "env", name = "SGLANG_API_KEY" }`."""
    via: str = PROCESS
    """One of `VIAS`."""
    docker: DockerSection = field(default_factory=DockerSection)
    slurm: SlurmSection = field(default_factory=SlurmSection)
    systemd: SystemdSection = field(default_factory=SystemdSection)

    @property
    def via_values(self) -> dict[str, object]:
        """Keys and values of the table of the way that it goes; empty for a plain process."""
        section = getattr(self, VIA_TABLES.get(self.via, ""), None)
        return {each.name: getattr(section, each.name) for each in fields(section)} if section is not None else {}


@dataclass(frozen=True, slots=True)
class BenchSection:
    """`[bench]`: what `b` measures."""

    concurrency: tuple[int, ...] = (1, 8, 32)
    input_tokens: int = 1024
    output_tokens: int = 256
    repeats: int = 1
    requests_per_stream: int = 4
    """Requests at one concurrency = this × concurrency."""
    request_rate: float | None = None
    """Requests a second of an open loop; the concurrency is then the most in flight. `None` is a closed loop."""
    arrival: str = "poisson"
    """How they arrive in an open loop: `poisson`, `constant` or `burst`."""
    burst: int = 1
    """Requests that arrive at once, for `burst`."""
    input_spread: float = 0.0
    output_spread: float = 0.0
    """Share of a length by which a request may be shorter, uniformly and the same for every arm; 0 is fixed."""
    ignore_eos: bool = True
    api: str = ""
    """`generate`, `completions` or `chat`; empty takes the engine's best."""


@dataclass(frozen=True, slots=True)
class LimitsSection:
    """`[limits]`: what a request must hold to count as goodput."""

    ttft_ms: float | None = None
    itl_ms: float | None = None
    e2el_ms: float | None = None


@dataclass(frozen=True, slots=True)
class TargetSection:
    """`[target]`: a line to look at, never a comparison."""

    output_tok_s: float | None = None
    origin: str = ""
    """The file's `from`: where the number comes from."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile, layers resolved."""

    name: str
    """File name without `.toml`."""
    path: str = ""
    """Where it was read from."""
    title: str = ""
    host: HostSection = field(default_factory=HostSection)
    engine: EngineSection = field(default_factory=EngineSection)
    launch: LaunchSection = field(default_factory=LaunchSection)
    patches_on: tuple[str, ...] = ()
    bench: BenchSection = field(default_factory=BenchSection)
    limits: LimitsSection = field(default_factory=LimitsSection)
    target: TargetSection = field(default_factory=TargetSection)
    winner: Mapping[str, object] | None = None
    """The evidence of a saved winner, as it stands in the file."""
    layers: tuple[str, ...] = field(default=(), compare=False)
    """Files that it was made of, its own first, then what that extends."""
    origins: Mapping[str, tuple[str, int]] = field(default_factory=dict, compare=False)
    """Where each value stands: `launch.args.tp-size` to file and line; what is not there is a default."""
