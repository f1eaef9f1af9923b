"""The module name under which APPL programs import types: ``from appl.types import Generation``."""

from __future__ import annotations

from appl.function import Program as PromptFunc
from appl.prompt import AIMessage as AIMessage
from appl.prompt import Audio as Audio
from appl.prompt import Image as Image
from appl.prompt import Message as BaseMessage
from appl.prompt import SystemMessage as SystemMessage
from appl.prompt import ToolCall as ToolCall
from appl.prompt import ToolMessage as ToolMessage
from appl.prompt import UserMessage as UserMessage
from appl.runtime.context import PromptRecords as PromptRecords
from appl.runtime.conversation import Conversation as Conversation
from appl.runtime.future import CallFuture as CallFuture
from appl.runtime.future import Generation as Generation
from appl.runtime.given import PromptContext as PromptContext
from appl.runtime.joined import StringFuture as StringFuture
from appl.runtime.text import Text as CompletionResponse

__all__ = [
    "AIMessage",
    "Audio",
    "BaseMessage",
    "CallFuture",
    "CompletionResponse",
    "Conversation",
    "Generation",
    "Image",
    "PromptContext",
    "PromptFunc",
    "PromptRecords",
    "StringFuture",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "UserMessage",
]
