"""The Llama network in plain torch: stacked weights, packed training without attention across conversations, batched sampling."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

try:
    from torch.nn.attention.varlen import varlen_attn

    CAUSAL: dict[str, Any] = (
        {"window_size": (-1, 0)}
        if "window_size" in inspect.signature(varlen_attn).parameters
        else {"is_causal": True}
    )
except ImportError:  # an older torch: training on the GPU then needs a newer one
    varlen_attn = None  # type: ignore[assignment]
    CAUSAL = {}


@dataclass(frozen=True)
class Shape:
    """The sizes of the network."""

    vocab: int = 3072
    width: int = 256
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    inner: int = 512
    theta: float = 10000.0
    eps: float = 1e-5


NAMES = {
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj", "n1": "input_layernorm", "n2": "post_attention_layernorm",
}  # fmt: skip


def fresh(shape: Shape, seed: int, device: str) -> dict[str, Tensor]:
    """Initial weights: each matrix of all layers in one tensor."""
    generator = torch.Generator().manual_seed(seed)
    w, kv, q = shape.width, shape.kv_heads * shape.head, shape.heads * shape.head
    sizes = {
        "q": (q, w),
        "k": (kv, w),
        "v": (kv, w),
        "o": (w, q),
        "gate": (shape.inner, w),
        "up": (shape.inner, w),
        "down": (w, shape.inner),
    }
    weights = {
        n: torch.randn(shape.layers, *s, generator=generator) * s[1] ** -0.5
        for n, s in sizes.items()
    }
    for name in ("o", "down"):
        weights[name] *= (2 * shape.layers) ** -0.5
    weights |= {n: torch.ones(shape.layers, w) for n in ("n1", "n2")}
    weights |= {
        "norm": torch.ones(w),
        "embed": torch.randn(shape.vocab, w, generator=generator) * 0.03,
    }
    return {n: t.to(device).requires_grad_() for n, t in weights.items()}


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm, computed in float32."""
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def rotary(positions: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
    """cos and sin of every position, in the halves convention."""
    inverse = shape.theta ** (
        -torch.arange(0, shape.head, 2, device=positions.device).float() / shape.head
    )
    angles = positions.float()[..., None] * inverse
    return torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotation to [..., heads, head]."""
    a, b = x.chunk(2, -1)
    return (x * cos[..., None, :] + torch.cat([-b, a], -1) * sin[..., None, :]).to(x.dtype)


def packed_attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, longest: int) -> Tensor:
    """Causal attention inside each conversation of a packed row."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if q.is_cuda:
        return varlen_attn(q, k, v, starts, starts, longest, longest, **CAUSAL)  # type: ignore[return-value]
    step = int(starts[1])
    if step * (len(starts) - 1) == len(q) and bool(
        (starts == torch.arange(len(starts)) * step).all()
    ):
        q, k, v = (t.view(-1, step, t.shape[1], t.shape[2]).transpose(1, 2) for t in (q, k, v))
        return (
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(-1, q.shape[1], q.shape[3])
        )
    document = torch.bucketize(torch.arange(len(q)), starts[1:].long(), right=True)
    mask = (document[:, None] == document[None]) & torch.ones(
        len(q), len(q), dtype=torch.bool
    ).tril()
    return F.scaled_dot_product_attention(
        q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), attn_mask=mask
    ).transpose(0, 1)


