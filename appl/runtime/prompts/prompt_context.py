"""Prompts that a program holds in its hand: made, filled and passed on explicitly.

Invariant: a context belongs to no activation and to no run; what is said into it stays there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from appl.prompt import Prompt
from appl.prompt.notebook import Bundle
from appl.runtime.activation import marked
from appl.runtime.frame import FRAME, PromptWriter
from appl.runtime.future_takers import taking_futures
from appl.runtime.prompts.context import PromptRecords, conversation_of, shown
from appl.runtime.prompts.conversation import Conversation
from appl.runtime.prompts.say import say

P = ParamSpec("P")
R = TypeVar("R")


class PromptContext(PromptWriter):
    """A prompt that is passed on by hand: ``f(…, _ctx=p)``, ``gen(_ctx=p)``, ``p.grow("text")``.

    A function with ``ctx="same"`` writes into it, one with ``"copy"`` starts from it.
    """

    def __init__(self) -> None:
        super().__init__("", Prompt())

    def grow(self, content: object) -> PromptContext:
        """Say *content*, as a bare statement of a ``@ppl`` function would; the context itself."""
        say(self, content)
        return self

    @property
    def messages(self) -> Conversation:
        """The whole prompt, as a conversation; waits for what is pending."""
        return conversation_of(self.prompt.tip)

    @property
    def records(self) -> PromptRecords:
        """The items that were added since it was made, copied or inherited."""
        return PromptRecords(self)

    def copy(self) -> PromptContext:
        """A copy that starts with the same text; costs one reference and never waits."""
        return self._like(self.prompt.copy())

    def inherit(self) -> PromptContext:
        """The same prompt with records of its own."""
        return self._like(self.prompt)

    def _like(self, prompt: Prompt) -> PromptContext:
        context = type(self).__new__(type(self))
        PromptWriter.__init__(context, self.address, prompt, self.voice)
        return context

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The prompt as a notebook shows it; it does not wait."""
        return shown(self.prompt.tip)

    def __repr__(self) -> str:
        length = self.prompt.tip.length if self.prompt.tip is not None else 0
        return f"<PromptContext: {length} parts>"


def context_here() -> PromptContext | None:
    """The prompt of the running ``@ppl`` function as a context; ``None`` outside of one."""
    frame = FRAME.get()
    if frame is None or frame.parent is None:
        return None
    context = PromptContext()
    PromptWriter.__init__(context, frame.address, frame.prompt, frame.voice)
    return context


def need_ctx(f: Callable[P, R]) -> Callable[P, R]:
    """Have *f* called with ``_ctx=``: the prompt of the ``@ppl`` function that it is called in.

    Where the caller gives ``_ctx=`` itself, or there is no such function, nothing is added.
    """

    @functools.wraps(f)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if "_ctx" not in kwargs and (context := context_here()) is not None:
            kwargs["_ctx"] = context
        return f(*args, **kwargs)

    wrapper.__need_ctx__ = True  # type: ignore[attr-defined]
    return marked(wrapper) if inspect.iscoroutinefunction(f) else wrapper


taking_futures(PromptContext.grow)
