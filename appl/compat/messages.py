"""What the messages and tool calls of APPL 0.2 have besides those of today.

Invariant: nothing is kept here; each name gives what today's name gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appl.compat.older import told_once


class OlderMessage:
    """Older names of what a message has."""

    __slots__ = ()
    role: Any
    content: str

    @property
    def is_system(self) -> bool:
        """An older spelling of ``message.role == "system"``."""
        return self._is("is_system", "system")

    @property
    def is_user(self) -> bool:
        """An older spelling of ``message.role == "user"``."""
        return self._is("is_user", "user")

    @property
    def is_ai(self) -> bool:
        """An older spelling of ``message.role == "assistant"``."""
        return self._is("is_ai", "assistant")

    @property
    def is_tool(self) -> bool:
        """An older spelling of ``message.role == "tool"``."""
        return self._is("is_tool", "tool")

    def _is(self, name: str, role: str) -> bool:
        told_once(f"message.{name}", f'message.role == "{role}"')
        return bool(self.role == role)

    def get_content(self, as_str: bool = False) -> str:
        """An older spelling of ``content``."""
        told_once("message.get_content()", "message.content")
        return self.content

    def get_dict(self, default_role: Any = None) -> dict[str, Any]:
        """An older spelling of ``as_dict``."""
        told_once("message.get_dict()", "message.as_dict()")
        found: dict[str, Any] = self.as_dict()  # type: ignore[attr-defined]
        return found


class OlderCall:
    """Older names of what a tool call has."""

    __slots__ = ()

    @property
    def args(self) -> str:
        """The same as ``arguments``."""
        found: str = self.arguments  # type: ignore[attr-defined]
        return found

    def get_dict(self) -> dict[str, Any]:
        """An older spelling of ``as_dict``."""
        told_once("call.get_dict()", "call.as_dict()")
        found: dict[str, Any] = self.as_dict()  # type: ignore[attr-defined]
        return found

    @classmethod
    def from_dict(cls, call: Mapping[str, Any]) -> Any:
        """The call of a chat completion server's dict: ``{"id", "function": {…}}``."""
        function = call["function"]
        make: Any = cls
        return make(call["id"], function["name"], function["arguments"])
