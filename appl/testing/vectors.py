"""Vectors made of the words of a text: texts that share words are near each other.

Invariant: a vector depends on its text and its length alone, in every process.
"""

from __future__ import annotations

import hashlib
import math
import struct

from appl.backend import Request, Response, Sample, Usage

NUMBERS = 256
"""The length of a vector where none is asked for."""


def bag_of_words(text: str, size: int = 32) -> list[float]:
    """The words of *text*, each counted at a place that its digest gives."""
    vector = [0.0] * size
    for word in text.lower().split():
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        vector[int.from_bytes(digest, "big") % size] += 1.0
    return vector


def embedded(request: Request) -> Response:
    """The vectors of the messages of *request*, of length 1."""
    texts = [message.content for message in request.messages or ()]
    size = request.sampling.dimensions or NUMBERS
    samples = (Sample(f"[{len(texts)} vectors of {size} numbers]", "stop"),)
    usage = Usage(sum(len(text.split()) for text in texts), 0, 0)
    return Response(samples, usage, vectors=tuple(_vector(text, size) for text in texts))


def _vector(text: str, size: int) -> bytes:
    counts = bag_of_words(text, size)
    length = math.hypot(*counts)
    if not length:  # a text of spaces
        counts[0] = length = 1.0
    return struct.pack(f"<{size}f", *(count / length for count in counts))
