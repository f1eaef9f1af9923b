"""Vectors as OpenAI's ``/v1/embeddings`` sends them.

Invariant: a vector has the same 32-bit floats in both encodings.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Iterable
from typing import Any

from appl.parts.web.refusals import Refusal

MOST_TEXTS = 2048
"""The most texts of one request, as OpenAI has it."""


def wants_base64(encoding: object) -> bool:
    """True if numbers are sent as base64, by the field ``encoding_format``. Raises ``Refusal``."""
    if encoding not in (None, "float", "base64"):
        raise Refusal(
            f"encoding_format is 'float' or 'base64', got {encoding!r:.40}", param="encoding_format"
        )
    return encoding == "base64"


def answer(vectors: Iterable[bytes], model: str, tokens: int, *, as_base64: bool) -> dict[str, Any]:
    """The answer with *vectors*, each of little-endian 32-bit floats, for *tokens* tokens."""
    rows = [
        {
            "object": "embedding",
            "index": index,
            "embedding": str(base64.b64encode(vector), "ascii") if as_base64 else _numbers(vector),
        }
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": rows, "model": model, "usage": usage}


def packed(numbers: array[float]) -> bytes:
    """*numbers*, an ``array('f')``, as little-endian 32-bit floats."""
    return _swapped(numbers).tobytes()


def _numbers(vector: bytes) -> list[float]:
    return _swapped(array("f", vector)).tolist()


def _swapped(numbers: array[float]) -> array[float]:
    """*numbers* in the other of this machine's and the little-endian order of bytes."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
