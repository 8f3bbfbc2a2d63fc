"""Programs that are sent: packages zipped here, imported from memory there."""

from __future__ import annotations

import functools
import io
import zipfile
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable

BOOTSTRAP = "import sys;exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
"""Program text of the first stage; the same bytes mean the same to sh, bash, fish and csh."""

MARKER = b"\x1e--tokwatt begins 5d1c07--\x1e\n"
"""Written by a sent program before anything else: what a login script printed stands before it."""

OLDEST = (3, 9)

_STAGE = """
import os, sys
if sys.version_info < %(oldest)r:
    sys.stderr.write("python " + sys.version.split()[0] + " is older than 3.9\\n")
    sys.exit(97)
os.write(1, %(marker)r)
import io, zipfile, importlib.abc, importlib.util
_size = int(sys.stdin.buffer.readline())
_zip = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read(_size)))
class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    names = set(_zip.namelist())
    def find_spec(self, name, path=None, target=None):
        base = name.replace(".", "/")
        for file, package in ((base + "/__init__.py", True), (base + ".py", False)):
            if file in self.names:
                return importlib.util.spec_from_loader(name, self, origin=file, is_package=package)
        return None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        file = module.__spec__.origin
        exec(compile(_zip.read(file), "<sent>/" + file, "exec"), module.__dict__)
    def get_source(self, name):
        return _zip.read(self.find_spec(name).origin).decode()
sys.meta_path.insert(0, _Finder())
sys.argv = %(argv)r
sys.dont_write_bytecode = True
import importlib
importlib.import_module(%(module)r).main()
"""


def argv(python: str) -> list[str]:
    """Return the command that waits for a payload on its standard input."""
    # -I: neither PYTHON* variables nor a json.py in the login's folder may change what we run.
    return [python, "-I", "-u", "-c", BOOTSTRAP]


def payload(package: str, module: str, args: Sequence[str] = (), extra: Sequence[str] = ()) -> bytes:
    """Return what to write first to a program started with `argv`.

    Args:
        package: Dotted name of the sent package here (`console.remote.outpost`); there it is known
            by its last part.
        module: Module with a `main()`, relative to that (`serve`).
        args: What `sys.argv[1:]` shall be there.
        extra: Dotted names of third-party modules that travel along (`pynvml`).
    """
    name = package.rpartition(".")[2]
    stage = _STAGE % {"argv": [name, *args], "module": f"{name}.{module}", "marker": MARKER, "oldest": OLDEST}
    code = stage.encode()
    blob = _zipped(package, tuple(extra))
    return b"%d\n%s%d\n%s" % (len(code), code, len(blob), blob)


@functools.lru_cache(maxsize=8)
def _zipped(package: str, extra: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for dotted in (package, *extra):
            _add(archive, dotted)
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, dotted: str) -> None:
    parent, _, name = dotted.rpartition(".")
    if not parent:  # a top-level module of a library
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(name)
        if not spec.submodule_search_locations:
            archive.write(spec.origin, f"{name}.py")
            return
    _add_folder(archive, resources.files(dotted), name)


def _add_folder(archive: zipfile.ZipFile, folder: Traversable, prefix: str) -> None:
    for item in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if item.is_dir() and item.name != "__pycache__":
            _add_folder(archive, item, f"{prefix}/{item.name}")
        elif item.name.endswith(".py"):
            archive.writestr(f"{prefix}/{item.name}", item.read_bytes())
