"""A program's view of its own prompt: ``records()``, ``convo()``, conversations as values.

Invariant: reading never changes a prompt; what is pending is waited for only when text is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.errors import RunError
from appl.prompt import USER, Lazy, Messages, Prompt, PromptNode, moved
from appl.runtime.concurrency.fiber import wait
from appl.runtime.concurrency.promise import Error, Promise, source_of
from appl.runtime.frame import FRAME, Frame, PromptWriter
from appl.runtime.prompts.conversation import Conversation

if TYPE_CHECKING:
    from appl.prompt.notebook import Bundle


def frame_here(what: str) -> Frame:
    """The frame whose prompt *what* needs."""
    frame = FRAME.get()
    if frame is None or frame.parent is None:
        raise RunError(f"{what} needs a prompt: use it in a @ppl function")
    return frame


def wait_for(node: PromptNode | None) -> None:
    """Wait for all parts of a prompt; raises the failure of the earliest."""
    if node is None:
        return
    failed: Promise | None = None
    for lazy in node.unread():
        source = _settled(lazy)
        if isinstance(source.outcome, Error):
            failed = source
    if failed is not None:
        raise failed.seen()


def _settled(lazy: Lazy) -> Promise:
    while True:
        source = source_of(lazy)
        wait(source)
        if lazy.prompt_ready():
            return source.last()


class PromptRecords:
    """The items that one call added to its prompt: live while it runs, settled when it is over.

    As a statement it adds the same items to another prompt, without waiting: in the format and in
    the role of whoever says them, but for what was said in a block of its own.
    """

    def __init__(self, frame: PromptWriter) -> None:
        self._frame = frame

    def nodes(self) -> list[PromptNode]:
        """The parts, oldest first, as a user without a format says them."""
        tip = self._frame.tip()
        if tip is None:
            return []
        return moved(tip.since(self._frame.origin), self._frame.base, USER)

    def copy(self) -> PromptRecords:
        """The items so far: a copy to which nothing is added any more."""
        frame = self._frame
        writer = PromptWriter(frame.address, Prompt(frame.tip()), frame.base)
        writer.origin = frame.origin
        return PromptRecords(writer)

    @property
    def prompt(self) -> Prompt:
        """The prompt that the items are in."""
        return self._frame.prompt

    def messages(self) -> Messages | None:
        """The items as messages, waiting for what is pending."""
        tip = self._frame.tip()
        if self._frame.origin is not None or self._frame.base is not USER:
            prompt = Prompt()
            prompt.extend(self.nodes())
            tip = prompt.tip
        wait_for(tip)
        return tip.messages() if tip is not None else None

    def as_convo(self) -> Conversation:
        """The items as a conversation of their own."""
        return Conversation.of(self.messages())

    def __str__(self) -> str:
        messages = list(self.messages() or ())
        if all(message.role == "user" and message.name is None for message in messages):
            return "\n".join(message.shown for message in messages)
        return "\n".join(map(str, messages))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The items as a notebook shows them; it does not wait."""
        prompt = Prompt()
        prompt.extend(self.nodes())
        return shown(prompt.tip)

    def __repr__(self) -> str:
        return f"<PromptRecords of {self._frame.address}: {len(self.nodes())} parts>"


def shown(tip: PromptNode | None) -> Bundle:
    """A prompt as a notebook shows it; parts that are not there yet are left open."""
    from appl.prompt.notebook import dialogue  # only notebooks show prompts

    if tip is None:
        return dialogue((), "empty")
    open_parts = [lazy for lazy in tip.unread() if not _answered(lazy)]
    if not open_parts:
        return dialogue((message.role, message.shown) for message in tip.messages() or ())
    lines = [(node.role, _peek(node)) for node in tip.since(None)]
    return dialogue(lines, f"{len(open_parts)} parts are pending or failed")


def _answered(lazy: Lazy) -> bool:
    source = lazy.prompt_source()
    failed = isinstance(source, Promise) and isinstance(source.last().outcome, Error)
    return lazy.prompt_ready() and not failed


def _peek(node: PromptNode) -> str:
    return "…" if node.lazy is not None and not _answered(node.lazy) else node.text()


def records(_ctx: PromptWriter | None = None) -> PromptRecords:
    """The items that this call adds to its prompt, now and later; or those of *_ctx*."""
    return PromptRecords(_ctx if _ctx is not None else frame_here("records()"))


def convo(_ctx: PromptWriter | None = None) -> Conversation:
    """Everything that is in this call's context, or in *_ctx*; waits for what is pending."""
    return conversation_of((_ctx if _ctx is not None else frame_here("convo()")).prompt.tip)


def conversation_of(tip: PromptNode | None) -> Conversation:
    """The messages up to *tip*, waiting for what is pending."""
    wait_for(tip)
    return Conversation.of(tip.messages() if tip is not None else None)
