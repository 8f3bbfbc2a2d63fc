"""`docker run …` and `docker exec …` around a launch: what of it a profile can say, and what it cannot."""

from __future__ import annotations

from collections.abc import Sequence

from console.config.commands.expand import Field
from console.config.commands.notes import NOTE, WARNING
from console.config.commands.wrappers import Peeled, Wrapping, options

RUNTIMES = ("docker", "podman", "nerdctl", "docker-compose", "podman-compose")

_VALUED = (
    "-e --env --env-file -v --volume --mount -p --publish -w --workdir -u --user --name --entrypoint --gpus --ipc --pid "
    "--network --net --shm-size --device --cap-add --cap-drop --ulimit --security-opt --runtime --restart --hostname -h "
    "--label -l --log-driver --log-opt --memory -m --cpus --cpuset-cpus --cpuset-mems --tmpfs --platform --pull "
    "--add-host --group-add --userns --stop-timeout --memory-swap --detach-keys --cidfile --dns --ip --link --oom-score-adj "
    "--health-cmd --expose --volumes-from --network-alias --cgroupns --annotation"
)
_SILENT = frozenset(
    ["-it", "-ti", "-i", "-t", "-d", "--rm", "-itd", "-dit", "--detach", "--interactive", "--tty", "--init"]
)


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
    entry = _take(given, found, words[0].line)
    if composed:
        found.runtime, found.container = "docker", rest[0].text
        said = f"{rest[0].text} is a service of compose: write its container's name under [host]"
        found.say(WARNING, said, words[0].line, "container")
        return rest[1:], ""
    if verb == "exec":
        found.container = rest[0].text
        found.say(NOTE, f"{runtime} exec {rest[0].text} became [host] container", words[0].line)
        return rest[1:], ""
    found.image = rest[0].text
    _told(found, words[0].line)
    command = rest[1:]
    if entry is not None and entry.text:
        return [entry, *command], ""
    return command, rest[0].text


def _take(given: Sequence[tuple[str, Field | None, str]], found: Wrapping, line: int) -> Field | None:
    entry: Field | None = None
    for name, one, value in given:
        if name in ("-e", "--env") and one is not None:
            found.set(one, value)
        elif name in ("-w", "--workdir"):
            found.workdir = value
        elif name == "--name":
            found.container = value
        elif name == "--entrypoint" and one is not None:
            entry = Field(value, one.line, one.start, one.end)
        elif name in ("-p", "--publish"):
            found.ports.append(value)
        elif name not in _SILENT:
            found.kept.append(f"{name} {value}".strip() if one is not None else name)
            if name == "--env-file":
                found.say(WARNING, f"the variables of {value} are not read: it is a file of the host", line)
    return entry


def _told(found: Wrapping, line: int) -> None:
    if found.container:
        said = f'[host] container = "{found.container}": the container must run; tokwatt starts the server inside it'
        found.say(NOTE, f"{found.runtime} run of {found.image} is not kept, {said}", line)
    else:
        said = 'give it --name, start it with a shell that waits, and write container = "NAME" under [host]'
        found.say(WARNING, f"{found.runtime} run of {found.image} has no --name: {said}", line)
    if found.kept:
        found.say(NOTE, f"how the container is made is not kept: {', '.join(found.kept)}", line)
