"""A Llama-architecture decoder in NumPy: weights, the KV row of one sequence, one forward pass.

Invariant: ``forward`` changes nothing but its workspace and the rows it is given; feeding a
sequence in one piece or in many gives the same logits up to float32 rounding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from appl_backends.embedded.products import Product, blocks_of, multiplied, rows_for, small_products

if TYPE_CHECKING:
    from appl_backends.embedded.adapters import Adapter

F32 = NDArray[np.float32]
TILE, WINDOW, FEW_SCORES = 64, 128, 64


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model, as its ``config.json`` states them."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    theta: float
    eps: float

    @property
    def groups(self) -> int:
        """Query heads per key-value head."""
        return self.heads // self.kv_heads

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ModelShape:
        """The shape that a Hugging Face Llama configuration describes."""
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        rope = config.get("rope_parameters") or {}
        return cls(
            layers=config["num_hidden_layers"],
            hidden=hidden,
            heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or hidden // heads,
            ffn=config["intermediate_size"],
            vocab=config["vocab_size"],
            context=config["max_position_embeddings"],
            theta=config.get("rope_theta") or rope.get("rope_theta") or 10000.0,
            eps=config.get("rms_norm_eps") or 1e-6,
        )


_DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}


_entries: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = safetensors.deserialize


def read_tensors(path: Path) -> dict[str, F32]:
    """Every tensor of a safetensors file as float32; bfloat16 is widened bit by bit."""
    found: dict[str, F32] = {}
    for name, entry in _entries(path.read_bytes()):
        data, shape = entry["data"], entry["shape"]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(data, "<u2").astype(np.uint32) << 16
            found[name] = wide.view(np.float32).reshape(shape)
        else:
            flat = np.frombuffer(data, _DTYPES[entry["dtype"]])
            found[name] = flat.astype(np.float32).reshape(shape)
    return found


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's matrices as the forward pass wants them (see ``_layer``), in blocks."""

    qkv: F32
    out: F32
    gate_up: F32
    down: F32


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """The gains of a layer's two norms, which are folded into the matrices that follow them."""

    before: F32
    after: F32

    @classmethod
    def of(cls, s: ModelShape, tensors: Mapping[str, F32], index: int) -> Gains:
        """Those of layer *index*."""
        names = ("input_layernorm", "post_attention_layernorm")
        root = math.sqrt(s.hidden)
        return cls(*(tensors[f"model.layers.{index}.{name}.weight"] * root for name in names))


class KvRows:
    """Room for the keys and values of running sequences: one array, taken once.

    Each sequence has a contiguous range of positions, its row, so that attention runs on plain
    views and gathers nothing. ``kv`` is ``[layers, keys then values of each kv head, positions,
    head_dim]``.
    """

    def __init__(self, shape: ModelShape, tokens: int) -> None:
        self.size = tiled(tokens)
        self.kv: F32 = np.empty(
            (shape.layers, 2 * shape.kv_heads, self.size, shape.head_dim), np.float32
        )
        self._free = [(0, self.size)]

    @property
    def room(self) -> int:
        """The number of free positions, in whatever pieces."""
        return sum(end - start for start, end in self._free)

    def take(self, count: int) -> Row | None:
        """An empty row for *count* positions, at the first place where it fits."""
        size = tiled(count)
        for at, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[at : at + 1] = [(start + size, end)] if end - start > size else []
                return Row(self, start, size)
        return None

    def grow(self, row: Row, count: int) -> bool:
        """Let *row* hold *count* positions, in place or elsewhere; false if it cannot be done."""
        more, end = tiled(count) - row.capacity, row.start + row.capacity
        for at, (start, stop) in enumerate(self._free):
            if start == end and stop - start >= more:
                self._free[at : at + 1] = [(start + more, stop)] if stop - start > more else []
                row.capacity += more
                return True
        moved = self.take(count)
        if moved is None:
            return False
        moved.kv[:, :, : row.length] = row.kv[:, :, : row.length]
        self.give(row)
        row.start, row.capacity = moved.start, moved.capacity
        return True

    def give(self, row: Row) -> None:
        """Take the place of *row* back."""
        joined: list[tuple[int, int]] = []
        for start, end in sorted([*self._free, (row.start, row.start + row.capacity)]):
            if joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        self._free = joined


@dataclass(slots=True, eq=False)
class Row:
    """The place of one sequence: ``capacity`` positions, the first ``length`` of them filled."""

    rows: KvRows
    start: int
    capacity: int
    length: int = 0

    @property
    def kv(self) -> F32:
        """The keys and values of this row alone."""
        return self.rows.kv[:, :, self.start : self.start + self.capacity]


