"""`runs` in a shell: the words of a run's identity and of an empty journal, and what a file's name asks for."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from console.cli.output import Output
from console.cli.verbs import runs
from console.errors import RefusedError, UsageError
from console.journal.book import Journal
from console.journal.records import RunEntry
from console.operations.run_words import git_words, side


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"commit": "b261bbc001a71d670745", "dirty": []}, "b261bbc001a7, clean"),
        ({"commit": "b261bbc001a71d670745", "dirty": ["a.py", "b.py"]}, "b261bbc001a7, changed: a.py, b.py"),
        (None, ""),
    ],
)
def test_the_git_state_of_a_run_is_told_in_words(kept: object, said: str) -> None:
    assert git_words(RunEntry("r", "h", "p", "sglang", 0.0, "", {"git": kept})) == said


def test_a_host_without_runs_is_not_told_as_a_filter_without_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    asked = {"host": ["blackwell"], "tag": [], "engine": "", "find": "", "sort": "newest"}
    assert asyncio.run(runs.list_runs(argparse.Namespace(**asked), None, Output(json=False))) == 1
    assert "blackwell: no run is in the journal yet" in capsys.readouterr().err
    assert asyncio.run(runs.list_runs(argparse.Namespace(**asked | {"find": "x"}), None, Output(json=False))) == 1
    assert "no run is like that" in capsys.readouterr().err


def test_a_name_that_asks_for_a_format_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no format is called \.pdf"):
        runs._format(argparse.Namespace(output="run.pdf", format=None, csv=False))
    assert runs._format(argparse.Namespace(output="run.pdf", format="svg", csv=False)) == "svg"
    assert runs._format(argparse.Namespace(output="run.svg", format=None, csv=False)) == "svg"
    assert runs._format(argparse.Namespace(output=None, format="md", csv=False)) == "markdown"


def test_a_refused_comparison_is_a_document_too_and_git_is_told_without_its_diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    git = {"commit": "b261bbc001a71d670745", "dirty": ["a.py"], "diff": "+secret line"}
    one = RunEntry("2026-12-03-1", "h", "p", "sglang", 1.0, "", {"git": git})
    asyncio.run(Journal().record_run(one))
    args = argparse.Namespace(a=one.id, b=one.id, host=[])
    with pytest.raises(RefusedError, match="nothing was measured"):
        asyncio.run(runs.compare_runs(args, None, Output(json=True)))
    told = json.loads(capsys.readouterr().out)
    assert (told["a"], told["a_host"], told["b_host"]) == (one.id, "h", "h")
    other = replace(one, id="2026-12-03-2", identity={"git": git, "patches_on": ["p"]})
    asyncio.run(Journal().record_run(other))
    with pytest.raises(RefusedError, match="nothing was measured"):
        asyncio.run(runs.compare_runs(argparse.Namespace(a=one.id, b=other.id, host=[]), None, Output()))
    assert capsys.readouterr().out.splitlines()[2:] == ["patches on: — → p"]
    assert "nothing was measured" in told["refused"] and told["concurrency"] == [] and told["plots"] == {}
    assert side(one, "git", git) == "b261bbc001a7, changed: a.py"
    assert side(one, "gpus", None) == "—" and side(one, "patches_on", []) == "none"


def test_a_list_is_found_by_words_in_any_order_and_knows_no_moment_that_nobody_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKWATT_DATA", str(tmp_path))
    for run in (RunEntry("r-1", "b", "GLM5", "vllm", 1.0), RunEntry("r-2", "a", "GLM5", "sglang", 0.0)):
        asyncio.run(Journal().record_run(run))

    def told(find: str, sort: str = "host") -> list[tuple[str, str | None]]:
        args = argparse.Namespace(host=[], tag=[], engine="", find=find, sort=sort)
        asyncio.run(runs.list_runs(args, None, Output(json=True)))
        return [(one["id"], one["started_at"]) for one in json.loads(capsys.readouterr().out)["runs"]]

    assert told("") == [("r-2", None), ("r-1", "1970-01-01T00:00:01+00:00")]
    assert [name for name, _ in told("vllm glm5")] == ["r-1"] and told("vllm sglang") == []