def hidden(
    weights: dict[str, Tensor],
    ids: Tensor,
    positions: Tensor,
    starts: Tensor,
    longest: int,
    shape: Shape,
    dtype: torch.dtype,
) -> Tensor:
    """The last hidden states of a packed row."""
    w = {n: t.to(dtype) for n, t in weights.items()}
    cos, sin = (t.to(dtype) for t in rotary(positions, shape))
    x = F.embedding(ids, w["embed"])
    n = len(ids)
    for i in range(shape.layers):
        y = rms(x, w["n1"][i], shape.eps)
        q = turn(F.linear(y, w["q"][i]).view(n, shape.heads, shape.head), cos, sin)
        k = turn(F.linear(y, w["k"][i]).view(n, shape.kv_heads, shape.head), cos, sin)
        v = F.linear(y, w["v"][i]).view(n, shape.kv_heads, shape.head)
        x = x + F.linear(packed_attention(q, k, v, starts, longest).reshape(n, -1), w["o"][i])
        y = rms(x, w["n2"][i], shape.eps)
        x = x + F.linear(F.silu(F.linear(y, w["gate"][i])) * F.linear(y, w["up"][i]), w["down"][i])
    return rms(x, w["norm"], shape.eps)


def loss_of(
    weights: dict[str, Tensor],
    ids: Tensor,
    positions: Tensor,
    factors: Tensor,
    starts: Tensor,
    longest: int,
    shape: Shape,
    dtype: torch.dtype,
) -> Tensor:
    """Weighted next-token loss; `factors[i]` weighs the prediction of token i."""
    x, wanted, counted = (
        hidden(weights, ids, positions, starts, longest, shape, dtype)[:-1],
        ids[1:],
        factors[1:],
    )
    if not x.is_cuda:  # a processor spends most of its time on the logits: only those of answers
        chosen = counted > 0.5
        x, wanted, counted = x[chosen], wanted[chosen], counted[chosen]
    logits = F.linear(x, weights["embed"].to(dtype)).float()
    losses = F.cross_entropy(logits, wanted, reduction="none")
    penalty = 1e-4 * logits.logsumexp(-1).pow(2)
    return ((losses + penalty) * counted).sum() / counted.sum()


def export(weights: dict[str, Tensor], shape: Shape, folder: Path, temperature: float) -> None:
    """Write bfloat16 safetensors under Hugging Face's Llama names, and the two configs."""
    out = {"model.embed_tokens.weight": weights["embed"], "model.norm.weight": weights["norm"]}
    for short, name in NAMES.items():
        out |= {f"model.layers.{i}.{name}.weight": weights[short][i] for i in range(shape.layers)}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {n: t.detach().to(torch.bfloat16).cpu().contiguous() for n, t in out.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": shape.vocab, "hidden_size": shape.width,
        "intermediate_size": shape.inner, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "head_dim": shape.head, "hidden_act": "silu", "max_position_embeddings": 4096,
        "initializer_range": 0.02, "rms_norm_eps": shape.eps, "rope_theta": shape.theta, "rope_scaling": None, "attention_bias": False,
        "attention_dropout": 0.0, "mlp_bias": False, "tie_word_embeddings": True, "use_cache": True, "torch_dtype": "bfloat16",
        "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 7,
    }  # fmt: skip
    generation = {
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 7,
        "do_sample": True,
        "temperature": temperature,
        "top_p": 1.0,
        "max_new_tokens": 256,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")


def load(folder: Path, device: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], Shape]:
    """Weights and shape back from the files."""
    config = json.loads((folder / "config.json").read_text())
    shape = Shape(
        vocab=config["vocab_size"], width=config["hidden_size"], layers=config["num_hidden_layers"], heads=config["num_attention_heads"],
        kv_heads=config["num_key_value_heads"], head=config["head_dim"], inner=config["intermediate_size"],
    )  # fmt: skip
    raw = {n: t.to(device, dtype) for n, t in load_file(folder / "model.safetensors").items()}
    weights = {
        s: torch.stack([raw[f"model.layers.{i}.{n}.weight"] for i in range(shape.layers)])
        for s, n in NAMES.items()
    }
    return weights | {
        "embed": raw["model.embed_tokens.weight"],
        "norm": raw["model.norm.weight"],
    }, shape


