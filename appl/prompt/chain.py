"""The persistent prompt: a chain of items that are never changed, so that a copy is one reference.

Invariant: a ``PromptNode`` is immutable but for caches; two prompts that share a beginning share
it as the same objects, and a ``Messages`` link is computed once per node, iteratively. Rendering in
steps gives the same as rendering at once; only new parts are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from appl.prompt.lazy import Lazy, message_of, origin_of, provided_with
from appl.prompt.levels import UNFORMATTED, Level
from appl.prompt.media import Media
from appl.prompt.message import LONG, Message, Messages, RoleName, ToolCall
from appl.prompt.voice import Moved, Voice

if TYPE_CHECKING:
    from appl.prompt.layout import Layout, Mark
    from appl.prompt.origin import Origin
    from appl.prompt.provider_fields import ProviderFields

Part = str | Lazy | Media | Message


class PromptSlot:
    """A lazy part that stands for any number of nodes, which are said there later.

    They have the ``voice`` of the slot unless they have one of their own.
    """

    __slots__ = ("voice",)

    def __init__(self, voice: Voice) -> None:
        self.voice = voice

    def has_prompt_kind(self) -> bool:
        """True if the kind of content that stands here is known, if not all of its text."""
        raise NotImplementedError

    def prompt_nodes(self) -> list[PromptNode]:
        """The nodes, once ``has_prompt_kind``; when ``prompt_ready``, their parts are ready too."""
        raise NotImplementedError


class PromptNode:
    """One part of a prompt, and everything before it.

    A part is text, something lazy, an image or a sound, or a ``Message`` that stays as it is.
    ``voice`` says who speaks, and in which format; ``starts`` is true for the first part of an
    item. ``apart`` begins a message, where it stands, whatever was said before. ``is_hole`` is true
    if its part is lazy, ``has_hole`` if that or an earlier one is, ``before`` is the nearest such
    node before it; ``is_ready`` is true once all lazy parts are known to be there. ``needs`` are
    the features that a backend must have for the parts that are there. Several prompts go on from a
    ``shared`` one. ``site`` is the statement that said it, where that is known.
    """

    __slots__ = (
        "_is_rendered",
        "_layout",
        "_rendered",
        "apart",
        "before",
        "has_hole",
        "is_hole",
        "is_ready",
        "length",
        "needs",
        "parent",
        "part",
        "shared",
        "site",
        "starts",
        "voice",
    )

    def __init__(
        self,
        parent: PromptNode | None,
        voice: Voice,
        part: Part,
        *,
        starts: bool = True,
        apart: bool = False,
        site: Origin = None,
    ) -> None:
        self.parent, self.voice, self.part, self.site = parent, voice, part, site
        self.starts, self.apart = starts, apart
        self._rendered: Messages | None = None
        self._layout: Layout | None = None
        self._is_rendered = self.shared = False
        self.before: PromptNode | None
        self.needs: frozenset[str]
        if parent is None:
            self.length, self.before, self.needs = 1, None, _NOTHING
        else:
            self.length, self.needs = 1 + parent.length, parent.needs
            self.before = parent if parent.is_hole else parent.before
        self.is_hole: bool = not isinstance(part, _SOLID)
        self.has_hole: bool = self.is_hole or self.before is not None
        self.is_ready: bool = not self.has_hole
        if isinstance(part, Media):
            self.needs |= {part.feature}
        elif isinstance(part, Message):
            self.needs |= {medium.feature for _, medium in part.media}

    @property
    def hole(self) -> PromptNode | None:
        """The nearest node with a lazy part: this one or one before it."""
        # Not an attribute: a node that held itself would wait for the garbage collector.
        return self if self.is_hole else self.before

    def unread(self) -> list[Lazy]:
        """The lazy parts, nearest first, that no rendering has read yet."""
        parts: list[Lazy] = []
        node: PromptNode | None = self
        while node is not None and not node._is_rendered:
            if node.lazy is not None:
                parts.append(node.lazy)
            node = node.parent
        return parts

    @property
    def role(self) -> RoleName:
        """The role of the speaker."""
        return self.voice.role

    @property
    def lazy(self) -> Lazy | None:
        """The part, if it is lazy."""
        part = self.part
        return None if isinstance(part, _SOLID) else part

    def waiting(self) -> Iterator[Lazy]:
        """The lazy parts that are not there yet, nearest first; none when the prompt is ready."""
        hole = None if self.is_ready else self.hole
        first, missing = hole, False
        while hole is not None and not hole.is_ready:
            part = hole.lazy
            if part is not None and not part.prompt_ready():
                missing = True
                yield part
            hole = hole.before
        if first is not None and not missing:
            first.is_ready = self.is_ready = True

    def first_waiting(self) -> Lazy | None:
        """The nearest lazy part that is not there yet."""
        return None if self.is_ready else next(self.waiting(), None)

    def holes(self) -> Iterator[Lazy]:
        """All lazy parts, nearest first, there or not: the data edges into this prompt."""
        hole = self.hole
        while hole is not None:
            assert hole.lazy is not None
            yield hole.lazy
            hole = hole.before

    def text(self) -> str:
        """The text of this part alone; a placeholder for an image or a sound."""
        part = self.part
        if isinstance(part, str):
            return part
        if isinstance(part, Message):
            return part.shown
        return str(part) if isinstance(part, Media) else part.prompt_text()

    def after(
        self,
        parent: PromptNode | None,
        *,
        voice: Voice | None = None,
        part: Part | None = None,
        apart: bool | None = None,
    ) -> PromptNode:
        """A copy of this node in another prompt, after *parent*, with the given changes."""
        return PromptNode(
            parent,
            self.voice if voice is None else voice,
            self.part if part is None else part,
            starts=self.starts,
            apart=self.apart if apart is None else apart,
            site=self.site,
        )

    def messages(self) -> Messages | None:
        """The rendered conversation up to here; every lazy part must be ready.

        Adjacent items of one speaker form one message; system text moves to the front. ``None``
        when all parts are slots that stayed empty.
        """
        if not self._is_rendered:
            fresh: list[PromptNode] = []
            node: PromptNode | None = self
            while node is not None and not node._is_rendered:
                fresh.append(node)
                node = node.parent
            fresh.reverse()
            start = 0
            for stop, last in enumerate(fresh, 1):
                if not last.shared and last is not self:
                    continue
                # What prompts share is rendered once for all.
                layout = node._layout.copy() if node is not None and node._layout else None
                rendered = node._rendered if node is not None else None
                nodes = fresh[start:stop]
                if last.has_hole:
                    nodes = _with_slots_filled(nodes)
                last._rendered, last._layout = render(rendered, layout, nodes)
                last._is_rendered = True
                node, start = last, stop
        return self._rendered

    def since(self, start: PromptNode | None) -> list[PromptNode]:
        """The nodes after *start* up to this one, oldest first."""
        nodes: list[PromptNode] = []
        node: PromptNode | None = self
        while node is not None and node is not start:
            nodes.append(node)
            node = node.parent
        nodes.reverse()
        return nodes


_NOTHING: frozenset[str] = frozenset()
_SOLID = (str, Media, Message)


def parts_of(message: Message) -> list[PromptNode]:
    """*message* as nodes without a parent; one with tool calls or a tool's result stays whole."""
    voice = Voice(message.role, message.name, UNFORMATTED)
    if message.whole or (message.provider_fields is not None and not message.media):
        return [PromptNode(None, voice, message.plain())]
    parts = message.parts or [""]
    return [PromptNode(None, voice, part, starts=i == 0) for i, part in enumerate(parts)]


