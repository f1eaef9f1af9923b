"""Conversations: messages as a value that a program reads, changes and passes on.

Invariant: a conversation that was only read, or appended to, is still the chain that it was made
of, so that asking with it costs what is new in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from appl.base import services
from appl.errors import InvalidOption
from appl.prompt import Message, Messages, Prompt, parts_of
from appl.runtime.frame import FRAME, here
from appl.runtime.prompts.messages import settled

if TYPE_CHECKING:
    from appl.prompt.notebook import Bundle

MessageLike = Message | Mapping[str, Any]


class Conversation:
    """Messages as a value. Iteration, length and index leave the system's messages out.

    As a statement it says all its messages, the system's too. *messages* may be dicts, and may
    hold the system's. What is pending in a message is waited for when it is put in.
    """

    def __init__(
        self,
        messages: Iterable[MessageLike] | None = None,
        *,
        system_messages: Iterable[MessageLike] | None = None,
    ) -> None:
        self._chain: Messages | None = None
        self._current = False  # whether the chain says what the lists say
        self._lists: tuple[list[Message], list[Message]] | None = ([], [])
        self._lent = False  # whether somebody may change the lists behind our back
        self._stored: Any = None  # where it is kept, and as which version
        system = () if system_messages is None else _every(system_messages)
        originals = [*system, *(() if messages is None else _every(messages))]
        for message in originals:
            self._add(settled(message))

    @classmethod
    def of(cls, chain: Messages | None) -> Conversation:
        """The conversation that *chain* is; nothing is copied."""
        conversation = cls.__new__(cls)
        conversation._chain, conversation._current, conversation._lists, conversation._lent = (
            chain,
            True,
            None,
            False,
        )
        conversation._stored = None
        return conversation

    def save(
        self, path: str | os.PathLike[str], name: str | None = None, *, replace: bool = False
    ) -> None:
        """Keep all messages, without secrets, in a file or in a SQLite database.

        ``chat.save("chat.json")`` replaces that file. ``chat.save("chats.db", "ann")`` adds a
        version of the conversation *name* to a database (``.db``, ``.sqlite``, ``.sqlite3``), which
        may be one of your own with other tables. Where somebody else has saved it since it was
        loaded, that is refused with ``ConversationChanged``; with *replace* it is saved all the
        same, and the other version stays. Raises ``ConversationError``, ``OSError``.

        A program that is replayed, or goes on after it had saved, does not save again.
        """
        store = services.conversations()
        chain, stored = self.chain, self._stored
        self._stored = _observed("saved", lambda: store.save(path, name, chain, stored, replace))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        version: int | None = None,
        missing_ok: bool = False,
    ) -> Conversation:
        """The conversation that ``save`` has kept; in a database the newest *version*, from 1.

        With *missing_ok* one that is not there is empty. What a program loads is recorded: a replay
        shows it the same. Raises ``ConversationError``, and ``FileNotFoundError`` without a file.
        """
        store = services.conversations()
        data, stored = _observed("loaded", lambda: store.loaded(path, name, version, missing_ok))
        conversation = cls.of(store.restored(data, path))
        conversation._stored = stored
        return conversation

    @property
    def chain(self) -> Messages | None:
        """All messages as a backend gets them; ``None`` when there are none."""
        if not self._current or self._lent:
            self._chain, self._current = Messages.of(self.all()), True
        return self._chain

    @property
    def system_messages(self) -> list[Message]:
        """The system's messages; changing the list changes the conversation."""
        self._lent = True
        return self._split()[0]

    @property
    def messages(self) -> list[Message]:
        """All messages but the system's; changing the list changes the conversation."""
        self._lent = True
        return self._split()[1]

    def all(self) -> list[Message]:
        """Every message, the system's first."""
        if self._lists is None:
            return list(self._chain or ())
        system, others = self._lists
        return [*system, *others]

    def append(self, message: MessageLike) -> None:
        """Add a message at the end (of the system's messages, if it is one)."""
        self._add(settled(message))

    def extend(self, messages: Iterable[MessageLike]) -> None:
        """Append each of *messages*; of a conversation, the system's messages too."""
        for message in _every(messages):
            self.append(message)

    def pop(self, index: SupportsIndex = -1) -> Message:
        """Take out a message that is not the system's."""
        popped = self._split()[1].pop(index)
        self._current = False
        return popped

    def set_system_messages(self, messages: Iterable[MessageLike]) -> None:
        """Replace the system's messages."""
        self._split()[0][:] = [settled(message) for message in _every(messages)]
        self._current = False

    def collapse(self) -> Conversation:
        """Join neighbours of one role and name, a line break between them; returns itself.

        Calls of tools and their results stay messages of their own.
        """
        prompt = Prompt()
        for message in self.all():
            prompt.extend(parts_of(message))
        self._chain = prompt.tip.messages() if prompt.tip is not None else None
        self._current = True
        system, others = self._split()
        every = list(self._chain or ())
        system[:] = [message for message in every if message.role == "system"]
        others[:] = [message for message in every if message.role != "system"]
        return self

    def materialize(self) -> None:
        """Do nothing: messages are settled when they are put in."""

    def make_copy(self) -> Conversation:
        """A conversation that changes on its own."""
        return Conversation.of(self.chain)

    def as_list(self, default_role: object = None) -> list[dict[str, Any]]:
        """Every message as a dict, as chat completion servers take it.

        The fields of a provider go back to that provider alone, as long as the dict is not copied.
        *default_role* is accepted for older programs: each message has a role.
        """
        from appl.prompt.message_input import MessageData  # few programs want dicts

        return [MessageData.of(message) for message in self.all()]

    def _split(self) -> tuple[list[Message], list[Message]]:
        """The system's messages and the others, as lists."""
        if self._lists is None:
            self._lists = ([], [])
            for message in self._chain or ():
                self._lists[message.role != "system"].append(message)
        return self._lists

    def _add(self, message: Message) -> None:
        if message.role == "system":
            self._split()[0].append(message)
            self._current = False
            return
        if self._lists is not None:
            self._lists[1].append(message)
        if self._current:
            self._chain = Messages(self._chain, message.plain(), message.whole)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._split()[1])

    def __len__(self) -> int:
        return len(self._split()[1])

    def __bool__(self) -> bool:
        return bool(self.all())

    @overload
    def __getitem__(self, index: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Message | list[Message]:
        if self._lists is None and index == -1 and self._chain is not None:
            last = self._chain.message
            if last.role != "system":
                return last
        return self._split()[1][index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and self.all() == other.all()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Conversation, (self.all(),)

    def __str__(self) -> str:
        every = self.all()
        alone = all(message.role == "user" and not message.name for message in every)
        return "\n".join(message.shown if alone else str(message) for message in every)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The messages as a notebook shows them."""
        from appl.prompt.notebook import dialogue  # only notebooks show conversations

        return dialogue((message.role, message.shown) for message in self.all())

    def __repr__(self) -> str:
        return f"Conversation({self.as_list()!r})"


def _observed(kind: str, act: Callable[[], object]) -> Any:
    """The result of *act*; a run observes it, and a replay takes it from the record."""
    if FRAME.get() is None:
        return act()
    frame = here(lambda: kind, call=False)
    return frame.run.outside.observe(frame, kind, act)


def _every(messages: Iterable[MessageLike]) -> Iterable[MessageLike]:
    """The messages in *messages*; iterating over a conversation leaves the system's out."""
    if isinstance(messages, Conversation):
        return messages.all()
    if isinstance(messages, str | Mapping) or not isinstance(messages, Iterable):
        raise InvalidOption(
            'a conversation is made of a list of messages, as in [UserMessage("...")], got '
            f"{messages!r:.80}"
        )
    return messages
