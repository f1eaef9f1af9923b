"""Rendered messages as a chain that conversations share.

Invariant: a link is immutable but for caches; a long message that goes on is kept as a rope, so
that many versions of it cost no more than what was added to each.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from appl.prompt.digest import digest_of
from appl.prompt.origin import NOWHERE, Spans, trail
from appl.prompt.rope import Rope

if TYPE_CHECKING:
    from appl.prompt.message import Message, Placed, ToolCall

LONG = 4096
"""The characters from which on a message that goes on is kept as a rope."""

_EMPTY = digest_of("appl-messages-1")
_NOTHING: frozenset[str] = frozenset()


class Messages:
    """Rendered messages as a chain: the last message, and the chain before it.

    ``digest`` covers this message and all before it; ``needs`` are the features (``images``,
    ``audio``) that a backend must have to take them. ``kept`` is the last message as it is,
    ``None`` where its text is a rope; ``outline`` is the message, perhaps without its text.
    ``cache`` holds what a backend derives from exactly this prefix (token ids, encoded JSON),
    keyed by whatever that backend chooses. Nothing that is said later joins the message of a
    ``closed`` link. The *spans* of the text say where it comes from. ``noted`` is the number by
    which a recorder knows the prefix, and its mark.
    """

    __slots__ = (
        "_digest",
        "_held",
        "_rope",
        "_spans",
        "_trail",
        "cache",
        "closed",
        "kept",
        "length",
        "needs",
        "noted",
        "outline",
        "parent",
    )

    def __init__(
        self,
        parent: Messages | None,
        message: Message,
        closed: bool = False,
        spans: Spans = NOWHERE,
        rope: Rope | None = None,
    ) -> None:
        self.parent, self.closed, self.outline = parent, closed, message
        self.kept: Message | None = message if rope is None else None
        self._spans, self._rope = spans, rope
        self._held: weakref.ref[Message] | None = None
        self.needs: frozenset[str]
        if parent is None:
            self.length, self.needs = 1, _NOTHING
        else:
            self.length, self.needs = 1 + parent.length, parent.needs
        if message.media:
            self.needs |= {medium.feature for _, medium in message.media}
        self._digest: bytes | None = None
        self._trail: int | None = None
        self.cache: dict[object, object] = {}
        self.noted: tuple[object, int] | None = None

    @classmethod
    def roped(cls, parent: Messages | None, outline: Message, rope: Rope, closed: bool) -> Messages:
        """The chain whose last message is *outline* with the text of *rope*.

        The message is put together anew whenever nobody holds it any more.
        """
        return cls(parent, outline, closed, rope=rope)

    def longer(
        self, added: str, media: Placed, calls: tuple[ToolCall, ...], spans: Spans = NOWHERE
    ) -> Messages:
        """The chain whose last message goes on with *added*; *media* are all that it then has.

        *spans* are those of *added*.
        """
        outline = replace(self.outline, content="", media=media, tool_calls=calls)
        return Messages.roped(self.parent, outline, Rope(self.rope, added, spans), bool(calls))

    @property
    def rope(self) -> Rope:
        """The text of the last message."""
        if self._rope is None:
            assert self.kept is not None
            self._rope = Rope(None, self.kept.content, self._spans)
        return self._rope

    @property
    def spans(self) -> Spans:
        """The origins of the text of the last message; empty if nothing is known of it."""
        return self._spans if self.kept is not None else self.rope.all_spans()

    @property
    def trail(self) -> int:
        """A number that tells chains of equal messages apart whose texts come from elsewhere."""
        if self._trail is None:
            todo: list[Messages] = []
            link: Messages | None = self
            while link is not None and link._trail is None:
                todo.append(link)
                link = link.parent
            found = 0 if link is None or link._trail is None else link._trail
            for part in reversed(todo):
                spans = part._spans if part.kept is not None else part.rope.marks()
                part._trail = found = trail(found, part.length, spans)
        assert self._trail is not None
        return self._trail

    @property
    def size(self) -> int:
        """The length of the text of the last message."""
        return len(self.kept.content) if self.kept is not None else self.rope.size

    @property
    def message(self) -> Message:
        """The last message."""
        if self.kept is not None:
            return self.kept
        held = self._held() if self._held is not None else None
        if held is None:
            held = replace(self.outline, content=str(self.rope))
            self._held = weakref.ref(held)
        return held

    @property
    def digest(self) -> bytes:
        """The digest of all messages up to this one; computed when somebody asks, once."""
        digest, todo = self._digest, [self]
        if digest is None:
            while (link := todo[-1].parent) is not None and (digest := link._digest) is None:
                todo.append(link)
            digest = digest or _EMPTY
            for part in reversed(todo):
                said = part.kept or part.message
                part._digest = digest = digest_of(digest, *said.fields())
        return digest

    def has_digest(self, recorded: bytes) -> None:
        """Take the digest that was recorded, in place of one of what can be read now."""
        self._digest = recorded

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
