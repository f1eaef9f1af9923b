"""Embeddings by the embedded model, for trying programs: the mean of its tokens' own embeddings.

These are its first hidden states. They find passages that share words with a question, which the
last ones of so small a model do worse: those say what comes next.

Invariant: a text has the same vector whatever else is asked; the engine is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from appl.backend import Request, Response, Sample, Usage
from appl.errors import Unsupported
from appl_backends.embedded.model import Llama
from appl_backends.embedded.tokenizer import Tokenizer

_ROWS = 4096
"""Token embeddings in memory at once: a text may be longer than the context."""


def vectors(request: Request, model: Llama, tokenizer: Tokenizer, name: str) -> Response:
    """The vectors of the messages of *request*, of length 1. Raises ``Unsupported``."""
    check_size(request.sampling.dimensions or 0, model)
    found, tokens = list[bytes](), 0
    for message in iter(request.messages or ()):
        ids = tokenizer.encode(message.content)
        found.append(vector_of(ids, model))
        tokens += len(ids)
    samples = (Sample(f"[{len(found)} vectors of {model.shape.hidden} numbers]", "stop"),)
    return Response(samples, Usage(tokens, 0, 0), name, cost=0, vectors=tuple(found))


def check_size(dimensions: int, model: Llama) -> None:
    """Raise ``Unsupported`` unless *dimensions* is 0 or the length of the vectors of *model*."""
    size = model.shape.hidden
    if dimensions not in (0, size):
        raise Unsupported(f"the embedded model has vectors of {size} numbers, not {dimensions}")


def vector_of(ids: Sequence[int], model: Llama) -> bytes:
    """The vector of a text of at least one token, as little-endian 32-bit floats."""
    parts = (model.embedding[ids[at : at + _ROWS]] for at in range(0, len(ids), _ROWS))
    mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / len(ids)
    vector: bytes = (mean / np.linalg.norm(mean)).astype("<f4").tobytes()
    return vector