def nodes_of(parent: PromptNode | None, messages: Iterable[Message]) -> PromptNode | None:
    """The last node after appending *messages* to *parent*, each as a message of its own."""
    for message in messages:
        for node in parts_of(message):
            parent = node.after(parent, apart=node.starts)
    return parent


def _with_slots_filled(nodes: list[PromptNode]) -> list[PromptNode]:
    """*nodes* with the nodes of slots in their places."""
    filled: list[PromptNode] = []
    stack = nodes[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node.part, PromptSlot):
            stack += moved(node.part.prompt_nodes(), node.part.voice, node.voice)[::-1]
        else:
            filled.append(node)
    return filled


def moved(nodes: list[PromptNode], old: Voice, new: Voice) -> list[PromptNode]:
    """*nodes* said inside *old*, as they would be said inside *new*."""
    if old is new:
        return nodes
    move = Moved(old, new)
    return [node.after(None, voice=move(node.voice)) for node in nodes]


class Prompt:
    """A prompt that grows: a reference to the newest node of its chain."""

    __slots__ = ("tip",)

    def __init__(self, tip: PromptNode | None = None) -> None:
        self.tip = tip

    def say(self, voice: Voice, part: Part, starts: bool = True, site: Origin = None) -> PromptNode:
        """Add one part, said at *site*, and return its node."""
        self.tip = node = PromptNode(self.tip, voice, part, starts=starts, site=site)
        return node

    def extend(self, nodes: Iterable[PromptNode], site: Origin = None) -> None:
        """Add the same parts as *nodes*; those that come from nowhere are said at *site*."""
        tip = self.tip
        for node in nodes:
            tip = node.after(tip)
            if tip.site is None:
                tip.site = site
        self.tip = tip

    def copy(self) -> Prompt:
        """A prompt that continues from here on its own; costs one reference and never waits."""
        if self.tip is not None:
            self.tip.shared = True
        return Prompt(self.tip)


