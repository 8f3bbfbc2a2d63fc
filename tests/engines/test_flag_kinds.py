"""What a flag takes, as source and parser say it."""

from __future__ import annotations

import ast

import pytest

from console.domain.profile import LaunchSection, Profile
from console.engines.declared import kind_of, of_call
from console.engines.flags import Flag, with_types
from console.engines.registry import engine


@pytest.mark.parametrize(
    ("annotation", "several", "kind"),
    [
        ("list[int]", True, "int"),
        ("set[str]", True, "str"),
        ("Sequence[str] | None", True, "str"),
        ("int | None", False, "int"),
        ("dict[str, int]", False, "json"),
    ],
)
def test_collections_take_several_values(annotation: str, several: bool, kind: str) -> None:
    flag = kind_of(ast.parse(annotation, mode="eval").body, {})
    assert (flag.several, flag.type) == (several, kind)


@pytest.mark.parametrize(("action", "switch"), [("DeprecatedAction", True), ("StoreTrue", True), ("StoreOne", False)])
def test_an_action_of_the_engines_own_may_take_no_value(action: str, switch: bool) -> None:
    """SGLang 0.5.9: `--prefill-round-robin-balance`."""
    call = ast.parse(f"add('--x', action={action}, help='Note: --x is deprecated now.')", mode="eval").body
    assert isinstance(call, ast.Call)
    assert of_call(call, {})["x"].switch is switch


def test_a_number_whose_parser_does_not_say_so_is_one_all_the_same() -> None:
    asked = {"max-model-len": Flag("max-model-len"), "port": Flag("port", type="int"), "x": Flag("x")}
    read = {"max-model-len": Flag("max-model-len", type="int"), "x": Flag("x", type="json")}
    known = with_types(asked, read)
    assert {name: flag.type for name, flag in known.items()} == {"max-model-len": "int", "port": "int", "x": ""}

    def faults(value: str) -> list[str]:
        launch = LaunchSection(args={"max-model-len": value})
        return [fault.what for fault in engine("vllm").check(Profile("p", launch=launch), known)]

    assert (faults("lots"), faults("32k"), faults("None")) == (["cannot be 'lots'"], [], [])
