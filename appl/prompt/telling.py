"""Telling a prompt while it grows: the same text as a rendering gives, part by part.

Invariant: the texts of all parts, one after the other, are those of the rendered messages in the
order in which they were said, with a new line between two messages.
"""

from __future__ import annotations

from appl.prompt.chain import PromptNode
from appl.prompt.fold import Fold, is_apart, level_of
from appl.prompt.layout import Layout
from appl.prompt.lazy import message_of
from appl.prompt.media import Audio, Image
from appl.prompt.message import Message, ToolCall
from appl.prompt.origin import Origin
from appl.prompt.voice import Voice


class Teller(Fold):
    """Says what each part adds to the text of a prompt, separators and numbers included."""

    __slots__ = ("_begins", "_layout", "_told", "_was_told")

    def __init__(self) -> None:
        self._told: list[str] = []
        self._was_told = False
        self._layout = Layout()
        super().__init__(None)

    def tell(self, node: PromptNode) -> str:
        """The text that *node* adds; a lazy part has to be ready."""
        whole = _whole(node)
        if whole is not None:
            self._parted()
            self._told.append(whole.shown)
        self.add(node, self._layout.mark(level_of(node), node.starts))
        if isinstance(node.part, Image | Audio):
            self._told.append(str(node.part))
        return self._taken()

    def _begin(self) -> None:
        super()._begin()
        self._begins = True

    def _open(self, voice: Voice, apart: bool) -> None:
        super()._open(voice, apart)
        if self._begins:
            self._begins = False
            self._parted()

    def _parted(self) -> None:
        """A message begins."""
        if self._was_told:
            self._told.append("\n")
        self._was_told = True

    def _put(self, text: str, origin: Origin) -> None:
        super()._put(text, origin)
        self._told.append(text)

    def _close(self, calls: tuple[ToolCall, ...]) -> None:
        if calls:
            text = "\n" if self.length or self.media else ""
            self._told.append(text + "\n".join(map(str, calls)))
        super()._close(calls)

    def _taken(self) -> str:
        told, self._told = "".join(self._told), []
        return told


def _whole(node: PromptNode) -> Message | None:
    """The message that the part of *node* is, if it is a message of its own."""
    if isinstance(node.part, Message):
        return node.part
    answer = message_of(node.lazy) if node.lazy is not None else None
    return answer.plain() if answer is not None and is_apart(node, answer) else None
