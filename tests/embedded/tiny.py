"""A model folder with random weights and a byte-level tokenizer, made in milliseconds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from appl_backends.embedded.model import read_tensors

SPECIAL = [
    "<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|call|>", "<pad>",
]  # fmt: skip
TEXTS = [
    "The quick brown fox jumps over the lazy dog. The author is Jane Austen and the book is new.",
    "Mia has 12 apples and buys 3 bags with 4 apples each. How many apples does Mia have now?",
    '{"name": "Olaf Brand", "age": 34, "city": "Lund"} yes no positive negative neutral',
    "Où est le café? Grüße aus Köln. 日本語 and emoji 🙂 too.",
]


def make_tokenizer(path: Path) -> int:
    """Train a small byte-level BPE and save it; its vocabulary size."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.save(str(path))
    return int(tokenizer.get_vocab_size(with_added_tokens=True))


def make_weights(config: dict[str, object], seed: int, scale: float) -> dict[str, np.ndarray]:
    """Random tensors with the names and shapes of a Llama checkpoint."""
    rng = np.random.default_rng(seed)
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * scale / shape[-1] ** 0.5).astype(np.float32)

    tensors = {"model.embed_tokens.weight": normal(config["vocab_size"], hidden)}
    tensors["model.norm.weight"] = 1 + 0.1 * normal(hidden)
    for layer in range(config["num_hidden_layers"]):
        shapes = {
            "self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden),
            "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, q),
            "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
            "mlp.down_proj": (hidden, ffn),
        }  # fmt: skip
        for name, shape in shapes.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = normal(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = 1 + 0.1 * normal(hidden)
    return tensors


def make_model(
    folder: Path, *, layers: int = 2, hidden: int = 64, heads: int = 2, kv_heads: int = 1,
    ffn: int = 96, context: int = 1024, seed: int = 0, scale: float = 1.5, vocab: int = 0,
) -> Path:  # fmt: skip
    """Write a whole model folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    size = make_tokenizer(folder / "tokenizer.json")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": 64,
        "vocab_size": max(size, vocab), "max_position_embeddings": context, "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"temperature": 0.8, "top_p": 0.95}))
    save_file(make_weights(config, seed, scale), str(folder / "model.safetensors"))
    return folder


def make_adapter(
    folder: Path, model: Path, *, seed: int, rank: int = 4, alpha: float = 8.0,
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
) -> Path:  # fmt: skip
    """Write an adapter for the model in *model* as PEFT saves one, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, weight in read_tensors(model / "model.safetensors").items():
        if name.split(".")[-2] in targets:
            outer, inner = weight.shape
            first = rng.standard_normal((rank, inner)) * 0.6 / inner**0.5
            second = rng.standard_normal((outer, rank)) * 0.6 / rank**0.5
            place = f"base_model.model.{name.removesuffix('.weight')}"
            tensors[f"{place}.lora_A.weight"] = first.astype(np.float32)
            tensors[f"{place}.lora_B.weight"] = second.astype(np.float32)
    save_file(tensors, str(folder / "adapter_model.safetensors"))
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": [*targets]}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "bias": "none"}))
    return folder


def merged(folder: Path, model: Path, adapter: Path) -> Path:
    """Write the model of *model* with the weights of *adapter* added to its own."""
    shutil.copytree(model, folder)
    tensors = read_tensors(model / "model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text())
    parts = read_tensors(adapter / "adapter_model.safetensors")
    for name in {each.rpartition(".lora_")[0] for each in parts}:
        product = parts[f"{name}.lora_B.weight"] @ parts[f"{name}.lora_A.weight"]
        place = f"{name.removeprefix('base_model.model.')}.weight"
        tensors[place] = tensors[place] + config["lora_alpha"] / config["r"] * product
    save_file(tensors, str(folder / "model.safetensors"))
    return folder