def tiled(count: int) -> int:
    """*count* rounded up to whole tiles, the unit in which rows are allocated."""
    return -(-count // TILE) * TILE


@dataclass(slots=True)
class TokenSpan:
    """The next *tokens* of the sequence in *row*; logits are wanted for the last *wanted* ones.

    ``adapter`` is what is added to the model's weights for this sequence.
    """

    row: Row
    tokens: Sequence[int]
    wanted: int = 1
    adapter: Adapter | None = None


class _Space:
    """The scratch arrays of a forward pass over ``size`` tokens, made once and used again."""

    def __init__(self, s: ModelShape, size: int) -> None:
        mixed, split = s.heads + s.kv_heads, s.heads * s.head_dim
        sizes = {
            "h": s.hidden,
            "qkv": (mixed + s.kv_heads) * s.head_dim,
            "mixed": split,
            "gate_up": 2 * s.ffn,
            "act": s.ffn,
            "delta": s.hidden,
        }
        wide = {
            name: np.zeros((rows_for(size), width), np.float32) for name, width in sizes.items()
        }
        self.to_qkv = Product(wide["h"], wide["qkv"])
        self.to_out = Product(wide["mixed"], wide["delta"])
        self.to_gate_up = Product(wide["h"], wide["gate_up"])
        self.to_down = Product(wide["act"], wide["delta"])
        self.x: F32 = np.empty((size, s.hidden), np.float32)
        self.as_row, self.as_column = self.x[:, None, :], self.x[:, :, None]
        self.square: F32 = np.empty((size, 1, 1), np.float32)
        self.norm = self.square[:, 0]
        self.h: F32 = wide["h"][:size]
        self.qkv: F32 = wide["qkv"][:size]
        self.turned: NDArray[np.complex64] = (
            self.qkv[:, : mixed * s.head_dim].view(np.complex64).reshape(size, mixed, -1)
        )
        self.q: F32 = self.qkv[:, :split].reshape(size, s.kv_heads, s.groups, s.head_dim)
        self.kv: F32 = self.qkv[:, split:].reshape(size, 2 * s.kv_heads, s.head_dim)
        self.mixed: F32 = wide["mixed"][:size]
        self.heads: F32 = self.mixed.reshape(size, s.kv_heads, s.groups, s.head_dim)
        self.gate_up: F32 = wide["gate_up"][:size]
        self.gate, self.up = self.gate_up[:, : s.ffn], self.gate_up[:, s.ffn :]
        self.act: F32 = wide["act"][:size]
        self.delta: F32 = wide["delta"][:size]


class Llama:
    """A model ready to run: ``forward`` feeds spans of sequences and returns logits.

    The logits of a position sum to zero (see ``_centred``).
    """

    def __init__(self, shape: ModelShape, tensors: Mapping[str, F32]) -> None:
        self.shape = shape
        self.embedding: F32 = tensors["model.embed_tokens.weight"]
        head = tensors.get("lm_head.weight", self.embedding)
        gain = tensors["model.norm.weight"] * math.sqrt(shape.hidden)
        self.head: F32 = blocks_of(_centred(head) * gain)
        self.gains = [Gains.of(shape, tensors, index) for index in range(shape.layers)]
        self.layers = [
            _layer(shape, tensors, index, self.gains[index]) for index in range(shape.layers)
        ]
        self._eps = np.float32(shape.eps * shape.hidden)
        self._turns = _turns(shape)
        self._causal: F32 = np.zeros((0, 0), np.float32)
        self._spaces: dict[int, _Space] = {}

    @classmethod
    def load(cls, folder: Path) -> Llama:
        """The model in *folder*: ``config.json`` and ``model.safetensors``."""
        config = json.loads((folder / "config.json").read_text("utf-8"))
        return cls(ModelShape.of(config), read_tensors(folder / "model.safetensors"))

    def forward(self, spans: Sequence[TokenSpan]) -> F32:
        """Feed every span into its row, all of one ``KvRows``; returns the wanted logits."""
        tokens = [token for span in spans for token in span.tokens]
        space = self._space(len(tokens))
        np.take(self.embedding, tokens, axis=0, out=space.x)
        turns = self._turns[_positions(spans)][:, None]
        attention = _Attention(self, space, spans)
        adapted = _rows_by_adapter(spans)
        with np.errstate(over="ignore"):
            for index, layer in enumerate(self.layers):
                self._layer(space, layer, turns, attention, index, adapted)
        for span in spans:
            span.row.length += len(span.tokens)
        return self._logits(space, spans)

    def _layer(
        self,
        s: _Space,
        layer: Layer,
        turns: NDArray[np.complex64],
        attention: _Attention,
        index: int,
        adapted: Sequence[tuple[Adapter, list[int]]],
    ) -> None:
        act = s.act
        self._normalise(s)
        s.to_qkv.compute(layer.qkv)
        for adapter, rows in adapted:
            adapter.layers[index].qkv.add(s.h, s.qkv, rows)
        np.multiply(s.turned, turns, s.turned)
        attention.attend(index)
        s.to_out.compute(layer.out)
        for adapter, rows in adapted:
            adapter.layers[index].out.add(s.mixed, s.delta, rows)
        np.add(s.x, s.delta, s.x)
        self._normalise(s)
        s.to_gate_up.compute(layer.gate_up)
        for adapter, rows in adapted:
            adapter.layers[index].gate_up.add(s.h, s.gate_up, rows)
        np.exp(s.gate, act)
        np.add(act, 1, act)
        np.divide(s.gate, act, act)
        np.multiply(act, s.up, act)
        s.to_down.compute(layer.down)
        for adapter, rows in adapted:
            adapter.layers[index].down.add(act, s.delta, rows)
        np.add(s.x, s.delta, s.x)

    def _normalise(self, s: _Space) -> None:
        if len(s.x) == 1:  # the same in fewer calls, which count when there is one token
            np.divide(s.x, math.sqrt(np.vdot(s.x, s.x) + self._eps), out=s.h)
            return
        np.matmul(s.as_row, s.as_column, out=s.square)
        np.add(s.square, self._eps, out=s.square)
        np.sqrt(s.square, out=s.square)
        np.divide(s.x, s.norm, out=s.h)

    def _logits(self, s: _Space, spans: Sequence[TokenSpan]) -> F32:
        self._normalise(s)
        wanted: list[int] = []
        end = 0
        for span in spans:
            end += len(span.tokens)
            wanted.extend(range(end - span.wanted, end))
        chosen = s.h if len(wanted) == len(s.h) else s.h[wanted]
        return multiplied(chosen, self.head)

    def _space(self, size: int) -> _Space:
        space = self._spaces.get(size)
        if space is None:
            while sum(self._spaces) > 1024:
                del self._spaces[max(self._spaces)]
            space = self._spaces[size] = _Space(self.shape, size)
        return space

    def causal(self, count: int) -> F32:
        """Minus infinity above the diagonal, zero elsewhere, ``[count, count]``."""
        if len(self._causal) < count:
            self._causal = np.triu(np.full((count, count), -np.inf, np.float32), 1)
        return self._causal[:count, :count]


class _Attention:
    """Attention of one pass: single tokens share one softmax, longer spans have their own."""

    def __init__(self, model: Llama, space: _Space, spans: Sequence[TokenSpan]) -> None:
        self.model, self.space = model, space
        singles = next((i for i, span in enumerate(spans) if len(span.tokens) > 1), len(spans))
        self.singles = singles
        self.q, self.heads = space.q[:singles], space.heads[:singles]
        self.fresh = space.kv[:singles].transpose(1, 0, 2)
        self.store = list(spans[0].row.rows.kv)
        self.rows = [_Views(model.shape, span) for span in spans[:singles]]
        self.slots = _slots(spans[:singles])
        self.scores, self.weights = self._score_arrays()
        placed = list(_placed(spans[singles:], singles))
        few = FEW_SCORES // model.shape.groups
        self.shorts = [_Short(model, space, *one) for one in placed if len(one[0].tokens) <= few]
        self.longs = [one for one in placed if len(one[0].tokens) > few]

    def _score_arrays(self) -> tuple[F32, F32]:
        """Scores of the single tokens, minus infinity where a row is shorter than the longest."""
        s, ends = self.model.shape, [views.end for views in self.rows]
        scores = np.full(
            (self.singles, s.kv_heads, s.groups, max(ends, default=0)), -np.inf, np.float32
        )
        weights = np.empty_like(scores)
        for at, views in enumerate(self.rows):
            views.scores, views.weights = (
                scores[at, ..., : views.end],
                weights[at, ..., : views.end],
            )
        return scores, weights

    def attend(self, layer: int) -> None:
        """Store this layer's keys and values, and write the mixed values to the workspace."""
        if self.rows:
            self._attend_singles(layer)
        for short in self.shorts:
            short.attend(layer)
        for span, start, at in self.longs:
            self._attend_long(layer, span, start, at)

    def _attend_singles(self, layer: int) -> None:
        scores, weights, matmul = self.scores, self.weights, np.matmul
        self.store[layer][:, self.slots] = self.fresh
        for views, q in zip(self.rows, self.q, strict=True):
            matmul(q, views.keys[layer], views.scores)
        np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), weights)
        np.exp(weights, weights)
        for views, heads in zip(self.rows, self.heads, strict=True):
            matmul(views.weights, views.values[layer], heads)
        np.divide(self.heads, np.add.reduce(weights, axis=-1, keepdims=True), self.heads)

    def _attend_long(self, layer: int, span: TokenSpan, start: int, at: int) -> None:
        s, count = self.model.shape, len(span.tokens)
        here, end = slice(at, at + count), start + count
        kv = span.row.kv[layer]
        kv[:, start:end] = self.space.kv[here].transpose(1, 0, 2)
        q = self.space.q[here].transpose(1, 2, 0, 3).reshape(s.kv_heads, -1, s.head_dim)
        scores = np.empty((*q.shape[:2], -(-end // WINDOW) * WINDOW), np.float32)
        np.matmul(q, kv[: s.kv_heads, :end].swapaxes(1, 2), out=scores[..., :end])
        scores[..., end:] = -np.inf
        shaped = scores.reshape(s.kv_heads, s.groups, count, -1)[..., start:end]
        np.add(shaped, self.model.causal(count), out=shaped)
        mixed = _mix(scores, kv[s.kv_heads :, :end])
        shaped = mixed.reshape(s.kv_heads, s.groups, count, s.head_dim)
        self.space.heads[here] = shaped.transpose(2, 0, 1, 3)


def _mix(scores: F32, values: F32) -> F32:
    """The softmax of *scores* times *values*; *scores* is overwritten.

    Summed in windows of positions, so that the sum does not depend on what lies behind a query's
    own position: a prompt has the same keys and values in whatever pieces it was computed.
    """
    np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), out=scores)
    np.exp(scores, out=scores)
    first = values[:, :WINDOW]
    mixed: F32 = np.matmul(scores[..., : first.shape[1]], first)
    total: F32 = np.add.reduce(scores[..., :WINDOW], axis=-1, keepdims=True)
    for start in range(WINDOW, values.shape[1], WINDOW):
        part = values[:, start : start + WINDOW]
        mixed += np.matmul(scores[..., start : start + part.shape[1]], part)
        total += np.add.reduce(scores[..., start : start + WINDOW], axis=-1, keepdims=True)
    mixed /= total
    return mixed


class _Short:
    """Attention of a span of few tokens, with its views and scratch arrays made for all layers."""

    __slots__ = (
        "bias",
        "fresh",
        "heads",
        "keys",
        "mixed",
        "products",
        "queries",
        "scores",
        "shaped",
        "slots",
        "sources",
        "turned",
        "values",
    )

    def __init__(self, model: Llama, space: _Space, span: TokenSpan, start: int, at: int) -> None:
        s, count = model.shape, len(span.tokens)
        here, end, kv = slice(at, at + count), start + count, span.row.kv
        self.slots, self.fresh = list(kv[:, :, start:end]), space.kv[here].swapaxes(0, 1)
        self.keys, self.values = list(kv[:, : s.kv_heads, :end]), list(kv[:, s.kv_heads :, :end])
        self.heads = space.heads[here].transpose(1, 2, 0, 3)
        self.scores: F32 = np.empty((s.kv_heads, s.groups * count, end), np.float32)
        self.shaped = self.scores.reshape(s.kv_heads, s.groups, count, end)
        self.mixed: F32 = np.empty((s.kv_heads, s.groups, count, s.head_dim), np.float32)
        self.bias: F32 = np.zeros((count, end), np.float32)
        self.bias[:, start:] = model.causal(count)
        self.turned = small_products()
        if self.turned:  # keys times queries: no small kernel takes the other order
            self.queries: F32 = np.empty((s.kv_heads, s.head_dim, s.groups, count), np.float32)
            self.sources = space.q[here].transpose(1, 3, 2, 0)
            self.products: F32 = np.empty((s.kv_heads, end, s.groups * count), np.float32)
        else:
            self.queries = np.empty((s.kv_heads, s.groups, count, s.head_dim), np.float32)
            self.sources = space.q[here].transpose(1, 2, 0, 3)
            self.products = self.scores

    def attend(self, layer: int) -> None:
        """Store the keys and values of *layer*, and write the mixed values to the workspace."""
        shaped, heads = self.shaped, len(self.scores)
        self.slots[layer][...] = self.fresh
        np.copyto(self.queries, self.sources)
        if self.turned:
            queries = self.queries.reshape(heads, -1, self.scores.shape[1])
            np.matmul(self.keys[layer], queries, self.products)
            turned = self.products.swapaxes(1, 2).reshape(shaped.shape)
            np.add(turned, self.bias, shaped)
        else:
            queries = self.queries.reshape(heads, self.scores.shape[1], -1)
            np.matmul(queries, self.keys[layer].swapaxes(1, 2), self.products)
            np.add(shaped, self.bias, shaped)
        np.subtract(shaped, np.maximum.reduce(shaped, axis=-1, keepdims=True), shaped)
        np.exp(shaped, shaped)
        np.matmul(self.scores, self.values[layer], self.mixed.reshape(*self.scores.shape[:2], -1))
        np.divide(self.mixed, np.add.reduce(shaped, axis=-1, keepdims=True), self.heads)


class _Views:
    """The parts of a row that a single token reads and writes, for all layers."""

    __slots__ = ("end", "keys", "scores", "values", "weights")

    def __init__(self, s: ModelShape, span: TokenSpan) -> None:
        kv = span.row.kv
        self.end = span.row.length + 1
        self.keys = list(kv[:, : s.kv_heads, : self.end].swapaxes(2, 3))
        self.values = list(kv[:, s.kv_heads :, : self.end])
        self.scores: F32
        self.weights: F32


def _slots(spans: Sequence[TokenSpan]) -> slice | list[int]:
    """The places of the next key and value of each row; a slice is cheaper than a list of one."""
    slots = [span.row.start + span.row.length for span in spans]
    return slice(slots[0], slots[0] + 1) if len(slots) == 1 else slots


def _placed(spans: Sequence[TokenSpan], at: int) -> Iterator[tuple[TokenSpan, int, int]]:
    for span in spans:
        yield span, span.row.length, at
        at += len(span.tokens)


def _rows_by_adapter(spans: Sequence[TokenSpan]) -> list[tuple[Adapter, list[int]]]:
    """The rows of the workspace that each adapter changes."""
    found: dict[Adapter, list[int]] = {}
    at = 0
    for span in spans:
        if span.adapter is not None:
            found.setdefault(span.adapter, []).extend(range(at, at + len(span.tokens)))
        at += len(span.tokens)
    return list(found.items())


def _positions(spans: Sequence[TokenSpan]) -> list[int]:
    return [span.row.length + i for span in spans for i in range(len(span.tokens))]


def _turns(s: ModelShape) -> NDArray[np.complex64]:
    """The rotation of every position and pair of dimensions, as unit complex numbers."""
    pairs = s.head_dim // 2
    speed = s.theta ** (-np.arange(pairs, dtype=np.float64) / pairs)
    angle = np.arange(s.context, dtype=np.float64)[:, None] * speed
    turns: NDArray[np.complex64] = np.exp(1j * angle).astype(np.complex64)
    return turns


def _layer(s: ModelShape, tensors: Mapping[str, F32], index: int, gains: Gains) -> Layer:
    """Fused matrices: the norms' gains, the attention scale and two signs are folded in.

    Query and key dimensions are reordered so that a rotated pair lies side by side, one complex
    number; scores do not notice. Gate and up are negated, which saves a pass in
    ``silu(g) * u = (-g) * (-u) / (1 + exp(-g))``.
    """

    def tensor(name: str) -> F32:
        return tensors[f"model.layers.{index}.{name}.weight"]

    q = paired(tensor("self_attn.q_proj"), s) / math.sqrt(s.head_dim)
    k = paired(tensor("self_attn.k_proj"), s)
    qkv = np.concatenate([q, k, tensor("self_attn.v_proj")])
    gate_up = -np.concatenate([tensor("mlp.gate_proj"), tensor("mlp.up_proj")])
    return Layer(
        qkv=blocks_of(qkv * gains.before),
        out=blocks_of(tensor("self_attn.o_proj")),
        gate_up=blocks_of(gate_up * gains.after),
        down=blocks_of(tensor("mlp.down_proj")),
    )


def paired(weight: F32, s: ModelShape) -> F32:
    """Rows reordered from halves ``(i, i + d/2)`` to neighbours ``(2i, 2i + 1)``, head by head."""
    halves = weight.reshape(len(weight) // s.head_dim, 2, s.head_dim // 2, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def _centred(head: F32) -> F32:
    """The output matrix less its mean token, which moves all logits of a position alike.

    Softmax does not notice, and logits half as large are half as far off.
    """
    mean: F32 = head.mean(axis=0, dtype=np.float64).astype(np.float32)
    return head - mean
