"""The flags that an installed SGLang knows: asked of it, or read from its source in any of its three shapes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from console.domain.profile import ArgValue
from console.engines import declared
from console.engines.flags import FEWEST, TELL, Flag, FlagFault, Habits, deprecation, spelled
from console.engines.flags import check as check_flags

SOURCE = "srt/server_args.py"
SOURCES = (SOURCE, "srt/arg_groups/fields/*.py", "srt/arg_groups/choices.py")
"""Relative to the package. Calls of `add_argument` up to 0.5.13, fields of one class up to 0.5.18, of many since."""

ASK = f"""{TELL}
import argparse
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
tell(parser)
"""

_BACKEND = "write moe-runner-backend"
RENAMED = {
    "enable-flashinfer-mla": 'write attention-backend = "flashinfer"',
    "enable-flashmla": 'write attention-backend = "flashmla"',
    "enable-ep-moe": "write ep-size",
    "enable-deepep-moe": 'write moe-a2a-backend = "deepep"',
    "enable-flashinfer-cutlass-moe": f'{_BACKEND} = "flashinfer_cutlass"',
    "enable-flashinfer-trtllm-moe": f'{_BACKEND} = "flashinfer_trtllm"',
    "enable-flashinfer-mxfp4-moe": f'{_BACKEND} = "flashinfer_mxfp4"',
    "enable-flashinfer-cutedsl-moe": f'{_BACKEND} = "flashinfer_cutedsl"',
    "enable-triton-kernel-moe": f'{_BACKEND} = "triton_kernel"',
    "enable-flashinfer-autotune": "it is on without a flag; disable-flashinfer-autotune turns it off",
    "disable-flashinfer-autotune": "this version tunes only with enable-flashinfer-autotune",
    "enable-flashinfer-allreduce-fusion": 'write flashinfer-allreduce-fusion-backend = "auto"',
    "flashinfer-allreduce-fusion-backend": "write enable-flashinfer-allreduce-fusion",
    "cuda-graph-bs": "write cuda-graph-bs-decode",
    "cuda-graph-max-bs": "write cuda-graph-max-bs-decode",
    "cuda-graph-bs-decode": "write cuda-graph-bs",
    "cuda-graph-max-bs-decode": "write cuda-graph-max-bs",
    "disable-piecewise-cuda-graph": 'write cuda-graph-backend-prefill = "disabled"',
    "enable-piecewise-cuda-graph": "it is on without a flag",
    "piecewise-cuda-graph-max-tokens": "write cuda-graph-max-bs-prefill",
    "nsa-prefill-backend": "write dsa-prefill-backend",
    "nsa-decode-backend": "write dsa-decode-backend",
    "hybrid-kvcache-ratio": "write swa-full-tokens-ratio",
    "stream-output": "it is on without a flag",
    "torchao-config": "it is gone; write quantization",
    "enable-dp-attention": "write attn-dp-size",
}
"""Flags of other versions than the one at hand, older or newer, and what does the same there."""

HABITS = Habits(renamed=RENAMED)


def flags_of(source: bytes | Mapping[str, bytes]) -> Mapping[str, Flag]:
    """Return every flag that the source declares, without `--`; empty when its shape is unknown."""
    modules = declared.trees({SOURCE: source} if isinstance(source, bytes) else source)
    lists = declared.constant_lists(modules.values())
    found: dict[str, Flag] = {}
    for tree in modules.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for field in node.body:
                    found.update(_of_field(field, lists))
        for call in declared.add_argument_calls(tree):
            found.update(declared.of_call(call, lists))
    return found if len(found) >= FEWEST else {}


def check(args: Mapping[str, ArgValue], known: Mapping[str, Flag]) -> tuple[FlagFault, ...]:
    """Return what is wrong with the arguments of a profile, as the install's parser would say."""
    usable = {name: instead for name, instead in RENAMED.items() if _is_known(instead, known)}
    return check_flags(args, known, replace(HABITS, renamed=usable))


faults = check


def _is_known(instead: str, known: Mapping[str, Flag]) -> bool:
    """Whether what a hint wants written is a flag of the install."""
    word = instead.removeprefix("write ").split(" ")[0] if instead.startswith("write ") else ""
    return not word or word in known


def _of_field(node: ast.stmt, lists: Mapping[str, tuple[str, ...]]) -> dict[str, Flag]:
    """Return the flag of a field annotated `A[type, "help" or Arg(…)]`."""
    if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
        return {}
    noted = node.annotation
    if not (isinstance(noted, ast.Subscript) and declared.name_of(noted.value) in ("A", "Annotated")):
        return {}
    if not isinstance(noted.slice, ast.Tuple) or len(noted.slice.elts) < 2:
        return {}
    kind, *notes = noted.slice.elts
    options: dict[str, ast.expr] = {}
    for note in notes:
        if isinstance(note, ast.Call):
            if declared.name_of(note.func) == "Derived":
                return {}
            if declared.name_of(note.func) == "Arg":
                options = {keyword.arg: keyword.value for keyword in note.keywords if keyword.arg}
    if _is_true(options.get("no_cli")):
        return {}
    name = declared.text_of(options.get("cli_name")) or node.target.id
    flag = replace(_flag(kind, options, lists), deprecated=deprecation(_help(notes, options)))
    names = [f"--{name.lstrip('-').replace('_', '-')}", *declared.words_of(options.get("aliases"), lists)]
    return spelled(names, flag, paired=_verb(options) == "BooleanOptionalAction")


def _flag(kind: ast.expr, options: Mapping[str, ast.expr], lists: Mapping[str, tuple[str, ...]]) -> Flag:
    flag = declared.kind_of(kind, lists)
    if "choices" in options:
        flag = replace(flag, choices=declared.words_of(options["choices"], lists))
    if "type_parser" in options:
        flag = replace(flag, type="")
    nargs = options.get("nargs")
    if isinstance(nargs, ast.Constant) and nargs.value is not None:
        count = nargs.value
        flag = replace(
            flag,
            several=count in ("+", "*") or isinstance(count, int),
            optional=count in ("?", "*"),
            switch=count == 0,
        )
    if verb := _verb(options):
        taking = verb not in ("BooleanOptionalAction", "store_true", "store_false") and "StoreTrue" not in verb
        flag = replace(flag, switch=(flag.switch and not taking) or not taking, type="" if taking else flag.type)
    return flag


def _help(notes: Sequence[ast.expr], options: Mapping[str, ast.expr]) -> str:
    return declared.text_of(options.get("help")) or next(filter(None, map(declared.text_of, notes)), "")


def _verb(options: Mapping[str, ast.expr]) -> str:
    action = options.get("action")
    return declared.text_of(action) or declared.name_of(action)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True
