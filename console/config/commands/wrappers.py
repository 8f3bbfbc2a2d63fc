"""What people put in front of a launch: `nohup`, `env`, `numactl`, `srun`, `uv run`, `bash -c`, …"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from console.config.commands.expand import Field
from console.config.commands.notes import NOTE, WARNING, Note

_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(slots=True)
class Wrapping:
    """What was found around a launch."""

    env: dict[str, Field] = field(default_factory=dict)
    unset: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """Variables that keep the value of the shell around them."""
    prefix: list[Field] = field(default_factory=list)
    """Words that stay in front of the engine's own: `numactl --membind=0`."""
    workdir: str = ""
    activated: str = ""
    """Folder of the virtual environment that it starts in."""
    container: str = ""
    runtime: str = ""
    image: str = ""
    ssh: str = ""
    via: str = ""
    """Way of launching that a profile has a name for (`domain.profile.VIAS`)."""
    options: list[str] = field(default_factory=list)
    """Words of that launcher, as they stand."""
    name: str = ""
    entrypoint: str = ""
    partition: str = ""
    manager: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    ports: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def say(self, severity: str, text: str, line: int, key: str = "", offer: str = "") -> None:
        """Add a remark."""
        self.notes.append(Note(severity, text, line, key, offer))

    def set(self, one: Field, text: str) -> None:
        """Take `NAME=value`, or a bare `NAME` that keeps its value."""
        match = _ASSIGNED.fullmatch(text)
        if match is None:
            self.passed.append(text)
            return
        if match[1] in self.env:
            self.say(WARNING, f"{match[1]} given twice: the last one counts", one.line, match[1])
        self.env[match[1]] = _replaced(one, match[2])


@dataclass(frozen=True, slots=True)
class Inner:
    """A command given to a shell as text."""

    text: str
    line: int
    args: tuple[str, ...] = ()
    """What stands behind the text: `$0`, `$1` …"""


Peeled = Sequence[Field] | Inner


def _replaced(one: Field, text: str) -> Field:
    from dataclasses import replace

    return replace(one, text=text)


def options(words: Sequence[Field], valued: str) -> tuple[list[tuple[str, Field | None, str]], Sequence[Field]]:
    """Return leading options as (name, field of the value, value), and the words behind them.

    Args:
        words: The words behind the program.
        valued: Options that take a value, parted by blanks.
    """
    takes = frozenset(valued.split())
    found: list[tuple[str, Field | None, str]] = []
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-":
        one = words[at]
        at += 1
        if one.text == "--":
            break
        name, equals, value = one.text.partition("=")
        if equals and name.startswith("--"):
            found.append((name, one, value))
        elif name in takes and not equals and at < len(words):
            found.append((name, words[at], words[at].text))
            at += 1
        elif not name.startswith("--") and one.text[:2] in takes and len(one.text) > 2:
            found.append((one.text[:2], one, one.text[2:]))
        else:
            found.append((one.text, None, ""))
    return found, words[at:]


def spelled_again(name: str, one: Field | None, value: str) -> list[str]:
    """Return an option of `options` as the words that it was."""
    if one is None:
        return [name]
    return [f"{name}={value}"] if name.startswith("--") and one.text.startswith(f"{name}=") else [name, value]


def _plain(valued: str, severity: str = NOTE, arguments: int = 0) -> Callable[[Sequence[Field], Wrapping], Peeled]:
    """Return the way past a wrapper that changes nothing which a profile tells."""

    def peel(words: Sequence[Field], found: Wrapping) -> Peeled:
        _, rest = options(words[1:], valued)
        rest = rest[arguments:]
        said = " ".join(one.text for one in words[: len(words) - len(rest)])
        why = "" if severity == NOTE else ": it changes where or how the server runs"
        found.say(severity, f"{said} is not kept{why}", words[0].line)
        return rest

    return peel


def _kept(valued: str, arguments: int = 0) -> Callable[[Sequence[Field], Wrapping], Peeled]:
    """Return the way past a wrapper that stays a part of the command."""

    def peel(words: Sequence[Field], found: Wrapping) -> Peeled:
        _, rest = options(words[1:], valued)
        rest = rest[arguments:]
        found.prefix += words[: len(words) - len(rest)]
        return rest

    return peel


