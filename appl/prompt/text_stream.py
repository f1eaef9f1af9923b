"""The text of a prompt while it grows: the same as a rendering gives, part by part.

Invariant: the texts of all parts, one after the other, are those of the rendered messages in the
order in which they were said, with a new line between two messages.
"""

from __future__ import annotations

from appl.prompt.chain import PromptNode, Renderer, is_apart, level_of
from appl.prompt.layout import Layout
from appl.prompt.lazy import message_of
from appl.prompt.media import Media
from appl.prompt.message import Message, Messages, ToolCall
from appl.prompt.origin import Origin
from appl.prompt.voice import Voice


class GrowingText(Renderer):
    """Gives the text that each part adds to a prompt, separators and numbers included."""

    __slots__ = ("_has_text", "_layout", "_new")

    def __init__(self) -> None:
        self._new: list[str] = []
        self._has_text = False
        self._layout = Layout()
        super().__init__(None)

    def added(self, node: PromptNode) -> str:
        """The text that *node* adds; a lazy part has to be ready."""
        whole = _whole(node)
        if whole is not None:
            self._parted()
            self._new.append(whole.shown)
        self.add(node, self._layout.mark(level_of(node), node.starts))
        if isinstance(node.part, Media):
            self._new.append(str(node.part))
        text, self._new = "".join(self._new), []
        return text

    def _begin(self, voice: Voice, apart: bool) -> None:
        super()._begin(voice, apart)
        self._parted()

    def _parted(self) -> None:
        """Begin a message: on a new line, after the first."""
        if self._has_text:
            self._new.append("\n")
        self._has_text = True

    def _put(self, text: str, origin: Origin) -> None:
        super()._put(text, origin)
        self._new.append(text)

    def end(self, calls: tuple[ToolCall, ...] = ()) -> Messages | None:
        if calls:
            text = "\n" if self.length or self.media else ""
            self._new.append(text + "\n".join(map(str, calls)))
        return super().end(calls)


def _whole(node: PromptNode) -> Message | None:
    """The message that *node* consists of; ``None`` if it is only a part of one."""
    if isinstance(node.part, Message):
        return node.part
    answer = message_of(node.lazy) if node.lazy is not None else None
    return answer.plain() if answer is not None and is_apart(node, answer) else None
