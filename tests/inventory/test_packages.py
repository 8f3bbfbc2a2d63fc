"""Which copy of a package is imported: asked of the interpreter that launches, nothing imported."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from console.domain.profile import EngineSection, LaunchSection, Profile, Secret
from console.errors import RemoteError
from console.operations import host
from console.operations.desk import Desk
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.wheels import commit_all

BOOM = "raise RuntimeError('imported')\n"


@pytest.fixture(scope="module")
def tune(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without pip; its site-packages is filled by hand."""
    folder = tmp_path_factory.mktemp("venv") / "tune"
    venv.create(folder, symlinks=True)
    return folder


def site_of(folder: Path) -> Path:
    """Its site-packages."""
    return next((folder / "lib").glob("python3.*")) / "site-packages"


def put_package(parent: Path, name: str, version: str = "", dist: str = "", source: str = BOOM) -> Path:
    """A package that must not be imported, with metadata beside it when a version is given."""
    package = parent / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    if version:
        put_metadata(parent, dist or name, version)
    return package


def put_metadata(site: Path, dist: str, version: str, top_level: str = "", editable: Path | None = None) -> Path:
    """A *.dist-info."""
    info = site / f"{dist.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n")
    if top_level:
        (info / "top_level.txt").write_text(top_level + "\n")
    if editable:
        (info / "direct_url.json").write_text(f'{{"dir_info": {{"editable": true}}, "url": "{editable.as_uri()}"}}')
    return info


def profiled(desk: Desk, python: Path | str, kind: str = "sglang", workdir: str = "", **env: str | Secret) -> None:
    """Give the desk a profile."""
    desk.profile = Profile(
        "test", engine=EngineSection(kind, str(python)), launch=LaunchSection(workdir=workdir, env=env)
    )
    desk.package = None


async def test_site_packages_of_the_profiles_interpreter(desk: Desk, tune: Path) -> None:
    package = put_package(site_of(tune), "vllm", "0.25.2")
    profiled(desk, tune / "bin" / "python", "vllm")
    before = desk.link.round_trips
    found = await host.engine_package(desk)
    assert desk.link.round_trips - before == 1
    assert (found.folder, found.version, found.origin) == (str(package), "0.25.2", "site-packages")
    assert found.interpreter == str(tune / "bin" / "python")
    assert found.also == ()
    assert desk.store.snapshot.package == found
    assert await host.engine_package(desk) is found
    assert desk.link.round_trips - before == 1
    assert not list(package.rglob("__pycache__"))


@pytest.mark.parametrize("dist", ["some-kernel", "sglang-kernel"])
async def test_a_distribution_of_another_name_is_found_by_what_it_brings(
    desk: Desk, tune: Path, tmp_path: Path, dist: str
) -> None:
    put_package(tmp_path, "sgl_kernel")
    info = put_metadata(tmp_path, dist, "0.3.21")
    (info / "RECORD").write_text("sgl_kernel/__init__.py,sha256=x,1\n")
    put_metadata(tmp_path, "aaa", "9")
    profiled(desk, tune / "bin" / "python", PYTHONPATH=str(tmp_path))
    found = await host.named_package(desk, "sgl_kernel")
    assert (found.version, found.version_from) == ("0.3.21", str(info))


async def test_an_editable_install_leads_to_the_checkout_and_its_commit(desk: Desk, tune: Path, tmp_path: Path) -> None:
    project = tmp_path / "sglang" / "python"
    package = put_package(project, "sglang")
    commit_all(tmp_path / "sglang")
    (package / "dirty.py").write_text("x\n")
    (package / "__init__.py").write_text(BOOM + "# changed\n")
    site = site_of(tune)
    info = put_metadata(site, "sglang", "0.3.1.dev217+g2acebda10", editable=project)
    pth = site / "__editable__.sglang-0.3.1.pth"
    pth.write_text(f"{project}\n")
    try:
        profiled(desk, tune / "bin" / "python")
        found = await host.engine_package(desk)
        assert (found.folder, found.version, found.origin) == (str(package), "0.3.1.dev217+g2acebda10", "editable")
        state = await host.git_state(desk)
        assert state is not None
        assert (state.top, state.branch, state.dirty, state.untracked) == (
            str(tmp_path / "sglang"),
            "main",
            ("python/sglang/__init__.py",),
            1,
        )
        assert len(state.commit) == 40
        assert desk.store.snapshot.git == state
    finally:
        pth.unlink()
        for file in info.iterdir():
            file.unlink()
        info.rmdir()


