"""The messages between worker and driver: batches in order, pickled as plain tuples.

Invariant: each part of a prompt is sent once, not with every call. No value of a secret-looking
variable of the worker's environment is sent at all. Both ends belong to one user: unlike a trace, a
batch may hold anything that can be pickled.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import pickle
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from appl.backend import Request
from appl.errors import BackendError
from appl.prompt import Messages
from appl.prompt.origin import Spans, line_of
from appl.prompt.secret import SHORTEST, between_breaks, cores, spans, unbroken
from appl.runtime.event import CallStarted, Event, Observed, RunEnded
from appl.tracing.format.record import error_data, error_from
from appl.tracing.recording.secret import Masker

REMEMBERED = 4096
VALUES = ("over",)
"""Messages that hold values of the program; nothing is masked in them."""

Message = tuple[Any, ...]
Key = tuple[bytes, int]
"""The digest of a prompt's content, and where its texts come from."""


def portable(error: BaseException) -> BaseException:
    """*error* if it can be pickled, otherwise the nearest error that can, with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return error_from(error_data(error), str, str)
    return error


def _key(link: Messages) -> Key:
    return link.digest, link.trail


def _with_lines(spans: Spans) -> Spans:
    """*spans* with source lines in place of code objects."""
    return tuple(line_of(span) or span if isinstance(span, tuple) else span for span in spans)


class Packer:
    """Turns the worker's events into messages; a prompt that was sent before is only named."""

    def __init__(self) -> None:
        self._known: set[Key] = set()

    def pack(self, event: Event) -> Iterable[Message]:
        """The messages that report *event*."""
        if isinstance(event, CallStarted):
            yield from self._started(event)
            return
        error = getattr(event, "error", None)
        if error is not None:
            event.error = portable(error)  # type: ignore[union-attr] # it has one
        yield "event", event

    def _started(self, event: CallStarted) -> Iterable[Message]:
        request = event.request
        if len(self._known) > REMEMBERED:
            self._known.clear()
            yield ("forget",)
        yield from self._links(request.messages)
        prompt = _key(request.messages) if request.messages is not None else None
        place = request.address, request.ordinal, request.model
        asked = (
            request.sampling, request.n, request.sample, request.timeout, request.priority,
            request.cache, request.digest,
        )  # fmt: skip
        about = event.kind, event.edges, event.file, event.line, event.at
        yield "started", place, prompt, asked, about

    def _links(self, link: Messages | None) -> Iterable[Message]:
        fresh: list[Messages] = []
        while link is not None and _key(link) not in self._known:
            fresh.append(link)
            link = link.parent
        for link in reversed(fresh):
            self._known.add(_key(link))
            parent = _key(link.parent) if link.parent is not None else None
            yield "link", _key(link), parent, link.message, _with_lines(link.spans)


class Unpacker:
    """Turns a worker's messages into events, with times of this process's clock."""

    def __init__(self) -> None:
        self._links: dict[Key, Messages] = {}
        self._ahead: int | None = None

    def sent(self, there: int, here: int) -> None:
        """Note that a batch was sent at *there* by the worker's clock and came at *here* by ours.

        The smallest difference seen so far bounds the offset of the two clocks.
        """
        delay = here - there
        self._ahead = delay if self._ahead is None else min(self._ahead, delay)

    def unpack(self, message: Message) -> Event | None:
        """The event that *message* completes; ``None`` if it completes none."""
        kind, *rest = message
        if kind == "forget":
            self._links.clear()
        elif kind == "link":
            key, parent, prompt, spans = rest
            above = self._links[parent] if parent is not None else None
            self._links[key] = link = Messages(above, prompt, spans=spans)
            link.has_digest(key[0])
        elif kind == "started":
            (address, ordinal, model), prompt, asked, (called, edges, file, line, at) = rest
            messages = self._links[prompt] if prompt is not None else None
            request = Request(address, ordinal, model, messages, *asked)
            return CallStarted(request, called, edges, file, line, at + (self._ahead or 0))
        elif kind == "event":
            event: Event = rest[0]
            event.at += self._ahead or 0
            return event
        return None


