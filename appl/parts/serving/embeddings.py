"""A function of texts as a model for embeddings: ``/v1/embeddings`` of OpenAI's interface.

Invariant: an answer has one vector for each text, in their order, as the function returned them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from appl.parts.serving.chat import usage
from appl.parts.serving.functions import ServedFunction
from appl.parts.serving.journal import read
from appl.parts.serving.served_run import ServedRun
from appl.parts.web import embeddings
from appl.parts.web.refusals import Refusal

_DIMENSIONS, _ENCODING = "dimensions", "encoding_format"


def function_in(body: Mapping[str, Any], functions: Mapping[str, ServedFunction]) -> ServedFunction:
    """The function that *body* names as its model. Raises ``Refusal``."""
    embeddings.wants_base64(body.get(_ENCODING))  # before anything is paid for
    name = body.get("model")
    function = functions.get(name) if isinstance(name, str) else None
    if function is None or function.embeds is None:
        names = [function.name for function in functions.values() if function.embeds]
        raise Refusal(
            f"there is no model {name!r:.80} for embeddings; the functions here that take texts "
            f"and return vectors are: {', '.join(names) or 'none'}",
            404,
            param="model",
            code="model_not_found",
        )
    return function


def arguments(body: Mapping[str, Any], function: ServedFunction) -> dict[str, Any]:
    """The arguments of *function* for the texts in *body*. Raises ``Refusal``."""
    texts = body.get("input")
    if isinstance(texts, str):
        texts = [texts]
    if not (
        isinstance(texts, list)
        and 0 < len(texts) <= embeddings.MOST_TEXTS
        and all(isinstance(text, str) and text for text in texts)
    ):
        raise Refusal(
            f"input is a text, or a list of at most {embeddings.MOST_TEXTS}, none empty; a "
            "function reads no token ids",
            param="input",
        )
    assert function.embeds is not None
    values = {function.embeds: texts}
    dimensions = body.get(_DIMENSIONS)
    if dimensions is not None:
        if _DIMENSIONS not in function.parameters["properties"]:
            raise Refusal(f"{function.name} has no parameter dimensions", param=_DIMENSIONS)
        values[_DIMENSIONS] = dimensions
    return values


def answer(run: ServedRun, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a run that finished. Raises ``Refusal`` if its result is no vectors."""
    assert run.value is not None
    vectors = _vectors(read(run.value))
    texts = read(run.arguments)[run.function.embeds]
    if vectors is None or len(vectors) != len(texts):
        raise Refusal(
            f"{run.function.name} did not return a list of one vector for each text "
            f"(run {run.name})",
            500,
        )
    as_base64 = embeddings.wants_base64(body.get(_ENCODING))
    tokens = usage(run)["prompt_tokens"]
    return embeddings.answer(vectors, run.function.name, tokens, as_base64=as_base64)


def _vectors(value: object) -> list[bytes] | None:
    """The rows of *value* as little-endian 32-bit floats; ``None`` if they are no numbers."""
    if not isinstance(value, list):
        return None
    try:
        return [embeddings.packed(array("f", row)) for row in value]
    except (TypeError, OverflowError):
        return None
