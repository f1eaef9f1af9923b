"""The persistent prompt: a chain of items that are never changed, so that a copy is one reference.

Invariant: a ``Node`` is immutable but for caches; two prompts that share a beginning share it as
the same objects, and a ``Messages`` link is computed once per node, iteratively.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from appl.prompt.digest import digest_of
from appl.prompt.layout import UNFORMATTED, Layout, Mark
from appl.prompt.lazy import Lazy, message_of
from appl.prompt.media import Audio, Image, Media
from appl.prompt.message import Message, RoleName, ToolCall
from appl.prompt.voice import VOICES, Moved, Voice

Part = str | Lazy | Image | Audio | Message


class Place:
    """A lazy part that stands for any number of nodes: kept for what is said there later.

    ``voice`` is the one in which they are said, unless they are said in one of their own.
    """

    __slots__ = ("voice",)

    def __init__(self, voice: Voice) -> None:
        self.voice = voice

    def prompt_known(self) -> bool:
        """Whether it is known what stands here, if not all of its text."""
        raise NotImplementedError

    def prompt_nodes(self) -> list[Node]:
        """The nodes, once ``prompt_known``; when ``prompt_ready``, their parts are ready too."""
        raise NotImplementedError


_EMPTY = digest_of("appl-messages-1")
_NOTHING: frozenset[str] = frozenset()


class Messages:
    """Rendered messages as a chain: the last message, and the chain before it.

    ``digest`` covers this message and all before it; ``needs`` are the features (``images``,
    ``audio``) that a backend must have to take them. ``cache`` holds what a backend derives from
    exactly this prefix (token ids, encoded JSON), keyed by whatever that backend chooses. Nothing
    that is said later joins the message of a ``closed`` link.
    """

    __slots__ = ("cache", "closed", "digest", "length", "message", "needs", "parent")

    def __init__(self, parent: Messages | None, message: Message, closed: bool = False) -> None:
        self.parent, self.message, self.closed = parent, message, closed
        self.needs: frozenset[str]
        if parent is None:
            self.length, before, self.needs = 1, _EMPTY, _NOTHING
        else:
            self.length, before, self.needs = 1 + parent.length, parent.digest, parent.needs
        if message.media:
            self.needs |= {medium.feature for _, medium in message.media}
        self.digest: bytes = digest_of(before, *message.fields())
        self.cache: dict[object, object] = {}

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Messages | None:
        """The chain of *messages*, ``None`` when there are none."""
        chain: Messages | None = None
        for message in messages:
            chain = cls(chain, message.plain(), message.whole)
        return chain

    def links(self) -> list[Messages]:
        """Every link, first message first."""
        found: list[Messages] = []
        link: Messages | None = self
        while link is not None:
            found.append(link)
            link = link.parent
        found.reverse()
        return found

    def __iter__(self) -> Iterator[Message]:
        return (link.message for link in self.links())

    def __len__(self) -> int:
        return self.length


class Node:
    """One part of a prompt, and everything before it.

    A part is text, something lazy, an image or a sound, or a ``Message`` that stays as it is.
    ``voice`` says who speaks, and in which format; ``starts`` is true for the first part of an
    item. ``apart`` begins a message, where it stands, whatever was said before. ``hole`` is the
    nearest node, this one included, whose part is lazy; ``needs`` are the features that a backend
    must have for the parts that are there.
    """

    __slots__ = (
        "_folded", "_layout", "_ready", "_rendered", "apart", "hole", "length", "needs", "parent",
        "part", "starts", "voice",
    )  # fmt: skip

    def __init__(
        self,
        parent: Node | None,
        voice: Voice,
        part: Part,
        *,
        starts: bool = True,
        apart: bool = False,
    ) -> None:
        self.parent, self.voice, self.part = parent, voice, part
        self.starts, self.apart = starts, apart
        self._rendered: Messages | None = None
        self._layout: Layout | None = None
        self._folded = False
        self.hole: Node | None
        self.needs: frozenset[str]
        if parent is None:
            self.length, self.hole, self.needs = 1, None, _NOTHING
        else:
            self.length, self.hole, self.needs = 1 + parent.length, parent.hole, parent.needs
        if isinstance(part, str):
            self._ready = self.hole is None
        elif isinstance(part, _THERE):
            self._ready = self.hole is None
            self.needs |= _needed(part)
        else:
            self.hole, self._ready = self, False

    def unread(self) -> list[Lazy]:
        """The lazy parts, nearest first, that no rendering has read yet."""
        found: list[Lazy] = []
        node: Node | None = self
        while node is not None and not node._folded:
            if node.lazy is not None:
                found.append(node.lazy)
            node = node.parent
        return found

    @property
    def role(self) -> RoleName:
        """Who speaks."""
        return self.voice.role

    @property
    def lazy(self) -> Lazy | None:
        """The part, if it is lazy."""
        part = self.part
        return None if isinstance(part, _SOLID) else part

    def waiting(self) -> Iterator[Lazy]:
        """The lazy parts that are not there yet, nearest first; none when the prompt is ready."""
        hole = None if self._ready else self.hole
        first, missing = hole, False
        while hole is not None and not hole._ready:
            part = hole.lazy
            if part is not None and not part.prompt_ready():
                missing = True
                yield part
            hole = hole.parent.hole if hole.parent else None
        if first is not None and not missing:
            first._ready = self._ready = True

    def first_waiting(self) -> Lazy | None:
        """The nearest lazy part that is not there yet."""
        return next(self.waiting(), None)

    def holes(self) -> Iterator[Lazy]:
        """All lazy parts, nearest first, there or not: the data edges into this prompt."""
        hole = self.hole
        while hole is not None:
            assert hole.lazy is not None
            yield hole.lazy
            hole = hole.parent.hole if hole.parent else None

    def text(self) -> str:
        """The text of this part alone; a placeholder for an image or a sound."""
        part = self.part
        if isinstance(part, str):
            return part
        if isinstance(part, Message):
            return part.shown
        return str(part) if isinstance(part, Image | Audio) else part.prompt_text()

    def after(
        self, parent: Node | None, *, voice: Voice | None = None, part: Part | None = None,
        apart: bool | None = None,
    ) -> Node:  # fmt: skip
        """The same in another prompt, after *parent*; what is given may be another."""
        return Node(
            parent, self.voice if voice is None else voice, self.part if part is None else part,
            starts=self.starts, apart=self.apart if apart is None else apart,
        )  # fmt: skip

    def messages(self) -> Messages | None:
        """The rendered conversation up to here; every lazy part must be ready.

        Adjacent items of one speaker form one message; system text moves to the front. ``None``
        when all parts are places that stayed empty.
        """
        if not self._folded:
            fresh: list[Node] = []
            node: Node | None = self
            while node is not None and not node._folded:
                fresh.append(node)
                node = node.parent
            fresh.reverse()
            layout = node._layout.copy() if node and node._layout else Layout()
            before = node._rendered if node else None
            self._rendered = _fold(before, layout, _unfolded(fresh))
            self._layout = None if layout.fresh else layout
            self._folded = True
        return self._rendered

    def since(self, start: Node | None) -> list[Node]:
        """The nodes after *start* up to this one, oldest first."""
        found: list[Node] = []
        node: Node | None = self
        while node is not None and node is not start:
            found.append(node)
            node = node.parent
        found.reverse()
        return found


_THERE = (Image, Audio, Message)
_SOLID = (str, Image, Audio, Message)


def _needed(part: Media | Message) -> frozenset[str]:
    if isinstance(part, Message):
        return frozenset(medium.feature for _, medium in part.media)
    return frozenset((part.feature,))


def parts_of(message: Message) -> list[Node]:
    """*message* as nodes of no prompt yet; one that calls tools, or answers a call, stays whole."""
    voice = Voice(message.role, message.name, UNFORMATTED)
    if message.whole:
        return [Node(None, voice, message.plain())]
    parts = message.parts or [""]
    return [Node(None, voice, part, starts=i == 0) for i, part in enumerate(parts)]


def nodes_of(parent: Node | None, messages: Iterable[Message]) -> Node | None:
    """*messages* after *parent*, each a message of its own, where it stands."""
    for message in messages:
        for node in parts_of(message):
            parent = node.after(parent, apart=node.starts)
    return parent


def _unfolded(nodes: list[Node]) -> list[Node]:
    """*nodes* with what stands in the places that were kept for others."""
    found: list[Node] = []
    stack = nodes[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node.part, Place):
            stack += moved(node.part.prompt_nodes(), node.part.voice, node.voice)[::-1]
        else:
            found.append(node)
    return found


def moved(nodes: list[Node], old: Voice, new: Voice) -> list[Node]:
    """*nodes* that were said inside *old*, as they are said inside *new*."""
    if old is new:
        return nodes
    move = Moved(old, new)
    return [node.after(None, voice=move(node.voice)) for node in nodes]


Marked = tuple[Node, Mark | None]
"""A part, and what its format puts around it, if it has one."""


def _fold(before: Messages | None, layout: Layout, nodes: list[Node]) -> Messages | None:
    marked = [(node, layout.mark(node.voice.level, node.starts)) for node in nodes]
    if not any(_joins_front(node) for node in nodes):
        return _said(before, marked)
    chain = _said(before, [each for each in marked if not _joins_front(each[0])])
    return _front(chain, [each for each in marked if _joins_front(each[0])])


def _joins_front(node: Node) -> bool:
    return node.voice.role == "system" and not node.apart


def _front(chain: Messages | None, system: list[Marked]) -> Messages | None:
    """System text joins the front however late it is said: providers take it there only."""
    links = chain.links() if chain is not None else []
    first = next((i for i, link in enumerate(links) if link.message.role != "system"), len(links))
    front = _said(links[first - 1] if first else None, system)
    for link in links[first:]:
        front = Messages(front, link.message, link.closed)
    return front


def _said(chain: Messages | None, marked: list[Marked]) -> Messages | None:
    fold = _Fold(chain)
    for node, mark in marked:
        fold.add(node, mark)
    return fold.end()


class _Fold:
    """Parts on their way to become messages: the chain so far, and the message that is open.

    ``glued`` is true where no separator belongs: at the beginning, and after an image or a sound.
    """

    __slots__ = ("chain", "glued", "length", "media", "name", "role", "texts")

    def __init__(self, chain: Messages | None) -> None:
        self.chain = chain
        self.role: RoleName | None = None  # of the open message; None when there is none
        self.name: str | None = None
        self.texts: list[str] = []
        self.media: list[tuple[int, Media]] = []
        self.length, self.glued = 0, True

    def add(self, node: Node, mark: Mark | None) -> None:
        part = node.part
        if isinstance(part, str):
            self._text(node, mark, part)
        elif isinstance(part, Message):
            self.chain = Messages(self.end(), part, closed=True)
        elif isinstance(part, Image | Audio):
            self._open(node.voice, node.apart)
            if mark is not None and mark.label:
                self._lead(mark)
            self.media.append((self.length, part))
            self.glued = True
        elif (answer := message_of(part)) is None:
            self._text(node, mark, part.prompt_text())
        else:
            self._answer(node, mark, answer)

    def _text(self, node: Node, mark: Mark | None, text: str) -> None:
        self._open(node.voice, node.apart)
        if mark is not None:
            if node.starts:
                self._lead(mark)
            if mark.indent:
                text = text.replace("\n", "\n" + mark.indent)
        elif node.starts and not self.glued:
            self._put("\n")
        self._put(text)
        self.glued = False

    def _lead(self, mark: Mark) -> None:
        """What stands before an item; it is indented where it begins a line."""
        sep = "" if self.glued else mark.sep
        begins = (sep or self.texts[-1]).endswith("\n") if self.length and not self.glued else True
        self._put(sep + (mark.indent if begins else "") + mark.label)

    def _put(self, text: str) -> None:
        if text:
            self.texts.append(text)
            self.length += len(text)

    def _answer(self, node: Node, mark: Mark | None, answer: Message) -> None:
        """An answer that calls tools continues what the assistant has said, and ends it."""
        if node.apart or node.role != "assistant" or answer.role != "assistant":
            self.chain = Messages(self.end(), answer.plain(), closed=True)
            return
        if answer.content:
            self._text(node, mark, answer.content)
        else:
            self._open(node.voice, apart=False)
        self._close(answer.tool_calls)

    def _open(self, voice: Voice, apart: bool) -> None:
        """Have a message of this speaker open."""
        role, name = voice[:2]
        if not apart and role == self.role and name == self.name:
            return
        last = self.end()
        if not apart and last is not None and not last.closed:
            said = last.message
            if said.role == role and said.name == name:
                self.chain, self.length = last.parent, len(said.content)
                self.texts, self.media = [said.content], list(said.media)
                self.glued = bool(said.media) and said.media[-1][0] == self.length
        self.role, self.name = role, name

    def end(self) -> Messages | None:
        """The chain with the message that was open."""
        if self.role is not None:
            self._close(())
        return self.chain

    def _close(self, calls: tuple[ToolCall, ...]) -> None:
        assert self.role is not None
        text = self.texts[0] if len(self.texts) == 1 else "".join(self.texts)
        message = Message(self.role, text, tuple(self.media), calls, None, self.name)
        self.chain = Messages(self.chain, message, closed=bool(calls))
        self.role, self.texts, self.media, self.length, self.glued = None, [], [], 0, True


class Prompt:
    """A prompt that grows: a reference to the newest node of its chain."""

    __slots__ = ("tip",)

    def __init__(self, tip: Node | None = None) -> None:
        self.tip = tip

    def append(
        self,
        role: RoleName,
        part: Part,
        *,
        starts: bool = True,
        name: str | None = None,
    ) -> Node:
        """Add one part, said by *role* without a format, and return its node."""
        voice = VOICES[role] if name is None else Voice(role, name)
        return self.say(voice, part, starts)

    def say(self, voice: Voice, part: Part, starts: bool = True) -> Node:
        """Add one part and return its node."""
        self.tip = node = Node(self.tip, voice, part, starts=starts)
        return node

    def extend(self, nodes: Iterable[Node]) -> None:
        """Add the same parts as *nodes*."""
        tip = self.tip
        for node in nodes:
            tip = node.after(tip)
        self.tip = tip

    def copy(self) -> Prompt:
        """A prompt that continues from here on its own; costs one reference and never waits."""
        return Prompt(self.tip)
