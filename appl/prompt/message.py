"""Messages: who says what, as immutable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast, get_args

from appl.errors import InvalidOption

RoleName = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[str, ...] = get_args(RoleName)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; ``content`` is its text."""

    role: RoleName
    content: str

    def as_dict(self) -> dict[str, str]:
        """The message as ``{"role": …, "content": …}``."""
        return {"role": self.role, "content": self.content}


class _Said(Message):
    """A message whose class fixes its role; a statement ``UserMessage("…")`` adds it."""

    __slots__ = ()
    kind: ClassVar[RoleName]

    def __init__(self, content: str = "") -> None:
        super().__init__(self.kind, content)


class SystemMessage(_Said):
    """A message of the system; all of them stand together at the front of the conversation."""

    __slots__ = ()
    kind = "system"


class UserMessage(_Said):
    """A message of the user."""

    __slots__ = ()
    kind = "user"


class AIMessage(_Said):
    """A message of the model."""

    __slots__ = ()
    kind = "assistant"


class ToolMessage(_Said):
    """The result of a tool call."""

    __slots__ = ()
    kind = "tool"


def as_message(value: Message | dict[str, Any]) -> Message:
    """*value* as a message; a dict needs ``role`` and ``content``, else ``InvalidOption``."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, dict):
        raise InvalidOption(
            'messages are a list of UserMessage("..."), AIMessage("..."), ... or of '
            f'{{"role": "user", "content": "..."}}, got {value!r:.80} in it'
        )
    role, content = value.get("role"), value.get("content")
    if role not in ROLES or not isinstance(content, str):
        known = ", ".join(ROLES)
        raise InvalidOption(
            f"a message needs a role of {known} and a string as content, got {value!r:.200}"
        )
    return Message(cast(RoleName, role), content)
