"""The ways of launching: the words that go around an engine's own, and what the host must know of them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from console.config.secrecy import is_secret
from console.domain.profile import DOCKER_RUN, PROCESS, SLURM, SYSTEMD_RUN, Profile, itself_in
from console.engines.registry import engine

RUN = "{run}"
"""Becomes the run's number on the host."""

_NETS = ("--network", "--net")
_PUBLISH = ("-p", "--publish")
_VOLUMES = ("-v", "--volume")


@dataclass(frozen=True, slots=True)
class Way:
    """A launch as it is sent."""

    before: tuple[str, ...]
    """Words in front; no secret is among them."""
    argv: tuple[str, ...]
    """The engine's own words, or what is left of them behind an entry point."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return all words."""
        return (*self.before, *self.argv)


def way(profile: Profile, argv: Sequence[str]) -> Way:
    """Return how a launch goes.

    Args:
        profile: What is launched.
        argv: The engine's command, also one whose secrets are taken out.
    """
    launch = profile.launch
    if launch.via == DOCKER_RUN:
        return _docker_run(profile, argv)
    if launch.via == SLURM:
        partition = [f"--partition={launch.slurm.partition}"] * bool(launch.slurm.partition)
        own = ["--job-name", unit_name(profile), "--ntasks=1", "--export=ALL", *partition]
        return Way(("srun", *own, *launch.slurm.options), tuple(argv))
    if launch.via == SYSTEMD_RUN:
        given = launch.systemd
        set_ = [word for name, value in given.properties.items() for word in ("--property", f"{name}={value}")]
        own = [f"--{given.manager}", "--scope", "--quiet", "--unit", unit_name(profile), *set_, *given.options]
        return Way(("systemd-run", *own, "--"), tuple(argv))
    return Way((), tuple(argv))


def _docker_run(profile: Profile, argv: Sequence[str]) -> Way:
    launch = profile.launch
    words = [launch.docker.runtime, "run", "--rm", "--name", unit_name(profile)]
    for name, value in launch.env.items():
        words += ["--env", f"{name}={value}" if isinstance(value, str) and _told(name, value) else name]
    for name in launch.unset:
        words += ["--env", name]  # named without a value and not there: the image's own value goes, too
    if launch.workdir:
        words += ["--workdir", launch.workdir]
    words += launch.docker.options
    if launch.docker.entrypoint == "replace":
        return Way((*words, "--entrypoint", argv[0], launch.docker.image), tuple(argv[1:]))
    if launch.docker.entrypoint == "engine":
        rest = list(argv[_program_words(profile) :])
        if rest and not rest[0].startswith("-"):
            rest.insert(0, "--model")  # images of old and of new versions take it so
        return Way((*words, launch.docker.image), tuple(rest))
    return Way((*words, launch.docker.image), tuple(argv))


def _program_words(profile: Profile) -> int:
    bare = replace(profile, launch=replace(profile.launch, args={}, secret_args={}))
    return len(engine(profile.engine.kind).command(bare)) - len(("--port", "1"))


