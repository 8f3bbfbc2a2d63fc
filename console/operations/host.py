"""What is installed on the host: the engine package, its git state, the GPUs' generation."""

from __future__ import annotations

import posixpath
from weakref import WeakKeyDictionary

from console.domain.host import GitState, Package
from console.errors import ConsoleError, RemoteError
from console.inventory import git as inventory_git
from console.inventory import gpus, packages
from console.operations import ways
from console.operations.desk import Desk
from console.remote.link import HostLink

UNKNOWN = ("no_package", "no_python", "enoent", "enotdir", "eacces")
"""Faults that mean: this host has no such package; reading absolute paths goes on without one."""

LAUNCH_FOLDER = "/"
"""Where a server without `launch.workdir` is started: what lies there is on its search path."""

_capabilities: WeakKeyDictionary[HostLink, str] = WeakKeyDictionary()


async def engine_package(desk: Desk, *, refresh: bool = False) -> Package:
    """Return the engine package that the profile's launch would load, asked for once.

    `--package DIR` goes before the profile; without either, the login's `python3` is asked for SGLang.

    Raises:
        RemoteError: Kind `no_python` or `no_package`; the store has the reason, too.
    """
    if desk.package is not None and not refresh:
        return desk.package
    kind = desk.profile.engine.kind if desk.profile else "sglang"
    try:
        desk.package = await _look_up(desk, kind)
    except ConsoleError as error:
        desk.store.update(package=None, package_reason=error.one_line())
        raise
    desk.store.update(package=desk.package, package_reason="")
    return desk.package


async def named_package(desk: Desk, name: str) -> Package:
    """Return any package as the profile's interpreter resolves it."""
    given = [folder for folder in desk.package_dirs if posixpath.basename(folder.rstrip("/")) == name]
    if given:
        return await packages.package_in(desk.link, given[0])
    return await _asked(desk, name)


async def profile_package(desk: Desk, name: str) -> Package:
    """Return a package as the profile's interpreter resolves it, whatever folders were named."""
    return await _asked(desk, name)


async def known_package(desk: Desk) -> Package | None:
    """Return the engine package, or `None` with the reason in the store when there is none."""
    try:
        return await engine_package(desk)
    except RemoteError as error:
        if error.kind not in UNKNOWN:
            raise
        return None


async def _look_up(desk: Desk, kind: str) -> Package:
    if desk.package_dirs:
        named = [folder for folder in desk.package_dirs if posixpath.basename(folder.rstrip("/")) == kind]
        return await packages.package_in(desk.link, (named or list(desk.package_dirs))[0])
    return await _asked(desk, kind)


async def _asked(desk: Desk, name: str) -> Package:
    if desk.profile is not None and ways.in_image(desk.profile):
        image = desk.profile.launch.docker.image or "the job's image"
        hint = "source and patches need a container that runs: [host] container"
        raise RemoteError(f"{name} is in {image}, not on {desk.link.host.name}", hint=hint, kind="no_package")
    python, env, cwd = launched_by(desk)
    return await packages.resolved_package(desk.link, name, python=python, env=env, cwd=cwd)


def launched_by(desk: Desk) -> tuple[str, dict[str, str], str]:
    """Return interpreter, `PYTHON…` environment and folder of a launch: what decides where packages come from."""
    profile = desk.profile
    if profile is None:
        return "", {}, LAUNCH_FOLDER
    env = {
        key: value for key, value in profile.launch.env.items() if key.startswith("PYTHON") and isinstance(value, str)
    }
    return profile.engine.python, env, profile.launch.workdir or LAUNCH_FOLDER


async def git_state(desk: Desk, folder: str = "") -> GitState | None:
    """Return the checkout that tracks a folder (the engine package's by default); `None` when none does.

    What keeps git from answering is told to the operator.
    """
    if not folder:
        folder = (await engine_package(desk)).folder
    try:
        state = await inventory_git.git_state(desk.link, folder)
    except RemoteError as error:
        desk.say(error.one_line())
        state = None
    if desk.package is None or folder == desk.package.folder:
        desk.store.update(git=state)
    return state


async def compute_capability(desk: Desk) -> str | None:
    """Return the compute capability of the host's GPUs (`12.0`); `None` when unknown or mixed."""
    sample = desk.store.snapshot.gpus
    seen = {gpu.compute_capability for gpu in sample.gpus if gpu.compute_capability} if sample else set()
    if seen:
        return seen.pop() if len(seen) == 1 else None
    if desk.link not in _capabilities:
        _capabilities[desk.link] = await gpus.compute_capability(desk.link) or ""
    return _capabilities[desk.link] or None
