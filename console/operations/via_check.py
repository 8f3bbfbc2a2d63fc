"""What of a profile does not go with the way that it launches."""

from __future__ import annotations

from dataclasses import dataclass

from console.config.vias import of_scope
from console.domain.profile import DOCKER_RUN, PROCESS, SYSTEMD_RUN, VIA_TABLES, Profile
from console.operations import ways

_INWARD = ("127.0.0.1", "localhost", "::1")
_GPUS = ("--gpus", "--runtime", "--device", "--privileged")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that does not go together."""

    fatal: bool
    """Whether nothing would be launched."""
    key: str
    text: str
    hint: str = ""


def remarks(profile: Profile) -> list[Remark]:
    """Return what does not go with a profile's way of launching, from the file alone."""
    launch = profile.launch
    found = []
    for via, table in VIA_TABLES.items():
        key = next((key for key in profile.origins if key.startswith(f"launch.{table}.")), "")
        if key and via != launch.via:
            said = f"[launch.{table}] is not used: via is {launch.via}"
            found.append(Remark(False, key, said, f'write via = "{via}" under [launch]'))
    if launch.via == PROCESS:
        return found
    if profile.patches_on and ways.in_image(profile):
        said = "patches change files of the host: the package is in the image"
        found.append(Remark(False, "patches.on", said, "mount a patched package, or use [host] container"))
    if launch.via == DOCKER_RUN:
        found += _container(profile)
    if launch.via == SYSTEMD_RUN:
        for name in launch.systemd.properties:
            if not of_scope(name):
                key, said = f"launch.systemd.properties.{name}", f"a scope has no property {name}"
                found.append(Remark(True, key, said, "man systemd.resource-control has those of a scope"))
    return found


def _container(profile: Profile) -> list[Remark]:
    launch = profile.launch
    options, key = launch.docker.options, "launch.docker.options"
    found = []
    if fault := ways.reach_fault(profile):
        hint = f'options = ["--network", "host"], or "--publish", "{launch.port}:{launch.port}"'
        found.append(Remark(False, key, fault, hint))
    elif "host" not in ways.valued(options, ("--network", "--net")):
        given = launch.args.get("host")
        if profile.engine.kind != "vllm" and given in (None, *_INWARD):  # vLLM listens everywhere by itself
            said = f"host is {given or '127.0.0.1 by itself'}: a published port does not reach the container's own 127.0.0.1"
            found.append(Remark(False, "launch.args", said, 'write host = "0.0.0.0" under [launch.args]'))
    if not any(word.partition("=")[0] in _GPUS for word in options):
        found.append(Remark(False, key, "the container gets no GPU", 'options = ["--gpus", "all"]'))
    return found
