"""A tiny random Qwen2 model in a folder, made from nothing: `python tests/real_engine/model.py DIR`."""

from __future__ import annotations

import json
import random
import string
import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

VOCABULARY = 1024
LAYERS, HIDDEN, HEADS, KV_HEADS, INNER, CONTEXT = 2, 128, 2, 1, 256, 4096
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_model(folder: Path) -> Path:
    """Write configuration, tokenizer and weights; the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    _json(folder / "config.json", _config())
    _json(folder / "generation_config.json", {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0})
    _json(folder / "tokenizer.json", _tokenizer())
    _json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": SPECIALS[2],
            "pad_token": SPECIALS[0],
            "model_max_length": CONTEXT,
            "chat_template": TEMPLATE,
        },
    )
    _weights(folder / "model.safetensors")
    return folder


def _config() -> dict[str, object]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 0,
        "eos_token_id": 2,
        "use_cache": True,
        "initializer_range": 0.02,
    }


def _byte_letters() -> list[str]:
    """Return the letter that byte-level BPE writes for each of the 256 bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def byte_level_bpe() -> tuple[list[str], list[str], tuple[str, ...]]:
    """Return words, merges and special words: 3 specials, 256 bytes, 765 pairs of letters."""
    letters = _byte_letters()
    firsts = (letters[ord(" ")], *string.ascii_lowercase, *string.ascii_uppercase)
    pairs = [(first, second) for first in firsts for second in string.ascii_lowercase]
    merges = pairs[: VOCABULARY - len(SPECIALS) - len(letters)]
    words = [*SPECIALS, *letters, *(first + second for first, second in merges)]
    return words, [f"{first} {second}" for first, second in merges], SPECIALS


def _tokenizer() -> dict[str, object]:
    """Return a byte-level BPE as `tokenizer.json` has it."""
    words, merges, _ = byte_level_bpe()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": word, **special} for number, word in enumerate(SPECIALS)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": merges,
        },
    }


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    head = HIDDEN // HEADS
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{norm}.weight", (HIDDEN,)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield f"{at}.self_attn.{name}_proj.weight", (heads * head, HIDDEN)
            yield f"{at}.self_attn.{name}_proj.bias", (heads * head,)
        yield f"{at}.self_attn.o_proj.weight", (HIDDEN, HEADS * head)
        yield f"{at}.mlp.gate_proj.weight", (INNER, HIDDEN)
        yield f"{at}.mlp.up_proj.weight", (INNER, HIDDEN)
        yield f"{at}.mlp.down_proj.weight", (HIDDEN, INNER)


def _weights(path: Path) -> None:
    """Write safetensors: length of the header, header, numbers."""
    source = random.Random(0)
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    numbers = array("f")
    for name, shape in _shapes():
        began, count = 4 * len(numbers), 1
        for size in shape:
            count *= size
        numbers.extend(1.0 if "norm" in name else source.gauss(0.0, 0.02) for _ in range(count))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [began, 4 * len(numbers)]}
    if sys.byteorder == "big":
        numbers.byteswap()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + numbers.tobytes())


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))


if __name__ == "__main__":
    print(write_model(Path(sys.argv[1])))
