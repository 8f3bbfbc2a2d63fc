"""SGLang behind the engine protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.domain.profile import Profile
from console.engines.flags import Flag, FlagFault
from console.engines.protocol import Difference, Grammar, Watch
from console.engines.sglang import command, endpoints, flags
from console.engines.sglang.grammar import SglangGrammar
from console.engines.sglang.phases import SglangWatch


class Sglang:
    """The adapter."""

    kind: str = "sglang"
    package: str = "sglang"
    default_port: int = 30000
    ready_path: str = endpoints.READY
    identity_path: str = endpoints.READY
    older: Mapping[str, str] = endpoints.OLDER
    ready_by_http: bool = False
    info_path: str = endpoints.INFO
    loads_paths: tuple[str, ...] = endpoints.LOADS
    abort: tuple[str, Mapping[str, object]] = endpoints.ABORT
    flush_path: str = endpoints.FLUSH
    unlocks: str = ""
    key_places: tuple[str, ...] = ("api-key",)
    admin_key_places: tuple[str, ...] = ("admin-api-key",)
    titles: tuple[str, ...] = (
        r"-m sglang\.launch_server(?: |$)",
        r"-m sglang\.cli\.main serve(?: |$)",
        r"sglang serve(?: |$)",
        r"sglang/launch_server\.py(?: |$)",
    )
    workers: tuple[str, ...] = (r"sglang::\w+",)
    version_path: str = endpoints.INFO

    def redacted(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return an argument list with secrets taken out."""
        return command.redacted(argv)

    def command(self, profile: Profile) -> tuple[str, ...]:
        """Return the exact argument list."""
        return command.command(profile)

    def model_paths(self, profile: Profile) -> tuple[str, ...]:
        """Return the absolute paths that a launch needs."""
        return command.model_paths(profile)

    def grammar(self) -> Grammar:
        """Return a reader of messages for one log."""
        return SglangGrammar()

    def watch(self) -> Watch:
        """Return a follower of one run."""
        return SglangWatch()

    def version(self, reply: Mapping[str, object]) -> str:
        """Return the version from `/server_info`."""
        return str(reply.get("version") or "")

    def side_ports(self, profile: Profile) -> Mapping[int, str]:
        """Return the ports between its processes, as far as they are no chance."""
        return command.side_ports(profile)

    def resolved(self, info: Mapping[str, object]) -> Mapping[str, object]:
        """Return the arguments in force from `/server_info`."""
        return endpoints.resolved(info)

    def resolved_from_log(self, message: str) -> Mapping[str, object]:
        """Return the arguments in force from the `server_args=` line."""
        return command.resolved_from_log(message)

    def differences(self, profile: Profile, resolved: Mapping[str, object]) -> Sequence[Difference]:
        """Return what was asked for and is in force otherwise."""
        return command.differences(profile, resolved)

    def in_flight(self, loads: object) -> int | None:
        """Return running plus waiting requests."""
        return endpoints.in_flight(loads)

    def flag_sources(self) -> tuple[str, ...]:
        """Return the files that declare flags."""
        return flags.SOURCES

    def flags_in_source(self, sources: Mapping[str, bytes]) -> Mapping[str, Flag]:
        """Return the flags that source files declare."""
        return flags.flags_of(sources)

    def help_command(self, profile: Profile) -> tuple[str, ...]:
        """Return the command that makes the install tell its flags."""
        return (profile.engine.python or "python3", "-c", flags.ASK)

    def check(self, profile: Profile, known: Mapping[str, Flag]) -> tuple[FlagFault, ...]:
        """Return what the install would say of the arguments."""
        return flags.check(profile.launch.args, known)
