"""OpenAI's Responses interface, which gives a model its own reasoning back, encrypted.

Invariant: nothing is stored at the provider unless the program asks for it; a call that only the
chat interface can express says so by :func:`why_chat`.
"""

from __future__ import annotations

import re

from appl.backend import Request
from appl_backends.openai.interface import Interface
from appl_backends.openai.responses.answer import ItemsAssembly, ItemsReader
from appl_backends.openai.responses.body import FIELDS, NO_REASONING, OPTIONS, SHARED, body_of

LEAST_TOKENS = 16
"""The smallest limit of an answer's tokens that the interface takes.

https://github.com/earendil-works/pi/issues/6265
"""

LACKS = frozenset({"audio", "n", "seed"})
"""The features of OpenAI's chat interface that this one does not have."""

_CHAT_MODELS = re.compile(r"audio|search-preview|gpt-3\.5-turbo-instruct")
"""Models that OpenAI has in its chat interface only."""

RESPONSES = Interface(
    "responses", "/responses", False, body_of, ItemsReader, ItemsAssembly, ", responses"
)


def why_chat(request: Request, model: str) -> str | None:
    """A feature in *request* that only the chat interface has; ``None`` if there is none.

    https://developers.openai.com/api/docs/guides/migrate-to-responses
    """
    sampling = request.sampling
    if request.n > 1:
        return "n"
    if sampling.seed is not None:
        return "seed"
    if sampling.stop and NO_REASONING.match(model):  # others refuse it there
        return "stop"
    if sampling.max_tokens is not None and sampling.max_tokens < LEAST_TOKENS:
        return "max_tokens"
    if request.messages is not None and "audio" in request.messages.needs:
        return "audio"
    if sampling.extra:
        for name, value in sampling.extra:
            if name not in OPTIONS:
                return name
            if name == "extra_body" and not _is_ours(value):
                return name
    return "model" if _CHAT_MODELS.search(model) else None


def _is_ours(fields: object) -> bool:
    """True if *fields* of a body are written for this interface, and not for chat."""
    return isinstance(fields, dict) and fields.keys() <= FIELDS and not fields.keys() <= SHARED


__all__ = ["LACKS", "LEAST_TOKENS", "OPTIONS", "RESPONSES", "why_chat"]
