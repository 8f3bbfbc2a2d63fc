"""What is installed under the engine: which copy of each package loads, what of it was changed by hand."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import AsyncIterator, Sequence
from weakref import WeakKeyDictionary

from console.domain.comparison import Comparison, FilePair
from console.domain.host import Package
from console.domain.installed import ChangedFile, Original, PackageCheck
from console.errors import RemoteError, UsageError
from console.inventory import installed
from console.inventory.installed import ENGINE_PACKAGES, Lookup, Wanted
from console.operations import host
from console.operations.desk import Desk
from console.remote.link import HostLink

__all__ = ["ENGINE_PACKAGES", "changed", "differences", "packages", "pristine", "shadowed", "top_package"]

_NAMES = {"sgl-kernel": "sgl_kernel", "sglang-kernel": "sgl_kernel", "sglang_kernel": "sgl_kernel"}
_NAMES |= {"flashinfer-python": "flashinfer", "flashinfer_python": "flashinfer", "pytorch": "torch"}

_known: WeakKeyDictionary[HostLink, tuple[Lookup, tuple[Package, ...]]] = WeakKeyDictionary()


def _lookup(desk: Desk, names: Sequence[str] = ()) -> Lookup:
    """Return which packages are meant and who is asked: `--package` folders go before the interpreter."""
    wanted = tuple(_NAMES.get(name, name) for name in names)
    folders = tuple(
        folder for folder in desk.package_dirs if not wanted or posixpath.basename(folder.rstrip("/")) in wanted
    )
    given = {posixpath.basename(folder.rstrip("/")) for folder in folders}
    rest = tuple(name for name in wanted if name not in given)
    if not wanted and not desk.package_dirs:
        rest = ENGINE_PACKAGES
    python, env, cwd = host.launched_by(desk)
    return Lookup(rest, folders, (), python, env, cwd)


async def packages(desk: Desk, names: Sequence[str] = ()) -> tuple[tuple[Package, ...], tuple[str, ...]]:
    """Return each engine package as the launching interpreter would import it, and the names that are not there.

    Nothing is imported; one round trip.

    Args:
        desk: Whose host and profile.
        names: Packages, by the name of their import or of their distribution; all engine packages when empty.
    """
    found, absent = await installed.which(desk.link, _lookup(desk, names))
    return found, absent


async def shadowed(desk: Desk, path: str) -> str:
    """Return why a file is not the one that a server would load; empty when it is, or is of no engine package.

    The packages are asked for once for a launch; a file below one of them costs no round trip.
    """
    lookup = _lookup(desk)
    known = _known.get(desk.link)
    if known is None or known[0] != lookup:
        try:
            found, _ = await installed.which(desk.link, lookup)
        except RemoteError:
            return ""
        known = _known[desk.link] = (lookup, found)
    for package in known[1]:
        inside = f"/{package.name}/"
        if inside not in path or path.startswith((f"{package.folder}/", f"{package.real}/")):
            continue
        folder = path[: path.index(inside) + len(inside) - 1]
        facts = (await desk.link.call("stat", {"paths": [path, f"{folder}/__init__.py"]})).result
        here, marker = facts.get(path), facts.get(f"{folder}/__init__.py")
        if marker is None or here is None or str(here["real"]).startswith(f"{package.real}/"):
            continue
        who = package.interpreter or "the launch"
        return f"not the copy that loads: {who} imports {package.name} from {package.folder}"
    return ""


async def changed(desk: Desk, names: Sequence[str] = (), *, added: bool = True) -> AsyncIterator[PackageCheck]:
    """Yield each engine package with its files that are not as installed, as soon as it is checked.

    One round trip, and a part for each package; what was hashed before and has not changed is not read again.

    Args:
        desk: Whose host and profile.
        names: Packages; all engine packages when empty.
        added: Whether files that no RECORD lists are told, too.
    """
    checks = installed.changed(desk.link, _lookup(desk, names), added=added)
    try:
        async for check in checks:
            yield check
    finally:
        await checks.aclose()  # type: ignore[attr-defined]


async def differences(desk: Desk, checks: Sequence[PackageCheck], *, wheels: Sequence[str] = ()) -> Comparison:
    """Return the changed files beside their originals, where those can still be had: one round trip.

    Looked for in this order: kept by us, git, wheels given, uv's and pip's caches on the host, then here.

    Args:
        desk: Whose host.
        checks: What `changed` told.
        wheels: Wheel files or folders of them, on the host or here.
    """
    wanted: list[Wanted] = []
    files: list[tuple[PackageCheck, ChangedFile]] = []
    for check in checks:
        for file in check.files:
            files.append((check, file))
            wanted += [_original(check, file), Wanted(path=file.path)]
    found = await installed.contents(desk.link, wanted, wheels=wheels, wheels_here=wheels) if wanted else ()
    pairs = []
    for number, (check, file) in enumerate(files):
        pairs.append(_pair(check, file, found[2 * number], found[2 * number + 1]))
    against = {check.against for check in checks if check.files}
    left = "as installed" if against == {"RECORD"} else "HEAD" if against == {"git"} else "as installed or committed"
    return Comparison(left, "on the host now", tuple(pair for pair in pairs if pair.note or pair.before != pair.after))


def _original(check: PackageCheck, file: ChangedFile) -> Wanted:
    if file.kind == "added":
        return Wanted()
    if check.against == "git":
        return Wanted(path=file.path, rev="HEAD")
    if not file.expected:
        return Wanted()
    distribution = check.distributions[0].removesuffix(".dist-info") if check.distributions else ""
    return Wanted(file.expected, file.path, file.shown, distribution, check.package.folder)


def _pair(check: PackageCheck, file: ChangedFile, original: Original, now: Original) -> FilePair:
    note = ""
    if file.kind == "unreadable":
        note = f"cannot be read: {file.reason}"
    elif file.kind != "added" and original.data is None:
        note = (
            f"its original is not on the host or here: pip download --no-deps "
            f"{check.distributions[0].removesuffix('.dist-info').replace('-', '==', 1) if check.distributions else ''}"
            f", then --wheel FILE"
        )
    after = None if file.kind == "missing" else now.data
    before = None if file.kind == "added" else original.data
    return FilePair(file.shown, before, after, note, file.path)


async def top_package(desk: Desk, path: str) -> Package | None:
    """Return the package that a file is in, whoever would import it; `None` when it is in none."""
    try:
        found, _ = await installed.which(desk.link, Lookup((), (), (path,)))
    except RemoteError as error:
        if error.kind != "no_package":
            raise
        return None
    return found[0]


async def pristine(desk: Desk, path: str, *, wheels: Sequence[str] = ()) -> Comparison:
    """Return one file of an installed package beside the bytes that it was installed with.

    Raises:
        UsageError: The file is in no package, or nothing tells how it was installed.
    """
    lookup = Lookup((), (), (path,))
    try:
        with contextlib.suppress(StopAsyncIteration):
            checks = [check async for check in installed.changed(desk.link, lookup)]
    except RemoteError as error:
        if error.kind != "no_package":
            raise
        raise UsageError(f"{path}: {error.title}", hint="only files of installed packages have an original") from error
    (check,) = checks
    if not check.against:
        raise UsageError(f"{path}: {check.reason}")
    mine = tuple(
        file for file in check.files if path in (file.path, posixpath.join(check.package.real, "..", file.shown))
    )
    mine = mine or tuple(
        file
        for file in check.files
        if path.endswith(f"/{file.shown}") and posixpath.basename(path) == posixpath.basename(file.path)
    )
    only = PackageCheck(check.package, check.against, 1, mine, "", check.distributions, check.commit)
    return await differences(desk, [only], wheels=wheels)
