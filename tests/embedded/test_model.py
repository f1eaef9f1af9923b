"""The forward pass against a float64 reference, and in pieces against in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from appl_backends.embedded import WEIGHTS
from appl_backends.embedded.model import KvRows, Llama, Row, TokenSpan

from .reference import logits as reference
from .tiny import make_model


def centred(logits: np.ndarray) -> np.ndarray:
    return logits - logits.mean(-1, keepdims=True)


def row_for(model: Llama, tokens: int) -> Row:
    row = KvRows(model.shape, tokens).take(tokens)
    assert row is not None
    return row


def in_pieces(model: Llama, ids: list[int], sizes: list[int]) -> np.ndarray:
    row, found, at = row_for(model, len(ids)), [], 0
    for size in sizes:
        piece = ids[at : at + size]
        if piece:
            found.append(model.forward([TokenSpan(row, piece, len(piece))]))
        at += size
    return np.concatenate(found)


def random_ids(model: Llama, count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, model.shape.vocab, count).tolist()


def test_the_forward_pass_agrees_with_float64(folder: Path, model: Llama) -> None:
    ids = random_ids(model, 150)
    expected = centred(reference(folder, ids))
    assert np.abs(in_pieces(model, ids, [150]) - expected).max() < 1e-4


def test_heads_layers_and_an_untied_output_of_another_shape_agree_too(tmp_path: Path) -> None:
    folder = make_model(tmp_path, layers=3, hidden=128, heads=6, kv_heads=2, ffn=80, vocab=500)
    model = Llama.load(folder)
    ids = random_ids(model, 40)
    expected = centred(reference(folder, ids))
    assert np.abs(in_pieces(model, ids, [40]) - expected).max() < 1e-4


@given(st.lists(st.integers(1, 90), min_size=1, max_size=8), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_a_prompt_in_pieces_gives_the_logits_of_the_whole(
    model: Llama, sizes: list[int], seed: int
) -> None:
    ids = random_ids(model, sum(sizes), seed)
    whole = in_pieces(model, ids, [len(ids)])
    assert np.abs(in_pieces(model, ids, sizes) - whole).max() < 1e-4


def test_token_by_token_gives_the_logits_of_the_whole(model: Llama) -> None:
    ids = random_ids(model, 300)
    assert np.abs(in_pieces(model, ids, [1] * 300) - in_pieces(model, ids, [300])).max() < 1e-4


def test_sequences_of_one_batch_do_not_mix(model: Llama) -> None:
    rows = KvRows(model.shape, 4096)
    texts = [random_ids(model, count, count) for count in (1, 1, 70, 5, 130)]
    spans = [TokenSpan(row, ids) for ids in texts if (row := rows.take(len(ids)))]
    together = model.forward(spans)
    for ids, logits in zip(texts, together, strict=True):
        assert np.abs(in_pieces(model, ids, [len(ids)])[-1] - logits).max() < 1e-4


def test_rows_are_disjoint_grow_and_come_back(model: Llama) -> None:
    rows = KvRows(model.shape, 512)
    a, b, c = rows.take(100), rows.take(64), rows.take(200)
    assert a and b and c and rows.room == 512 - 128 - 64 - 256
    rows.give(b)
    a.kv[...] = 7.0
    a.length = 100
    assert rows.grow(a, 180) and a.start == 0 and a.capacity == 192
    assert not rows.grow(a, 300), "c stands in the way and there is no other place"
    rows.give(c)
    assert rows.grow(a, 300) and (a.kv[:, :, :100] == 7.0).all()
    rows.give(a)
    assert rows.room == 512 and rows.take(512) is not None


@pytest.mark.skipif(not (WEIGHTS / "model.safetensors").is_file(), reason="no model is shipped")
def test_the_shipped_model_agrees_with_float64() -> None:
    model = Llama.load(WEIGHTS)
    ids = random_ids(model, 60)
    expected = centred(reference(WEIGHTS, ids))
    assert np.abs(in_pieces(model, ids, [60]) - expected).max() < 2e-4


@pytest.mark.long
def test_the_shipped_model_agrees_with_transformers() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(WEIGHTS, dtype=torch.float32)
    model = Llama.load(WEIGHTS)
    ids = random_ids(model, 300)
    with torch.no_grad():
        expected = centred(theirs(torch.tensor([ids])).logits[0].numpy())
    assert np.abs(in_pieces(model, ids, [300]) - expected).max() < 5e-4
