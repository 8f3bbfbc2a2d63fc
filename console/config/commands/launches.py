"""Which commands of a text start an engine, what stands around them, and what is left aside."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from console.config.commands import docker, jobs
from console.config.commands.dialects import DIALECTS, Dialect
from console.config.commands.expand import Field, Variable
from console.config.commands.notes import NOTE, WARNING, Note
from console.config.commands.script import Command, Script, read_script
from console.config.commands.units import as_script
from console.config.commands.wrappers import WRAPPERS, Inner, Wrapping
from console.domain.profile import DOCKER_RUN

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_PYTHON_VALUED = frozenset(["-X", "-W", "-c", "--check-hash-based-pycs"])
_SYSTEM = re.compile(
    r"(?:SGLANG|SGL|VLLM|NCCL|CUDA|HF|HUGGING|TRANSFORMERS|TORCH|PYTORCH|OMP|MKL|FLASHINFER|TRITON|LD|PYTHON|RAY|UCX|GLOO|"
    r"NVSHMEM|DEEP|HIP|ROCM|HSA|AITER|TOKENIZERS|LLAMA|GGML|http|https|no|HTTP|HTTPS|NO)_|PATH$|TOKENIZERS|PYTHON"
)
_FLAG = re.compile(r"--?[A-Za-z]")
_DEPTH_LIMIT = 6
_WRITERS = frozenset(["cat", "tee"])
_READERS = frozenset(["bash", "sh", "zsh", "dash"]) | _WRITERS
"""Programs that a here-document with a launch may be given to."""
_SILENT = frozenset(
    ["[", "[[", "((", "test", "true", "false", ":", "echo", "printf", "---", "set", "shopt", "exit", "break", "disown"]
)


@dataclass(frozen=True, slots=True)
class Launch:
    """One command that starts an engine."""

    spelled: Dialect
    program: tuple[Field, ...]
    """The words that name it: `python3 -m sglang.launch_server`, `vllm serve`."""
    words: tuple[Field, ...]
    """What its parser gets."""
    wrapping: Wrapping
    command: Command
    text: str
    """The source that the fields' places are in."""
    log: str = ""


@dataclass(slots=True)
class Found:
    """What a script holds."""

    launches: list[Launch] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    lost: list[tuple[Command, str]] = field(default_factory=list)
    """Lines that begin with a flag, where the line above lost its backslash, and where their output goes."""
    workdir: str = ""
    activated: str = ""
    """Folder of a virtual environment that was switched to last."""


def find_launches(script: Script, depth: int = 0) -> Found:
    """Return every launch of a text, and a word on everything else in it."""
    found = Found(notes=list(script.notes))
    for index, command in enumerate(script.commands):
        launch = launched(command, script.text, depth)
        if launch is not None:
            wrapping = launch.wrapping
            wrapping.activated = wrapping.activated or found.activated
            if wrapping.via != DOCKER_RUN:  # a container has its own folders
                wrapping.workdir = wrapping.workdir or found.workdir
            if depth == 0:
                jobs.batch_lines(script.text, wrapping)
            written = command.document is not None and command.words[0].text in _WRITERS
            log = "" if written else _log(script.commands, index, wrapping)
            found.launches.append(replace(launch, log=launch.log or log))
        elif _FLAG.match(command.words[0].text):
            found.lost.append((command, _log(script.commands, index, Wrapping())))
        else:
            _aside(command, found, script)
    return found


def launched(command: Command, text: str, depth: int = 0) -> Launch | None:
    """Return the launch that a command is, what stands around it taken off; `None` when it starts no engine."""
    wrapping = Wrapping()
    for one in command.assignments:
        if one.name in wrapping.env:
            said = f"{one.name} given twice: {one.value.text or 'empty'} counts"
            wrapping.say(WARNING, said, one.line, one.name)
        wrapping.env[one.name] = one.value
    words: Sequence[Field] = command.words
    for _ in range(_DEPTH_LIMIT):
        if not words:
            return None
        named = _named(words)
        if named is not None:
            spelled, count = named
            return Launch(spelled, tuple(words[:count]), tuple(words[count:]), wrapping, command, text)
        name = words[0].text.rsplit("/", 1)[-1]
        if name in docker.RUNTIMES:
            words, image = docker.peel(words, wrapping)  # type: ignore[assignment]
            if image and _named(words) is None and (entry := by_image(image)) is not None:
                wrapping.entrypoint = "engine"
                return Launch(entry, (), tuple(words), wrapping, command, text)
            continue
        if name not in WRAPPERS and name not in jobs.LAUNCHERS:
            return None
        peeled = jobs.peel(words, wrapping) if name in jobs.LAUNCHERS else WRAPPERS[name](words, wrapping)
        if isinstance(peeled, Inner):
            return _inside(peeled, command, wrapping, depth) or _in_document(command, wrapping, depth)
        if not peeled and name in _READERS:
            return _in_document(command, wrapping, depth)
        words = peeled
    return None


