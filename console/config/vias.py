"""`via` under `[launch]`: what a profile may say of the container, job or scope that a server is launched in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from console.config.lines import KeyPath, TomlFile, kind_word
from console.config.paths import nearest
from console.config.secrecy import is_secret_name, is_secret_value
from console.domain.profile import DOCKER_RUN, PROCESS, SLURM, SYSTEMD_RUN, VIAS, HostSection, LaunchSection

ENTRYPOINTS = ("", "engine", "replace")
MANAGERS = ("user", "system")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PROPERTY = re.compile(r"[A-Z][A-Za-z0-9]*")
_FOREGROUND = "a run keeps its launcher in the foreground: its output is the log, its end the exit status"
_OWN = "tokwatt gives every run its own"

_REFUSED: Mapping[str, Mapping[str, str]] = {
    DOCKER_RUN: {
        **dict.fromkeys(("-d", "--detach", "-t", "--tty", "-i", "--interactive"), _FOREGROUND),
        **dict.fromkeys(("-a", "--attach"), _FOREGROUND),
        "--restart": "a server that comes back by itself cannot be stopped",
        "--rm": "every run's container is removed at its end",
        "--name": "write name = … under [launch.docker]",
        "--entrypoint": "write entrypoint = … under [launch.docker]",
        "--cidfile": _OWN,
        "-w": "write workdir = … under [launch]",
        "--workdir": "write workdir = … under [launch]",
    },
    SLURM: {
        **dict.fromkeys(("-o", "--output", "-e", "--error", "-i", "--input", "--pty"), _FOREGROUND),
        **dict.fromkeys(("-J", "--job-name"), _OWN),
        "--jobid": _OWN,
        "-D": "write workdir = … under [launch]",
        "--chdir": "write workdir = … under [launch]",
        "-p": "write partition = … under [launch.slurm]",
        "--partition": "write partition = … under [launch.slurm]",
        "--export": "variables are given under [launch.env]",
    },
    SYSTEMD_RUN: {
        **dict.fromkeys(("--pty", "-t", "--pipe", "-P", "--wait", "--no-block"), _FOREGROUND),
        **dict.fromkeys(("--on-active", "--on-calendar", "--on-boot", "--service-type"), _FOREGROUND),
        **dict.fromkeys(("-u", "--unit", "--scope"), _OWN),
        "--user": 'write manager = "user" under [launch.systemd]',
        "--system": 'write manager = "system" under [launch.systemd]',
        "-p": "write it under [launch.systemd.properties]",
        "--property": "write it under [launch.systemd.properties]",
        "-E": "variables are given under [launch.env]",
        "--setenv": "variables are given under [launch.env]",
        "--working-directory": "write workdir = … under [launch]",
        "-d": "write workdir = … under [launch]",
        "--same-dir": "write workdir = … under [launch]",
    },
}
"""Options that would take from a run what makes it one, with a word on what to do instead."""

_OF_SCOPE = re.compile(
    r"(?:Startup|Default)?(?:CPU|Memory|IO|Tasks|Allowed|Block)[A-Z]\w*|(?:IP|Device|Socket|ManagedOOM|Kill|Runtime)[A-Z]\w*"
    r"|Delegate|Slice|Description|OOMPolicy|OOMRules|TimeoutStopSec|SendSIGKILL|SendSIGHUP|FinalKillSignal|Disable\w+"
)

_CLUSTERED = re.compile(r"-[dit]{2,}")


def refused(via: str, word: str) -> str:
    """Return why an option cannot stand in a profile; empty when it can."""
    if via == DOCKER_RUN and _CLUSTERED.fullmatch(word):
        return _FOREGROUND
    return _REFUSED.get(via, {}).get(word.partition("=")[0], "")


def of_scope(name: str) -> bool:
    """Return whether a scope has a property: those of execution (`LimitMEMLOCK`, `User`) are a service's."""
    return _OF_SCOPE.fullmatch(name) is not None


