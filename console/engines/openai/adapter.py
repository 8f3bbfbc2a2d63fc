"""Any OpenAI-compatible server behind the engine protocol, and llama.cpp's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from console.domain.profile import Profile
from console.engines import argv
from console.engines.flags import Flag, FlagFault, Habits, check
from console.engines.openai import command, endpoints
from console.engines.openai.grammar import OpenAiGrammar
from console.engines.openai.phases import OpenAiWatch
from console.engines.protocol import Difference, Grammar, Watch


class OpenAi:
    """The adapter of a server of which nothing is known but the protocol it speaks."""

    kind: str = "openai"
    package: str = ""
    default_port: int = 8000
    ready_path: str = endpoints.MODELS
    identity_path: str = endpoints.MODELS
    older: Mapping[str, str] = MappingProxyType({})
    ready_by_http: bool = True
    info_path: str = endpoints.MODELS
    loads_paths: tuple[str, ...] = endpoints.LOADS
    abort: tuple[str, Mapping[str, object]] = ("", {})
    flush_path: str = ""
    unlocks: str = ""
    key_places: tuple[str, ...] = ("api-key", "LLAMA_API_KEY")
    admin_key_places: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    version_path: str = ""
    program: str = "python3"

    def command(self, profile: Profile) -> tuple[str, ...]:
        """Return the exact argument list: `[engine] command`, then the arguments."""
        return command.command(profile, self.program)

    def redacted(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return an argument list with secrets taken out."""
        return command.redacted(argv)

    def model_paths(self, profile: Profile) -> tuple[str, ...]:
        """Return the absolute paths that a launch needs."""
        return command.model_paths(profile)

    def grammar(self) -> Grammar:
        """Return a reader of messages for one log."""
        return OpenAiGrammar()

    def watch(self) -> Watch:
        """Return a follower of one run."""
        return OpenAiWatch()

    def version(self, reply: Mapping[str, object]) -> str:
        """Return the build from `/props`."""
        return str(reply.get("build_info") or "")

    def side_ports(self, profile: Profile) -> Mapping[int, str]:
        """Return nothing: it opens no other port."""
        return {}

    def resolved(self, info: Mapping[str, object]) -> Mapping[str, object]:
        """Return what is in force, as far as the server tells."""
        return endpoints.resolved(info)

    def resolved_from_log(self, message: str) -> Mapping[str, object]:
        """Return nothing: no such line is known."""
        return {}

    def differences(self, profile: Profile, resolved: Mapping[str, object]) -> Sequence[Difference]:
        """Return what was asked for and is in force otherwise."""
        return argv.differences(profile, resolved, command.SAME)

    def in_flight(self, loads: object) -> int | None:
        """Return running plus waiting requests."""
        return endpoints.in_flight(loads)

    def flag_sources(self) -> tuple[str, ...]:
        """Return nothing: such a server need not be Python."""
        return ()

    def flags_in_source(self, sources: Mapping[str, bytes]) -> Mapping[str, Flag]:
        """Return nothing."""
        return {}

    def help_command(self, profile: Profile) -> tuple[str, ...]:
        """Return the command that makes the server tell its flags."""
        return (*(profile.engine.command or (profile.engine.python or self.program,)), "--help")

    def check(self, profile: Profile, known: Mapping[str, Flag]) -> tuple[FlagFault, ...]:
        """Return what the server would say of the arguments."""
        return check(profile.launch.args, known, Habits(abbreviations=False)) if known else ()


class LlamaCpp(OpenAi):
    """llama.cpp's `llama-server`, alone or within a wrapper."""

    kind: str = "llamacpp"
    default_port: int = 8080
    ready_path: str = endpoints.READY
    ready_by_http: bool = False
    info_path: str = endpoints.PROPS
    titles: tuple[str, ...] = (
        r"llama-server(?:\.exe)?(?: |$)",
        r"llamacpp_server\.py(?: |$)",
        r"-m llama_cpp\.server(?: |$)",
    )
    version_path: str = endpoints.PROPS
    program: str = command.LLAMA_SERVER
