"""The module name under which APPL programs import types: ``from appl.types import Generation``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING

from appl.backend import Response, Sample, Usage
from appl.prompt import (
    AIMessage as AIMessage,
    Audio as Audio,
    BracketedDefinition as BracketedDefinition,
    Definition as Definition,
    Image as Image,
    Indexing as Indexing,
    Message as BaseMessage,
    Promptable as Promptable,
    SystemMessage as SystemMessage,
    ToolCall as ToolCall,
    ToolMessage as ToolMessage,
    UserMessage as UserMessage,
)
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.future import Future, Generation as Generation
from appl.runtime.concurrency.parallel import call
from appl.runtime.function import DecoratedFunction as PromptFunc
from appl.runtime.prompts.compositor import Compositor as Compositor
from appl.runtime.prompts.context import PromptRecords as PromptRecords
from appl.runtime.prompts.conversation import Conversation as Conversation
from appl.runtime.prompts.joined import StringFuture as StringFuture
from appl.runtime.prompts.prompt_context import PromptContext as PromptContext
from appl.runtime.tools.tool import SchemaTool as SchemaTool, Tool as Tool


class _Calling(type(Future)):  # type: ignore[misc]
    """Makes ``CallFuture(f, …)`` a call, and every future a ``CallFuture``."""

    def __call__(cls, func: Callable[..., object], *args: object, **kwargs: object) -> object:
        for option in ("lazy_eval", "use_process"):
            kwargs.pop(option, None)
        return call(func, *args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Future)


class CallFuture(Future[object], metaclass=_Calling):
    """An older name of ``Future``; ``CallFuture(f, …)`` is ``call(f, …)``."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(
            self, func: Callable[..., object], *args: object, **kwargs: object
        ) -> None: ...


class _Responding(type(Text)):  # type: ignore[misc]
    """Makes ``CompletionResponse(…)`` an answer, and every answer a ``CompletionResponse``."""

    def __call__(
        cls,
        *,
        message: str | None = None,
        tool_calls: Iterable[ToolCall] = (),
        usage: Usage | None = None,
        cost: int | None = None,
        finish_reason: str | None = None,
        reasoning_content: str | None = None,
        response_obj: object = None,
    ) -> Text:
        calls = tuple(tool_calls)
        reason = finish_reason or ("tool_calls" if calls else "stop")
        sample = Sample(message or "", reason, tool_calls=calls, reasoning=reasoning_content)
        response = Response((sample,), usage or Usage(), cost=cost)
        return Text.of("", response, objects=None if response_obj is None else (response_obj,))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Text)


class CompletionResponse(Text, metaclass=_Responding):
    """An older name of ``Text``; ``CompletionResponse(tool_calls=[…])`` is an answer for tests."""

    __slots__ = ()


class ReasoningContent(str):
    """A piece of reasoning, as APPL's ``text_stream`` mixed it into the answer.

    Here ``text_stream`` has the answer alone and ``reasoning_stream`` the reasoning, so no piece of
    either is one.
    """

    __slots__ = ()

    @property
    def content(self) -> str:
        """The text."""
        return str.__str__(self)


BaseTool = Tool
"""An older name of ``Tool``."""


class ExecutorType(Enum):
    """The pools of APPL's ``call``; accepted without effect, as appl chooses itself."""

    LLM_THREAD_POOL = "llm_thread_pool"
    GENERAL_THREAD_POOL = "general_thread_pool"
    GENERAL_PROCESS_POOL = "general_process_pool"
    NEW_THREAD = "new_thread"
    NEW_PROCESS = "new_process"


__all__ = [
    "AIMessage",
    "Audio",
    "BaseMessage",
    "BaseTool",
    "BracketedDefinition",
    "CallFuture",
    "CompletionResponse",
    "Compositor",
    "Conversation",
    "Definition",
    "ExecutorType",
    "Generation",
    "Image",
    "Indexing",
    "PromptContext",
    "PromptFunc",
    "PromptRecords",
    "Promptable",
    "ReasoningContent",
    "SchemaTool",
    "StringFuture",
    "SystemMessage",
    "Tool",
    "ToolCall",
    "ToolMessage",
    "UserMessage",
]
