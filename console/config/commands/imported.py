"""A pasted launch command to a profile, with a word on everything that was left out, changed or doubtful."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from console.config.commands.dialects import Dialect
from console.config.commands.expand import Field
from console.config.commands.flags import Read, read_flags, value_text
from console.config.commands.launches import (
    Found,
    Launch,
    environment_of,
    find_launches,
    interpreter,
    launched,
    start_words,
    uncertain,
)
from console.config.commands.notes import ERROR, NOTE, WARNING, Note, not_known
from console.config.commands.plain import is_argument_list, plain_commands
from console.config.commands.script import Command, read_script
from console.config.commands.services import read_services
from console.config.commands.tidy import tidied
from console.config.commands.units import as_script
from console.config.commands.wrappers import Wrapping
from console.config.secrecy import is_secret, is_secret_name
from console.domain.profile import (
    DOCKER_RUN,
    SLURM,
    SYSTEMD_RUN,
    DockerSection,
    EngineSection,
    HostSection,
    LaunchSection,
    Profile,
    Secret,
    SlurmSection,
    SystemdSection,
    itself_in,
)
from console.errors import UsageError

_ITSELF = re.compile(r"\$\{(\w+)(?::?\?[^}]*)?\}")
_HOST = re.compile(r"\$\{(\w+):?\?[^}]*\}")
_SLUG = re.compile(r"[^a-z0-9.]+")
_PARALLEL = (("tp-size", "TP"), ("tensor-parallel-size", "TP"), ("dp-size", "DP"), ("data-parallel-size", "DP"))
_NODES = ("nnodes", "node-rank")


@dataclass(frozen=True, slots=True)
class Imported:
    """What a text became."""

    profile: Profile
    notes: tuple[Note, ...]
    first_line: int
    last_line: int
    launches: tuple[int, ...]
    """Lines of every launch in the text."""
    flags: int
    """How many flags the command line has, `--port` included."""
    log: str = ""
    """File that the command wrote its output to."""
    role: str = ""
    """`prefill` or `decode` where the serving is parted."""
    nodes: int = 1
    node_rank: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def wrong(self) -> tuple[Note, ...]:
        """What keeps the command from being taken as it stands."""
        return tuple(note for note in self.notes if note.severity == ERROR)


def import_text(
    text: str,
    *,
    name: str = "",
    place: str = "the text",
    known: Mapping[str, str] | None = None,
    pick: int = 1,
    repair: bool = False,
    shell: bool = True,
) -> Imported:
    """Return the profile of a launch command; nothing is executed.

    Args:
        text: As it was pasted.
        name: Name of the profile; made of the model where empty.
        place: What to call the text in faults.
        known: Variables that the operator gives.
        pick: Which launch, where the text has several.
        repair: Take what was probably meant: joined lines, JSON as it was typed.
        shell: Whether a shell reads the text; false for the argument list of a form or a YAML file.

    Raises:
        UsageError: Nothing in it starts an engine, or there is no such launch.
    """
    clean_text, said = tidied(text)
    if shell and not is_argument_list(clean_text):
        found = read_services(clean_text, known) or find_launches(read_script(as_script(clean_text), known))
    else:
        found = _unshelled(clean_text)
    found.notes[:0] = said
    launches = found.launches
    if not launches and repair:
        launches = _offered(found)
    if not launches:
        raise _nothing(place, found)
    if not 1 <= pick <= len(launches):
        raise UsageError(f"{place}: there are {len(launches)} launches, not {pick}", hint=_lines_of(launches))
    return _imported(launches, pick, found, name, repair=repair)


def _unshelled(text: str) -> Found:
    found = Found()
    for words in plain_commands(text):
        command = Command((), words, (), "\n", words[0].line, {})
        launch = launched(command, text)
        if launch is not None:
            found.launches.append(launch)
    return found


def _offered(found: Found) -> list[Launch]:
    """Return the launches that were meant where an `export` swallowed them."""
    launches = []
    for note in found.notes:
        if note.offer:
            inner = find_launches(read_script(note.offer))
            launches += [replace(one, command=replace(one.command, line=note.line)) for one in inner.launches]
    return launches


def _nothing(place: str, found: Found) -> UsageError:
    meant = [note for note in found.notes if note.offer]
    if meant:
        said = f"line {meant[0].line}: {meant[0].text}"
        return UsageError(f"{place}: nothing in it starts an engine", said, f"--repair takes: {meant[0].offer}")
    known = "python -m sglang.launch_server, sglang serve, vllm serve, vllm's api_server, llama-server"
    hint = "of a YAML file give the list of the command alone, its program in front, with --no-shell"
    return UsageError(f"{place}: nothing in it starts an engine that is known", f"looked for {known}", hint)


def _lines_of(launches: list[Launch]) -> str:
    return f"they begin at lines {', '.join(str(one.command.line) for one in launches)}"


def _imported(launches: list[Launch], pick: int, found: Found, name: str, *, repair: bool) -> Imported:
    launch = launches[pick - 1]
    notes = list(found.notes)
    if len(launches) > 1:
        lines = ", ".join(str(one.command.line) for one in launches)
        said = f"{len(launches)} launches, at lines {lines}: this is number {pick}; --pick takes another"
        notes.append(Note(WARNING, said, launch.command.line))
    launch, lost = _with_lost(launch, launches, found, repair)
    notes += [*launch.wrapping.notes, *lost]
    read = read_flags(launch.words, launch.spelled, launch.text, repair=repair)
    notes += read.notes
    for variable, known in uncertain(launch).items():
        said = f"{variable} is set where a condition decides: its value at line {known.line} was taken"
        others = [f"{_quoted(value)} of line {line}" for line, value in known.others]
        said += f" ({_quoted(known.value)}), not {', '.join(others)}" if others else ""
        notes.append(Note(WARNING, said, known.line, variable))
    _positional(read, launch.spelled, notes)
    count = len(read.args)
    port = _port(read, launch, notes)
    env, unset, secret_args = _environment(launch, read, notes)
    launch.wrapping.workdir = re.sub(r"^\$\{HOME\}(?=/|$)", "~", launch.wrapping.workdir)
    for what in re.findall(r"\$\{?\w+\}?|\$\(.*\)", launch.wrapping.workdir):
        notes.append(not_known("workdir", what, launch.command.line))
    _unknown(read, secret_args, notes)
    section = LaunchSection(port, launch.wrapping.workdir, dict(read.args), env, unset, secret_args)
    section = _launched_via(section, launch.wrapping)
    engine = EngineSection(launch.spelled.kind, interpreter(launch), start_words(launch))
    runtime = launch.wrapping.runtime if launch.wrapping.container else ""
    host = HostSection(launch.wrapping.ssh, launch.wrapping.container, runtime or "docker")
    profile = Profile(name or _name(read, launch.spelled), "", _title(read, launch.spelled), host, engine, section)
    nodes, rank = (_number(read, each, default) for each, default in zip(_NODES, (1, 0), strict=True))
    if nodes > 1:
        said = f"this is node {rank} of {nodes}: every other node needs a profile of its own, with its node-rank"
        notes.append(Note(WARNING, said, read.lines.get("nnodes", 0), "nnodes"))
    used = [one.line for one in (*launch.program, *launch.words)] or [launch.command.line]
    return Imported(
        profile,
        tuple(sorted(notes, key=lambda note: note.line)),
        min([launch.command.line, *(one.line for one in environment_of(launch)[0].values() if one.line), *used]),
        max(used),
        tuple(one.command.line for one in launches),
        count,
        launch.log,
        _role(read),
        nodes,
        rank,
        dict(read.lines),
    )


def _launched_via(section: LaunchSection, found: Wrapping) -> LaunchSection:
    """Return a launch with the container, job or scope that the command made."""
    words = tuple(found.options)
    if found.via == DOCKER_RUN:
        docker = DockerSection(found.image, words, found.name, found.entrypoint, found.runtime or "docker")
        return replace(section, via=found.via, docker=docker)
    if found.via == SLURM:
        return replace(section, via=found.via, slurm=SlurmSection(found.partition, words))
    if found.via == SYSTEMD_RUN:
        return replace(section, via=found.via, systemd=SystemdSection(found.manager, found.properties, words))
    return section


def _with_lost(launch: Launch, launches: list[Launch], found: Found, repair: bool) -> tuple[Launch, list[Note]]:
    """Join, or tell of, the lines that begin with a flag below a launch: a shell takes them for commands."""
    after = [one.command.line for one in launches if one.command.line > launch.command.line]
    until = min(after, default=1 << 30)
    source = launch.text.split("\n")
    notes = []
    last = max((one.line for one in launch.words), default=launch.command.line)
    for command, log in found.lost:
        if not launch.command.line < command.line < until:
            continue
        shown = launch.text[command.words[0].start : command.words[-1].end].replace("\\\n", " ")
        shown = " ".join(shown.split())
        between = source[last : command.line - 1]
        commented = bool(between) and all(line.lstrip().startswith("#") for line in between)
        if commented and source[last - 1].rstrip().endswith("\\"):
            said = "a comment inside the command: a shell would end it there; the lines below it were taken as meant"
            notes.append(Note(WARNING, said, last + 1))
        elif repair:
            notes.append(Note(NOTE, f"joined to line {last}, which lost its backslash: {shown}", command.line))
        else:
            why = f"line {last} ends without a backslash"
            if source[last - 1].rstrip().endswith("\\"):
                why = f"an empty line below line {last} ends the command"
            said = f"looks like a lost continuation: {why}; not included"
            notes.append(Note(WARNING, said, command.line, command.words[0].text.lstrip("-"), shown))
            continue
        launch = replace(launch, words=(*launch.words, *command.words), log=launch.log or log)
        last = max(one.line for one in command.words)
    return launch, notes


def _positional(read: Read, spelled: Dialect, notes: list[Note]) -> None:
    for number, one in enumerate(read.positional):
        named = any(spelled.canonical(name) == spelled.model for name in read.args)
        if number == 0 and not named and not (one.text.startswith("-") or " " in one.text):
            read.args = {spelled.model: one.text, **read.args}
            read.lines[spelled.model] = one.line
            read.unresolved += [(spelled.model, what, one.line) for what in one.unresolved]
            if not spelled.positional:
                said = f"{one.text} stands without a flag: read as --{spelled.model}"
                notes.append(Note(WARNING, said, one.line, spelled.model))
        else:
            notes.append(Note(WARNING, f"{one.text} belongs to no flag: left out", one.line))


def _quoted(value: str | tuple[str, ...]) -> str:
    return repr(value_text(value)) if value else "nothing"


def _port(read: Read, launch: Launch, notes: list[Note]) -> int:
    given, default = read.args.pop("port", None), launch.spelled.default_port
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 65535:
        port = given
    else:
        port = default
        said = (
            f"--port {given} is no port: {default} is written"
            if given is not None
            else f"no --port: {default} is written"
        )
        severity = WARNING if given is not None else NOTE
        if isinstance(given, str) and (variable := _ITSELF.fullmatch(given)) is not None:
            said += f"; --set {variable[1]}=… fills it in"
        notes.append(Note(severity, said, read.lines.get("port", 0), "port"))
    for mapped in launch.wrapping.ports:
        outside, _, inside = mapped.rpartition(":")
        if inside.split("/")[0] == str(port) and outside.rsplit(":", 1)[-1] not in ("", str(port)):
            said = f"-p {mapped}: outside of the container the server is at port {outside.rsplit(':', 1)[-1]}"
            notes.append(Note(WARNING, said, launch.command.line, "port"))
    return port


def _environment(
    launch: Launch, read: Read, notes: list[Note]
) -> tuple[dict[str, str | Secret], tuple[str, ...], dict[str, Secret]]:
    given, left = environment_of(launch)
    if left:
        said = f"{', '.join(left)}: exported to build the command, not kept as variables of the server"
        notes.append(Note(NOTE, said, launch.command.line))
    env: dict[str, str | Secret] = {}
    for name, one in given.items():
        env[name] = _variable(name, one.at_home(), notes)
    for name in launch.wrapping.passed:
        env[name] = Secret("env" if is_secret_name(name) else "host-env")
        notes.append(Note(NOTE, f"{name} keeps the value that it has at the launch", launch.command.line, name))
    unset = tuple(name for name in dict.fromkeys([*launch.command.unset, *launch.wrapping.unset]) if name not in env)
    for name in unset:
        notes.append(Note(NOTE, f"{name} is unset: {name} = false under [launch.env]", launch.command.line, name))
    return env, unset, _secret_args(launch, read, env, notes)


def _variable(name: str, one: Field, notes: list[Note]) -> str | Secret:
    itself = _ITSELF.fullmatch(one.text)
    if is_secret(name, one.text):
        source = "host-env" if _HOST.fullmatch(one.text) else "env"
        if itself is None and one.text:
            said = f"{name} is a secret: its value is not kept; it is taken from the environment of tokwatt"
            notes.append(Note(WARNING, said, one.line, name))
        other = itself[1] if itself is not None and itself[1] != name else ""
        return Secret(source, other) if one.text else ""
    if itself is not None and itself[1] == name and _HOST.fullmatch(one.text):
        return Secret("host-env")
    for what in one.unresolved:
        if itself_in(name).fullmatch(what):
            notes.append(Note(NOTE, f"{name} is made longer: {what} is the host's", one.line, name))
            continue
        notes.append(not_known(name, what, one.line))
    return one.text


def _secret_args(launch: Launch, read: Read, env: dict[str, str | Secret], notes: list[Note]) -> dict[str, Secret]:
    found: dict[str, Secret] = {}
    for name in [name for name, value in read.args.items() if is_secret(name, value)]:
        value = read.args.pop(name)
        line = read.lines.get(name, 0)
        itself = _ITSELF.fullmatch(value) if isinstance(value, str) else None
        instead = launch.spelled.secret_variables.get(name)
        other = itself[1] if itself is not None else ""
        if instead is not None:
            env.setdefault(instead, Secret("env", other if other != instead else ""))
            said = f'--{name} became {instead} = {{ from = "env" }}: an argument is readable by every login of the host'
        else:
            variable = other or f"{launch.spelled.kind.upper()}_{name.upper().replace('-', '_')}"
            from_host = isinstance(value, str) and _HOST.fullmatch(value) is not None
            found[name] = Secret("host-env" if from_host else "env", variable)
            said = f"--{name} is a secret: its value is not kept; {variable} of the environment of tokwatt is taken"
        notes.append(Note(WARNING, said, line, name))
    return found


def _unknown(read: Read, secret_args: Mapping[str, Secret], notes: list[Note]) -> None:
    for name, what, line in read.unresolved:
        flag = name.split(".")[0]
        if flag in read.args and flag not in secret_args:
            notes.append(not_known(name, what, line))


def _number(read: Read, name: str, default: int) -> int:
    value = read.args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _role(read: Read) -> str:
    mode = read.args.get("disaggregation-mode")
    return mode if mode in ("prefill", "decode") else ""


def _model(read: Read, spelled: Dialect) -> str:
    for name, value in read.args.items():
        if spelled.canonical(name) == spelled.model and isinstance(value, str):
            return PurePosixPath(value.rstrip("/")).name
    return ""


def _title(read: Read, spelled: Dialect) -> str:
    words = [_model(read, spelled) or spelled.kind]
    for name, short in _PARALLEL:
        for given, value in read.args.items():
            if spelled.canonical(given) == name and isinstance(value, int):
                words.append(f"{short} {value}")
    return ", ".join([*words, *([_role(read)] if _role(read) else [])])


def _name(read: Read, spelled: Dialect) -> str:
    stem = _title(read, spelled).lower().replace(" ", "").replace(",", "-")
    return _SLUG.sub("-", stem).strip("-.") or "imported"
