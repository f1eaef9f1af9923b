"""The shipped model as a GGUF file, which llama.cpp reads: python to_gguf.py MODEL_FOLDER FILE

Runs in the environment of llama.cpp, with the package gguf. The weights are written as float32. The
way in which the tokenizer cuts a text before it encodes it is unknown to llama.cpp; that of GPT-2
comes close, so a few prompts have other tokens than elsewhere.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

NAMES = {
    "input_layernorm": "attn_norm",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.k_proj": "attn_k",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_proj": "attn_q",
    "self_attn.v_proj": "attn_v",
}
NORMAL, CONTROL = 1, 3


def tensors(file: Path) -> dict[str, Any]:
    """The arrays of a file of safetensors in bfloat16, as float32."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, about in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in about["data_offsets"])
            halves = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            found[name] = halves.view(np.float32).reshape(about["shape"])
    return found


def interleaved(weight: Any, heads: int) -> Any:
    """Rows of a projection in the order in which llama.cpp rotates them."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def main(folder: Path, out: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    writer = gguf.GGUFWriter(str(out), "llama")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])
    special = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **special}
    tokens = sorted(ids, key=lambda token: ids[token])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if token in special else NORMAL for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    for name, weight in tensors(folder / "model.safetensors").items():
        _, _, rest = name.partition("model.")
        if rest.startswith("layers."):
            _, number, part = rest.removesuffix(".weight").split(".", 2)
            new = f"blk.{number}.{NAMES[part]}.weight"
            if part.endswith(("q_proj", "k_proj")):
                weight = interleaved(weight, heads if "q_proj" in part else kv_heads)
        else:
            new = {"embed_tokens.weight": "token_embd", "norm.weight": "output_norm"}[rest]
            new += ".weight"
        writer.add_tensor(new, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
