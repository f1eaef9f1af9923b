"""What a program sees of its own prompt: ``records()``, ``convo()``, conversations as values.

Invariant: reading never changes a prompt; what is pending is waited for only when text is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from appl.errors import RunError
from appl.prompt import Lazy, Message, Messages, Node, Prompt, as_message
from appl.runtime.fiber import wait
from appl.runtime.frame import FRAME, Frame, Scribe
from appl.runtime.future import finished
from appl.runtime.pending import Error, Pending, Proxy


def frame_here(what: str) -> Frame:
    """The frame whose prompt *what* needs."""
    frame = FRAME.get()
    if frame is None or frame.parent is None:
        raise RunError(f"{what} needs a prompt: use it in a @ppl function")
    return frame


def wait_for(node: Node | None) -> None:
    """Wait for all parts of a prompt; raises the failure of the earliest."""
    if node is None:
        return
    failed: Pending | None = None
    for lazy in list(node.holes()):
        source = _settled(lazy)
        if isinstance(source.outcome, Error):
            failed = source
    if failed is not None:
        raise failed.seen()


def _settled(lazy: Lazy) -> Pending:
    while True:
        source = lazy.prompt_source()
        assert isinstance(source, Pending)
        wait(source)
        if lazy.prompt_ready():
            return source.last()


class PromptRecords:
    """What one call added to its prompt: live while the call runs, settled when it is over.

    As a statement it adds the same items to another prompt, without waiting.
    """

    def __init__(self, frame: Scribe) -> None:
        self._frame = frame

    def nodes(self) -> list[Node]:
        """The parts, oldest first."""
        tip = self._frame.tip()
        return tip.since(self._frame.origin) if tip is not None else []

    @property
    def prompt(self) -> Prompt:
        """The prompt that the items are in."""
        return self._frame.prompt

    def messages(self) -> Messages | None:
        """The items as messages, waiting for what is pending."""
        prompt = Prompt()
        for node in self.nodes():
            prompt.append(node.role, node.part, sep=node.sep, lead=node.lead, starts=node.starts)
        wait_for(prompt.tip)
        return prompt.tip.messages() if prompt.tip is not None else None

    def as_convo(self) -> Conversation:
        """The items as a conversation of their own."""
        return Conversation(self.messages() or ())

    def __str__(self) -> str:
        return "\n".join(message.content for message in self.messages() or ())

    def __repr__(self) -> str:
        return f"<PromptRecords of {self._frame.address}: {len(self.nodes())} parts>"


class Conversation:
    """Messages as a value. Iteration, length and index leave the system's messages out."""

    def __init__(
        self,
        messages: Iterable[Message | dict[str, Any]] | None = None,
        *,
        system_messages: Iterable[Message | dict[str, Any]] | None = None,
    ) -> None:
        every = [_message(m) for m in (*(system_messages or ()), *(messages or ()))]
        self.system_messages = [m for m in every if m.role == "system"]
        self._said = [m for m in every if m.role != "system"]

    def all(self) -> list[Message]:
        """Every message, the system's first."""
        return [*self.system_messages, *self._said]

    def append(self, message: Message | dict[str, Any]) -> None:
        """Add a message at the end (of the system's messages, if it is one)."""
        made = _message(message)
        (self.system_messages if made.role == "system" else self._said).append(made)

    def extend(self, messages: Iterable[Message | dict[str, Any]]) -> None:
        """Append each of *messages*."""
        for message in messages:
            self.append(message)

    def pop(self, index: int = -1) -> Message:
        """Take out a message that is not the system's."""
        return self._said.pop(index)

    def set_system_messages(self, messages: Iterable[Message | dict[str, Any]]) -> None:
        """Replace the system's messages."""
        self.system_messages = [_message(message) for message in messages]

    def make_copy(self) -> Conversation:
        """A conversation that changes on its own."""
        return Conversation(self.all())

    def as_list(self) -> list[dict[str, str]]:
        """Every message as a ``{"role", "content"}`` dict."""
        return [message.as_dict() for message in self.all()]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._said)

    def __len__(self) -> int:
        return len(self._said)

    def __getitem__(self, index: int) -> Message:
        return self._said[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and _pairs(self) == _pairs(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "\n".join(f"{message.role}: {message.content}" for message in self.all())

    def __repr__(self) -> str:
        return f"Conversation({self.as_list()!r})"


def _pairs(conversation: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in conversation.all()]


def _message(value: Message | dict[str, Any]) -> Message:
    if isinstance(value, dict):
        value = {key: finished(item) for key, item in value.items()}
        if isinstance(value.get("content"), str):
            value["content"] = str.__str__(value["content"])
    elif isinstance(value, Message) and isinstance(value.content, Proxy):
        return Message(value.role, str.__str__(finished(value.content)))
    return as_message(value)


def records(_ctx: Scribe | None = None) -> PromptRecords:
    """What this call has added to its prompt so far, and still adds; or what *_ctx* holds."""
    return PromptRecords(_ctx if _ctx is not None else frame_here("records()"))


def convo(_ctx: Scribe | None = None) -> Conversation:
    """Everything that is in this call's context, or in *_ctx*; waits for what is pending."""
    return conversation_of((_ctx if _ctx is not None else frame_here("convo()")).prompt.tip)


def conversation_of(tip: Node | None) -> Conversation:
    """The messages up to *tip*, waiting for what is pending."""
    wait_for(tip)
    return Conversation(tip.messages() if tip is not None else ())
