"""Field cases of kind c: launch commands as people paste them, with their right values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.config.commands.flags import settings
from console.config.commands.imported import Imported, import_text
from console.config.commands.notes import ERROR, WARNING
from console.errors import UsageError

DATA = Path(__file__).parents[2] / "data" / "commands"


def text_of(case: str) -> str:
    return (DATA / f"{case}.txt").read_text()


def labelled(case: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in text_of(case).splitlines())


def said(found: Imported, severity: str = "") -> list[str]:
    return [note.sentence() for note in found.notes if severity in ("", note.severity)]


def test_c01_environment_json_and_continuations() -> None:
    found = import_text(text_of("C01"))
    launch = found.profile.launch
    assert found.profile.engine.kind == "sglang"
    assert launch.env == {
        "SGLANG_USE_AITER_UNIFIED_ATTN": "1",
        "SGLANG_USE_AITER": "1",
        "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK": "128",
    }
    assert found.flags == 19
    assert (launch.port, len(launch.args)) == (9000, 18)
    assert [name for name, value in launch.args.items() if value is True] == [
        "enable-dp-attention", "trust-remote-code", "disable-radix-cache",
    ]  # fmt: skip
    assert launch.args["model-loader-extra-config"] == '{"enable_multithread_load": true}'
    assert launch.args["deepep-config"] == '{"normal_dispatch":{"num_sms":96},"normal_combine":{"num_sms":96}}'
    assert launch.args["cuda-graph-bs"] == (1, 2, 4, 8, 16)
    assert launch.args["mem-fraction-static"] == 0.9
    assert launch.args["speculative-num-draft-tokens"] == 4
    assert found.notes == ()


def test_c03_repeated_variables_and_flags_aliases_and_a_pipeline() -> None:
    found = import_text(text_of("C03"))
    launch = found.profile.launch
    assert launch.env == {"NCCL_IB_GID_INDEX": "3", "NCCL_DEBUG": "INFO"}
    assert launch.args == {
        "model-path": "/models/deepseek",
        "tp": 16,
        "dist-init-addr": "10.0.0.1:20000",
        "nnodes": 2,
        "node-rank": 0,
        "trust-remote-code": True,
        "mem-fraction-static": 0.85,
        "enable-metrics": True,
        "host": "0.0.0.0",
    }
    assert found.log == "api_serve.log"
    assert (found.nodes, found.node_rank) == (2, 0)
    warnings = said(found, WARNING)
    for expected in (
        "line 3: NCCL_DEBUG given twice: INFO counts",
        "line 8: --mem-frac is an abbreviation of --mem-fraction-static: written whole",
        "line 8: --mem-fraction-static given twice: 0.85 counts, not 0.8",
        "line 8: --enable-metrics given twice",
        "line 7: this is node 0 of 2: every other node needs a profile of its own, with its node-rank",
    ):
        assert expected in warnings
    assert any("2>&1 | tee api_serve.log is not kept" in note for note in said(found))


def test_c05_dotted_and_whole_json_are_the_same_settings() -> None:
    dotted, whole = (import_text(part) for part in text_of("C05").split("---\n"))
    expected = {
        "model": "zai-org/GLM-5.3",
        "kv-cache-dtype": "fp8",
        "tensor-parallel-size": 8,
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 5},
        "compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY", "pass_config": {"fuse_act_padding": True}},
    }
    assert dotted.profile.launch.args == expected
    assert settings(dotted.profile.launch.args) == settings(whole.profile.launch.args) == expected
    assert not said(dotted, WARNING) and not said(whole, WARNING)


def test_c05_both_spellings_at_once_are_told() -> None:
    found = import_text(
        """vllm serve m --speculative-config '{"method": "mtp"}' --speculative-config.num_speculative_tokens 5"""
    )
    assert found.profile.launch.args["speculative-config"] == {"method": "mtp", "num_speculative_tokens": 5}
    assert said(found, WARNING) == [
        "line 1: --speculative-config is given whole and in parts: the parts are laid over the whole"
    ]


def test_c06_a_value_in_literal_quotes() -> None:
    found = import_text(labelled("C06")["A"])
    assert found.profile.launch.args["speculative-config"] == """'{"method":"mtp","num_speculative_tokens":2}'"""
    [note] = [note for note in found.notes if note.severity == WARNING]
    assert "wrapped in literal quotes" in note.text
    assert (note.key, note.offer) == ("speculative-config", '{"method":"mtp","num_speculative_tokens":2}')
    repaired = import_text(labelled("C06")["A"], repair=True)
    assert repaired.profile.launch.args["speculative-config"] == note.offer


def test_c06_b_backslashes_are_fine() -> None:
    found = import_text(labelled("C06")["B"])
    assert found.profile.launch.args["speculative-config"] == '{"method":"qwen3_next_mtp","num_speculative_tokens":2}'
    assert not said(found, WARNING) and not found.wrong


@pytest.mark.parametrize(
    ("label", "flag", "arguments", "meant"),
    [
        ("C", "compilation-config", 2, '{"cudagraph_mode":"FULL_AND_PIECEWISE", "custom_ops":["all"]}'),
        ("F", "rope-scaling", 3, '{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}'),
    ],
)
def test_c06_quotes_that_the_shell_takes(label: str, flag: str, arguments: int, meant: str) -> None:
    found = import_text(labelled("C06")[label])
    [note] = found.wrong
    assert (note.severity, note.key, note.offer) == (ERROR, flag, f"'{meant}'")
    assert f"in {arguments} arguments" in note.text
    repaired = import_text(labelled("C06")[label], repair=True)
    assert (repaired.profile.launch.args[flag], repaired.wrong) == (meant, ())


def test_c06_d_a_python_literal() -> None:
    found = import_text(labelled("C06")["D"])
    [note] = [note for note in found.notes if note.severity == WARNING]
    assert "Python literal, not JSON" in note.text
    assert json.loads(note.offer) == {"cudagraph_capture_sizes": [1, 2, 4, 8]}


def test_c06_e_a_variable_that_nobody_fills_in() -> None:
    found = import_text(labelled("C06")["E"])
    value = found.profile.launch.args["kv-transfer-config"]
    assert value == '{"kv_role": "kv_consumer", "engine_id": "$ENGINE_ID"}'
    assert said(found, WARNING) == [
        "line 1: --kv-transfer-config: $ENGINE_ID stays as it is inside single quotes; no shell fills it in"
    ]


def test_c06_f_is_a_flag_of_old_versions() -> None:
    found = import_text(labelled("C06")["F"], repair=True)
    assert said(found, WARNING) == [
        "line 1: --rope-scaling is gone from present versions of vllm; instead: --hf-overrides"
    ]


def test_c06_f_is_intact_where_no_shell_reads_it() -> None:
    found = import_text(labelled("C06")["F"], shell=False)
    value = found.profile.launch.args["rope-scaling"]
    assert value == '{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}'
    assert not found.wrong


def test_c06_g_is_kept_byte_for_byte() -> None:
    found = import_text(labelled("C06")["G"])
    assert found.profile.launch.args["hf-overrides"] == '{"rope_scaling": {"rope_type":"yarn","factor":4.0}}'
    assert not said(found, WARNING)


def test_c08_a_background_job_with_exports_and_an_unset() -> None:
    found = import_text(text_of("C08"))
    launch = found.profile.launch
    assert launch.env == {
        "http_proxy": "",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "MC_TE_METRIC": "true",
        "NCCL_SOCKET_IFNAME": "eth0",
        "SGLANG_TBO_DEBUG": "1",
        "PYTHONUNBUFFERED": "1",
    }
    assert launch.unset == ("VLLM_PLUGINS",)
    assert (found.flags, found.log, found.role, found.nodes, found.node_rank) == (13, "p0.log", "prefill", 2, 0)
    assert launch.args["init-expert-location"] == "/configs/prefill_in1024.json"
    assert any("nohup is not kept" in note for note in said(found))
    [mistake] = [note for note in found.notes if note.line == 5]
    assert mistake.severity == WARNING and "starts nothing" in mistake.text
    meant = "CUDA_VISIBLE_DEVICES=0 vllm serve /data0/data/Qwen3-8B/ --gpu-memory-utilization 0.7"
    assert mistake.offer == meant


def test_c08_an_export_that_swallows_the_launch_is_not_imported_until_told() -> None:
    line = text_of("C08").splitlines()[4]
    with pytest.raises(UsageError, match="nothing in it starts an engine") as caught:
        import_text(line)
    assert "CUDA_VISIBLE_DEVICES=0 vllm serve" in caught.value.hint
    found = import_text(line, repair=True)
    assert found.profile.launch.env == {"CUDA_VISIBLE_DEVICES": "0"}
    assert found.profile.launch.args == {"model": "/data0/data/Qwen3-8B/", "gpu-memory-utilization": 0.7}


def test_c09_a_script_with_variables_arrays_and_a_missing_backslash() -> None:
    found = import_text(text_of("C09"))
    assert dict(found.profile.launch.args) == {
        "trust-remote-code": True,
        "model-path": "/models/Qwen3-Next",
        "tp-size": 8,
        "mem-fraction-static": 0.9,
        "enable-metrics": True,
        "log-level": "info",
        "speculative-algorithm": "NGRAM",
        "attention-backend": "fa3",
    }
    assert found.profile.launch.env == {}
    [lost] = [note for note in found.notes if note.severity == WARNING]
    assert (lost.line, lost.offer) == (14, "--speculative-batch-size-threshold 64")
    assert "line 13 ends without a backslash; not included" in lost.text
    assert "line 10: pkill -9 python: not kept, and nothing of it was run" in said(found)
    joined = import_text(text_of("C09"), repair=True)
    assert joined.profile.launch.args["speculative-batch-size-threshold"] == 64


def test_labels_in_front_of_commands_are_no_part_of_them() -> None:
    """C06 as one file: a table with a label, a tab and a command a line."""
    text = (DATA / "C06.txt").read_text()
    picked = [import_text(text, pick=number) for number in range(1, 8)]
    assert [found.profile.launch.args["model"] for found in picked] == ["m"] * 7
    wrong = [number for number, found in enumerate(picked, 1) if any(n.key for n in found.wrong)]
    assert wrong == [3, 6]
    assert picked[6].profile.launch.args["hf-overrides"] == '{"rope_scaling": {"rope_type":"yarn","factor":4.0}}'
