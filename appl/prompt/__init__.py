"""Prompts as values: messages, and the persistent chain that programs build."""

from appl.prompt.chain import Messages, Node, Part, Place, Prompt, digest_of, tagged
from appl.prompt.lazy import Formatted, Lazy, formatted
from appl.prompt.message import (
    ROLES,
    AIMessage,
    Message,
    RoleName,
    SystemMessage,
    ToolMessage,
    UserMessage,
    as_message,
)

__all__ = [
    "ROLES",
    "AIMessage",
    "Formatted",
    "Lazy",
    "Message",
    "Messages",
    "Node",
    "Part",
    "Place",
    "Prompt",
    "RoleName",
    "SystemMessage",
    "ToolMessage",
    "UserMessage",
    "as_message",
    "digest_of",
    "formatted",
    "tagged",
]
