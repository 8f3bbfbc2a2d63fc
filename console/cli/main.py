"""`tokwatt`: reads the command line, opens the desk, runs one verb, returns its exit code."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from console import __version__
from console.cli.output import Output
from console.errors import ConsoleError, UsageError

if TYPE_CHECKING:
    from console.operations.desk import Desk

VERB_MODULES: tuple[str, ...] = (
    "source",
    "compare",
    "patch",
    "gpus",
    "bench",
    "runs",
    "experiment",
    "serve",
    "logs",
    "profile",
    "doctor",
    "demo",
)
"""Modules of `cli/verbs`, in the order of the help."""


class Act(Protocol):
    """What a verb does: with the parsed arguments, the desk it asked for, and where to print."""

    async def __call__(self, args: argparse.Namespace, desk: Desk, out: Output) -> int:
        """Run the verb and return its exit code."""


Cockpit = Callable[[argparse.Namespace], int]
"""Opens the cockpit for a parsed command line; `args.target` is set when the demo host was joined, `args.tape` to replay."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        verb = self.prog.removeprefix("tokwatt").strip()
        raise UsageError(f"{verb}: {message}" if verb else message, hint=f"{self.prog} --help")


def _common(before: bool) -> argparse.ArgumentParser:
    """Options that stand before or behind the verb; behind it they must not reset what stood before."""
    common = _Parser(add_help=False, argument_default=None if before else argparse.SUPPRESS)
    group = common.add_argument_group("for every verb")
    flag: Any = {} if before else {"default": argparse.SUPPRESS}
    group.add_argument("--host", action="append", metavar="H", help="ssh alias, user@host:port, local or demo")
    group.add_argument("--profile", metavar="P", help="name or path of a profile")
    group.add_argument("--json", action="store_true", help="one JSON document, or one object a line", **flag)
    group.add_argument("--readonly", action="store_true", help="change nothing on the host", **flag)
    group.add_argument("--accept-new-host-key", metavar="FINGERPRINT", help="accept exactly this key of a new host")
    return common


def _front() -> argparse.ArgumentParser:
    """Return the parser of what stands before a verb."""
    top = _Parser(
        prog="tokwatt",
        description="Tune LLM inference servers over SSH. Without a verb: the cockpit.",
        parents=[_common(before=True)],
    )
    top.add_argument("--version", action="version", version=f"tokwatt {__version__}")
    return top


def _without_verb(argv: Sequence[str]) -> argparse.Namespace | None:
    """Return the arguments of a command line without a verb: loading all verbs would delay the first frame by 80 ms."""
    if {"-h", "--help"} & set(argv):
        return None
    args, rest = _front().parse_known_args(argv)
    args.verb = None
    return None if rest else args


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _front()
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    after = _common(before=False)
    for name in VERB_MODULES:
        importlib.import_module(f"console.cli.verbs.{name}").add(verbs, [after])
    return top


def run(argv: Sequence[str], cockpit: Cockpit) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: What stands behind `tokwatt`.
        cockpit: Opens the other front door, for a command line without a verb.
    """
    out = Output()
    try:
        args = _without_verb(argv) or parser().parse_args(argv)
        out.json = bool(args.json)
        status = asyncio.run(_verb(args, out)) if args.verb is not None else asyncio.run(_demo_first(args, out))
        other = args.verb is None or any(getattr(args, name, None) is not None for name in ("target", "tape"))
        return cockpit(args) if other else status
    except ConsoleError as error:
        out.say(f"tokwatt: {error.one_line()}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except asyncio.CancelledError:  # SIGTERM: what ran on the host was told to stop on the way out
        return 143
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


async def _demo_first(args: argparse.Namespace, out: Output) -> int:
    """Start or join the demo host when it is named; `args.target` then says where it is."""
    if "demo" in (args.host or ()):
        from console.operations.demo import join_demo

        out.say("joining the demo host …")
        args.target = await join_demo()
    return 0


def _host(args: argparse.Namespace) -> str:
    """Return the host that is named; a package folder without one is on this machine."""
    hosts = args.host or []
    return str(hosts[0]) if hosts else "local" if getattr(args, "package", None) else ""


async def _verb(args: argparse.Namespace, out: Output) -> int:
    act: Act = args.act
    prepare: Callable[[argparse.Namespace], Awaitable[None]] | None = getattr(args, "prepare", None)
    if prepare is not None:
        await prepare(args)
    if len(args.host or ()) > 1 and not getattr(args, "many_hosts", False):
        raise UsageError(f"{args.verb}: takes one --host, {len(args.host)} were given: {' '.join(args.host)}")
    needs = getattr(args, "needs", "host")
    if (needs(args) if callable(needs) else needs) != "host":
        return await act(args, None, out)  # type: ignore[arg-type]
    from console.operations.opening import ask_in_terminal, open_desk

    host: Any = _host(args)
    if host == "demo":
        from console.operations.demo import join_demo

        host = await join_demo()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    desk = await open_desk(
        host=host,
        profile=args.profile,
        readonly=args.readonly,
        accept_key=args.accept_new_host_key,
        package_dirs=tuple(getattr(args, "package", None) or ()),
        say=out.say,
        ask_passphrase=ask_in_terminal,
    )
    try:
        return await act(args, desk, out)
    finally:
        with contextlib.suppress(ConsoleError):
            await desk.link.close()
