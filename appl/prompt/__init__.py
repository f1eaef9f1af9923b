"""Prompts as values: messages, and the persistent chain that programs build."""

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of
from appl.prompt.chain import (
    ObservedPrompt,
    Part,
    Prompt,
    PromptNode,
    PromptSlot,
    moved,
    nodes_of,
    parts_of,
)
from appl.prompt.digest import digest_of, tagged
from appl.prompt.lazy import Lazy, message_of
from appl.prompt.levels import UNFORMATTED, Format, Indexing, Level
from appl.prompt.media import Media, as_media
from appl.prompt.message import ROLES, Message, Messages, RoleName, ToolCall
from appl.prompt.origin import NOWHERE, Origin, Spans, joined, line_of
from appl.prompt.voice import USER, VOICES, Voice

# Names that few programs use are imported at their first use.

if TYPE_CHECKING:
    from appl.prompt.definition import BracketedDefinition, Definition, define, define_bracketed
    from appl.prompt.formatting import Filled, Formatted, formatted
    from appl.prompt.media_types import Audio, Image
    from appl.prompt.message_input import (
        AIMessage,
        SystemMessage,
        ToolMessage,
        UserMessage,
        as_content,
        as_message,
    )
    from appl.prompt.promptable import Promptable
    from appl.prompt.provider_fields import ProviderFields
    from appl.prompt.rope import Rope
    from appl.prompt.secret import Secret
else:
    __getattr__ = names_of(
        __name__,
        {
            "definition": "BracketedDefinition Definition define define_bracketed",
            "formatting": "Filled Formatted formatted",
            "media_types": "Audio Image",
            "message_input": "AIMessage SystemMessage ToolMessage UserMessage "
            "as_content as_message",
            "promptable": "Promptable",
            "provider_fields": "ProviderFields",
            "rope": "Rope",
            "secret": "Secret",
        },
    )

__all__ = [
    "NOWHERE",
    "ROLES",
    "UNFORMATTED",
    "USER",
    "VOICES",
    "AIMessage",
    "Audio",
    "BracketedDefinition",
    "Definition",
    "Filled",
    "Format",
    "Formatted",
    "Image",
    "Indexing",
    "Lazy",
    "Level",
    "Media",
    "Message",
    "Messages",
    "ObservedPrompt",
    "Origin",
    "Part",
    "Prompt",
    "PromptNode",
    "PromptSlot",
    "Promptable",
    "ProviderFields",
    "RoleName",
    "Rope",
    "Secret",
    "Spans",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "UserMessage",
    "Voice",
    "as_content",
    "as_media",
    "as_message",
    "define",
    "define_bracketed",
    "digest_of",
    "formatted",
    "joined",
    "line_of",
    "message_of",
    "moved",
    "nodes_of",
    "parts_of",
    "tagged",
]