class ObservedPrompt(Prompt):
    """The prompt *of* a function; calls *listener* whenever something is said through it.

    Its copies do not call it.
    """

    __slots__ = ("_listener", "_of")

    def __init__(self, of: Prompt, listener: Callable[[], None]) -> None:
        self._of, self._listener = of, listener

    @property
    def tip(self) -> PromptNode | None:
        """The newest node."""
        return self._of.tip

    @tip.setter
    def tip(self, tip: PromptNode | None) -> None:
        self._of.tip = tip

    def say(self, voice: Voice, part: Part, starts: bool = True, site: Origin = None) -> PromptNode:
        node = super().say(voice, part, starts, site)
        self._listener()
        return node

    def extend(self, nodes: Iterable[PromptNode], site: Origin = None) -> None:
        super().extend(nodes, site)
        self._listener()


# -- rendering: parts become messages

Marked = tuple[PromptNode, "Mark | None"]
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
            from appl.prompt.layout import Layout  # most prompts have no format

            layout = Layout()
        mark = layout.mark(level, node.starts) if layout is not None else None
        if node.voice.role == "system" and not node.apart and not _is_message(node):
            front.append((node, mark))
        elif isinstance(node.part, str):
            renderer.say(node, mark, node.part)
        else:
            renderer.add(node, mark)
    chain = renderer.end()
    if front:  # the only place where providers take text of the system
        links = chain.links() if chain is not None else []
        first = next(
            (at for at, link in enumerate(links) if link.message.role != "system"), len(links)
        )
        renderer = Renderer(links[first - 1] if first else None)
        for node, mark in front:
            renderer.add(node, mark)
        chain = renderer.end()
        for link in links[first:]:
            chain = Messages(chain, link.message, link.closed, link.spans)
    return chain, layout


def level_of(node: PromptNode) -> Level | None:
    """The level of which *node* is an item; a message of its own has none."""
    return UNFORMATTED if _is_message(node) else node.voice.level


def _is_message(node: PromptNode) -> bool:
    """True if a part turned out to be a message of its own: an answer that calls tools."""
    answer = message_of(node.lazy) if node.lazy is not None else None
    return answer is not None and (is_apart(node, answer) or not answer.content)


def is_apart(node: PromptNode, answer: Message) -> bool:
    return node.apart or node.role != "assistant" or answer.role != "assistant"


