"""RECORDs as they come: other names than the package's, several for one, odd paths, none at all."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from console.domain.installed import PackageCheck
from console.operations import installed
from console.operations.desk import Desk
from tests.wheels import commit_all


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def install(site: Path, info: str, files: Mapping[str, str], record: str | None = None) -> None:
    """Write files and the metadata folder that lists them, as pip does."""
    rows = []
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        shown = f'"{name}"' if "," in name else name
        rows.append(f"{shown},sha256={digest},{len(text)}")
    folder = site / info
    folder.mkdir(parents=True)
    name, _, version = info.removesuffix(".dist-info").partition("-")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "RECORD").write_text(("\n".join(rows) if record is None else record) + f"\n{info}/RECORD,,\n")


async def check(desk: Desk, folder: Path) -> PackageCheck:
    desk.package_dirs = (str(folder),)
    (found,) = [one async for one in installed.changed(desk)]
    return found


@pytest.mark.parametrize(
    ("package", "info"),
    [
        ("sgl_kernel", "sgl_kernel-0.3.21.dist-info"),
        ("sgl_kernel", "sglang_kernel-0.4.1.dist-info"),
        ("flashinfer", "flashinfer_python-0.6.3.dist-info"),
        ("triton", "pytorch_triton_rocm-3.5.0.dist-info"),
        ("vllm", "vllm-0.33.0+cu128.dist-info"),
    ],
)
async def test_a_distribution_of_any_name_is_found_by_its_files(
    desk: Desk, tmp_path: Path, package: str, info: str
) -> None:
    site = tmp_path / "site-packages"
    install(site, info, {f"{package}/__init__.py": "", f"{package}/a,b.py": "x = 1\n"})
    install(site, "other-1.0.dist-info", {"other/__init__.py": "", "other/x.py": ""})
    found = await check(desk, site / package)
    assert (found.against, found.checked, found.files, found.distributions) == ("RECORD", 2, (), (info,))
    assert found.package.version == info.removesuffix(".dist-info").partition("-")[2]
    (site / package / "a,b.py").write_text("x = 2\n")
    (site / "other/x.py").write_text("changed, and of another package\n")
    found = await check(desk, site / package)
    assert [(file.shown, file.kind) for file in found.files] == [(f"{package}/a,b.py", "changed")]


async def test_two_distributions_of_one_package_are_told_and_either_content_is_right(
    desk: Desk, tmp_path: Path
) -> None:
    site = tmp_path / "site-packages"
    install(site, "sgl_kernel-0.3.21.dist-info", {"sgl_kernel/__init__.py": "", "sgl_kernel/a.py": "old\n"})
    install(site, "sglang_kernel-0.4.1.dist-info", {"sgl_kernel/__init__.py": "", "sgl_kernel/a.py": "new\n"})
    found = await check(desk, site / "sgl_kernel")
    assert found.files == ()
    assert found.distributions == ("sgl_kernel-0.3.21.dist-info", "sglang_kernel-0.4.1.dist-info")
    (site / "sgl_kernel/a.py").write_text("by hand\n")
    assert [file.shown for file in (await check(desk, site / "sgl_kernel")).files] == ["sgl_kernel/a.py"]


async def test_paths_out_of_the_folder_and_lines_that_say_nothing(desk: Desk, tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.11/site-packages"
    absolute = tmp_path / "etc/vllm.conf"
    absolute.parent.mkdir()
    absolute.write_text("a = 1\n")
    install(
        site,
        "vllm-0.33.0.dist-info",
        {"vllm/__init__.py": "", "../../../bin/vllm": "#!python\n", str(absolute): "a = 1\n"},
    )
    record = site / "vllm-0.33.0.dist-info/RECORD"
    record.write_text(
        record.read_text()
        + "vllm/__pycache__/x.pyc,,\nvllm/no_hash.py,,\nvllm/bad.py,sha256=!!,1\nvllm/odd.py,sha999=abc,1\nnonsense\n"
    )
    (site / "vllm/no_hash.py").write_text("")
    found = await check(desk, site / "vllm")
    assert (found.against, found.checked) == ("RECORD", 3)
    assert found.files == ()
    (tmp_path / "bin/vllm").write_text("#!other\n")
    absolute.unlink()
    found = await check(desk, site / "vllm")
    assert [(Path(file.path), file.kind) for file in found.files] == [
        (tmp_path / "bin/vllm", "changed"),
        (absolute, "missing"),
    ]


async def test_without_a_record_git_is_asked_and_else_nothing_is_claimed(desk: Desk, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    install(site, "sglang-0.5.9.dist-info", {"sglang/__init__.py": "", "sglang/a.py": ""}, record="")
    (site / "sglang-0.5.9.dist-info/RECORD").unlink()
    found = await check(desk, site / "sglang")
    assert (found.against, found.files) == ("", ())
    assert "no RECORD and no git" in found.reason


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")], ids=["pip", "uv"])
async def test_an_editable_install_is_compared_with_its_checkout(
    desk: Desk, tmp_path: Path, separators: tuple[str, str]
) -> None:
    project = tmp_path / "sglang"
    package = project / "python/sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("x = 1\n")
    commit_all(project)
    info = project / "python/sglang-0.5.9.dist-info"  # as a build leaves it beside the package
    info.mkdir()
    (info / "METADATA").write_text("Name: sglang\nVersion: 0.5.9\n")
    (info / "RECORD").write_text("sglang/__init__.py,sha256=AAAA,0\n")
    (info / "direct_url.json").write_text(
        json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}}, indent=1)
    )
    (package / "a.py").write_text("x = 2\n")
    found = await check(desk, package)
    assert found.against == "git"
    assert [(file.shown, file.kind) for file in found.files] == [("sglang/a.py", "changed")]