def properties(given: Mapping[str, object], file: TomlFile) -> dict[str, str]:
    """Return the properties of a scope as `systemd-run` takes them."""
    found = {}
    for name, value in given.items():
        key = ("launch", "systemd", "properties", name)
        if not _PROPERTY.fullmatch(name):
            raise file.fault(key, "is not the name of a property", 'as MemoryMax = "200G"')
        if isinstance(value, bool):
            found[name] = "yes" if value else "no"
        elif isinstance(value, (str, int, float)):
            found[name] = str(value)
        else:
            raise file.fault(key, f"cannot be {kind_word(value)}")
    return found


def checked(launch: LaunchSection, file: TomlFile) -> None:
    """Check what one layer says; raise `FormatError` with file, line and key."""
    if launch.via not in VIAS:
        known = f"known: {', '.join(VIAS)}"
        raise file.fault(("launch", "via"), f"is {launch.via!r}", nearest(launch.via, VIAS) or known)
    docker, systemd = launch.docker, launch.systemd
    if docker.entrypoint not in ENTRYPOINTS:
        hint = "engine: the image starts the engine itself; replace: --entrypoint with the engine's program"
        raise file.fault(("launch", "docker", "entrypoint"), f"is {docker.entrypoint!r}", hint)
    if docker.name and not _NAME.fullmatch(docker.name):
        raise file.fault(("launch", "docker", "name"), f"is {docker.name!r}; letters, digits, - _ and . only")
    if docker.image.startswith("-") or " " in docker.image:
        raise file.fault(
            ("launch", "docker", "image"), f"is {docker.image!r}, no image", "options = [ … ] takes options"
        )
    if not docker.runtime or docker.runtime.startswith("-") or " " in docker.runtime:
        raise file.fault(("launch", "docker", "runtime"), f"is {docker.runtime!r}", "docker, podman, nerdctl or a path")
    if systemd.manager not in MANAGERS:
        raise file.fault(("launch", "systemd", "manager"), f"is {systemd.manager!r}", f"known: {', '.join(MANAGERS)}")
    for via, table, words in (
        (DOCKER_RUN, "docker", docker.options),
        (SLURM, "slurm", launch.slurm.options),
        (SYSTEMD_RUN, "systemd", systemd.options),
    ):
        _options(via, ("launch", table, "options"), words, file)


def _options(via: str, key: KeyPath, words: Sequence[str], file: TomlFile) -> None:
    for index, word in enumerate(words):
        place = (*key, index)
        if "\0" in word or not word:
            raise file.fault(place, "is empty" if not word else "holds a NUL")
        if word.startswith("-") and (why := refused(via, word)):
            raise file.fault(place, f"{word.partition('=')[0]} does not belong here", why)
        if index == 0 and not word.startswith("-"):
            raise file.fault(place, f"is {word!r}, no option", 'each word by itself: ["--gpus", "all"]')
        if re.match(r"--?\S+ \S", word) and "=" not in word.partition(" ")[0]:
            head, _, tail = word.partition(" ")
            raise file.fault(place, f"is {word!r}, one word", f'write "{head}", "{tail.strip()}"')
        name, equals, value = word.removeprefix("--env=").partition("=")
        if equals and (is_secret_value(value) or (not name.startswith("-") and is_secret_name(name) and value)):
            hint = f'write {name.lstrip("-")} = {{ from = "env" }} under [launch.env]'
            raise file.fault(place, "holds a secret; arguments are readable by every login of the host", hint)


def must_be_whole(launch: LaunchSection, host: HostSection, file: TomlFile) -> None:
    """Check what only all layers together can say; raise `FormatError` with file, line and key."""
    if launch.via == PROCESS:
        return
    if host.container:
        said = f"is {launch.via!r}, and [host] container = {host.container!r} puts the launch into that container"
        raise file.fault(("launch", "via"), said, "keep one of the two")
    if launch.via == DOCKER_RUN and not launch.docker.image:
        raise file.fault(
            ("launch", "via"), "is 'docker-run' and no image is named", "write image under [launch.docker]"
        )
