"""Single requests to twins: what reaches them, and that they take it."""

from __future__ import annotations

from typing import Any

from appl.backend import Request
from appl.prompt import Message, ToolCall
from tests.providers.asking import closing, request
from tests.wire.servers import FaultServer

from .kinds import KINDS

CALL = ToolCall("call_1", "add", '{"a":1}')
TOOL = '{"name":"add","parameters":{"type":"object","properties":{}}}'


def talk(call: ToolCall = CALL, *more: Message, **about: Any) -> list[Message]:
    """A conversation in which *call* was made and answered."""
    says = Message("assistant", "", tool_calls=(call,), **about)
    return [Message("user", "hi"), says, Message("tool", "3", tool_call_id=call.id), *more]


async def accepted(name: str, *said: Message, **options: Any) -> list[Any]:
    """The messages that the twin *name* gets and takes."""
    return list((await asked(name, request(*said, **options)))["messages"])


async def asked(name: str, question: Request) -> dict[str, Any]:
    """The body that the twin *name* gets and takes."""
    twin = KINDS[name].twin(failing=0)
    with FaultServer(twin, kind=KINDS[name].server) as server:
        backend = KINDS[name].backend(server)
        model = backend.profile.default_model or ""
        async with closing(backend):
            await backend.complete(Request("/", 0, model, question.messages, question.sampling))
        assert not twin.refused
        return dict(server.asks[-1].data)
