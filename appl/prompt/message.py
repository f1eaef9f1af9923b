"""Messages: who says what, as immutable values; and rendered ones as a chain that prompts share.

Invariant: a link of the chain is immutable but for caches; a long message that goes on is kept as a
rope, so that many versions of it cost no more than what was added to each.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from appl.base import fallback
from appl.errors import InvalidOption, PromptTypeError, nearest
from appl.prompt.digest import digest_after, digest_of, digested
from appl.prompt.media import Media
from appl.prompt.origin import NOWHERE, Spans, trail

if TYPE_CHECKING:
    from appl.prompt.provider_fields import ProviderFields
    from appl.prompt.rope import Rope

RoleName = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[str, ...] = get_args(RoleName)

Placed = tuple[tuple[int, Media], ...]
"""Images and sounds with the offset in the text before which each stands, in order."""


@dataclass(frozen=True, slots=True, init=False)
class ToolCall:
    """A tool that the model wants to be called; *arguments* is JSON text as the model wrote it.

    *args* is an older name of *arguments*.
    """

    id: str
    name: str
    arguments: str

    def __init__(
        self, id: str, name: str, arguments: str | None = None, *, args: str | None = None
    ) -> None:
        arguments_of_call = args if arguments is None else arguments
        if arguments_of_call is None or None not in (args, arguments):
            raise InvalidOption("ToolCall(id, name, arguments) takes arguments once, as JSON text")
        for slot, value in (("id", id), ("name", name), ("arguments", arguments_of_call)):
            object.__setattr__(self, slot, value)

    def as_dict(self) -> dict[str, Any]:
        """The call as OpenAI-compatible servers take it."""
        arguments = self.arguments if self.arguments.strip() else "{}"  # which servers refuse
        function = {"name": self.name, "arguments": arguments}
        return {"id": self.id, "type": "function", "function": function}

    @classmethod
    def from_dict(cls, call: Mapping[str, object]) -> ToolCall:
        """The call that ``as_dict`` shows."""
        from appl.prompt.message_input import as_tool_call

        return as_tool_call(call)

    if not TYPE_CHECKING:  # a misspelled name is an error of type checkers

        def __getattr__(self, name: str) -> Any:
            return fallback.attribute(self, name)

    def __str__(self) -> str:
        return f"[call {self.id}: {self.name}({self.arguments})]"


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, init=False)
class Message:
    """One message of a conversation; ``content`` is its text.

    ``media`` are its images and sounds, each with the offset in ``content`` at which it stands.
    ``tool_calls`` are the assistant's; ``tool_call_id`` says which of them a tool's message
    answers, and ``has_error`` that the tool failed. ``name`` tells speakers of one role apart.
    Two messages are equal when all these are, whichever classes they have. ``provider_fields`` are
    further fields that only a provider understands.
    """

    role: RoleName
    content: str
    media: Placed = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    has_error: bool = False
    provider_fields: ProviderFields | None = None

    bare: bool = field(init=False, repr=False)
    """True if there is nothing but role and text."""

    def __init__(
        self,
        role: RoleName,
        content: str,
        media: Placed = (),
        tool_calls: tuple[ToolCall, ...] = (),
        tool_call_id: str | None = None,
        name: str | None = None,
        has_error: bool = False,
        provider_fields: ProviderFields | None = None,
    ) -> None:
        if role not in ROLES:
            raise InvalidOption(
                f"a message has one of the roles {', '.join(ROLES)}, got {role!r:.80}"
                f"{nearest(str(role), ROLES)}"
            )
        if type(content) is not str and isinstance(content, NO_CONTENT):
            raise wrong_content(content)
        if name is not None or tool_call_id is not None:  # as in few messages
            for label in (name, tool_call_id):
                if label is not None and isinstance(label, NO_CONTENT):
                    raise InvalidOption(
                        f"the name of a message's speaker, and the id of a tool call, are text, "
                        f"got {label!r:.80}"
                    )
        # By the slots: to set a field of a frozen dataclass takes three times as long, and a prompt
        # may have thousands of messages.
        _set_role(self, role)
        _set_content(self, content)
        _set_media(self, media)
        _set_tool_calls(self, tool_calls)
        _set_tool_call_id(self, tool_call_id)
        _set_name(self, name)
        _set_has_error(self, has_error)
        _set_provider_fields(self, provider_fields)
        more = media or tool_calls or tool_call_id or name or has_error or provider_fields
        _set_bare(self, not more)

    def __add__(self, other: object) -> NoReturn:
        raise PromptTypeError(
            f"{type(self).__name__} + {type(other).__name__}: messages are not added; write each "
            "as a statement of its own, or gen(messages=[first, second])"
        )

    __radd__ = __add__

    if not TYPE_CHECKING:  # a misspelled name is an error of type checkers

        def __getattr__(self, name: str) -> Any:
            return fallback.attribute(self, name)

    @property
    def whole(self) -> bool:
        """True if the message is complete as it is: it calls tools, or is a call's result.

        So is one to which the user gave further fields.
        """
        fields = self.provider_fields
        by_user = fields is not None and not fields.source
        return bool(self.tool_calls or self.tool_call_id or self.has_error or by_user)

    @property
    def parts(self) -> list[str | Media]:
        """Text, images and sounds in their order; no part is an empty text."""
        parts: list[str | Media] = []
        end = 0
        for offset, medium in self.media:
            if offset > end:
                parts.append(self.content[end:offset])
                end = offset
            parts.append(medium)
        if end < len(self.content):
            parts.append(self.content[end:])
        return parts

    @property
    def shown(self) -> str:
        """The message as text to look at: a placeholder stands for all that is not text."""
        if self.bare:
            return self.content
        text = "".join(map(str, self.parts))
        return "\n".join([*([text] if text else []), *map(str, self.tool_calls)])

    def fields(self) -> tuple[str | bytes, ...]:
        """The fields that its digest covers: role and text, and all others that are not empty."""
        if self.bare:
            return self.role, self.content
        fields: list[str | bytes] = [self.role, self.content]
        for offset, medium in self.media:
            fields += ("media", str(offset), medium.digest)
        for call in self.tool_calls:
            fields += ("call", call.id, call.name, call.arguments)
        fields += ("of", self.tool_call_id) if self.tool_call_id else ()
        fields += ("name", self.name) if self.name else ()
        fields += ("error",) if self.has_error else ()
        return tuple(fields)

    def as_dict(self, server: str | None = None) -> dict[str, Any]:
        """The message as chat completion servers take it: ``{"role": …, "content": …}``.

        With images or sounds, the content is a list of parts. It has the fields of a provider;
        those for one server only where that is *server*.
        """
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.bare:
            return data
        if self.media:
            data["content"] = [
                {"type": "text", "text": part} if isinstance(part, str) else part.as_part()
                for part in self.parts
            ]
        elif self.tool_calls and not self.content:
            data["content"] = None
        if self.tool_calls:
            data["tool_calls"] = [call.as_dict() for call in self.tool_calls]
        for key in ("tool_call_id", "name"):
            if getattr(self, key):
                data[key] = getattr(self, key)
        provided = self.provider_fields
        if provided is not None and (server is None or provided.are_for(server)):
            provided.put_into(data)
        return data

    def plain(self) -> Message:
        """The same as a ``Message``, whichever class it has."""
        return self if type(self) is Message else Message(*_values(self))

    def __eq__(self, other: object) -> bool:
        return (
            _own_fields(self) == _own_fields(other)
            if isinstance(other, Message)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(_own_fields(self))

    def __str__(self) -> str:
        speaker = f"{self.role} ({self.name})" if self.name else self.role
        return f"{speaker}: {self.shown}"


_values = attrgetter(*(field.name for field in fields(Message) if field.init))
_own_fields = attrgetter(
    *(f.name for f in fields(Message) if f.init and f.name != "provider_fields")
)
(
    _set_role,
    _set_content,
    _set_media,
    _set_tool_calls,
    _set_tool_call_id,
    _set_name,
    _set_has_error,
    _set_provider_fields,
    _set_bare,
) = (vars(Message)[field.name].__set__ for field in fields(Message))


NO_CONTENT = (bool, int, float, complex, bytes, bytearray, Mapping, set, frozenset)


def wrong_content(value: object) -> InvalidOption:
    return InvalidOption(
        "the content of a message is text, Image, Audio, or a list of these and of parts like "
        f'{{"type": "text", "text": "..."}}, got {value!r:.80}'
    )


# -- rendered messages

LONG = 4096
"""The characters from which on a message that goes on is kept as a rope."""

_EMPTY = digest_of("appl-messages-1")
_HEADS = {role: digested(role) for role in ROLES}
_NOTHING: frozenset[str] = frozenset()


class Messages:
    """Rendered messages as a chain: the last message, and the chain before it.

    ``digest`` covers this message and all before it; ``needs`` are the features (``images``,
    ``audio``) that a backend must have to take them. ``kept`` is the last message as it is,
    ``None`` where its text is a rope; ``outline`` is the message, perhaps without its text.
    ``cache`` holds what a backend derives from exactly this prefix (token ids, encoded JSON),
    keyed by whatever that backend chooses; ``provided`` is true if a message has fields of a
    provider. Nothing that is said later joins the message of a ``closed`` link. The *spans* of the
    text say where it comes from. ``noted`` is the number by which a recorder knows the prefix, and
    its mark. With a *rope*, *message* lacks its text, and is put together anew whenever nobody
    holds it any more.
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
        "provided",
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
        self.provided: bool
        if parent is None:
            self.length, self.needs, self.provided = 1, _NOTHING, False
        else:
            self.length, self.needs = 1 + parent.length, parent.needs
            self.provided = parent.provided
        if not message.bare:
            if message.media:
                self.needs |= {medium.feature for _, medium in message.media}
            if message.provider_fields is not None:
                self.provided = True
        self._digest: bytes | None = None
        self._trail: int | None = None
        self.cache: dict[object, object] = {}
        self.noted: tuple[object, int] | None = None

    def longer(
        self,
        added: str,
        media: Placed,
        calls: tuple[ToolCall, ...],
        spans: Spans = NOWHERE,
        provided: ProviderFields | None = None,
    ) -> Messages:
        """The chain whose last message goes on with *added*; *media* are all that it then has.

        *spans* are those of *added*, and *provided* the fields of a provider.
        """
        from appl.prompt.rope import Rope  # only long messages are kept in pieces

        outline = replace(
            self.outline, content="", media=media, tool_calls=calls, provider_fields=provided
        )
        rope = Rope(self.rope, added, spans)
        return Messages(self.parent, outline, bool(calls), rope=rope)

    @property
    def rope(self) -> Rope:
        """The text of the last message."""
        if self._rope is None:
            assert self.kept is not None
            from appl.prompt.rope import Rope

            self._rope = Rope(None, self.kept.content, self._spans)
        return self._rope

    @property
    def spans(self) -> Spans:
        """The origins of the text of the last message; empty if nothing is known of it."""
        return self._spans if self.kept is not None else self.rope.all_spans()

    @property
    def trail(self) -> int:
        """A number that tells chains of equal messages apart whose texts come from elsewhere.

        Or whose providers gave them other fields.
        """
        if self._trail is None:
            todo: list[Messages] = []
            link: Messages | None = self
            while link is not None and link._trail is None:
                todo.append(link)
                link = link.parent
            mark = 0 if link is None or link._trail is None else link._trail
            for part in reversed(todo):
                spans = part._spans if part.kept is not None else part.rope.marks()
                mark = trail(mark, part.length, spans)
                if part.outline.provider_fields is not None:
                    mark = hash((mark, part.outline.provider_fields))
                part._trail = mark
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
                content = part.kept or part.message
                if content.bare:
                    digest = digest_after(digest, _HEADS[content.role], content.content)
                else:
                    digest = digest_of(digest, *content.fields())
                part._digest = digest
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

    def shed_for(self, server: str) -> tuple[str, ...]:
        """The names of fields that are not sent to *server*: other servers gave them."""
        if not self.provided:
            return ()
        provided = (link.outline.provider_fields for link in self.links())
        others = [
            fields.names for fields in provided if fields is not None and not fields.are_for(server)
        ]
        return tuple(dict.fromkeys(name for names in others for name in names))

    def links(self) -> list[Messages]:
        """Every link, first message first."""
        links: list[Messages] = []
        link: Messages | None = self
        while link is not None:
            links.append(link)
            link = link.parent
        links.reverse()
        return links

    def __iter__(self) -> Iterator[Message]:
        return (link.message for link in self.links())

    def __len__(self) -> int:
        return self.length