def _in_document(command: Command, around: Wrapping, depth: int) -> Launch | None:
    """Return the launch in the here-document that a shell reads, or that is written into a script."""
    document = command.document
    if document is None:
        return None
    variables = {} if document.plain else command.variables
    return _inside(Inner(document.text, document.line), command, around, depth, variables)


def _inside(
    inner: Inner, command: Command, around: Wrapping, depth: int, filled: Mapping[str, Variable] | None = None
) -> Launch | None:
    """Return the launch in a text that was given to another shell.

    Args:
        inner: The text.
        command: What gives it.
        around: What was found around it.
        depth: How deep it is.
        filled: Variables that the outer shell fills in.
    """
    if depth > _DEPTH_LIMIT:
        return None
    known: dict[str, str | tuple[str, ...]] = {
        name: variable.value
        for name, variable in command.variables.items()
        if (variable.exported or (filled and name in filled)) and isinstance(variable.value, str)
    }
    known |= {name: one.text for name, one in around.env.items()}
    if inner.args:
        behind = inner.args[1:]
        known |= {str(number): text for number, text in enumerate(inner.args)}
        known |= {"@": behind, "*": behind, "#": str(len(behind))}
    inside = find_launches(read_script(as_script(inner.text), known), depth + 1)
    for launch in inside.launches[:1]:
        each = launch.command
        within = launch.wrapping
        within.env = {**around.env, **within.env}
        within.unset += around.unset
        within.passed += around.passed
        within.prefix = [*around.prefix, *within.prefix]
        within.notes = [*around.notes, *inside.notes, *within.notes]
        within.ports += around.ports
        if around.via and within.via:
            within.say(
                WARNING, f"{around.via} around {within.via} is not kept: a profile launches in one way", each.line
            )
        elif around.via:
            for name in ("via", "options", "name", "entrypoint", "partition", "manager", "properties"):
                setattr(within, name, getattr(around, name))
        for name in ("container", "runtime", "image", "ssh", "workdir", "activated"):
            setattr(within, name, getattr(within, name) or getattr(around, name))
        first = inner.line - 1
        words = tuple(replace(one, line=one.line + first) for one in launch.words)
        variables = {**each.variables, **command.variables}
        outer = replace(each, variables=variables, unset=(*command.unset, *each.unset), line=each.line + first)
        return replace(launch, words=words, command=outer)
    return None


def _named(words: Sequence[Field]) -> tuple[Dialect, int] | None:
    """Return the engine that words start, and how many of them name it."""
    name = words[0].text.rsplit("/", 1)[-1]
    texts = [one.text for one in words]
    for each in DIALECTS:
        if name in each.programs:
            if not each.subcommand:
                return each, 1
            if len(words) > 1 and texts[1] == each.subcommand:
                return each, 2
    if not _PYTHON.fullmatch(name):
        return None
    at = 1
    while at < len(texts) and texts[at].startswith("-") and texts[at] != "-m":
        at += 2 if texts[at] in _PYTHON_VALUED else 1
    if at >= len(texts):
        return None
    target = texts[at + 1] if texts[at] == "-m" and at + 1 < len(texts) else texts[at]
    count = at + 2 if texts[at] == "-m" else at + 1
    if texts[at] != "-m":
        target = target.removesuffix(".py").replace("/", ".")
    for each in DIALECTS:
        for module in (*each.modules, *each.programs):
            if target == module or (texts[at] != "-m" and target.endswith("." + module)):
                behind = count < len(texts) and texts[count] == each.subcommand and bool(each.subcommand)
                if each.subcommand and (module.endswith(".main") or module in each.programs) and not behind:
                    return None
                return each, count + behind
    return None


def by_image(image: str) -> Dialect | None:
    """Return the engine that an image of this name starts by itself."""
    return next((each for each in DIALECTS if any(part in image for part in each.images)), None)


def _log(commands: Sequence[Command], index: int, found: Wrapping) -> str:
    """Return the file that the output goes to, with a word on what is not kept of its way there."""
    command, log = commands[index], ""
    said = []
    for redirect in command.redirects:
        if redirect.document is not None:
            continue
        said.append(f"{redirect.sign}{'' if redirect.sign.endswith('&') else ' '}{redirect.target}")
        if redirect.sign.lstrip("12&") in (">", ">>", ">|") and redirect.target != "/dev/null":
            log = log or redirect.target
    if command.end == "&":
        said.append("&")
    at = index
    for number in range(index + 1, len(commands)):
        if commands[number].piped_from != at:
            break
        at = number
        words = [one.text for one in commands[number].words]
        said.append("| " + " ".join(words))
        if words[0] == "tee":
            log = next((word for word in words[1:] if not word.startswith("-")), log)
    if said:
        kept = f" (it wrote {log})" if log else ""
        found.say(NOTE, f"{' '.join(said)} is not kept: a run has a log of its own{kept}", command.line)
    return log


