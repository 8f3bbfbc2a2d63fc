"""Every drift of a host from a sealed winner: flipped on a checkout, an interpreter and a pretend `nvidia-smi`, named once."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import pytest

from console.config.profiles import load_profile
from console.domain.gpu import GpuReading, GpuSample
from console.domain.profile import EngineSection, Profile
from console.domain.run import FileHash, Run, RunPhase
from console.domain.text import SafeText
from console.errors import LinkLostError, RefusedError
from console.inventory.git import git_state
from console.journal.records import RunEntry
from console.operations import host as installed
from console.operations import launching, patches, verifying
from console.operations.desk import Desk
from console.operations.drifts import Drift, Found, Gravity, check_install
from console.operations.identity import identity_of
from console.operations.winner import save_profile
from console.remote.link import HostLink
from console.remote.local import LocalTransport
from tests.journal.test_book import ONE
from tests.wheels import commit_all, git

CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
PATCH = """title = "Two"
[[edit]]
file = "srt/runner.py"
find = "one = 1"
replace = "one = 2"
"""
OTHER = """title = "Other"
[[edit]]
file = "srt/other.py"
find = "x = 1"
replace = "x = 2"
"""
PROFILE = """schema = 1
[engine]
kind = "sglang"
python = "{python}"
[launch]
port = 30000
workdir = "{work}"
[launch.args]
model-path = "{model}"
tp-size = 8
chat-template = "{work}/chat.jinja"
[launch.env]
NCCL_ALGO = "Ring"
PYTHONPATH = "{work}/sglang/python:{work}/site"
[patches]
on = ["two"]
[bench]
concurrency = [8]
input_tokens = 128
output_tokens = 8
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A host in a folder: a checkout, what else the interpreter finds, a model, a pretend `nvidia-smi`."""

    top: Path

    @property
    def package(self) -> Path:
        return self.top / "sglang" / "python" / "sglang"

    @property
    def site(self) -> Path:
        return self.top / "site"

    @property
    def model(self) -> Path:
        return self.top / "model"

    @property
    def smi(self) -> Path:
        return self.top / "bin" / "nvidia_smi.py"

    @property
    def won(self) -> Path:
        return self.top / "config" / "tokwatt" / "profiles" / "won.toml"

    @property
    def patch(self) -> Path:
        return self.top / "config" / "tokwatt" / "patches" / "two.toml"

    @property
    def triton(self) -> Path:
        return self.top / "triton"

    @property
    def python(self) -> Path:
        return self.top / "bin" / "python-of-the-engine"


def build(top: Path) -> Stage:
    """Make the host's files."""
    stage = Stage(top)
    for path, text in {
        stage.package / "__init__.py": "",
        stage.package / "version.py": '__version__ = "0.5.9"\n',
        stage.package / "srt" / "runner.py": "one = 1\nlast = True\n",
        stage.package / "srt" / "other.py": "x = 1\n",
        stage.site / "torch" / "__init__.py": '__version__ = "2.9.0"\n',
        stage.model / "config.json": "{}",
        stage.model / "model.safetensors.index.json": "{}",
        stage.model / "tokenizer.json": "{}",
        stage.model / "hf_quant_config.json": "{}",
        stage.model / "model-00001-of-00001.safetensors": "weights",
        stage.triton / "abc" / "kernel.cubin": "k",
        stage.patch: PATCH,
        stage.patch.with_name("other.toml"): OTHER,
        top / "chat.jinja": "{{ messages }}",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    commit_all(top / "sglang")
    stage.smi.parent.mkdir()
    template = resources.files("console.demo") / "template" / "machine" / "nvidia_smi.py.txt"
    stage.smi.write_bytes(template.read_bytes())
    tool = stage.smi.with_name("nvidia-smi")
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {stage.smi} "$@"\n')
    tool.chmod(0o755)
    stage.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    stage.python.chmod(0o755)
    text = PROFILE.format(python=stage.python, work=top, model=stage.model)
    stage.won.parent.mkdir(parents=True, exist_ok=True)
    stage.won.with_name("cand.toml").write_text(text)
    return stage


def sample(**more: object) -> GpuSample:
    gpus = tuple(GpuReading(i, f"GPU-{i}", SafeText(CARD), throttle=()) for i in range(8))
    gpus = (*gpus[:2], replace(gpus[2], **more), *gpus[3:])  # type: ignore[arg-type]
    return GpuSample(time.time(), "nvidia-smi", gpus, received=time.monotonic())


@asynccontextmanager
async def at(profile: Path) -> AsyncIterator[Desk]:
    """A desk of its own on this machine: nothing is remembered from an earlier look."""
    link = HostLink(LocalTransport())
    await link.connect()
    desk = Desk(link, profile=load_profile(profile))
    desk.store.update(host=link.host, facts=link.facts, gpus=sample())
    try:
        yield desk
    finally:
        await link.close()


def settle(patch: pytest.MonkeyPatch, top: Path) -> None:
    """Make a folder this machine's for a while."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "PYTHON"))]:
        patch.delenv(name)
    for name in ("CONFIG", "DATA", "STATE"):
        patch.setenv(f"XDG_{name}_HOME", str(top / name.lower()))
    patch.setenv("TRITON_CACHE_DIR", str(top / "triton"))
    patch.setenv("PATH", f"{top / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host on which a winner was sealed, with patch `two` on; not to be changed."""
    top = tmp_path_factory.mktemp("winner") / "host"

    async def make() -> None:
        async with at(build(top).won.with_name("cand.toml")) as desk:
            await patches.apply(desk, "two")
            await seal(desk)

    with pytest.MonkeyPatch.context() as patch:
        settle(patch, top)
        asyncio.run(make())
    return top.rename(top.with_name("pristine"))


@pytest.fixture
def stage(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The host as it was sealed, at the place where it was."""
    top = sealed.with_name("host")
    shutil.copytree(sealed, top, symlinks=True)
    settle(monkeypatch, top)
    yield Stage(top)
    shutil.rmtree(top)


async def seal(desk: Desk) -> None:
    """Save the desk's profile as `won`, as a run of it that was measured just now."""
    profile = desk.must_profile()
    facts = await launching._identity(desk, launching.Preflight((), None, 1e6))
    args = profile.launch.args
    run = Run(
        "r-1", "cand", "sglang", "", "", 30000, 1.0, phase=RunPhase.READY, versions=facts["versions"],
        patches_on=tuple(facts["patches_on"]), hashes=tuple(FileHash(*one) for one in facts["hashes"].items()),
        resolved={"model_path": args["model-path"], "chat_template": args["chat-template"]},
    )  # fmt: skip
    package = await installed.engine_package(desk)
    desk.store.update(git=await git_state(desk.link, package.folder))
    identity = await identity_of(desk, run)
    measured = tuple(
        replace(ONE, concurrency_limit=8, repeat=n, tainted=(), output_throughput_tok_s=100.0 + n) for n in range(3)
    )
    await save_profile(desk, profile, RunEntry("r-1", "local", "cand", "sglang", 1.0, "", identity, measured), "won")


async def look(stage: Stage, **gpu: object) -> verifying.Verification:
    async with at(stage.won) as desk:
        desk.store.update(gpus=sample(**gpu))
        return await verifying.verify(desk)


async def test_nothing_has_drifted_on_the_host_as_it_was_sealed(stage: Stage) -> None:
    found = await look(stage)
    assert not found.drifts and not found.unknown
    assert {"seal of the file", "patch two", "bytes of srt/runner.py", "version of torch", "Triton cache"} <= set(
        found.checked
    )


Flip = Callable[[Stage], None]


def edit(place: Callable[[Stage], Path], old: str, new: str) -> Flip:
    def flip(stage: Stage) -> None:
        path = place(stage)
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return flip


def smi(old: str, new: str) -> Flip:
    return edit(lambda stage: stage.smi, old, new)


def won(old: str, new: str) -> Flip:
    return edit(lambda stage: stage.won, old, new)


def put(name: str, text: str) -> Flip:
    def flip(stage: Stage) -> None:
        path = stage.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return flip


def gone(name: str) -> Flip:
    def flip(stage: Stage) -> None:
        path = stage.top / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return flip


def commit(stage: Stage) -> None:
    git(stage.top / "sglang", "commit", "-q", "--allow-empty", "-m", "moved")


PACKAGE = "sglang/python/sglang"
HOST = [
    ("one limit", put("bin/limits.json", '{"3": 450}'), "power limit on GPU 3", "600 W", "450 W"),
    ("count", smi("NAME, TOTAL_MIB, LIMIT_W = 8", "NAME, TOTAL_MIB, LIMIT_W = 7"), "GPUs", "8", "7"),
    ("model", smi(f'"{CARD}"', '"NVIDIA H200"'), "GPU on all GPUs", CARD, "NVIDIA H200"),
    ("driver", smi("580.105.08", "590.1.1"), "driver", "580.105.08", "590.1.1"),
    ("cuda", smi('"13.0"', '"13.1"'), "CUDA of the driver", "13.0", "13.1"),
    ("ecc", smi('mode.current": "Enabled"', 'mode.current": "Disabled"'), "ECC on all GPUs", "on", "off"),
    ("mig", smi('mig.mode.current": "Disabled"', 'mig.mode.current": "Enabled"'), "MIG on all GPUs", "off", "on"),
    ("lanes", smi('width.current": 16', 'width.current": 8'), "link lanes on all GPUs", "16", "8"),
    ("torch", put("site/torch/__init__.py", '__version__ = "2.9.1"\n'), "version of torch", "2.9.0", "2.9.1"),
    ("torch gone", gone("site/torch"), "version of torch", "2.9.0", "missing"),
    ("triton came", put("site/triton/__init__.py", '__version__ = "3"\n'), "version of triton", "none", "3"),
    ("interpreter", gone("bin/python-of-the-engine"), "interpreter", "there", "cannot start"),
    ("package", gone(PACKAGE), "package sglang", "0.5.9", "missing"),
    ("commit", commit, "git commit", "", ""),
    ("index", put("model/model.safetensors.index.json", "[]"), "model's model.safetensors.index.json", "", ""),
    ("tokenizer", put("model/tokenizer.json", "[]"), "model's tokenizer.json", "", ""),
    ("quantization", put("model/hf_quant_config.json", "[]"), "model's hf_quant_config.json", "", ""),
    ("template came", put("model/chat_template.jinja", "x"), "model's chat_template.jinja", "missing", ""),
    ("template of an argument", put("chat.jinja", "x"), "file of chat_template chat.jinja", "", ""),
    ("weights cut", put("model/model-00001-of-00001.safetensors", "w"), "size of model-00001-of-00001.safetensors", 7, 1),
    ("weights gone", gone("model/model-00001-of-00001.safetensors"), "size of model-00001-of-00001.safetensors", 7, "missing"),
    ("hand", put(f"{PACKAGE}/srt/other.py", "x = 3\n"), "uncommitted python/sglang/srt/other.py", "as committed", ""),
    ("hand in a patched file", put(f"{PACKAGE}/srt/runner.py", "one = 2\nlast = False\n"), "bytes of srt/runner.py", "", ""),
    ("patch off", put(f"{PACKAGE}/srt/runner.py", "one = 1\nlast = True\n"), "patch two", "on", "off"),
    ("another on", put(f"{PACKAGE}/srt/other.py", "x = 2\n"), "patch other", "off", "on"),
    ("patch file", edit(lambda stage: stage.patch, 'find = "one', 'within = ""\nfind = "one'), "", "", ""),
    ("untracked", put(f"{PACKAGE}/srt/hook.py", "1\n"), "added by hand sglang/srt/hook.py", "none", ""),
    ("shadowing", put("sglang/python/flashinfer.py", "1\n"), "added by hand flashinfer.py", "none", ""),
    ("sitecustomize", put("site/sitecustomize.py", "1\n"), "start-up file", "none", ""),
    ("argument", won("tp-size = 8", "tp-size = 4"), "argument tp-size", 8, 4),
    ("variable", won('NCCL_ALGO = "Ring"', 'NCCL_ALGO = "Tree"'), "environment NCCL_ALGO", "Ring", "Tree"),
    ("protocol", won("output_tokens = 8", "output_tokens = 16"), "bench output_tokens", 8, 16),
    ("port", won("port = 30000", "port = 30001"), "[launch] port", 30000, 30001),
    ("evidence", won("output_tok_s = 101.0", "output_tok_s = 180.0"), "seal of the file", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("flip", "what", "saved", "now"), [one[1:] for one in HOST], ids=[one[0] for one in HOST])
async def test_a_drift_is_named_once_and_decides(
    stage: Stage, flip: Flip, what: str, saved: object, now: object
) -> None:
    flip(stage)
    found = await look(stage)
    if not what:  # written otherwise, yet the same patch
        assert not found.drifts
        return
    (one,) = found.drifts
    assert str(one.what).startswith(what) and one.gravity is Gravity.DECIDES
    assert str(saved) in str(one.saved) and str(now) in str(one.now) and one.saved != one.now
    assert one.what not in found.checked


MINOR = [
    ("persistence", smi('"persistence_mode": "Enabled"', '"persistence_mode": "Disabled"'), "persistence mode on all GPUs"),
    ("cold cache", gone("triton/abc"), "Triton cache"),
    ("another host", won("[engine]", '[host]\nssh = "other"\n\n[engine]'), "[host] ssh"),
    ("vbios", smi("98.02.6A.00.03", "98.02.6A.00.04"), "VBIOS on all GPUs"),
]  # fmt: skip


@pytest.mark.parametrize(("flip", "what"), [one[1:] for one in MINOR], ids=[one[0] for one in MINOR])
async def test_what_may_matter_is_told_and_does_not_decide(stage: Stage, flip: Flip, what: str) -> None:
    flip(stage)
    found = await look(stage)
    assert [(one.what, one.gravity) for one in found.drifts] == [(what, Gravity.MAY_MATTER)] and not found.deciding
    assert "(0 so that the numbers cannot be compared)" in verifying.summary(found)


async def test_another_version_of_the_engine_by_an_edit_is_told_as_both(stage: Stage) -> None:
    (stage.package / "version.py").write_text('__version__ = "0.5.8"\n')
    found = await look(stage)
    assert [one.what for one in found.drifts] == ["version of sglang", "uncommitted python/sglang/version.py"]


async def test_a_variable_of_the_hosts_own_login_is_a_drift_and_a_secret_is_none(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "a" * 24)
    (one,) = (await look(stage)).drifts
    assert (one.what, one.saved, one.now) == ("host's environment NCCL_P2P_DISABLE", "unset", "1")


async def test_a_gpu_that_is_held_down_now_is_a_drift(stage: Stage) -> None:
    (one,) = (await look(stage, throttle=("thermal (hardware)", "power cap"))).drifts
    assert (one.what, one.now) == ("clock of GPU 2", "held down: thermal (hardware)")


async def test_what_cannot_be_known_is_no_drift_and_says_why(stage: Stage) -> None:
    (stage.top / "bin" / "nvidia-smi").unlink()
    stage.won.write_text(stage.won.read_text().replace('python = "', 'was = "', 0))
    async with at(stage.won) as desk:
        desk.store.update(gpus=GpuSample(0.0, "", (), "no nvidia-smi on this host", time.monotonic()))
        found = await verifying.verify(desk)
    assert not found.drifts and "machine's state" not in found.checked
    assert found.reasons["clocks held down"] == "no nvidia-smi on this host"
    assert set(found.unknown) == {"GPUs and power limits", "clocks held down"}


async def test_what_cannot_be_rebuilt_is_refused_before_anything_is_written(stage: Stage) -> None:
    runner = stage.package / "srt" / "runner.py"
    runner.write_text("one = 1\nlast = True\n")
    (stage.package / "srt" / "hook.py").write_text("1\n")
    said: list[str] = []
    async with at(stage.won) as desk:
        desk.say = said.append
        with pytest.raises(RefusedError, match="1 thing drifted") as caught:
            [_ async for _ in verifying.reproduce(desk)]
    assert "hook.py" in caught.value.detail
    assert said[-1] == "not finished, nothing is concluded: nothing was changed on the host"
    assert runner.read_text() == "one = 1\nlast = True\n"


async def test_another_protocol_reproduces_nothing_whatever_is_asked(stage: Stage) -> None:
    won("output_tokens = 8", "output_tokens = 16")(stage)
    async with at(stage.won) as desk:
        with pytest.raises(RefusedError, match="another protocol"):
            [_ async for _ in verifying.reproduce(desk, force=True)]


async def test_a_lost_link_ends_a_look_and_another_fault_is_unknown() -> None:
    async def lost() -> None:
        raise LinkLostError("gone")

    async def refused() -> None:
        raise RefusedError("eacces")

    found = Found()
    await found.look("model's files", refused())
    assert found.unknown == {"model's files": "eacces"}
    with pytest.raises(LinkLostError):
        await found.look("caches", lost())
    assert Drift("a", None, "b").said == "a: unknown → b"


async def test_an_engine_that_is_no_package_has_none_to_miss() -> None:
    profile = Profile("p", engine=EngineSection("llamacpp", command=("/opt/llama-server",)))
    found = Found()
    assert not await check_install(Desk(None, profile=profile), {"package": ""}, found)  # type: ignore[arg-type]
    assert not found.drifts and found.unknown == {"install": "llamacpp is no package of an interpreter"}
