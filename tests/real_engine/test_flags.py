"""What is read from an engine's source, and what is said of abbreviations, held against its own parser."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from console.domain.profile import EngineSection, LaunchSection, Profile
from console.engines import flags
from console.engines.registry import engine
from console.operations.install_flags import READ
from tests.real_engine.conftest import SHIMS, SHIMS_VLLM, python_of

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(300)]

PROBE = """
def begins(parser):
    found = {}
    for action in parser._actions:
        for name in action.option_strings:
            for end in range(4, len(name)):
                if name[:end] not in parser._option_string_actions:
                    found[name[:end]] = [meant[1] for meant in parser._get_option_tuples(name[:end])]
    print("\\nBEGINS " + json.dumps(found))
plainly = tell
def tell(parser):
    begins(parser)
    plainly(parser)
"""
"""Lets the parser say, too, which flags each beginning of a flag could mean."""


def line_of(output: str, mark: str) -> str:
    return next(line.removeprefix(mark) for line in output.splitlines() if line.startswith(mark))


def asked(kind: str, shims: Path) -> tuple[Mapping[str, flags.Flag], dict[str, list[str]], dict[str, bytes]]:
    """Return the parser's flags, what it takes beginnings for, and the sources."""
    python = str(python_of(kind))
    *words, code = engine(kind).help_command(Profile("x", engine=EngineSection(kind, python=python)))
    assert flags.TELL in code
    told = subprocess.run(
        [*words, code.replace(flags.TELL, flags.TELL + PROBE)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(shims)},
    ).stdout  # fmt: skip
    [folder] = Path(python).parents[1].glob(f"lib/python3*/site-packages/{kind}")
    read = subprocess.run(
        [python, "-c", READ, str(folder), *engine(kind).flag_sources()], capture_output=True, check=True
    )
    sources = {name: text.encode() for name, text in json.loads(read.stdout).items()}
    return flags.told(told), json.loads(line_of(told, "BEGINS ")), sources


@pytest.mark.parametrize(("kind", "shims"), [("sglang", SHIMS), ("vllm", SHIMS_VLLM)])
def test_source_and_parser_agree(kind: str, shims: Path) -> None:
    parser, beginnings, sources = asked(kind, shims)
    read = engine(kind).flags_in_source(sources)
    assert set(read) - {"model-tag"} == set(parser) - {"help"}
    shared = [(parser[name], read[name]) for name in sorted(set(read) & set(parser))]
    assert [(one.name, one.switch, one.same_as) for one, _ in shared] == [
        (two.name, two.switch, two.same_as) for _, two in shared
    ]
    narrower = [one.name for one, two in shared if two.choices and not {*one.choices} - {"None"} <= {*two.choices}]
    single = [one.name for one, two in shared if one.several and not two.several]
    numbers = [one.name for one, two in shared if two.type in ("int", "float") and one.type not in ("", two.type)]
    assert (narrower, single, numbers) == ([], [], []), "nothing is refused that the parser takes"
    meant = {name: said(kind, name.removeprefix("--"), parser) for name in beginnings}
    wrong = {name: (meant[name], each) for name, each in beginnings.items() if meant[name] != word_for(each)}
    assert len(beginnings) > 4000 and {*wrong} <= {"--cuda-graph-bs", "--cuda-graph-max-bs"}, "whose new names are told"


def word_for(each: list[str]) -> str:
    return "is an abbreviation" if len(each) == 1 else "is ambiguous" if each else "is not a flag of this install"


def said(kind: str, name: str, known: Mapping[str, Any]) -> str:
    faults = engine(kind).check(Profile("x", launch=LaunchSection(args={name: "1"})), known)
    return faults[0].what.partition(":")[0]