class Sampler:
    """Batched generation with a key-value cache; prompts are padded on the left."""

    def __init__(self, weights: dict[str, Tensor], shape: Shape, rows: int = 4096) -> None:
        self.w, self.shape, self.rows = weights, shape, rows
        self.device, self.dtype = weights["embed"].device, weights["embed"].dtype

    @torch.no_grad()
    def generate(
        self, prompts: list[list[int]], temperature: float, limit: int, seed: int
    ) -> list[list[int]]:
        """Ids after each prompt, up to and without `<|end|>`."""
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        out: list[list[int]] = [[] for _ in prompts]
        torch.manual_seed(seed)
        for at in range(0, len(order), self.rows):
            part = order[at : at + self.rows]
            for i, ids in zip(
                part, self._batch([prompts[i] for i in part], temperature, limit), strict=True
            ):
                out[i] = ids
        return out

    def _batch(self, prompts: list[list[int]], temperature: float, limit: int) -> list[list[int]]:
        s, n, longest = self.shape, len(prompts), max(map(len, prompts))
        ids = torch.full((n, longest), 7, device=self.device)
        for i, p in enumerate(prompts):
            ids[i, longest - len(p) :] = torch.tensor(p, device=self.device)
        pad = torch.tensor([longest - len(p) for p in prompts], device=self.device)
        cache = torch.zeros(
            s.layers,
            2,
            n,
            s.kv_heads,
            longest + limit,
            s.head,
            device=self.device,
            dtype=self.dtype,
        )
        done = torch.zeros(n, dtype=torch.bool, device=self.device)
        made: list[Tensor] = []
        start = 0
        for _ in range(limit):
            logits = self._step(ids, start, pad, cache).float()
            start += ids.shape[1]
            token = (
                logits.argmax(-1)
                if temperature == 0
                else torch.multinomial((logits / temperature).softmax(-1), 1)[:, 0]
            )
            token = torch.where(done, torch.ones_like(token), token)
            made.append(token)
            done |= token == 1
            if bool(done.all()):
                break
            ids = token[:, None]
        rows = torch.stack(made, 1).tolist()
        return [row[: row.index(1)] if 1 in row else row for row in rows]

    def _step(self, ids: Tensor, start: int, pad: Tensor, cache: Tensor) -> Tensor:
        s, (n, t) = self.shape, ids.shape
        end = start + t
        at = torch.arange(start, end, device=self.device)
        cos, sin = (c.to(self.dtype) for c in rotary((at[None] - pad[:, None]).clamp(min=0), s))
        keys = torch.arange(end, device=self.device)
        mask = (keys[None, None] <= at[None, :, None]) & (keys[None, None] >= pad[:, None, None])
        mask = (mask | (at[None, :, None] == keys[None, None]))[:, None]
        x = F.embedding(ids, self.w["embed"])
        for i in range(s.layers):
            y = rms(x, self.w["n1"][i], s.eps)
            q = turn(F.linear(y, self.w["q"][i]).view(n, t, s.heads, s.head), cos, sin).transpose(
                1, 2
            )
            k = turn(
                F.linear(y, self.w["k"][i]).view(n, t, s.kv_heads, s.head), cos, sin
            ).transpose(1, 2)
            v = F.linear(y, self.w["v"][i]).view(n, t, s.kv_heads, s.head).transpose(1, 2)
            cache[i, 0, :, :, start:end], cache[i, 1, :, :, start:end] = k, v
            group = s.heads // s.kv_heads
            ks, vs = (cache[i, j, :, :, :end].repeat_interleave(group, 1) for j in (0, 1))
            y = (
                F.scaled_dot_product_attention(q, ks, vs, attn_mask=mask)
                .transpose(1, 2)
                .reshape(n, t, -1)
            )
            x = x + F.linear(y, self.w["o"][i])
            y = rms(x, self.w["n2"][i], s.eps)
            x = x + F.linear(
                F.silu(F.linear(y, self.w["gate"][i])) * F.linear(y, self.w["up"][i]),
                self.w["down"][i],
            )
        return F.linear(rms(x[:, -1], self.w["norm"], s.eps), self.w["embed"])
