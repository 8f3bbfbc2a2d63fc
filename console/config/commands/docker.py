"""`docker run …` and `docker exec …` around a launch: what of it a profile can say, and what it cannot."""

from __future__ import annotations

import re
from collections.abc import Sequence

from console.config.commands.expand import Field
from console.config.commands.notes import NOTE, WARNING, not_known
from console.config.commands.wrappers import Peeled, Wrapping, options, spelled_again
from console.config.vias import refused
from console.domain.profile import DOCKER_RUN

RUNTIMES = ("docker", "podman", "nerdctl", "docker-compose", "podman-compose")

_VALUED = (
    "-e --env --env-file -v --volume --mount -p --publish -w --workdir -u --user --name --entrypoint --gpus --ipc --pid "
    "--network --net --shm-size --device --cap-add --cap-drop --ulimit --security-opt --runtime --restart --hostname -h "
    "--label -l --log-driver --log-opt --memory -m --cpus --cpuset-cpus --cpuset-mems --tmpfs --platform --pull "
    "--add-host --group-add --userns --stop-timeout --memory-swap --detach-keys --cidfile --dns --ip --link --oom-score-adj "
    "--health-cmd --expose --volumes-from --network-alias --cgroupns --annotation"
)
_SILENT = frozenset(["-i", "-t", "-d", "--rm", "--detach", "--interactive", "--tty"])
_CLUSTER = re.compile(r"-[dit]{2,3}")


def peel(words: Sequence[Field], found: Wrapping) -> tuple[Peeled, str]:
    """Return the command inside the container, and the image whose entry point takes it when it names no program."""
    runtime = words[0].text.rsplit("/", 1)[-1]
    _, rest = options(words[1:], "--context -c -H --host --log-level -l --config")
    if rest and rest[0].text == "container":
        rest = rest[1:]
    composed = runtime.endswith("-compose") or (bool(rest) and rest[0].text == "compose")
    if composed:
        _, rest = options(
            words[1:] if runtime.endswith("-compose") else rest[1:], "-f --file -p --project-name --profile"
        )
    if not rest or rest[0].text not in ("run", "exec"):
        return [], ""
    verb = "exec" if composed else rest[0].text
    given, rest = options(rest[1:], _VALUED)
    if not rest:
        return [], ""
    found.runtime = runtime
    if composed:
        _take(given, found, words[0].line)
        found.runtime, found.container, found.options = "docker", rest[0].text, []
        said = f"{rest[0].text} is a service of compose: write its container's name under [host]"
        found.say(WARNING, said, words[0].line, "container")
        return rest[1:], ""
    if verb == "exec":
        _take(given, found, words[0].line)
        found.container, found.options = rest[0].text, []
        found.say(NOTE, f"{runtime} exec {rest[0].text} became [host] container", words[0].line)
        return rest[1:], ""
    return _run(given, rest, found, words[0].line)


def _run(
    given: Sequence[tuple[str, Field | None, str]], rest: Sequence[Field], found: Wrapping, line: int
) -> tuple[Peeled, str]:
    image, command = rest[0].text, rest[1:]
    around = found.via
    if around:
        said = f"{around} around {found.runtime} run is not kept: a profile launches in one way"
        found.say(WARNING, said, line)
        found.options, found.partition, found.properties = [], "", {}
    found.via, found.image = DOCKER_RUN, image
    found.notes += [not_known("image", what, line) for what in rest[0].unresolved]
    entry = _take(given, found, line)
    said = f'{found.runtime} run of {image} became via = "docker-run" under [launch]'
    found.say(NOTE, said, line)
    if entry is not None and entry.text:
        found.entrypoint = "replace"
        return [entry, *command], ""
    return command, image


def _shared(name: str, one: Field | None, value: str, found: Wrapping) -> list[str]:
    """Return an option as a profile keeps it, and tell what of it is not known."""
    if one is None:
        return [name]
    here = one.at_home()
    found.notes += [not_known(name, what, one.line) for what in here.unresolved]
    return spelled_again(name, here, here.text if value == one.text else value)


def _take(given: Sequence[tuple[str, Field | None, str]], found: Wrapping, line: int) -> Field | None:
    entry: Field | None = None
    for name, one, value in given:
        if name in ("-e", "--env") and one is not None:
            found.set(one, value)
        elif name in ("-w", "--workdir"):
            found.workdir = value
        elif name == "--name":
            found.name = value
        elif name == "--entrypoint" and one is not None:
            entry = Field(value, one.line, one.start, one.end)
        elif name not in _SILENT and not _CLUSTER.fullmatch(name):
            found.ports += [value] if name in ("-p", "--publish") else []
            if found.via == DOCKER_RUN and (why := refused(DOCKER_RUN, name)):
                found.say(NOTE, f"{f'{name} {value}'.strip()} is not kept: {why}", line)
            else:
                found.options += _shared(name, one, value, found)
    return entry
