"""Prompts as values: messages, and the persistent chain that programs build."""

from appl.prompt.chain import Messages, Node, Part, Place, Prompt, nodes_of, parts_of
from appl.prompt.digest import digest_of, tagged
from appl.prompt.lazy import Filled, Formatted, Lazy, formatted, message_of
from appl.prompt.media import Audio, Image, Media, as_media
from appl.prompt.message import (
    ROLES,
    AIMessage,
    Content,
    Message,
    RoleName,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    as_content,
    as_message,
    as_tool_call,
)

__all__ = [
    "ROLES",
    "AIMessage",
    "Audio",
    "Content",
    "Filled",
    "Formatted",
    "Image",
    "Lazy",
    "Media",
    "Message",
    "Messages",
    "Node",
    "Part",
    "Place",
    "Prompt",
    "RoleName",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "UserMessage",
    "as_content",
    "as_media",
    "as_message",
    "as_tool_call",
    "digest_of",
    "formatted",
    "message_of",
    "nodes_of",
    "parts_of",
    "tagged",
]
