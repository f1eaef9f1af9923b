"""The attributes that messages and tool calls of APPL 0.2 have besides those of today.

Invariant: each name gives what today's name gives.
"""

from __future__ import annotations

from collections.abc import Callable

from appl.base.fallback import MISSING
from appl.parts.compat.older import told_once
from appl.prompt import Message, ToolCall
from appl.prompt.message_input import AnswerMessage

ROLES = {"is_system": "system", "is_user": "user", "is_ai": "assistant", "is_tool": "tool"}
"""The attributes that say whose message it is."""


def _get_content(message: Message) -> Callable[..., str]:
    told_once("message.get_content()", "message.content")
    return lambda as_str=False: message.content


def _get_dict(message: Message) -> Callable[..., dict[str, object]]:
    told_once("message.get_dict()", "message.as_dict()")
    return lambda default_role=None: message.as_dict()


def _dict_of_call(call: ToolCall) -> Callable[[], dict[str, object]]:
    told_once("call.get_dict()", "call.as_dict()")
    return call.as_dict


OF_MESSAGE = {"get_content": _get_content, "get_dict": _get_dict}
OF_CALL: dict[str, Callable[[ToolCall], object]] = {
    "args": lambda call: call.arguments,
    "get_dict": _dict_of_call,
}


def of_message(message: Message, name: str) -> object:
    """The attribute *name* of *message*, or ``MISSING``."""
    if name in ROLES:
        told_once(f"message.{name}", f'message.role == "{ROLES[name]}"')
        return message.role == ROLES[name]
    if isinstance(message, AnswerMessage) and hasattr(str, name):
        told_once(f"g.message.{name}", f"str(g).{name}")
        return getattr(str(message), name)
    return OF_MESSAGE[name](message) if name in OF_MESSAGE else MISSING


def of_call(call: ToolCall, name: str) -> object:
    """The attribute *name* of the tool *call*, or ``MISSING``."""
    return OF_CALL[name](call) if name in OF_CALL else MISSING