class Renderer:
    """Makes messages of parts: the chain so far, and the message that is open.

    The open message goes on from ``base``, if that is given. ``glued`` is true where no separator
    belongs: at the beginning, and after an image or a sound. It has the fields that a provider has
    ``provided`` with an answer as long as it is that answer.
    """

    __slots__ = (
        "base",
        "chain",
        "glued",
        "length",
        "media",
        "name",
        "provided",
        "role",
        "spans",
        "texts",
    )

    def __init__(self, chain: Messages | None) -> None:
        self.chain = chain
        self.role: RoleName | None = None  # of the open message; None when there is none
        self.name: str | None = None
        self.provided: ProviderFields | None = None

    def add(self, node: PromptNode, mark: Mark | None) -> None:
        part = node.part
        if isinstance(part, str):
            self.say(node, mark, part)
        elif isinstance(part, Message):
            if part.whole:
                self.chain = Messages(self.end(), part, True, _spans(part, node.site))
            else:  # an answer, with what its provider wants back
                self.say(node, mark, part.content, getattr(part.content, "call_id", None))
                self._provide(part.content, part.provider_fields)
        elif isinstance(part, Media):
            self._begin(node.voice, node.apart)
            if mark is not None and mark.label:
                self._lead(mark, node.site)
            self.media.append((self.length, part))
            self.glued, self.provided = True, None
        elif (answer := message_of(part)) is None:
            text = part.prompt_text()
            self.say(node, mark, text, origin_of(part))
            if (provided := provided_with(part)) is not None:
                self._provide(text, provided)
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

    def _ends_in_media(self) -> bool:
        """True if the last content was an image or a sound; an empty text does not count."""
        return self.media[-1][0] == self.length

    def _lead(self, mark: Mark, site: Origin) -> None:
        """Writes the text in front of an item; it is indented where it begins a line."""
        sep = "" if self.glued else mark.sep
        if sep:
            begins = sep.endswith("\n")
        elif self.texts:
            begins = self.texts[-1].endswith("\n")
        else:
            begins = self.base is None or self.base.rope.ends_line
        begins = begins or self.glued or not self.length
        self._put(sep + (mark.indent if begins else "") + mark.label, site)

    def _provide(self, text: str, provided: ProviderFields | None) -> None:
        """Note the fields of an answer if the open message is its *text* and nothing else."""
        alone = self.base is None and not self.media and self.length == len(text)
        if alone and self.role == "assistant":
            self.provided = provided

    def _put(self, text: str, origin: Origin) -> None:
        if text:
            self.provided = None
            self.texts.append(text)
            spans = self.spans
            if spans and spans[-1] is origin:
                spans[-2] += len(text)
            else:
                spans += (len(text), origin)
            self.length += len(text)

    def _answer(self, node: PromptNode, mark: Mark | None, answer: Message) -> None:
        """An answer that calls tools continues what the assistant has said, and ends it."""
        if is_apart(node, answer):
            self.chain = Messages(self.end(), answer.plain(), True, _spans(answer, _by(node)))
            return
        if answer.content:
            self.say(node, mark, answer.content, _by(node))
        else:
            self._begin(node.voice, apart=False)
        self.provided = answer.provider_fields
        self.end(answer.tool_calls)

    def _begin(self, voice: Voice, apart: bool) -> None:
        """Open a message of this speaker, unless one is open.

        It may go on from the last one of the chain.
        """
        role, name = voice.role, voice.name
        if not apart and role == self.role and name == self.name:
            return
        if self.role is not None:
            self.end()
        self.base: Messages | None = None
        self.texts: list[str] = []
        self.spans: list[Any] = []
        self.media: list[tuple[int, Media]] = []
        self.provided = None
        self.length, self.glued = 0, True
        last = self.chain
        if not apart and last is not None and not last.closed:
            outline = last.outline
            if outline.role == role and outline.name == name:  # it is opened again
                self.chain, self.length = last.parent, last.size
                self.media = list(outline.media)
                self.provided = outline.provider_fields
                self.glued = bool(self.media) and self._ends_in_media()
                if last.size > LONG:
                    self.base = last
                else:
                    text = last.message.content
                    self.texts = [text]
                    self.spans = list(last.spans) or ([len(text), None] if text else [])
        self.role, self.name = role, name

    def end(self, calls: tuple[ToolCall, ...] = ()) -> Messages | None:
        """The chain with the message that was open, which *calls* tools."""
        if self.role is None:
            return self.chain
        text = self.texts[0] if len(self.texts) == 1 else "".join(self.texts)
        if self.base is not None:
            media, spans = tuple(self.media), tuple(self.spans)
            self.chain = self.base.longer(text, media, calls, spans, self.provided)
        else:
            message = Message(
                self.role, text, tuple(self.media), calls, None, self.name, False, self.provided
            )
            self.chain = Messages(self.chain, message, bool(calls), tuple(self.spans))
        self.role = None
        return self.chain


def _by(node: PromptNode) -> Origin:
    """The origin of the part of *node*: the call of a lazy part, else the statement."""
    origin = origin_of(node.lazy) if node.lazy is not None else None
    return node.site if origin is None else origin


def _spans(message: Message, origin: Origin) -> tuple[object, ...]:
    """The spans of a whole message."""
    text = message.content
    if type(text) is not str:
        origin = getattr(text, "call_id", origin)
    return (len(text), origin) if text and origin is not None else ()
