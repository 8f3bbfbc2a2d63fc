"""`srun`, `sbatch --wrap` and `systemd-run` around a launch: what of them a profile says under `[launch]`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from console.config.commands.expand import Field
from console.config.commands.notes import NOTE, WARNING
from console.config.commands.wrappers import Inner, Peeled, Wrapping, options, spelled_again
from console.config.vias import of_scope, refused
from console.domain.profile import SLURM, SYSTEMD_RUN

LAUNCHERS = ("srun", "sbatch", "systemd-run")

_SLURM_VALUED = (
    "-N -n -c -p -t -w -J -o -e -i -A -G -C -D -d -q -x -b -L -M -m --nodes --ntasks --cpus-per-task --partition --time "
    "--nodelist --job-name --output --error --input --gres --gpus --account --qos --constraint --chdir --exclude --mem "
    "--container-image --container-mounts --container-name --container-workdir --ntasks-per-node --gpus-per-node "
    "--gpus-per-task --cpus-per-gpu --mem-per-gpu --mem-per-cpu --export --wrap --mail-type --mail-user --begin "
    "--dependency --reservation --licenses --comment --jobid --signal --open-mode --cpu-bind --gpu-bind --mpi --nice"
)
_BATCH_ONLY = ("--parsable", "-W", "--wait", "--open-mode", "--mail-type", "--mail-user", "--requeue", "--no-requeue",
               "-a", "--array", "-Q", "--quiet", "-l", "--label")  # fmt: skip
"""Of a batch job, or of how a terminal shows one: a run has no use for them."""

_SYSTEMD_VALUED = (
    "-p --property --unit -u --slice -E --setenv --working-directory -M --machine -H --host --uid --gid --nice "
    "--description --service-type --on-active --on-boot --on-calendar"
)
_SILENT = frozenset(
    ["--scope", "--quiet", "-q", "--pty", "-t", "--pipe", "-P", "--wait", "--collect", "-G", "-r", "--no-block"]
)
_BATCH_LINE = re.compile(r"^#SBATCH[ \t]+(.*)$", re.MULTILINE)


def peel(words: Sequence[Field], found: Wrapping) -> Peeled:
    """Return what a launcher launches."""
    name = words[0].text.rsplit("/", 1)[-1]
    if found.via:
        said = f"{name} inside {found.via} is not kept: a profile launches in one way"
        found.say(WARNING, said, words[0].line)
        return options(words[1:], _SYSTEMD_VALUED if name == "systemd-run" else _SLURM_VALUED)[1]
    return _systemd_run(words, found) if name == "systemd-run" else _slurm(words, found, name)


def _slurm(words: Sequence[Field], found: Wrapping, name: str) -> Peeled:
    given, rest = options(words[1:], _SLURM_VALUED)
    if any(option == "--jobid" for option, _, _ in given):
        said = f"{name} --jobid is not kept: a run asks for a job of its own"
        found.say(WARNING, said, words[0].line)
        return rest
    found.via = SLURM
    inner: Inner | None = None
    for option, one, value in given:
        if option == "--wrap" and one is not None:
            inner = Inner(value, one.line)
        else:
            _slurm_option(found, option, one, value, words[0].line)
    found.say(NOTE, f'{name} became via = "slurm" under [launch]', words[0].line)
    if name == "sbatch" and inner is None:
        return []  # its script is another file
    return inner or rest


def _slurm_option(found: Wrapping, option: str, one: Field | None, value: str, line: int) -> None:
    if option in ("-p", "--partition"):
        found.partition = value
    elif option in ("-D", "--chdir"):
        found.workdir = value
    elif option in _BATCH_ONLY or (why := refused(SLURM, option)):
        said = f"{option} {value}".strip()
        told = "" if option in _BATCH_ONLY else f": {why}"
        found.say(NOTE if option != "--export" or value == "ALL" else WARNING, f"{said} is not kept{told}", line)
    else:
        found.options += spelled_again(option, one, value)


def _systemd_run(words: Sequence[Field], found: Wrapping) -> Peeled:
    given, rest = options(words[1:], _SYSTEMD_VALUED)
    found.via, found.manager = SYSTEMD_RUN, "system"
    line = words[0].line
    for option, one, value in given:
        if option in ("--user", "--system"):
            found.manager = option[2:]
        elif option in ("-p", "--property"):
            key, _, setting = value.partition("=")
            if of_scope(key):
                found.properties[key] = setting
            else:
                found.say(WARNING, f"{value} is not kept: a scope has no property {key}", line)
        elif option in ("-E", "--setenv") and one is not None:
            found.set(one, value)
        elif option == "--working-directory":
            found.workdir = value
        elif option not in _SILENT and (why := refused(SYSTEMD_RUN, option)):
            found.say(NOTE, f"{f'{option} {value}'.strip()} is not kept: {why}", line)
        elif option not in _SILENT:
            found.options += spelled_again(option, one, value)
    kind = "" if any(option == "--scope" for option, _, _ in given) else ": a scope, where it was a service"
    found.say(NOTE, f'systemd-run became via = "systemd-run" under [launch]{kind}', line)
    return rest


def batch_lines(text: str, found: Wrapping) -> None:
    """Take the `#SBATCH` lines of a batch script, where it asks for its launch in no other way."""
    lines = list(_BATCH_LINE.finditer(text))
    if not lines or found.via not in ("", SLURM):
        return
    own = found.options
    found.options, found.via = [], SLURM
    for match in lines:
        number = text.count("\n", 0, match.start()) + 1
        try:
            words = [Field(word, number) for word in shlex.split(match[1], comments=True)]
        except ValueError:
            found.say(WARNING, f"#SBATCH {match[1]}: not understood", number)
            continue
        partition = found.partition
        for option, one, value in options(words, _SLURM_VALUED)[0]:
            _slurm_option(found, option, one, value, number)
        found.partition = partition or found.partition  # what srun itself says counts
    found.options += own
    found.say(NOTE, '#SBATCH lines became via = "slurm" under [launch]', text.count("\n", 0, lines[0].start()) + 1)
