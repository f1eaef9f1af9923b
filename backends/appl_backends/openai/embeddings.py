"""Embeddings through OpenAI's interface: the body of a request, and the vectors in an answer.

Invariant: an answer has one vector for each text, in the order of the texts, all of one length.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from appl.backend import Request, Response, Sample
from appl.backend.check import WrongField, checked, floats_of
from appl.backend.http import error_of_payload, is_error, not_json
from appl.errors import BackendError, MalformedResponse
from appl_backends.openai.answer import OTHER_FORM, usage_of
from appl_backends.openai.body import utf8
from appl_backends.openai.interface import CHAT

EMBEDDINGS = CHAT._replace(path="/embeddings")
_DIMENSIONS = {"mistral": "output_dimension"}
"""The field for the length of vectors, where it is not ``dimensions``."""


def texts_of(request: Request) -> list[str]:
    """The texts to embed, with the replacement character for halves of surrogate pairs."""
    return [utf8(message.content).decode() for message in request.messages or ()]


def body_of(request: Request, model: str, kind: str = "openai") -> bytes:
    """The body that asks a server of *kind* for the vectors of *request*.

    Numbers come as base64, as the official client asks for them: a fifth of the size of JSON.
    """
    fields: dict[str, Any] = {"model": model, "input": texts_of(request)}
    if kind != "mistral":
        fields["encoding_format"] = "base64"
    if request.sampling.dimensions:
        fields[_DIMENSIONS.get(kind, "dimensions")] = request.sampling.dimensions
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def response_of(data: Any, request: Request, who: str, secrets: tuple[str, ...] = ()) -> Response:
    """The vectors in the JSON *data*, which came with status 200. Raises ``BackendError``."""
    if not isinstance(data, dict):
        raise not_json("" if data is None else json.dumps(data)[:4096], who, secrets=secrets)
    if "data" not in data and is_error(data):
        raise error_of_payload(data, who, secrets=secrets)
    wanted = 0 if request.messages is None else len(request.messages)
    try:
        rows = data["data"]
        if len(rows) != wanted:
            raise WrongField(f"it has {len(rows)} vectors for {wanted} texts")
        vectors = tuple(_in_order(rows, wanted))
        usage, cost = usage_of({"completion_tokens": 0, **(data.get("usage") or {})}, None)
        model, size = data.get("model"), len(vectors[0]) // 4
        if request.sampling.dimensions not in (0, size):
            raise WrongField(f"its vectors have {size} numbers, not {request.sampling.dimensions}")
        said = model if type(model) is str else ""
        samples = (Sample(f"[{wanted} vectors of {size} numbers]", "stop"),)
        return checked(Response(samples, usage, said, cost=cost, vectors=vectors))
    except BackendError:
        raise
    except WrongField as error:
        raise MalformedResponse(f"{who} gave no embeddings: {error}", status=200) from None
    except OTHER_FORM as error:
        kind = type(error).__name__
        raise MalformedResponse(
            f"{who} gave no embeddings: their form is another ({kind})", status=200
        ) from None


def _in_order(rows: Any, count: int) -> Iterable[bytes]:
    """The vectors of *rows* by their index, where each has one; else as they come."""
    found: dict[int, bytes] = {}
    for place, row in enumerate(rows):
        index = row.get("index", place)
        if type(index) is not int or not 0 <= index < count or index in found:
            raise WrongField(f"a vector has the index {index!r:.20}")
        found[index] = _bytes_of(row["embedding"])
    return (found[index] for index in range(count))


def _bytes_of(value: Any) -> bytes:
    """A vector as 32-bit floats: from base64 of them, or from a list of numbers."""
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    return floats_of(value)