def _env(words: Sequence[Field], found: Wrapping) -> Peeled:
    given, rest = options(words[1:], "-u --unset -C --chdir -S --split-string")
    for name, one, value in given:
        if name in ("-u", "--unset"):
            found.unset.append(value)
        elif name in ("-C", "--chdir"):
            found.workdir = value
        elif name in ("-S", "--split-string") and one is not None:
            return Inner(" ".join(["env", value, *(each.text for each in rest)]), one.line)
        elif name in ("-i", "--ignore-environment", "-"):
            found.say(WARNING, "env -i is not kept: the server gets the login's environment", words[0].line)
    at = 0
    while at < len(rest) and _ASSIGNED.fullmatch(rest[at].text):
        found.set(rest[at], rest[at].text)
        at += 1
    return rest[at:]


def _sudo(words: Sequence[Field], found: Wrapping) -> Peeled:
    _, rest = options(words[1:], "-u --user -g --group -h -p -C -D -R -T -U")
    found.say(WARNING, "sudo is not kept: the server runs as the login of [host]", words[0].line)
    return _env([words[0], *rest], found)


def _run_verb(valued: str, verbs: tuple[str, ...] = ("run",)) -> Callable[[Sequence[Field], Wrapping], Peeled]:
    """Return the way past `uv run …`, `conda run …` and their like."""

    def peel(words: Sequence[Field], found: Wrapping) -> Peeled:
        before, rest = options(words[1:], valued)
        if not rest or rest[0].text not in verbs:
            return []
        given, rest = options(rest[1:], valued)
        for name, _, value in [*before, *given]:
            if name in ("--directory", "--cwd"):
                found.workdir = value
        found.prefix += words[: len(words) - len(rest)]
        if verbs == ("run",):
            said = f'{words[0].text} run: name its interpreter too, python = "/…/bin/python3" under [engine]'
            found.say(WARNING, f"{said}: that one is asked for packages and flags", words[0].line)
        return rest

    return peel


def _uvx(words: Sequence[Field], found: Wrapping) -> Peeled:
    _, rest = options(words[1:], "--from --with --python -p --index-url --extra-index-url --with-editable")
    found.say(WARNING, "uvx is not kept; name an interpreter that has the engine under [engine]", words[0].line)
    return rest


def _shell(words: Sequence[Field], found: Wrapping) -> Peeled:
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        if "c" in words[at].text.lstrip("-") and not words[at].text.startswith("--"):
            if at + 1 == len(words):
                return []
            behind = tuple(one.text for one in words[at + 2 :])
            return Inner(words[at + 1].text, words[at + 1].line, behind)
        at += 1
    return []


def _ssh(words: Sequence[Field], found: Wrapping) -> Peeled:
    valued = "-p -i -l -o -F -J -L -R -D -W -b -c -E -e -I -m -O -Q -S -w"
    given, rest = options(words[1:], valued)
    if not rest:
        return []
    values = {name: value for name, _, value in given}
    user = f"{values['-l']}@" if "-l" in values else ""
    found.ssh = user + rest[0].text + (f":{values['-p']}" if "-p" in values else "")
    found.say(NOTE, f"ssh {rest[0].text} became [host] ssh", words[0].line)
    return Inner(" ".join(one.text for one in rest[1:]), words[0].line)


def _multiplexer(words: Sequence[Field], found: Wrapping) -> Peeled:
    verbs = ("new-session", "new", "neww", "new-window", "respawn-pane", "send-keys", "send")
    rest: Sequence[Field] = words[1:]
    verb = ""
    if words[0].text.endswith("tmux"):
        _, rest = options(rest, "-L -S -f")
        if not rest or rest[0].text not in verbs:
            return []
        verb, rest = rest[0].text, rest[1:]
    _, rest = options(rest, "-s -n -c -t -x -y -F -e -S -h -dmS -DmS -Logfile")
    found.say(NOTE, f"{words[0].text} is not kept: a run has its own session and log", words[0].line)
    if verb.startswith("send"):
        rest = [one for one in rest if one.text not in ("C-m", "Enter")]
    return Inner(rest[0].text, rest[0].line) if len(rest) == 1 else rest


