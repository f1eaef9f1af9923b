"""A provider to ask, which looks at its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from appl.testing.faults import Fault, echo
from tests.wire.servers import FaultServer

from .place import KEY, MODEL

REFUSED = Fault("refused", 401, {}, b'{"error": {"message": "no such model or key"}}')


def provider(
    answer: Callable[[str], str] = echo, *, model: str = MODEL, key: str = KEY
) -> FaultServer:
    """A provider of OpenAI's interface, which refuses any other model and key."""

    def script(ask: Any) -> Fault | None:
        right = ask.headers.get("authorization") == f"Bearer {key}" and ask.data["model"] == model
        return None if right and ask.path == "/v1/chat/completions" else REFUSED

    return FaultServer(script, answer=answer, model=model)
