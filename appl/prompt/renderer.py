"""Rendering: parts of a prompt become messages.

Invariant: rendering in steps gives the same as rendering at once; only new parts are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appl.prompt.layout import UNFORMATTED, Layout, Level, Mark
from appl.prompt.lazy import message_of, origin_of
from appl.prompt.media import Audio, Image, Media
from appl.prompt.message import Message, RoleName, ToolCall
from appl.prompt.messages import LONG, Messages

if TYPE_CHECKING:
    from appl.prompt.chain import PromptNode
    from appl.prompt.origin import Origin
    from appl.prompt.voice import Voice

Marked = tuple["PromptNode", Mark | None]
"""A part, and what its format puts around it, if it has one."""


def render(
    before: Messages | None, layout: Layout | None, nodes: list[PromptNode]
) -> tuple[Messages | None, Layout | None]:
    """The chain *before* with the parts of *nodes* added, and the *layout* after them.

    System text moves to the front. There is a layout only if something was said in a format.
    """
    renderer, front = Renderer(before), list[Marked]()
    for node in nodes:
        level = node.voice.level if isinstance(node.part, str) else level_of(node)
        if layout is None and level is not None and level is not UNFORMATTED:
            layout = Layout()
        mark = layout.mark(level, node.starts) if layout is not None else None
        if node.voice.role == "system" and _joins_front(node):
            front.append((node, mark))
        elif isinstance(node.part, str):
            renderer.say(node, mark, node.part)
        else:
            renderer.add(node, mark)
    chain = renderer.end()
    return (_front(chain, front) if front else chain), layout


def _joins_front(node: PromptNode) -> bool:
    return not node.apart and not _is_message(node)


def level_of(node: PromptNode) -> Level | None:
    """The level of which *node* is an item; a message of its own has none."""
    return UNFORMATTED if _is_message(node) else node.voice.level


def _is_message(node: PromptNode) -> bool:
    """True if a part turned out to be a message of its own: an answer that calls tools."""
    answer = message_of(node.lazy) if node.lazy is not None else None
    return answer is not None and (is_apart(node, answer) or not answer.content)


def is_apart(node: PromptNode, answer: Message) -> bool:
    return node.apart or node.role != "assistant" or answer.role != "assistant"


def _front(chain: Messages | None, system: list[Marked]) -> Messages | None:
    """The chain with *system* text at the front, the only place where providers take it."""
    links = chain.links() if chain is not None else []
    first = next((i for i, link in enumerate(links) if link.message.role != "system"), len(links))
    front = _said(links[first - 1] if first else None, system)
    for link in links[first:]:
        front = Messages(front, link.message, link.closed, link.spans)
    return front


def _said(chain: Messages | None, marked: list[Marked]) -> Messages | None:
    renderer = Renderer(chain)
    for node, mark in marked:
        renderer.add(node, mark)
    return renderer.end()


class Renderer:
    """Makes messages of parts: the chain so far, and the message that is open.

    The open message goes on from ``base``, if that is given. ``glued`` is true where no separator
    belongs: at the beginning, and after an image or a sound.
    """

    __slots__ = (
        "base",
        "chain",
        "glued",
        "length",
        "media",
        "name",
        "role",
        "spans",
        "texts",
    )

    def __init__(self, chain: Messages | None) -> None:
        self.chain = chain
        self.role: RoleName | None = None  # of the open message; None when there is none
        self.name: str | None = None

    def add(self, node: PromptNode, mark: Mark | None) -> None:
        part = node.part
        if isinstance(part, str):
            self.say(node, mark, part)
        elif isinstance(part, Message):
            self.chain = Messages(self.end(), part, True, _spans(part, node.site))
        elif isinstance(part, Image | Audio):
            self._open(node.voice, node.apart)
            if mark is not None and mark.label:
                self._lead(mark, node.site)
            self.media.append((self.length, part))
            self.glued = True
        elif (answer := message_of(part)) is None:
            self.say(node, mark, part.prompt_text(), origin_of(part))
        else:
            self._answer(node, mark, answer)

    def say(self, node: PromptNode, mark: Mark | None, text: str, by: Origin = None) -> None:
        """Add *text*, the part of *node*; it comes *by* an origin other than the statement."""
        voice, site = node.voice, node.site
        if by is None and type(text) is not str:
            by = getattr(text, "call_id", None)
        if node.apart or voice.role != self.role or voice.name != self.name:
            self._begin(voice, node.apart)
        if mark is not None:
            if node.starts:
                self._lead(mark, site)
            if mark.indent:
                text = text.replace("\n", "\n" + mark.indent)
        elif node.starts and not self.glued:
            self._put("\n", site)
        self._put(text, site if by is None else by)
        self.glued = bool(self.media) and self._ends_in_media()

    def _lead(self, mark: Mark, site: Origin) -> None:
        """Writes the text in front of an item; it is indented where it begins a line."""
        sep = "" if self.glued else mark.sep
        begins = sep.endswith("\n") if sep else self._begins_line()
        begins = begins or self.glued or not self.length
        self._put(sep + (mark.indent if begins else "") + mark.label, site)

    def _put(self, text: str, origin: Origin) -> None:
        if text:
            self.texts.append(text)
            spans = self.spans
            if spans and spans[-1] is origin:
                spans[-2] += len(text)
            else:
                spans += (len(text), origin)
            self.length += len(text)

    def _begins_line(self) -> bool:
        """True if the text so far ends with a line."""
        if self.texts:
            return self.texts[-1].endswith("\n")
        return self.base is None or self.base.rope.ends_line

    def _answer(self, node: PromptNode, mark: Mark | None, answer: Message) -> None:
        """An answer that calls tools continues what the assistant has said, and ends it."""
        if is_apart(node, answer):
            self.chain = Messages(self.end(), answer.plain(), True, _spans(answer, _by(node)))
            return
        if answer.content:
            self.say(node, mark, answer.content, _by(node))
        else:
            self._open(node.voice, apart=False)
        self.end(answer.tool_calls)

    def _open(self, voice: Voice, apart: bool) -> None:
        """Open a message of this speaker, unless one is open."""
        if apart or voice.role != self.role or voice.name != self.name:
            self._begin(voice, apart)

    def _begin(self, voice: Voice, apart: bool) -> None:
        """Open a message of this speaker, which may go on from the last one of the chain."""
        role, name = voice.role, voice.name
        if self.role is not None:
            self.end()
        self.base: Messages | None = None
        self.texts: list[str] = []
        self.spans: list[Any] = []
        self.media: list[tuple[int, Media]] = []
        self.length, self.glued = 0, True
        last = self.chain
        if not apart and last is not None and not last.closed:
            said = last.outline
            if said.role == role and said.name == name:
                self._continue(last)
        self.role, self.name = role, name

    def _continue(self, last: Messages) -> None:
        """Open the message of *last* again."""
        self.chain, self.length = last.parent, last.size
        self.media = list(last.outline.media)
        self.glued = bool(self.media) and self._ends_in_media()
        if last.size > LONG:
            self.base = last
        else:
            text = last.message.content
            self.texts = [text]
            self.spans = list(last.spans) or ([len(text), None] if text else [])

    def _ends_in_media(self) -> bool:
        """True if the last content was an image or a sound; an empty text does not count."""
        return self.media[-1][0] == self.length

    def end(self, calls: tuple[ToolCall, ...] = ()) -> Messages | None:
        """The chain with the message that was open, which *calls* tools."""
        if self.role is None:
            return self.chain
        text = self.texts[0] if len(self.texts) == 1 else "".join(self.texts)
        if self.base is not None:
            self.chain = self.base.longer(text, tuple(self.media), calls, tuple(self.spans))
        else:
            message = Message(self.role, text, tuple(self.media), calls, None, self.name)
            self.chain = Messages(self.chain, message, bool(calls), tuple(self.spans))
        self.role = None
        return self.chain


def _by(node: PromptNode) -> Origin:
    """The origin of the part of *node*: the call of a lazy part, else the statement."""
    found = origin_of(node.lazy) if node.lazy is not None else None
    return node.site if found is None else found


def _spans(message: Message, origin: Origin) -> tuple[object, ...]:
    """The spans of a whole message."""
    text = message.content
    if type(text) is not str:
        origin = getattr(text, "call_id", origin)
    return (len(text), origin) if text and origin is not None else ()
