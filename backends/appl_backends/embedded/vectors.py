"""Embeddings by the embedded model, for trying programs: the mean of its tokens' own embeddings.

These are its first hidden states. They find passages that share words with a question, which the
last ones of so small a model do worse: those say what comes next.

Invariant: a text has the same vector whatever else is asked; the engine is not touched.
"""

from __future__ import annotations

import numpy as np

from appl.backend import Request, Response, Sample, Usage
from appl.errors import Unsupported
from appl_backends.embedded.model import Llama
from appl_backends.embedded.tokenizer import Tokenizer


def vectors(request: Request, model: Llama, tokenizer: Tokenizer, name: str) -> Response:
    """The vectors of the messages of *request*, of length 1. Raises ``Unsupported``."""
    wanted, size = request.sampling.dimensions, model.shape.hidden
    if wanted not in (0, size):
        raise Unsupported(f"the embedded model has vectors of {size} numbers, not {wanted}")
    found, tokens = list[bytes](), 0
    for message in iter(request.messages or ()):
        ids = tokenizer.encode(message.content)
        mean = model.embedding[ids].mean(axis=0, dtype=np.float64)
        found.append((mean / np.linalg.norm(mean)).astype("<f4").tobytes())
        tokens += len(ids)
    samples = (Sample(f"[{len(found)} vectors of {size} numbers]", "stop"),)
    return Response(samples, Usage(tokens, 0, 0), name, cost=0, vectors=tuple(found))
