from __future__ import annotations

import argparse

from console.cli.main import parser
from console.operations.catalogue import BY_ID, VERBS
from console.ui.actions import ACTIONS, LASTING
from console.ui.app import TokwattApp
from console.ui.panes.log import LogPane
from console.ui.panes.patches import PatchesPane
from console.ui.panes.source import SourcePane
from console.ui.screens.cockpit import CockpitScreen

PANES = {"source": SourcePane, "patches": PatchesPane, "log": LogPane}


def _verbs(parser: argparse.ArgumentParser, before: str = "") -> set[str]:
    found: set[str] = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found.add(f"{before}{name}")
                found |= _verbs(below, f"{before}{name} ")
    return found


def test_every_key_has_a_subcommand_that_exists() -> None:
    known = _verbs(parser())
    assert {cli for verb in VERBS for cli in verb.cli} <= known


def test_ids_and_keys_are_unique_where_they_work() -> None:
    assert len(BY_ID) == len(VERBS)
    for pane in ("source", "patches", "log"):
        keys = [key for verb in VERBS if verb.where in ("", pane) for key in verb.keys]
        assert len(keys) == len(set(keys)), pane


def test_every_verb_is_bound_and_does_something() -> None:
    bound = {binding.key: binding.action for binding in map(_binding, CockpitScreen.BINDINGS)}
    for verb in VERBS:
        if verb.where:
            assert hasattr(PANES[verb.where], f"action_{verb.id}") or verb.keys == ("enter",), verb.id
        elif verb.keys:
            assert bound[",".join(verb.keys)] == f"app.act('{verb.id}')"
        else:
            assert verb.id in ACTIONS
    assert set(ACTIONS) >= LASTING
    assert set(ACTIONS) <= set(BY_ID)
    assert TokwattApp.ENABLE_COMMAND_PALETTE is False


def _binding(binding: object) -> argparse.Namespace:
    return argparse.Namespace(key=binding.key, action=binding.action)  # type: ignore[attr-defined]
