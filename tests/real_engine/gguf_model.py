"""A tiny random Llama as one GGUF file, made from nothing: `python tests/real_engine/gguf_model.py FILE`."""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.real_engine.model import TEMPLATE, byte_level_bpe

CONTEXT = 2048
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
F32, ALIGNMENT = 0, 32
NORMAL, CONTROL = 1, 3
"""Types of tokens."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the model is."""

    layers: int = 2
    hidden: int = 64
    heads: int = 2
    inner: int = 128


TINY = Shape()


def write_gguf(path: Path, shape: Shape = TINY) -> Path:
    """Write header, tokenizer and weights; the same bytes each time."""
    words, merges, specials = byte_level_bpe()
    keys = [
        _text("general.architecture", "llama"),
        _text("general.name", "tiny"),
        _number("llama.context_length", CONTEXT),
        _number("llama.embedding_length", shape.hidden),
        _number("llama.block_count", shape.layers),
        _number("llama.feed_forward_length", shape.inner),
        _number("llama.attention.head_count", shape.heads),
        _number("llama.attention.head_count_kv", shape.heads),
        _number("llama.rope.dimension_count", shape.hidden // shape.heads),
        _key("llama.attention.layer_norm_rms_epsilon", FLOAT32) + struct.pack("<f", 1e-5),
        _text("tokenizer.ggml.model", "gpt2"),
        _text("tokenizer.ggml.pre", "default"),
        _texts("tokenizer.ggml.tokens", words),
        _numbers("tokenizer.ggml.token_type", [CONTROL if word in specials else NORMAL for word in words]),
        _texts("tokenizer.ggml.merges", merges),
        _number("tokenizer.ggml.bos_token_id", 0),
        _number("tokenizer.ggml.eos_token_id", 2),
        _text("tokenizer.chat_template", TEMPLATE),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = list(_tensors(len(words), shape))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    source, data = random.Random(0), bytearray()
    for name, sides in tensors:
        head += _string(name) + struct.pack("<I", len(sides)) + struct.pack(f"<{len(sides)}Q", *sides)
        head += struct.pack("<IQ", F32, len(data))
        count = sides[0] * (sides[1] if len(sides) > 1 else 1)
        weights = array("f", (1.0 if "norm" in name else source.gauss(0.0, 0.02) for _ in range(count)))
        if sys.byteorder == "big":
            weights.byteswap()
        data += _padded(weights.tobytes())
    path.write_bytes(_padded(head) + bytes(data))
    return path


def _tensors(vocabulary: int, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = shape.hidden, shape.inner
    yield "token_embd.weight", (hidden, vocabulary)
    yield "output_norm.weight", (hidden,)
    yield "output.weight", (hidden, vocabulary)
    for layer in range(shape.layers):
        at = f"blk.{layer}"
        for name in ("attn_norm", "ffn_norm"):
            yield f"{at}.{name}.weight", (hidden,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{at}.{name}.weight", (hidden, hidden)
        for name in ("ffn_gate", "ffn_up"):
            yield f"{at}.{name}.weight", (hidden, inner)
        yield f"{at}.ffn_down.weight", (inner, hidden)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _key(name: str, kind: int) -> bytes:
    return _string(name) + struct.pack("<I", kind)


def _number(name: str, value: int) -> bytes:
    return _key(name, UINT32) + struct.pack("<I", value)


def _text(name: str, value: str) -> bytes:
    return _key(name, STRING) + _string(value)


def _texts(name: str, values: Sequence[str]) -> bytes:
    return _key(name, ARRAY) + struct.pack("<IQ", STRING, len(values)) + b"".join(map(_string, values))


def _numbers(name: str, values: Sequence[int]) -> bytes:
    return _key(name, ARRAY) + struct.pack(f"<IQ{len(values)}i", INT32, len(values), *values)


if __name__ == "__main__":
    print(write_gguf(Path(sys.argv[1])))
