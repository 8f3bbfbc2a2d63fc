"""Launches inside of YAML: services of compose, containers of pods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.config.commands.imported import Imported, import_text
from console.config.commands.yaml_text import Listing, Scalar, Table, read_yaml
from console.domain.profile import Secret
from console.errors import UsageError

COMPOSE = """\
version: "3.8"
services:
  llm:   # two cards
    image: vllm/vllm-openai:${TAG:-latest}
    container_name: llm
    command: >
      --model org/m
      --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'
      --served-model-name a "b c"
    environment:
      NCCL_DEBUG: ${NCCL_DEBUG:-WARN}
      HF_TOKEN: ${HUB}
      PRICE: 5$$
    ports: ["8001:8000"]
    volumes:
    - cache:/root/.cache
    ipc: host
    ulimits: {memlock: -1}
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              device_ids: ["0", "1"]
              capabilities: [gpu]
    restart: unless-stopped
volumes:
  cache:
"""
POD = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: sgl
          image: lmsysorg/sglang:latest
          command: [python3, -m, sglang.launch_server]
          args:
            - --model-path
            - $(MODEL)
            - --host
            - $(POD_IP)
            - --json-model-override-args
            - '{"a": [1, 2]}'
            - --tp=2
          env:
            - {name: MODEL, value: /m x}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            - name: NCCL_DEBUG
              value: "INFO"
            - name: HF_TOKEN
              valueFrom: {secretKeyRef: {name: hub, key: token}}
"""


def warned(found: Imported) -> list[str]:
    return [note.sentence() for note in found.notes if note.severity == "warning"]


def test_a_service_of_compose_is_a_docker_run() -> None:
    found = import_text(COMPOSE, known={"TAG": "v0.11.0"})
    launch = found.profile.launch
    assert launch.args == {
        "model": "org/m",
        "speculative-config": '{"method": "mtp", "num_speculative_tokens": 2}',
        "served-model-name": ("a", "b c"),
    }
    assert launch.env == {"NCCL_DEBUG": "WARN", "HF_TOKEN": Secret("env", "HUB"), "PRICE": "5$"}
    assert (launch.via, launch.docker.image, launch.docker.name) == ("docker-run", "vllm/vllm-openai:v0.11.0", "llm")
    options = ["--ipc", "host", "-p", "8001:8000", "-v", "cache:/root/.cache", "--ulimit", "memlock=-1"]
    assert launch.docker.options == (*options, "--gpus", '"device=0,1"')
    assert launch.docker.entrypoint == "engine"
    assert warned(found) == ["line 4: -p 8001:8000: outside of the container the server is at port 8001"]


def test_a_container_of_a_pod_is_a_command_with_its_environment() -> None:
    found = import_text(POD)
    launch = found.profile.launch
    assert launch.args == {
        "model-path": "/m x", "host": "${POD_IP}", "json-model-override-args": '{"a": [1, 2]}', "tp": 2,
    }  # fmt: skip
    assert launch.env == {"MODEL": "/m x", "NCCL_DEBUG": "INFO", "HF_TOKEN": Secret("env")}
    assert [text.partition(":")[0] for text in warned(found)] == ["line 7", "line 14", "line 20"]


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ('command: ["/bin/sh", "-c"]\nargs: ["vllm serve m --hf-overrides \'{\\"a\\": 1}\'"]\n',
         {"model": "m", "hf-overrides": '{"a": 1}'}),
        ("containers:\n- command:\n  - bash\n  - -c\n  args:\n  - |\n    export A=1\n    vllm serve m \\\n      -tp 2\n\n    wait\n",
         {"model": "m", "tensor-parallel-size": 2}),
        ("services:\n  s:\n    image: x\n    entrypoint: python3 -m sglang.launch_server\n    command:\n      --model-path m\n"
         "      --tp 2  # two\n    network_mode: host # needed\n", {"model-path": "m", "tp": 2}),
        ("image: vllm/vllm-openai:v1\nargs: [--model, m, --port, 9]\n", {"model": "m"}),
        ("name: v\nimage: vllm/vllm-openai:v1\nargs:\n- --model=m\n- --max-num-seqs=\"4\"\n",
         {"model": "m", "max-num-seqs": '"4"'}),
        ("llm:\n  runtime: nvidia\n  image: vllm/vllm-openai:v1\n  command: --model m --max_num_seqs 4\n",
         {"model": "m", "max-num-seqs": 4}),
    ],
)  # fmt: skip
def test_ways_to_write_the_command_down(text: str, args: dict[str, object]) -> None:
    assert import_text(text).profile.launch.args == args


def test_several_containers_are_told_and_one_is_picked() -> None:
    text = "services:\n  p:\n    image: x\n    command: vllm serve a\n  d:\n    image: x\n    command: vllm serve b\n"
    assert import_text(text).launches == (3, 6)
    assert import_text(text, pick=2).profile.launch.args == {"model": "b"}


def test_yaml_without_a_launch_and_scripts_that_look_like_it() -> None:
    with pytest.raises(UsageError, match="nothing in it starts an engine"):
        import_text("services:\n  db:\n    image: postgres\n    command: postgres -c x=1\n")
    assert import_text("# command: see below\nvllm serve m\n").profile.launch.args == {"model": "m"}


def test_what_of_yaml_is_read() -> None:
    text = "a: &x !t 1\nb:\n- p: 'it''s'  # c\n  q: \"a\\tb\"\n- - 1\n  - {k: v, \"l\": 2}\nc: |-\n  one\n\n    two\nd: >\n  one\n  two\ne:\n"
    [found] = read_yaml(text)
    assert isinstance(found, Table)
    assert {key: value.text for key, value in found.items.items() if isinstance(value, Scalar)} == {
        "a": "1", "c": "one\n\n  two", "d": "one two", "e": "",
    }  # fmt: skip
    listing = found.items["b"]
    assert isinstance(listing, Listing) and isinstance(listing.items[0], Table)
    assert {key: value.text for key, value in listing.items[0].items.items() if isinstance(value, Scalar)} == {
        "p": "it's", "q": "a\tb",
    }  # fmt: skip


@given(st.text(st.sampled_from("ab:- \n\t#'\"[]{}|>&!,\\$("), max_size=80))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_yaml(text)
    try:
        import_text(f"services:\n x:\n  image: vllm/vllm-openai\n  command: --model m {text}\n{text}\nimage: {text}")
    except UsageError:
        return
