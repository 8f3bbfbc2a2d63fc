"""The flags that an installed vLLM knows: asked of it, or read from its configuration classes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace

from console.domain.profile import ArgValue
from console.engines import declared
from console.engines.flags import FEWEST, TELL, Flag, FlagFault, Habits, spelled
from console.engines.flags import check as check_flags

SOURCES = (
    "engine/arg_utils.py",
    "entrypoints/*/cli_args.py",
    "entrypoints/cli/serve.py",
    "config/*.py",
)
"""Relative to the package; the frontend's flags stood below `openai` in 0.11, `launchers` in 0.32, `common` in 0.33."""

ASK = f"""{TELL}
from importlib import import_module
from importlib.util import find_spec
homes = [f"vllm.entrypoints.{{home}}" for home in ("openai", "launchers", "common")]
home = next(each for each in homes if find_spec(each) and find_spec(each + ".cli_args"))
make_arg_parser = import_module(home + ".cli_args").make_arg_parser
try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser
tell(make_arg_parser(FlexibleArgumentParser()))
"""

RENAMED = {
    "task": "write runner (and convert)",
    "disable-log-requests": "requests are not logged without enable-log-requests",
    "enable-log-requests": "write disable-log-requests to turn it off; it is on",
    "rope-scaling": "write hf-overrides = { rope_scaling = … }",
    "rope-theta": "write hf-overrides = { rope_theta = … }",
    "guided-decoding-backend": "write structured-outputs-config = { backend = … }",
    "cuda-graph-sizes": "write cudagraph-capture-sizes",
    "max-seq-len-to-capture": "write max-cudagraph-capture-size",
    "override-pooler-config": "write pooler-config",
    "use-v2-block-manager": "it is gone: there is only this one",
    "num-scheduler-steps": "it is gone; async-scheduling does what it was for",
    "swap-space": "it is gone: nothing is swapped any more",
    "enable-reasoning": "write reasoning-parser",
    "full-cuda-graph": 'write compilation-config = { cudagraph_mode = "FULL" }',
    "speculative-model": "write speculative-config = { model = … }",
    "num-speculative-tokens": "write speculative-config = { num_speculative_tokens = … }",
    "log-config-file": "write logging-config.pylogging_config_file",
}
"""Flags of other versions than the one at hand, and what does the same there."""

HABITS = Habits(underscores=True, dotted=True, renamed=RENAMED)
ALWAYS = {name: Flag(name, type="str", same_as="model") for name in ("model", "model-tag")}
"""Stands without a flag, so that neither help nor parser has it."""


def flags_of(sources: Mapping[str, bytes]) -> Mapping[str, Flag]:
    """Return every flag that the source declares, without `--`; empty when its shape is unknown."""
    modules = declared.trees(sources)
    lists = declared.constant_lists(modules.values())
    fields = _fields(modules.values(), lists)
    found: dict[str, Flag] = {}
    for tree in modules.values():
        classes = _classes_behind(tree)
        for call in declared.add_argument_calls(tree):
            found.update(_of_call(call, classes, fields, lists))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
                for name, flag in fields[node.name].items():
                    found.update(spelled([f"--{name.replace('_', '-')}"], flag, paired=flag.switch))
    return {**ALWAYS, **found} if len(found) >= FEWEST else {}


def check(args: Mapping[str, ArgValue], known: Mapping[str, Flag]) -> tuple[FlagFault, ...]:
    """Return what is wrong with the arguments of a profile, as the install's parser would say."""
    return check_flags(args, {**ALWAYS, **known}, HABITS) if known else ()


def _fields(modules: Iterable[ast.Module], lists: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, Flag]]:
    """Return the fields of every class, by its name."""
    found: dict[str, dict[str, Flag]] = {}
    for tree in modules:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                here = found.setdefault(node.name, {})
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        here[field.target.id] = declared.kind_of(field.annotation, lists)
    return found


def _classes_behind(tree: ast.Module) -> dict[str, str]:
    """Return the class whose fields stand behind each variable: `model_kwargs = get_kwargs(ModelConfig)`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            call = node.value
            if declared.name_of(call.func) == "get_kwargs" and call.args:
                found[node.targets[0].id] = declared.name_of(call.args[0])
    return found


def _of_call(
    call: ast.Call,
    classes: Mapping[str, str],
    fields: Mapping[str, Mapping[str, Flag]],
    lists: Mapping[str, tuple[str, ...]],
) -> dict[str, Flag]:
    """Return the flag of a call whose options may come from a field: `**model_kwargs["dtype"]`."""
    plain = declared.of_call(call, lists)
    spread = next((keyword.value for keyword in call.keywords if keyword.arg is None), None)
    if isinstance(spread, ast.Dict):  # {**kwargs["x"], "default": None}
        spread = next((value for key, value in zip(spread.keys, spread.values, strict=True) if key is None), None)
    if not isinstance(spread, ast.Subscript):
        return plain
    names = [text for arg in call.args if (text := declared.text_of(arg)).startswith("-")]
    field = declared.text_of(spread.slice)
    flag = fields.get(classes.get(declared.name_of(spread.value), ""), {}).get(field, Flag(""))
    first = next(iter(plain.values()), Flag(""))
    flag = replace(flag, deprecated=first.deprecated, choices=flag.choices or first.choices)
    return spelled(names, flag, paired=flag.switch)
