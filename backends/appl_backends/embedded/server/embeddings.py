"""OpenAI's ``/v1/embeddings``.

Invariant: a text has the vector here that the embedded backend gives it in the program's own
process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from appl.errors import Unsupported
from appl.parts.web.embeddings import MOST_TEXTS, answer, wants_base64
from appl.parts.web.refusals import Refusal
from appl_backends.embedded import MODEL, Embedded
from appl_backends.embedded.server.fields import Fields, are_tokens, parsed
from appl_backends.embedded.server.shapes import check
from appl_backends.embedded.vectors import check_size, vector_of

_INPUT = f"a text, a list of token ids, or a list of at most {MOST_TEXTS} of these, none empty"
_MOST_DIMENSIONS = 1 << 20


class Embeddings:
    """The route ``/v1/embeddings``."""

    def __init__(self, backend: Embedded) -> None:
        self._model, self._tokenizer = backend.engine.model, backend.tokenizer

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request."""
        given = parsed(await request.read())
        check(given)
        as_base64 = wants_base64(given.raw("encoding_format"))
        dimensions = given.whole("dimensions", 0, 1, _MOST_DIMENSIONS)
        try:
            check_size(dimensions, self._model)
        except Unsupported as error:
            raise Refusal(str(error), param="dimensions") from None
        inputs = self._inputs(given)
        # Off the loop: long texts take a while, and others wait for their answers meanwhile.
        vectors, tokens = await asyncio.to_thread(self._vectors, inputs)
        return web.json_response(answer(vectors, MODEL, tokens, as_base64=as_base64))

    def _inputs(self, given: Fields) -> list[str | list[int]]:
        found: Any = given.raw("input")
        if isinstance(found, str) or self._is_tokens(found):
            found = [found]
        fits = isinstance(found, list) and 0 < len(found) <= MOST_TEXTS
        if not fits or not all(self._is_input(each) for each in found):
            raise given.wrong("input", _INPUT)
        inputs: list[str | list[int]] = found
        return inputs

    def _is_input(self, value: object) -> bool:
        return (isinstance(value, str) and value != "") or self._is_tokens(value)

    def _is_tokens(self, value: object) -> bool:
        return bool(value) and are_tokens(value, self._model.shape.vocab)

    def _vectors(self, inputs: list[str | list[int]]) -> tuple[list[bytes], int]:
        texts = [self._tokenizer.encode(one) if isinstance(one, str) else one for one in inputs]
        return [vector_of(ids, self._model) for ids in texts], sum(map(len, texts))
