"""A tiny random Llama as one GGUF file, made from nothing: `python tests/real_engine/gguf_model.py FILE`."""

from __future__ import annotations

import random
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.real_engine.model import TEMPLATE, byte_level_bpe

LAYERS, HIDDEN, HEADS, INNER, CONTEXT = 2, 64, 2, 128, 2048
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
F32, ALIGNMENT = 0, 32
NORMAL, CONTROL = 1, 3
"""Types of tokens."""


def write_gguf(path: Path) -> Path:
    """Write header, tokenizer and weights; the same bytes each time."""
    words, merges, specials = byte_level_bpe()
    keys = [
        _text("general.architecture", "llama"),
        _text("general.name", "tiny"),
        _number("llama.context_length", CONTEXT),
        _number("llama.embedding_length", HIDDEN),
        _number("llama.block_count", LAYERS),
        _number("llama.feed_forward_length", INNER),
        _number("llama.attention.head_count", HEADS),
        _number("llama.attention.head_count_kv", HEADS),
        _number("llama.rope.dimension_count", HIDDEN // HEADS),
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
    tensors = list(_tensors(len(words)))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    source, data = random.Random(0), bytearray()
    for name, shape in tensors:
        head += _string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", F32, len(data))
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        weights = array("f", (1.0 if "norm" in name else source.gauss(0.0, 0.02) for _ in range(count)))
        if sys.byteorder == "big":
            weights.byteswap()
        data += _padded(weights.tobytes())
    path.write_bytes(_padded(head) + bytes(data))
    return path


def _tensors(vocabulary: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd.weight", (HIDDEN, vocabulary)
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (HIDDEN, vocabulary)
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        for name in ("attn_norm", "ffn_norm"):
            yield f"{at}.{name}.weight", (HIDDEN,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{at}.{name}.weight", (HIDDEN, HIDDEN)
        for name in ("ffn_gate", "ffn_up"):
            yield f"{at}.{name}.weight", (HIDDEN, INNER)
        yield f"{at}.ffn_down.weight", (INNER, HIDDEN)


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