class Disguise:
    """Replaces each secret of this process's environment by a word of the same length.

    The driver receives the words, not the secrets. It masks them in the trace and marks the record,
    as it does with secrets of its own. *key* makes the words the same on all workers of a map.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._masker = key, Masker()
        self._words: dict[bytes, bytes] = {}  # the longest first: a short one may stand in it
        self._cores: dict[bytes, tuple[str, ...]] = {}

    def news(self) -> dict[str, str]:
        """The words that were not reported yet, by the name of their variable."""
        fresh: dict[str, str] = {}
        for form, name in reversed(self._masker.forms()):  # plain is the shortest: first by name
            for text in (form, unbroken(form)):
                data = text.encode("utf-8", "surrogatepass")
                if len(data) >= SHORTEST and data not in self._words:
                    word = self._words[data] = self._word(data)
                    fresh[f"{name} {len(fresh)}" if name in fresh else name] = word.decode("ascii")
        if fresh:
            self._words = dict(sorted(self._words.items(), key=lambda pair: -len(pair[0])))
            self._cores = {each: cores(each.decode("latin-1")) for each in self._words}
        return fresh

    def _word(self, data: bytes) -> bytes:
        made = b""
        while len(made) < len(data):
            digest = hmac.new(self._key, made + data, hashlib.sha256).digest()
            made += base64.b32encode(digest).rstrip(b"=")
        return made[: len(data)]

    def hide(self, batch: bytes) -> bytes:
        """*batch* without secrets, also those divided by line breaks; its length stays."""
        for data, word in self._words.items():
            if data in batch:
                batch = batch.replace(data, word)
        text = batch.decode("latin-1")
        for data, parts in self._cores.items():
            if any(part in text for part in parts):
                text = _disguised(text, data.decode("latin-1"), self._words[data].decode("ascii"))
        return text.encode("latin-1")


def _disguised(text: str, data: str, word: str) -> str:
    """Replace *data* in *text* by the letters of *word*; line breaks inside it stay."""
    if data != unbroken(data):  # without its own breaks, it has a word of its own
        return text
    for first, end in spans(text, data):
        letters = iter(word)
        for start, stop in between_breaks(text[first:end]):
            piece = "".join(islice(letters, stop - start))
            text = text[: first + start] + piece + text[first + stop :]
    return text


class Outbox:
    """The queue of messages from worker to driver, sent in order every few milliseconds.

    An instrument of the worker's run. *send* takes a batch; *soon* schedules an action shortly, on
    the only thread that ever calls *send*.
    """

    def __init__(
        self,
        key: bytes,
        send: Callable[[bytes], None],
        now: Callable[[], int],
        soon: Callable[[Callable[[], None]], None],
        wants_chunks: bool,
    ) -> None:
        self._disguise, self._packer = Disguise(key), Packer()
        self._send, self._now, self._soon = send, now, soon
        self._waiting: deque[Event | Message] = deque()
        self._called = False
        self.wants_chunks = wants_chunks

    def on_event(self, event: Event) -> None:
        """Send *event* to the driver, except the end of the worker's own run."""
        if isinstance(event, Observed):  # the program may change what it was given
            event = replace(event, value=copy.deepcopy(event.value))
        if not isinstance(event, RunEnded):
            self._add(event)

    def say(self, *message: object) -> None:
        """Send *message* to the driver, after everything before it."""
        self._add(message)

    def _add(self, item: Event | Message) -> None:
        # Any thread may add; only the I/O thread flushes. The item is appended first: if a flush is
        # just beginning, it takes the item, and the extra flush below finds nothing to send.
        self._waiting.append(item)
        if not self._called:
            self._called = True
            self._soon(self.flush)

    def flush(self) -> None:
        """Send the waiting messages."""
        # Reset before the queue is emptied: an item added meanwhile schedules another flush.
        self._called = False
        batch: list[Message] = []
        while self._waiting:
            item = self._waiting.popleft()
            if isinstance(item, tuple) and item[0] in VALUES:
                self._post(batch)
                batch = []
                self._send(_pickled([item]))  # the program's own data, for the program
            else:
                batch += [item] if isinstance(item, tuple) else self._packer.pack(item)
        self._post(batch)

    def _post(self, batch: list[Message]) -> None:
        if not batch:
            return
        # The driver must know the words before the batch in which they stand for secrets.
        if news := self._disguise.news():
            self._send(_pickled([("secrets", news)]))
        self._send(self._disguise.hide(_pickled([("sent", self._now()), *batch])))


def _pickled(messages: list[Message]) -> bytes:
    try:
        return pickle.dumps(messages, 5)
    except Exception:
        return pickle.dumps([_sendable(message) for message in messages], 5)


def _sendable(message: Message) -> Message:
    """*message*, or an error message in its place if it cannot be pickled."""
    try:
        pickle.dumps(message, 5)
    except Exception as error:
        return "broken", BackendError(f"{message[0]!r} of a worker cannot be sent: {error}")
    return message
