"""Adapters of low rank (LoRA, arXiv 2106.09685), added to the rows of a batch that ask for them.

Many adapters share one pass over the model, as in S-LoRA (arXiv 2311.03285, section 5): the base
product is made once for all rows, and each adapter adds ``h @ A @ B`` to its own.
Invariant: an adapter is folded exactly as the weights that it changes (``model.py``, ``_layer``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from appl.errors import ConfigError
from appl_backends.embedded.model import F32, Gains, ModelShape, paired, read_tensors

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
_ATTENTION, _MLP = ("q_proj", "k_proj", "v_proj", "o_proj"), ("gate_proj", "up_proj", "down_proj")
_PLACE = re.compile(
    rf"(?:base_model\.model\.)?model\.layers\.(\d+)\."
    rf"(self_attn\.(?:{'|'.join(_ATTENTION)})|mlp\.(?:{'|'.join(_MLP)}))\.lora_([AB])\.weight"
)
_REFUSED = ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")


@dataclass(frozen=True, slots=True, eq=False)
class LowRank:
    """A product of two thin matrices: ``first`` is ``[in, rank]``, ``second`` ``[rank, out]``."""

    first: F32
    second: F32

    def add(self, source: F32, target: F32, rows: Sequence[int]) -> None:
        """Add the product of *rows* of *source* to those of *target*."""
        if self.first.shape[1]:
            target[rows] += source[rows] @ self.first @ self.second


@dataclass(frozen=True, slots=True)
class AdapterLayer:
    """What an adapter adds to each fused matrix of a layer."""

    qkv: LowRank
    out: LowRank
    gate_up: LowRank
    down: LowRank


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """An adapter that is loaded for a model."""

    layers: list[AdapterLayer]

    @classmethod
    def load(cls, folder: Path, shape: ModelShape, gains: Sequence[Gains]) -> Adapter:
        """The adapter that Hugging Face's PEFT has saved in *folder*, for a model of *shape*.

        Raises ``ConfigError`` for one of another kind or model, ``OSError`` and ``ValueError`` for
        what cannot be read.
        """
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        scale = _scale(config)
        layers: list[dict[str, F32]] = [{} for _ in range(shape.layers)]
        for name, tensor in read_tensors(folder / TENSORS).items():
            found = _PLACE.fullmatch(name)
            if found is None or int(found[1]) >= shape.layers:
                raise ConfigError(f"it changes {name:.100}, which is no matrix of this model")
            layers[int(found[1])][f"{found[2].partition('.')[2]}.{found[3]}"] = tensor
        return cls([_layer(shape, *both, scale) for both in zip(layers, gains, strict=True)])


def _scale(config: Mapping[str, Any]) -> float:
    kind = config.get("peft_type", "LORA")
    refused = [name for name in _REFUSED if config.get(name)]
    if kind != "LORA" or refused or config.get("bias", "none") != "none":
        what = ", ".join(refused) or ("bias" if kind == "LORA" else f"peft_type {kind}")
        raise ConfigError(f"its {CONFIG} has {what}; plain LoRA without biases is supported")
    rank = config["r"]
    return float(config["lora_alpha"] / (math.sqrt(rank) if config.get("use_rslora") else rank))


def _layer(s: ModelShape, tensors: Mapping[str, F32], gains: Gains, scale: float) -> AdapterLayer:
    queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim
    sizes = {"q_proj": (s.hidden, queries), "k_proj": (s.hidden, keys), "v_proj": (s.hidden, keys)}
    sizes |= {"o_proj": (queries, s.hidden), "down_proj": (s.ffn, s.hidden)}
    sizes |= dict.fromkeys(("gate_proj", "up_proj"), (s.hidden, s.ffn))

    def both(name: str) -> tuple[F32, F32]:
        """A and B as they were saved, ``[rank, in]`` and ``[out, rank]``; of rank 0 if none is."""
        inner, outer = sizes[name]
        first = tensors.get(f"{name}.A", np.zeros((0, inner), np.float32))
        second = tensors.get(f"{name}.B", np.zeros((outer, 0), np.float32))
        if first.shape[1:] != (inner,) or second.shape != (outer, len(first)):
            shapes = f"{list(first.shape)} and {list(second.shape)}"
            raise ConfigError(
                f"its matrices for {name} are {shapes}, for {inner} to {outer} values"
            )
        return first, second * np.float32(scale)

    q, k, v = both("q_proj"), both("k_proj"), both("v_proj")
    q = (q[0], paired(q[1], s) / math.sqrt(s.head_dim))
    k = (k[0], paired(k[1], s))
    gate, up = both("gate_proj"), both("up_proj")
    return AdapterLayer(
        qkv=_fused([q, k, v], gains.before),
        out=_fused([both("o_proj")]),
        gate_up=_fused([(gate[0], -gate[1]), (up[0], -up[1])], gains.after),
        down=_fused([both("down_proj")]),
    )


def _fused(pairs: Sequence[tuple[F32, F32]], gain: F32 | None = None) -> LowRank:
    """Matrices that read the same values, as one product: blocks side by side."""
    first = np.concatenate([a for a, _ in pairs]).T
    second = np.zeros((first.shape[1], sum(len(b) for _, b in pairs)), np.float32)
    row = column = 0
    for _, b in pairs:
        second[row : row + b.shape[1], column : column + len(b)] = b.T
        row, column = row + b.shape[1], column + len(b)
    if gain is not None:
        first = first * gain[:, None]
    return LowRank(np.ascontiguousarray(first, np.float32), np.ascontiguousarray(second))
