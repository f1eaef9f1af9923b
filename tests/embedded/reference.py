"""A Llama forward pass in float64, written for clarity, straight from the checkpoint's tensors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from appl_backends.embedded.model import read_tensors


def rotate(x: np.ndarray, theta: float) -> np.ndarray:
    """Rotary embedding of ``[positions, dims]`` in the rotate-half convention."""
    length, dims = x.shape
    speed = theta ** (-np.arange(0, dims, 2) / dims)
    angle = np.concatenate([np.outer(np.arange(length), speed)] * 2, axis=1)
    turned = np.concatenate([-x[:, dims // 2 :], x[:, : dims // 2]], axis=1)
    return x * np.cos(angle) + turned * np.sin(angle)


def norm(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def logits(folder: Path, ids: list[int]) -> np.ndarray:
    """The logits after each of *ids*."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    tensors = read_tensors(folder / "model.safetensors")
    w = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    dim, eps = config["head_dim"], config["rms_norm_eps"]
    theta = config.get("rope_theta", 10000.0)
    share = config["num_attention_heads"] // config["num_key_value_heads"]
    x = w["model.embed_tokens.weight"][ids]
    for index in range(config["num_hidden_layers"]):
        p = f"model.layers.{index}."
        h = norm(x, w[p + "input_layernorm.weight"], eps)
        q, k, v = (h @ w[p + f"self_attn.{name}_proj.weight"].T for name in "qkv")
        heads = []
        for head in range(config["num_attention_heads"]):
            mine = slice(head * dim, (head + 1) * dim)
            theirs = slice(head // share * dim, (head // share + 1) * dim)
            heads.append(
                attend(rotate(q[:, mine], theta), rotate(k[:, theirs], theta), v[:, theirs])
            )
        x = x + np.concatenate(heads, axis=1) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, w[p + "post_attention_layernorm.weight"], eps)
        gate, up = (h @ w[p + f"mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
    h = norm(x, w["model.norm.weight"], eps)
    return h @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T
