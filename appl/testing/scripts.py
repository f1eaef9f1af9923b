"""Backends that answer from a script, or always the same.

Invariant: an answer depends on the script and the request alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from appl.backend import Emit, Request, Response, Sample
from appl.errors import BackendError
from appl.prompt import ToolCall
from appl.testing import Answer, Fake, or_vectors, response, said

__all__ = ["Instant", "Scripted", "calling"]


def calling(*calls: tuple[str, object], text: str = "") -> Response:
    """A response that calls tools: names with their arguments, as JSON text or as data."""
    tool_calls_built = [
        ToolCall(
            f"call_{i}", name, arguments if isinstance(arguments, str) else json.dumps(arguments)
        )
        for i, (name, arguments) in enumerate(calls)
    ]
    return Response((Sample(text, "tool_calls", tool_calls=tuple(tool_calls_built)),))


class Scripted(Fake):
    """Answers from *script*: a list in the order of requests, a dict by address, or a function.

    ``embed`` gets vectors made of the words of each text; the script has no part in them.
    """

    features = Fake.features | {"embeddings"}

    def __init__(
        self,
        script: Iterable[Answer] | dict[str, Answer] | Callable[[Request], Answer],
        **profile: Any,
    ) -> None:
        super().__init__(or_vectors(_follow(script)), **{"name": "scripted", **profile})


def _follow(
    script: Iterable[Answer] | dict[str, Answer] | Callable[[Request], Answer],
) -> Callable[[Request], Answer]:
    if callable(script):
        return script
    if isinstance(script, dict):
        by_address = script
        return lambda request: by_address.get(request.address, _missing(request))
    lines = iter(script)
    return lambda request: next(lines, _missing(request))


def _missing(request: Request) -> BackendError:
    return BackendError(f"the script has no answer for {request.address}: {said(request)!r:.200}")


class Instant(Fake):
    """Answers with one text at once and keeps nothing: for measuring the runtime itself."""

    def __init__(self, text: str = "ok", **profile: Any) -> None:
        super().__init__(lambda _: text, **{"name": "instant", **profile})
        self._response = response(text)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """The one response."""
        return self._response