def _aside(command: Command, found: Found, script: Script) -> None:
    """Say what became of a command that starts no engine."""
    words = [one.text for one in command.words]
    name = words[0].rsplit("/", 1)[-1]
    shown = " ".join(words)[:120]
    if words[0] == "export":
        _exported_command(command, found, script)
    elif name in ("cd", "pushd") and len(words) > 1:
        found.workdir = words[1]
    elif name in ("source", ".") and len(words) > 1:
        _sourced(words[1], command.line, found)
    elif name in ("conda", "mamba", "micromamba") and "activate" in words:
        said = f"{shown}: name that environment's interpreter as python under [engine]"
        found.notes.append(Note(WARNING, said, command.line))
    elif command.piped_from is None and name not in _SILENT:
        found.notes.append(Note(NOTE, f"{shown}: not kept, and nothing of it was run", command.line))
    if command.document is not None:
        found.notes.append(Note(NOTE, "a here-document is not read", command.document.line))


def _sourced(path: str, line: int, found: Found) -> None:
    if path.endswith("/bin/activate"):
        found.activated = path.removesuffix("/activate")
        found.notes.append(Note(NOTE, f"{path}: its interpreter launches", line))
    else:
        found.notes.append(Note(WARNING, f"{path} is not read: what it sets is not known here", line))


def _exported_command(command: Command, found: Found, script: Script) -> None:
    """`export A=0 vllm serve …` exports names and starts nothing; say so, and keep what was meant."""
    at = 1
    while at < len(command.words) and re.match(r"[A-Za-z_]\w*=", command.words[at].text):
        at += 1
    rest = command.words[at:]
    if not rest or _named(rest) is None:
        found.notes.append(
            Note(WARNING, f"{' '.join(one.text for one in command.words)[:120]}: not understood", command.line)
        )
        return
    given = command.words[1:at]
    meant = " ".join([*(_assigned(one.text) for one in given), shlex.join(one.text for one in rest)])
    said = "export … exports names and starts nothing"
    found.notes.append(Note(WARNING, said, command.line, offer=meant))


def _assigned(text: str) -> str:
    name, _, value = text.partition("=")
    return f"{name}={shlex.quote(value)}"


def environment_of(launch: Launch) -> tuple[dict[str, Field], list[str]]:
    """Return the variables that a launch gets from its text, and the exported ones that only built its words."""
    built = {name for one in (*launch.program, *launch.words) for name in one.used}
    env: dict[str, Field] = {}
    left: list[str] = []
    for name, variable in launch.command.variables.items():
        if not variable.exported or not isinstance(variable.value, str):
            continue
        if name in built and not _SYSTEM.match(name):
            left.append(name)
        else:
            env[name] = Field(variable.value, variable.line, unresolved=variable.unresolved)
    env.update(launch.wrapping.env)
    return env, left


def uncertain(launch: Launch) -> dict[str, Variable]:
    """Return the variables in its words and its environment that a condition decides."""
    known: Mapping[str, Variable] = launch.command.variables
    names = {*launch.command.used, *(name for one in launch.words for name in one.used), *environment_of(launch)[0]}
    return {name: known[name] for name in sorted(names) if name in known and known[name].uncertain}


def interpreter(launch: Launch) -> str:
    """Return the interpreter that a launch names, or whose environment it was switched to; empty for `python3`."""
    program = launch.program[0].text if launch.program else ""
    activated, workdir = launch.wrapping.activated, launch.wrapping.workdir
    if launch.spelled.usual[0] == "llama-server":
        return ""  # no interpreter starts it
    if "python" not in program.rsplit("/", 1)[-1]:
        program = f"{program.rsplit('/', 1)[0]}/python3" if "/" in program else f"{activated}/python3" * bool(activated)
    elif "/" not in program and activated:
        program = f"{activated}/{program}"
    if "/" in program and program[0] not in "/~$" and workdir.startswith(("/", "~")):
        program = posixpath.normpath(posixpath.join(workdir, program))
    return "" if program == "python3" else program


def start_words(launch: Launch) -> tuple[str, ...]:
    """Return the words before the arguments; nothing where they are those that tokwatt uses anyway."""
    program = [one.text for one in launch.program]
    activated = launch.wrapping.activated
    if not program:
        return ()
    if activated and "/" not in program[0]:
        program[0] = f"{activated}/{program[0]}"
    usual = launch.spelled.usual
    if usual[0] == "python3":
        usual = (program[0], *usual[1:])
    words = (*(one.text for one in launch.wrapping.prefix), *program)
    return () if words == usual else words