def inherited(profile: Profile, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the launcher itself must have, for the server to get them.

    A container is told the others in words; a job and a scope have all that their launcher has.
    """
    if profile.launch.via != DOCKER_RUN:
        return dict(env)
    given = profile.launch.env
    told = {name for name, value in given.items() if isinstance(value, str) and _told(name, value)}
    return {name: value for name, value in env.items() if name not in told}


def _told(name: str, value: str) -> bool:
    """Whether a container is told a value in words: one that is a secret, or the host's, it is given by its name."""
    return not is_secret(name, value) and itself_in(name).search(value) is None


def unit_name(profile: Profile) -> str:
    """Return the name of the container, job or scope, its run's number open."""
    return profile.launch.docker.name * (profile.launch.via == DOCKER_RUN) or f"tokwatt-{RUN}"


def unit(profile: Profile) -> dict[str, str] | None:
    """Return what the host must know of the container, job or scope; `None` for a plain process."""
    launch = profile.launch
    if launch.via == PROCESS:
        return None
    tool = {DOCKER_RUN: launch.docker.runtime, SLURM: "srun", SYSTEMD_RUN: "systemd-run"}[launch.via]
    found = {"kind": launch.via, "tool": tool, "name": unit_name(profile)}
    if launch.via == DOCKER_RUN:
        found["image"] = launch.docker.image
    elif launch.via == SLURM:
        found["partition"] = launch.slurm.partition
    else:
        found["manager"] = launch.systemd.manager
    return found


def in_image(profile: Profile) -> bool:
    """Return whether interpreter and packages are in an image, where the host cannot be asked for them."""
    options = profile.launch.slurm.options if profile.launch.via == SLURM else ()
    pyxis = any(word.startswith("--container-image") for word in options)
    return profile.launch.via == DOCKER_RUN or pyxis


def host_paths(profile: Profile, paths: Sequence[str]) -> list[str]:
    """Return the paths of a launch as the host has them: through the mounts of its container."""
    if not in_image(profile):
        return list(paths)
    mounts = _mounts(profile.launch.docker.options) if profile.launch.via == DOCKER_RUN else []
    found = []
    for path in paths:
        for outside, inside in mounts:
            if path == inside or path.startswith(inside + "/"):
                found.append(posixpath.normpath(outside + path[len(inside) :]))
                break
    return found


def _mounts(options: Sequence[str]) -> list[tuple[str, str]]:
    """Return (outside, inside) of the folders that are mounted, the deepest first."""
    found = []
    for value in valued(options, _VOLUMES):
        outside, _, rest = value.partition(":")
        inside = rest.partition(":")[0]
        if outside.startswith("/") and inside.startswith("/"):
            found.append((outside, inside))
    for value in valued(options, ("--mount",)):
        pairs = dict(part.partition("=")[::2] for part in value.split(","))
        outside = pairs.get("source", pairs.get("src", ""))
        inside = pairs.get("target", pairs.get("destination", pairs.get("dst", "")))
        if pairs.get("type") == "bind" and outside.startswith("/") and inside.startswith("/"):
            found.append((outside, inside))
    return sorted(((outside, inside.rstrip("/")) for outside, inside in found), key=lambda pair: -len(pair[1]))


def valued(options: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the values of options, written with `=`, behind a blank, or at once behind one letter."""
    found = []
    for at, word in enumerate(options):
        head, equals, value = word.partition("=")
        if word in names and at + 1 < len(options):
            found.append(options[at + 1])
        elif head in names and equals:
            found.append(value)
        elif len(word) > 2 and word[:2] in names and word[1] != "-":
            found.append(word[2:])
    return found


def reach_fault(profile: Profile) -> str:
    """Return why nothing of the host would reach the server's port; empty when it would."""
    launch = profile.launch
    if launch.via != DOCKER_RUN or "host" in valued(launch.docker.options, _NETS):
        return ""
    for published in valued(launch.docker.options, _PUBLISH):
        outside, _, inside = published.rpartition(":")
        if inside.partition("/")[0] == str(launch.port):
            there = outside.rpartition(":")[2]
            if there == str(launch.port):
                return ""
            return f"-p {published}: port {launch.port} of the container is {there or 'any port'} of the host"
    return f"port {launch.port} of the container is not reached from the host"


def shown(profile: Profile, argv: Sequence[str]) -> list[str]:
    """Return all words of a launch as they may be shown, the run's number open."""
    return [word.replace(RUN, "RUN") for word in way(profile, argv).words]


def _quoted(word: str) -> str:
    """Return a word for a shell, which shall still see a `~/` in front."""
    return "~/" + shlex.quote(word[2:]) if word.startswith("~/") and len(word) > 2 else shlex.quote(word)


def shell_words(profile: Profile, shown: Sequence[str]) -> list[str]:
    """Return the words of a launch, quoted for a shell.

    Args:
        profile: What is launched.
        shown: The engine's words, quoted already.
    """
    found = way(profile, shown)
    opened = {shlex.quote(RUN): "RUN", shlex.quote(f"tokwatt-{RUN}"): "tokwatt-RUN"}
    quoted = [opened.get(word, word) for word in map(_quoted, found.before)]
    if profile.launch.docker.entrypoint == "replace" and profile.launch.via == DOCKER_RUN:
        quoted[-2] = shown[0]  # it was quoted before
    return [*quoted, *found.argv]
