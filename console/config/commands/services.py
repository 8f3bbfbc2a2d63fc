"""Containers of compose files and of Kubernetes, as the commands that start the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from console.config.commands.expand import Field, Variable, expanded
from console.config.commands.launches import Found, by_image, launched
from console.config.commands.lexer import Lexer, Word
from console.config.commands.notes import NOTE, WARNING, Note
from console.config.commands.script import Command, read_script
from console.config.commands.yaml_text import Listing, Node, Scalar, Table, read_yaml
from console.config.secrecy import is_secret_name

_ELSEWHERE = "\0"
Known = Mapping[str, Variable]
_LIKELY = re.compile(r"^[ \t-]*(?:services|containers|command|args|image|apiVersion)[ \t]*:", re.MULTILINE)
_COMPOSE = frozenset(
    ["environment", "container_name", "shm_size", "ipc", "network_mode", "restart", "ports", "entrypoint", "runtime"]
)
_ONE = {
    "container_name": "--name", "ipc": "--ipc", "shm_size": "--shm-size", "network_mode": "--network", "runtime": "--runtime",
    "user": "--user", "working_dir": "--workdir", "pid": "--pid", "hostname": "--hostname", "mem_limit": "--memory",
    "gpus": "--gpus", "platform": "--platform",
}  # fmt: skip
"""Keys of a service, and the option of `docker run` that says the same."""
_MANY = {
    "ports": "-p", "volumes": "-v", "devices": "--device", "cap_add": "--cap-add", "security_opt": "--security-opt",
    "group_add": "--group-add", "extra_hosts": "--add-host", "tmpfs": "--tmpfs",
}  # fmt: skip
_KNOWN = frozenset([*_ONE, *_MANY, "image", "command", "entrypoint", "environment", "ulimits", "deploy", "privileged"])
_REFERENCE = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)")


def read_services(text: str, known: Mapping[str, str] | None = None) -> Found | None:
    """Return the launches of a YAML text; `None` where it is none, or has none.

    Args:
        text: The text.
        known: Variables that the operator gives.
    """
    if not _LIKELY.search(text):
        return None
    found, given = Found(), {name: Variable(value) for name, value in (known or {}).items()}
    for node in read_yaml(text):
        for name, table, compose in _containers(node, "", False):
            words, notes = _service(table, given) if compose else _container(table, given)
            if words:
                command = Command((), tuple(words), (), "\n", words[0].line, {})
                launch = launched(command, text)
                if launch is not None:
                    said = f"{name or 'the container'}: read from YAML, as {'a service of compose' if compose else 'a pod'}"
                    launch.wrapping.notes[:0] = [Note(NOTE, said, table.line), *notes]
                    found.launches.append(launch)
    return found if found.launches else None


def _containers(node: Node, name: str, compose: bool) -> Iterator[tuple[str, Table, bool]]:
    if isinstance(node, Listing):
        for item in node.items:
            yield from _containers(item, name, compose)
    if not isinstance(node, Table):
        return
    if any(key in node.items for key in ("command", "args", "image")):
        named = node.items.get("name")
        kind = compose or bool(_COMPOSE & node.items.keys() and "args" not in node.items)
        yield named.text if isinstance(named, Scalar) else name, node, kind
    for key, item in node.items.items():
        yield from _containers(item, key, compose or key == "services")


def _service(table: Table, known: Known) -> tuple[list[Field], list[Note]]:
    """Return a service of compose as the words of `docker run`."""
    line, items = table.line, table.items
    words = [Field("docker", line), Field("run", line)]
    for key, option in _ONE.items():
        if isinstance(value := items.get(key), Scalar) and value.text:
            words += [Field(option, value.line), *_interpolated(value, known)]
    for key, option in _MANY.items():
        for one in _texts(items.get(key)):
            words += [Field(option, one.line), *_interpolated(one, known)]
    for name, one in _environment(items.get("environment")).items():
        if one.text == _ELSEWHERE:
            words += [Field("-e", one.line), Field(name, one.line)]
        else:
            words += [Field("-e", one.line), *_interpolated(replace(one, text=f"{name}={one.text}"), known)]
    if isinstance(items.get("privileged"), Scalar) and items["privileged"] != Scalar("false", line):
        words.append(Field("--privileged", line))
    words += [*_limits(items.get("ulimits")), *_cards(items)]
    entry = _command(items.get("entrypoint"), known)
    if entry:
        words += [Field("--entrypoint", entry[0].line), entry[0]]
    image = items.get("image")
    words += _interpolated(image, known) if isinstance(image, Scalar) else [Field("IMAGE", line)]
    left = [key for key in items if key not in _KNOWN]
    notes = [Note(NOTE, f"{', '.join(left)}: not kept", line)] if left else []
    if not isinstance(image, Scalar):
        notes.append(Note(WARNING, "no image is named: write it under [launch.docker]", line, "image"))
    return [*words, *entry[1:], *_command(items.get("command"), known)], notes


def _container(table: Table, known: Known) -> tuple[list[Field], list[Note]]:
    """Return a container of a pod as a command with its environment; it has no place for the rest."""
    env = _environment(table.items.get("env"))
    words = [_referred(one, env, known) for key in ("command", "args") for one in _texts(table.items.get(key))]
    image = table.items.get("image")
    spelled = by_image(image.text) if isinstance(image, Scalar) else None
    if spelled is not None and (not words or words[0].text.startswith("-")):
        words = [*(Field(word, table.line) for word in spelled.usual), *words]
    said = "its image, volumes and resources are not kept: [host] must reach what runs the engine by ssh"
    notes = [Note(WARNING, said, table.line)]
    given = [Field("env", table.line)]
    for name, one in env.items():
        if one.text != _ELSEWHERE:
            given.append(_referred(replace(one, text=f"{name}={one.text}"), env, known))
        elif is_secret_name(name):
            given.append(Field(f"{name}=${{{name}}}", one.line))
        else:
            notes.append(Note(WARNING, f"{name} comes from the cluster: its value is not known here", one.line, name))
    return ([*given, *words] if words else []), notes


def _texts(node: Node | None) -> list[Scalar]:
    if isinstance(node, Scalar):
        return [node] if node.text else []
    return [item for item in node.items if isinstance(item, Scalar)] if isinstance(node, Listing) else []


def _command(node: Node | None, known: Known) -> list[Field]:
    """Return the words of a command: a list as it stands, a text as a shell parts it."""
    if isinstance(node, Listing):
        return [word for one in _texts(node) for word in _interpolated(one, known)]
    if not isinstance(node, Scalar):
        return []
    commands = read_script(node.text, {name: str(one.value) for name, one in known.items()}).commands
    return [replace(one, line=one.line + node.line - 1) for one in commands[0].words] if commands else []


def _elsewhere(line: int) -> Scalar:
    """Return the value of a variable that the text only names."""
    return Scalar(_ELSEWHERE, line)


def _environment(node: Node | None) -> dict[str, Scalar]:
    """Return variables of a table, of `NAME=value` items, or of `name` and `value`."""
    found: dict[str, Scalar] = {}
    if isinstance(node, Table):
        for name, value in node.items.items():
            found[name] = value if isinstance(value, Scalar) else _elsewhere(node.line)
    for item in node.items if isinstance(node, Listing) else ():
        if isinstance(item, Scalar):
            name, equals, text = item.text.partition("=")
            found[name] = Scalar(text, item.line) if equals else _elsewhere(item.line)
        elif isinstance(item, Table) and isinstance(named := item.items.get("name"), Scalar):
            told = item.items.get("value")
            found[named.text] = told if isinstance(told, Scalar) else _elsewhere(item.line)
    return found


def _limits(node: Node | None) -> Iterator[Field]:
    for name, limit in node.items.items() if isinstance(node, Table) else ():
        parts = limit.items.values() if isinstance(limit, Table) else [limit]
        text = ":".join(part.text for part in parts if isinstance(part, Scalar))
        yield from (Field("--ulimit", limit.line), Field(f"{name}={text}", limit.line))


def _cards(items: Mapping[str, Node]) -> list[Field]:
    """Return `--gpus` for the devices that `deploy` reserves."""
    node: Node | None = items.get("deploy")
    for key in ("resources", "reservations", "devices"):
        node = node.items.get(key) if isinstance(node, Table) else None
    for device in node.items if isinstance(node, Listing) else ():
        if not isinstance(device, Table):
            continue
        ids, count = _texts(device.items.get("device_ids")), device.items.get("count")
        if ids:
            return [Field("--gpus", device.line), Field(f'"device={",".join(one.text for one in ids)}"', device.line)]
        said = count.text if isinstance(count, Scalar) else "all"
        return [Field("--gpus", device.line), Field(said, device.line)]
    return []


def _interpolated(one: Scalar, known: Known) -> list[Field]:
    """Return a text with `${NAME:-default}` filled in, as compose does it; what it does not know stays."""
    text = re.sub(r"([\"`\\])", r"\\\1", one.text).replace("$$", "\\$").replace("$(", "\\$(")
    words = [word for word in Lexer(f'"{text}"').tokens() if isinstance(word, Word)]
    return [replace(made, line=one.line, start=0, end=0) for word in words for made in expanded(word, known)]


def _referred(one: Scalar, env: Mapping[str, Scalar], known: Known) -> Field:
    """Return an argument of a pod with `$(NAME)` filled in."""
    left: list[str] = []

    def filled(match: re.Match[str]) -> str:
        value = env.get(match[1])
        if value is not None and value.text != _ELSEWHERE:
            return value.text
        if match[1] in known:
            return str(known[match[1]].value)
        left.append(f"${{{match[1]}}}")
        return left[-1]

    return Field(_REFERENCE.sub(filled, one.text), one.line, unresolved=tuple(left))
