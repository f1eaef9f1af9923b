"""Answers in what a handler of FastAPI returns.

Invariant: an answer that its program has not waited for is refused, whether it is there or not: the
encoder runs on the server's event loop, and to wait there would hold up all other requests.
"""

from __future__ import annotations

import sys
from typing import Any

from appl.runtime.concurrency.future import Future, Generation, finished

_HOW = (
    "an answer is a future, and the server cannot wait for it here; in a def handler write "
    "str(answer), or answer.result(), or annotate your prompt function with -> str; in an async "
    "def handler write await answer"
)


def register() -> None:
    """Have FastAPI encode answers that were waited for, and say what to write for others."""
    encoders: Any = sys.modules["fastapi.encoders"]

    def encoded(answer: Generation[Any] | Future[Any]) -> object:
        if not answer._pending.last().delivered:
            raise TypeError(_HOW)
        return encoders.jsonable_encoder(finished(answer))

    for kind in (Generation, Future):
        encoders.ENCODERS_BY_TYPE.setdefault(kind, encoded)
