"""The command line of an SGLang launch, and how what was asked for compares with what is in force."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from console.config.commands.dialects import SGLANG
from console.domain.profile import Profile
from console.engines import argv
from console.engines.protocol import Difference

SECRET_FLAGS = ("api-key", "admin-api-key", "ssl-keyfile-password")

SHORT = SGLANG.same
"""Other spellings of one flag."""


def command(profile: Profile) -> tuple[str, ...]:
    """Return the exact argument list of a launch."""
    start = profile.engine.command or (profile.engine.python or "python3", "-m", "sglang.launch_server")
    return (*start, *argv.words_of(profile.launch.args), "--port", str(profile.launch.port))


def redacted(words: Sequence[str]) -> tuple[str, ...]:
    """Return an argument list with the values of secret flags taken out."""
    return argv.redacted(words, SECRET_FLAGS)


def model_paths(profile: Profile) -> tuple[str, ...]:
    """Return the absolute paths of model and tokenizer."""
    return argv.absolute(profile.launch.args, ("model-path", "model", "tokenizer-path"))


def differences(profile: Profile, resolved: Mapping[str, object]) -> tuple[Difference, ...]:
    """Return the arguments that are in force otherwise than asked for."""
    return argv.differences(profile, resolved, SHORT)


def resolved_from_log(message: str) -> Mapping[str, object]:
    """Return the arguments of a `server_args=ServerArgs(…)` or `server_args={…}` line; empty when it is none."""
    match = re.search(r"server_args=(ServerArgs\(|\{)", message)
    if match is None:
        return {}
    body = message[match.end() :].rstrip()
    return argv.keywords(body[:-1]) if match[1] != "{" else argv.mapping("{" + body)


DIST_DELTA = 233
"""Of data-parallel attention on one node: its rendezvous is that far above the HTTP port, four more ports follow."""


def side_ports(profile: Profile) -> Mapping[int, str]:
    """Return the ports between its processes that a launch will open, as far as they are no chance, and their flags."""
    args = profile.launch.args
    found = argv.ports_of(args, ("nccl-port", "disaggregation-bootstrap-port", "grpc-port"))
    address = str(args.get("dist-init-addr") or args.get("nccl-init-addr") or "")
    host, _, port = address.rpartition(":")
    local = host.strip("[]") in ("127.0.0.1", "localhost", "0.0.0.0", "::", "::1")
    if port.isdigit() and (local or args.get("node-rank", 0) == 0):
        found[int(port)] = "dist-init-addr"
    if args.get("enable-dp-attention") is True:
        first = int(port) if port.isdigit() else profile.launch.port + DIST_DELTA
        for number in range(first, first + 5):
            found.setdefault(number, "dist-init-addr")
    return found
