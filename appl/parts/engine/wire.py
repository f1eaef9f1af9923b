"""The messages between worker and driver: batches in order, pickled as plain tuples.

Invariant: each part of a prompt is sent once, not with every call. The driver knows a secret of the
worker's environment before a message that holds it, and so keeps it out of the trace. Both ends
belong to one user: unlike a trace, a batch may hold anything that can be pickled.
"""

from __future__ import annotations

import copy
import pickle
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from appl.errors import BackendError
from appl.parts.engine.questions import PromptKey, WorkerQuestion
from appl.prompt import Messages
from appl.prompt.origin import Spans, line_of
from appl.runtime.event import CallEnded, CallStarted, ChunkArrived, Event, Observed, RunEnded
from appl.tracing.format.recorded_errors import error_data, error_from
from appl.tracing.recording.secret import Masker

REMEMBERED = 4096
VALUES = ("over",)
"""Messages that hold values of the program; nothing is masked in them."""
SOON_S = 0.002
"""The seconds for which messages are gathered into a batch."""

Message = tuple[Any, ...]


def portable(error: BaseException) -> BaseException:
    """*error* if it can be pickled, otherwise the nearest error that can, with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return error_from(error_data(error), str, str)
    return error


def key_of_prompt(link: Messages | None) -> PromptKey | None:
    """The key by which a prompt is named that was sent before."""
    return None if link is None else (link.digest, link.trail)


class SentPrompts:
    """The parts of prompts that were sent, which need not be sent again."""

    def __init__(self) -> None:
        self._known: set[PromptKey] = set()

    def fresh(self, prompt: Messages | None) -> Iterable[Message]:
        """The messages that send what is new of *prompt*."""
        if len(self._known) > REMEMBERED:
            self._known.clear()
            yield ("forget",)
        fresh: list[Messages] = []
        while prompt is not None and (prompt.digest, prompt.trail) not in self._known:
            fresh.append(prompt)
            prompt = prompt.parent
        for link in reversed(fresh):
            self._known.add((link.digest, link.trail))
            parent = key_of_prompt(link.parent)
            spans = tuple(  # with source lines in place of code objects
                line_of(span) or span if isinstance(span, tuple) else span for span in link.spans
            )
            yield "link", key_of_prompt(link), parent, link.message, spans


class ReceivedPrompts:
    """The prompts that the other end has sent, by key."""

    def __init__(self) -> None:
        self._links: dict[PromptKey, Messages] = {}

    def forget(self) -> None:
        """Forget all: what is needed of them is sent again."""
        self._links.clear()

    def add(self, key: PromptKey, parent: PromptKey | None, message: Any, spans: Spans) -> None:
        """Add one more message to the prompt *parent*."""
        self._links[key] = link = Messages(self.get(parent), message, spans=spans)
        link.has_digest(key[0])

    def get(self, key: PromptKey | None) -> Messages | None:
        """The prompt with this *key*."""
        return None if key is None else self._links[key]


class ClockOffset:
    """The offset of a worker's clock: the smallest delay of a batch so far bounds it."""

    def __init__(self) -> None:
        self._ahead: int | None = None

    def sent(self, there: int, here: int) -> None:
        """Note that a batch sent at *there* by the worker's clock came at *here* by ours."""
        delay = here - there
        self._ahead = delay if self._ahead is None else min(self._ahead, delay)

    def adjust(self, event: Event) -> None:
        """Give *event* the time of this process's clock."""
        event.at += self._ahead or 0


class OwnSecrets:
    """The secrets of this process's environment, as far as the driver has to know them."""

    def __init__(self) -> None:
        self._masker = Masker(shapes=False)
        self._known: set[str] = set()

    def news(self, batch: bytes) -> dict[str, str]:
        """The secrets in *batch* that were not there before, by the name of their variable."""
        names = {*self._masker.secret_names_in(batch)} - self._known
        self._known |= names
        values = self._masker.refresh().values
        return {name: values[name] for name in sorted(names)}


class Outbox:
    """The queue of messages from worker to driver, sent in order every few milliseconds.

    An instrument of the worker's run; its calls are reported by the driver, which asks them. *send*
    takes a batch; *soon* schedules an action shortly, on the only thread that ever calls *send*.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        now: Callable[[], int],
        soon: Callable[[Callable[[], None]], None],
        wants_chunks: bool,
        wants_arguments: bool = False,
    ) -> None:
        self._secrets, self._prompts = OwnSecrets(), SentPrompts()
        self._send, self._now, self._soon = send, now, soon
        self._waiting: deque[Message] = deque()
        self._asked: set[str] = set()
        self._called = False
        self.wants_chunks, self.wants_arguments = wants_chunks, wants_arguments

    def on_event(self, event: Event) -> None:
        """Send *event* to the driver, unless the driver itself reports it."""
        if isinstance(event, CallStarted | ChunkArrived | RunEnded):
            return
        if isinstance(event, CallEnded) and event.address in self._asked:
            self._asked.discard(event.address)
            return
        if isinstance(event, Observed):  # the program may change what it was given
            event = replace(event, value=copy.deepcopy(event.value))
        error = getattr(event, "error", None)
        if error is not None:
            event.error = portable(error)  # type: ignore[union-attr] # it has one
        self.say("event", event)

    def ask(self, question: WorkerQuestion, prompt: Messages | None) -> None:
        """Send *question*, whose *prompt* is sent as far as it is new; on the I/O loop."""
        self._asked.add(question.address)
        self.say("asked", question, prompt)

    def say(self, *message: object) -> None:
        """Send *message* to the driver, after everything before it."""
        # Any thread may add; only the I/O thread flushes. The item is appended first: if a flush is
        # just beginning, it takes the item, and the extra flush below finds nothing to send.
        self._waiting.append(message)
        if not self._called:
            self._called = True
            self._soon(self.flush)

    def flush(self) -> None:
        """Send the waiting messages."""
        # Reset before the queue is emptied: an item added meanwhile schedules another flush.
        self._called = False
        batch: list[Message] = []
        while self._waiting:
            message = self._waiting.popleft()
            if message[0] in VALUES:
                self._post(batch)
                batch = []
                self._send(pickled([message]))  # the program's own data, for the program
            elif message[0] == "asked":
                batch += [*self._prompts.fresh(message[2]), message[:2]]
            else:
                batch.append(message)
        self._post(batch)

    def _post(self, batch: list[Message]) -> None:
        if not batch:
            return
        data = pickled([("sent", self._now()), *batch])
        if news := self._secrets.news(data):
            self._send(pickled([("secrets", news)]))
        self._send(data)


def pickled(messages: list[Message]) -> bytes:
    """A batch of *messages*."""
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