async def test_an_editable_install_by_a_finder(desk: Desk, tune: Path, tmp_path: Path) -> None:
    """A finder in place of a folder on the path, as setuptools writes it for flat layouts."""
    site = site_of(tune)
    package = put_package(tmp_path / "proj" / "src", "flashthing")
    finder = site / "__editable___flashthing_finder.py"
    finder.write_text(
        "import sys, importlib.util\n"
        "class F:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        f"        if name == 'flashthing': return importlib.util.spec_from_file_location(name, {str(package / '__init__.py')!r},"
        f" submodule_search_locations=[{str(package)!r}])\n"
        "sys.meta_path.append(F)\n"
    )
    (site / "__editable__.flashthing.pth").write_text("import __editable___flashthing_finder\n")
    put_metadata(site, "flashthing", "1.2", editable=tmp_path / "proj")
    profiled(desk, tune / "bin" / "python")
    found = await host.named_package(desk, "flashthing")
    assert (found.folder, found.version, found.origin) == (str(package), "1.2", "editable")


async def test_pythonpath_hides_the_installed_copy_and_has_its_own_version(
    desk: Desk, tune: Path, tmp_path: Path
) -> None:
    site = site_of(tune)
    installed = put_package(site, "hidden", "1.0")
    shadow = put_package(tmp_path, "hidden", source=BOOM)
    (shadow / "version.py").write_text('__version__ = "1.1.dev0"\n')
    profiled(desk, tune / "bin" / "python", PYTHONPATH=str(tmp_path), HF_TOKEN=Secret("env"))
    found = await host.named_package(desk, "hidden")
    assert (found.folder, found.version, found.origin) == (str(shadow), "1.1.dev0", "path")
    assert found.version_from == str(shadow / "version.py")
    assert found.also == (str(installed),)


async def test_the_launch_folder_is_on_the_path_too(desk: Desk, tune: Path, tmp_path: Path) -> None:
    package = put_package(tmp_path, "cwdpkg", "7.0")
    profiled(desk, tune / "bin" / "python", workdir=str(tmp_path))
    found = await host.named_package(desk, "cwdpkg")
    assert (found.folder, found.version, found.origin) == (str(package), "7.0", "path")


async def test_start_up_files_that_print_are_not_part_of_the_answer(desk: Desk, tune: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('Welcome to gpu-a. {\"folder\": 1}')\n")
    put_package(tmp_path, "noisy", "1.0")
    profiled(desk, tune / "bin" / "python", PYTHONPATH=str(tmp_path))
    assert (await host.named_package(desk, "noisy")).version == "1.0"


async def test_a_folder_without_code_that_hides_nothing_is_no_package(desk: Desk, tune: Path, tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    profiled(desk, tune / "bin" / "python", workdir=str(tmp_path))
    with pytest.raises(RemoteError, match="namespace") as caught:
        await host.engine_package(desk)
    assert caught.value.kind == "no_package"
    assert str(tmp_path / "sglang") in caught.value.detail


@pytest.mark.parametrize("python", ["/nowhere/bin/python3", "/bin/true", "/etc/passwd"])
async def test_an_interpreter_that_is_none_is_named(desk: Desk, python: str) -> None:
    profiled(desk, python)
    with pytest.raises(RemoteError, match=python) as caught:
        await host.engine_package(desk)
    assert caught.value.kind == "no_python"
    assert python in desk.store.snapshot.package_reason
    assert await host.known_package(desk) is None


async def test_a_missing_package_says_where_it_was_looked_for(desk: Desk, tune: Path) -> None:
    profiled(desk, tune / "bin" / "python", "no_such_engine")
    with pytest.raises(RemoteError, match="no_such_engine") as caught:
        await host.engine_package(desk)
    assert caught.value.kind == "no_package"
    assert str(site_of(tune)) in caught.value.detail
    with pytest.raises(RemoteError) as caught:
        await host.named_package(desk, "os.path")
    assert caught.value.kind == "usage"


@pytest.mark.wheels
async def test_a_folder_given_needs_no_interpreter(desk: Desk, sglang_059: Path) -> None:
    desk.package_dirs = (str(sglang_059 / "sglang"),)
    profiled(desk, "/nowhere/python")
    found = await host.engine_package(desk)
    assert (found.name, found.version, found.origin, found.interpreter) == ("sglang", "0.5.9", "folder", "")
    assert found.folder == str(sglang_059 / "sglang")


@pytest.mark.parametrize("given", ["sglang/python/sglang", "sglang/python/sglang/", "sglang"])
async def test_a_checkouts_folder_takes_its_version_from_the_source(desk: Desk, tmp_path: Path, given: str) -> None:
    package = put_package(tmp_path / "sglang" / "python", "sglang")
    (tmp_path / "sglang" / "python" / "pyproject.toml").write_text(
        '[project]\nname = "sglang"\nversion = "0.5.10rc1"\n'
    )
    desk.package_dirs = (f"{tmp_path}/{given}",)
    found = await host.engine_package(desk)
    assert (found.name, found.folder, found.version) == ("sglang", str(package), "0.5.10rc1")


async def test_a_folder_that_is_no_package_is_refused(desk: Desk, tmp_path: Path) -> None:
    for folder, kind in ((tmp_path, "no_package"), (tmp_path / "gone", "enoent")):
        desk.package_dirs = (str(folder),)
        with pytest.raises(RemoteError) as caught:
            await host.engine_package(desk)
        assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("body", "ok", "line", "word"),
    [
        (b"x = 1\n", True, None, ""),
        (b"def f(:\n", False, 1, "SyntaxError"),
        (b"x = 1\n  y = 2\n", False, 2, "IndentationError"),
        (b"x = '\xff'\n", False, 1, "SyntaxError"),
        (b"raise SystemExit(3)\n", True, None, ""),
        (b"s = '\\d'\n", True, None, ""),
    ],
)
async def test_bytes_are_compiled_in_memory_by_the_interpreter(
    desk: Desk, tmp_path: Path, body: bytes, ok: bool, line: int | None, word: str
) -> None:
    args = {"python": sys.executable, "name": str(tmp_path / "m.py")}
    facts = (await desk.link.call("compile", args, body)).result
    assert facts["ok"] is ok
    if not ok:
        assert word in facts["message"]
        assert line in (facts["line"], 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("lines", "capability"),
    [(["12.0"] * 8, "12.0"), (["9.0", "12.0"], None), (["[N/A]"], None), (["Welcome", "9.0"], "9.0"), (None, None)],
)
async def test_compute_capability_is_what_the_driver_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str] | None, capability: str | None
) -> None:
    if lines is not None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        tool.chmod(0o755)
    link = HostLink(LocalTransport(), python=sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    await link.connect()
    try:
        assert await host.compute_capability(Desk(link)) == capability
    finally:
        await link.close()