def _eval(words: Sequence[Field], found: Wrapping) -> Peeled:
    return Inner(" ".join(one.text for one in words[1:]), words[0].line)


def _writer(words: Sequence[Field], found: Wrapping) -> Peeled:
    found.say(
        NOTE, f"{' '.join(one.text for one in words)}: what it writes is read, and nothing is written", words[0].line
    )
    return []


def _kubectl(words: Sequence[Field], found: Wrapping) -> Peeled:
    for at, one in enumerate(words):
        if one.text == "--":
            found.say(WARNING, "kubectl exec is not kept: [host] must reach the pod by ssh", words[0].line)
            return words[at + 1 :]
    return []


def _apptainer(words: Sequence[Field], found: Wrapping) -> Peeled:
    if len(words) < 3 or words[1].text not in ("exec", "run"):
        return []
    given, rest = options(words[2:], "--bind -B --env --pwd --workdir -W --overlay -H --home")
    for name, one, value in given:
        if name == "--env" and one is not None:
            for pair in value.split(","):
                found.set(one, pair)
        elif name == "--pwd":
            found.workdir = value
    found.image = rest[0].text if rest else ""
    said = " ".join(one.text for one in words[: len(words) - len(rest) + 1])
    found.say(WARNING, f"{said} is not kept: a profile has no such container", words[0].line)
    return rest[1:]


_PROFILERS = "--force-overwrite -f -o -t -s -c -d -y -w --output --trace --sample --capture-range --duration --delay -k --kernel-name"
_CONDA = "-n --name -p --prefix --cwd"
_UV = "--with --with-editable --with-requirements --python -p --project --directory --extra --group --env-file --index-url"

WRAPPERS: dict[str, Callable[[Sequence[Field], Wrapping], Peeled]] = {
    "nohup": _plain(""),
    "setsid": _plain(""),
    "exec": _plain("-a"),
    "time": _plain("-f -o"),
    "command": _plain(""),
    "builtin": _plain(""),
    "stdbuf": _plain("-i -o -e"),
    "unbuffer": _plain(""),
    "timeout": _plain("-s -k --signal --kill-after", WARNING, 1),
    "nice": _kept("-n --adjustment"),
    "ionice": _kept("-c -n -p"),
    "chrt": _kept("-T -P -D", 1),
    "taskset": _kept("", 1),
    "numactl": _kept("-C -N -m -i -p --physcpubind --cpunodebind --membind --interleave --preferred"),
    "mpirun": _plain("-n -np -H -x --host --hostfile -mca --mca", WARNING),
    "ray": _plain("", WARNING),
    "proxychains": _plain("-f"),
    "proxychains4": _plain("-f"),
    "ncu": _kept(_PROFILERS),
    "sudo": _sudo,
    "doas": _sudo,
    "env": _env,
    "uv": _run_verb(_UV),
    "poetry": _run_verb("-C --directory -P --project"),
    "pdm": _run_verb("-p"),
    "pixi": _run_verb("-e --environment --manifest-path"),
    "conda": _run_verb(_CONDA),
    "mamba": _run_verb(_CONDA),
    "micromamba": _run_verb(_CONDA),
    "nsys": _run_verb(_PROFILERS, ("profile", "launch")),
    "py-spy": _run_verb("-o -r -d -f --output --rate --duration --format", ("record", "top")),
    "gdb": _kept("-ex -x"),
    "uvx": _uvx,
    "eval": _eval,
    "cat": _writer,
    "tee": _writer,
    "bash": _shell,
    "sh": _shell,
    "zsh": _shell,
    "dash": _shell,
    "ssh": _ssh,
    "tmux": _multiplexer,
    "screen": _multiplexer,
    "kubectl": _kubectl,
    "apptainer": _apptainer,
    "singularity": _apptainer,
}
"""Program to what is behind it."""
