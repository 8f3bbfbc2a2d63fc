"""Experiments made of differences: what may become an arm, what may not and why, and the file that comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.config.experiments import load_experiment
from console.domain.profile import EngineSection, LaunchSection, Profile, Secret
from console.errors import ConsoleError, RefusedError, UsageError
from console.experiments.arms import resolve
from console.journal.records import RunEntry
from console.operations import experiments_new
from console.operations.experiments import find_patch
from console.operations.experiments_new import Change, changes_of_profiles, changes_of_runs, write

ARGV = ("python3", "-m", "sglang.launch_server", "--model-path", "/m", "--port", "30000")


def run(
    name: str, *words: str, patches: tuple[str, ...] = (), env: dict[str, str] | None = None, profile: str = "as-found"
) -> RunEntry:
    identity = {"argv": [*ARGV, *words], "patches_on": list(patches), "environment": env or {}}
    return RunEntry(name, "blackwell", profile, "sglang", 0.0, identity=identity)


A = run(
    "1", "--max-running-requests", "64", "--mem-fraction-static", "0.90", "--lora-paths", "a", "b", patches=("old",)
)
B = run(
    "2",
    "--max-running-requests",
    "2048",
    "--mem-fraction-static",
    "0.92",
    "--disable-cuda-graph",
    patches=("new",),
    env={"NCCL_P2P_LEVEL": "SYS", "HF_TOKEN": "•••"},
)


def test_every_difference_that_can_be_asked_for_is_a_change() -> None:
    told = {one.key: one for one in changes_of_runs(A, B)}
    assert list(told) == [
        "--max-running-requests", "--mem-fraction-static", "--disable-cuda-graph", "--lora-paths",
        "$NCCL_P2P_LEVEL", "$HF_TOKEN", "patch new", "patch old",
    ]  # fmt: skip
    assert told["--max-running-requests"].words == "--max-running-requests 2048"
    assert told["--disable-cuda-graph"].words == "--disable-cuda-graph"
    assert told["--lora-paths"].words == "without --lora-paths" and told["--lora-paths"].arm == "no-lora-paths"
    assert told["$NCCL_P2P_LEVEL"].words == "NCCL_P2P_LEVEL=SYS"
    assert told["patch old"].words == "− patch old"
    assert told["$HF_TOKEN"].barred == "a secret"


def test_another_model_is_told_of_and_barred() -> None:
    other = run("3", "--model-path", "/other")
    assert [one.barred for one in changes_of_runs(run("1"), other)] == [
        "another model: its numbers would not be compared"
    ]


def test_a_variable_can_be_taken_away_on_screen_as_in_a_file(home: Path) -> None:
    found = changes_of_runs(run("1", env={"A": "1"}), run("2"))
    assert [(one.key, one.words, one.arm, one.barred) for one in found] == [("$A", "without $A", "no-A", "")]
    (home / "as-found.toml").write_text(
        'schema = 1\n[engine]\nkind = "sglang"\n[launch.args]\nmodel-path = "/m"\n[launch.env]\nA = "1"\n'
    )
    path = write(found, base=str(home / "as-found.toml"), title="Why", file="gone", hypotheses={"$A": "it slows"})
    spec = load_experiment(path)
    assert (spec.arms[0].env, spec.arms[0].unset_env) == ({}, ("A",))
    _, arm = resolve(spec, find_patch)
    assert (dict(arm.profile.launch.env), arm.profile.launch.unset) == ({}, ("A",))
    assert arm.changes == ("without $A",) and not arm.same_as


def test_what_a_profile_takes_away_of_the_login_becomes_an_arm_and_its_return_does_not() -> None:
    keeps = Profile("keeps", engine=EngineSection(), launch=LaunchSection())
    takes = Profile("takes", engine=EngineSection(), launch=LaunchSection(unset=("NCCL_DEBUG",)))
    (gone,) = changes_of_profiles(keeps, takes)
    assert (gone.words, gone.barred) == ("without $NCCL_DEBUG", "")
    (back,) = changes_of_profiles(takes, keeps)
    assert "what the host's login gives is not known" in back.barred


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "as-found.toml").write_text('schema = 1\n[engine]\nkind = "sglang"\n[launch.args]\nmodel-path = "/m"\n')
    return tmp_path


def test_the_picked_changes_become_arms_with_their_hypotheses(home: Path) -> None:
    path = write(
        changes_of_runs(A, B),
        base=str(home / "as-found.toml"),
        title="Why",
        file="why",
        concurrency=(256, 1024),
        only=("--mem-fraction-static", "patch new", "lora-paths", "$NCCL_P2P_LEVEL"),
        hypotheses={"--mem-fraction-static": "more KV cache", "all": "the whole of it"},
    )
    assert path.parent.parent == home / "config" / "tokwatt"
    spec = load_experiment(path)
    arms = {one.name: one for one in spec.arms}
    assert list(arms) == ["mem-fraction-static", "no-lora-paths", "NCCL_P2P_LEVEL", "new", "all"]
    assert arms["mem-fraction-static"].args == {"mem-fraction-static": 0.92}
    assert arms["mem-fraction-static"].hypothesis == "more KV cache" and arms["new"].hypothesis == ""
    assert arms["no-lora-paths"].unset == ("lora-paths",) and arms["new"].patches == ("new",)
    assert arms["NCCL_P2P_LEVEL"].env == {"NCCL_P2P_LEVEL": "SYS"}
    assert arms["all"].combine == tuple(list(arms)[:-1]) and arms["all"].hypothesis == "the whole of it"
    assert spec.bench.concurrency == (256, 1024)
    with pytest.raises(RefusedError, match="is there already"):
        write(changes_of_runs(A, B), base=str(home / "as-found.toml"), title="", file="why")


@pytest.mark.parametrize(("together", "names"), [("apart", ["x", "y"]), ("both", ["x", "y", "all"]), ("only", ["all"])])
def test_several_changes_apart_together_or_both(home: Path, together: str, names: list[str]) -> None:
    changes = (Change("args", "x", None, "1"), Change("args", "y", None, "2"))
    path = write(
        changes,
        base="as-found",
        title="",
        file=str(home / "t.toml"),
        together=together,
        hypotheses={"x": "quick", "y": "slow"},
    )
    spec = load_experiment(path)
    assert [one.name for one in spec.arms] == names
    if together == "only":
        assert spec.arms[0].args == {"x": 1, "y": 2} and spec.arms[0].hypothesis == "quick; slow"


def test_a_word_that_is_no_plain_number_stays_as_it_was_written(home: Path) -> None:
    changes = tuple(
        Change("args", name, None, value) for name, value in (("a", "0.90"), ("b", "nan"), ("c", "0o7"), ("d", "-3"))
    )
    path = write(changes, base="as-found", title="", file=str(home / "n.toml"), together="apart")
    assert [one.args for one in load_experiment(path).arms] == [{"a": "0.90"}, {"b": "nan"}, {"c": "0o7"}, {"d": -3}]


def test_what_is_not_there_or_barred_is_refused_with_its_name(home: Path) -> None:
    changes = changes_of_runs(A, B)
    with pytest.raises(UsageError, match="--max-runing-requests: is not among the differences") as fault:
        write(changes, base="as-found", title="", file="x", only=("--max-runing-requests",))
    assert "--max-running-requests" in fault.value.hint
    with pytest.raises(UsageError, match="no arm can be made of it"):
        write(changes, base="as-found", title="", file="x", only=("$HF_TOKEN",))
    with pytest.raises(ConsoleError, match="do not differ"):
        write((), base="as-found", title="", file="x")
    with pytest.raises(UsageError, match="no name for an experiment"):
        write(changes, base="as-found", title="", file="a b")


def test_an_arm_of_an_experiment_is_no_base(home: Path) -> None:
    with pytest.raises(RefusedError, match=r"launched from as-found\+wide"):
        experiments_new.base_of_run(run("9", profile="as-found+wide"))


def test_profiles_differ_in_what_they_ask_for(home: Path) -> None:
    a = Profile("a", engine=EngineSection("sglang"), launch=LaunchSection(args={"x": 1, "y": True}), patches_on=("p",))
    b = replace(
        a, launch=LaunchSection(args={"x": 2, "y": False}, env={"K": Secret("env", "K")}), patches_on=("p", "q")
    )
    told = {one.key: one for one in changes_of_profiles(a, b)}
    assert list(told) == ["--x", "--y", "$K", "patch q"] and told["--y"].after is None
    assert told["$K"].barred == "a secret"
    named = replace(a, name="as-found", path=str(home / "as-found.toml"))
    assert experiments_new.base_of(named) in ("as-found", str(home / "as-found.toml"))
