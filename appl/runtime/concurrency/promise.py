"""Promises: each has an outcome that is set once, and delivered to the hub of the one who waits.

Invariant: ``outcome`` changes from ``None`` to its final value once, under one lock, before any
subscriber is called. ``delivered`` and ``waiters`` belong to the thread of the home hub.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol

from appl.base.threads import process_lock
from appl.runtime.answers.answer import Answer
from appl.runtime.concurrency.loop_thread import io_thread

if TYPE_CHECKING:
    from appl.prompt import Lazy
    from appl.prompt.chain import Part, PromptNode
    from appl.prompt.message import Message
    from appl.prompt.provider_fields import ProviderFields
    from appl.prompt.voice import Voice

_LOCK = process_lock()


class Stop(BaseException):
    """Thrown into a program that is cancelled; no handler of ordinary errors catches it."""


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """The outcome of a call or function that ended well."""

    value: object

    @property
    def prompt_part(self) -> object:
        """The value as a part of a prompt."""
        return self.value


@dataclass(slots=True, eq=False, repr=False)
class Typed(Value):
    """The outcome of a typed answer: its object is the value, its text is what prompts get."""

    text: Answer

    @property
    def prompt_part(self) -> Answer:
        return self.text


class Error:
    """The outcome of a failed call or function.

    A call whose prompt holds a failed part shares its ``Error``: a look at one is a look at both.
    """

    __slots__ = ("error", "looked", "traceback")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.looked = False
        self.traceback: TracebackType | None = error.__traceback__

    def raised(self) -> BaseException:
        """The error as it was first raised: without the tracebacks of earlier looks at it."""
        # Python adds to the traceback of an error at each raise; the same error is raised at
        # every look, and would keep all frames that it ever passed through.
        return self.error.with_traceback(self.traceback)


Outcome = Value | Error


class Home(Protocol):
    """The place where a program runs; it takes outcomes from any thread."""

    inbox: deque[Deliverable]
    """Items to be delivered on the home's own thread, when that next waits; from any thread."""

    def notify(self) -> None:
        """Have what is in the inbox delivered soon."""


class Deliverable(Protocol):
    """An item in the inbox of a hub."""

    def deliver(self) -> None:
        """Take effect; called on the hub's thread."""


class Waiter(Protocol):
    """A program that is parked until something is delivered."""

    def wake(self, pending: Promise) -> None:
        """Go on, if it is still *pending* that is waited for; called on the waiter's own thread."""


class Proxy:
    """A stand-in for a value that a program holds: a future refers to what it waits for.

    ``_hash`` is set when it is hashed for the first time.
    """

    __slots__ = ("__weakref__", "_hash", "_pending")
    _hash: int
    _pending: Promise


class AnswerStream:
    """The base of what reads an answer piece by piece: see ``TextStream``."""

    __slots__ = ()

    def __prompt__(self) -> Proxy | Answer | Lazy:
        """The part of a prompt: the answer, or the reasoning before it."""
        raise NotImplementedError


class _Glance(threading.local):
    """``on`` while this thread compares values without waiting: futures equal nothing then."""

    on = False


GLANCE = _Glance()


class Promise:
    """A call or function that will have an outcome; as a part of a prompt it is lazy text.

    ``looked`` is true when nobody has to look at a failure any more. ``children`` are calls that
    outlived the function behind this one, in program order. ``in_loop`` is true if only the
    asyncio loop at home can finish it. ``overlaps`` is true if the program asked explicitly not to
    wait for its end. ``independent`` is true if it waits for no other one, so that a wait for it is
    never ``suspicious``. ``typed`` answers have an object besides their text.
    """

    typed: ClassVar[bool] = False
    __slots__ = (
        "__weakref__",
        "address",
        "children",
        "delivered",
        "holder",
        "home",
        "in_loop",
        "independent",
        "looked",
        "outcome",
        "overlaps",
        "proxy",
        "subscribers",
        "waiters",
    )

    def __init__(self, address: str, home: Home | None, independent: bool = False) -> None:
        self.address, self.home = address, home
        self.outcome: Outcome | None = None
        self.delivered = False
        self.looked = False
        self.in_loop = False
        self.overlaps = False
        self.independent = independent
        self.holder: str | None = None
        self.proxy: weakref.ref[Proxy] | None = None
        self.waiters: list[Waiter] | None = None
        self.subscribers: list[Callable[[Promise], None]] | None = None
        self.children: list[Promise] | None = None

    def subscribe(self, callback: Callable[[Promise], None]) -> bool:
        """Have *callback* called on the finishing thread; false when it is finished already."""
        # Under the lock of ``settle``: a callback is either in the list that is called there, or
        # this returns false. It is never lost and never called twice.
        with _LOCK:
            if self.outcome is not None:
                return False
            if self.subscribers is None:
                self.subscribers = []
            self.subscribers.append(callback)
            return True

    def settle(self, outcome: Outcome) -> bool:
        """Set the outcome and tell subscribers; false when there was one already."""
        with _LOCK:
            if self.outcome is not None:
                return False
            self.outcome = outcome
            subscribers, self.subscribers = self.subscribers, None
        # Outside of the lock, as callbacks settle others, and the lock is one for all.
        for callback in subscribers or ():
            callback(self)
        return True

    def finish(self, outcome: Outcome) -> bool:
        """Settle from any thread; the home hub delivers it, at once only if it is awaited."""
        if not self.settle(outcome):
            return False
        if self.home is not None:
            self.home.inbox.append(self)
            if self.waiters:  # looked at after that: who adds himself later finds it in the inbox
                self.home.notify()
        return True

    def conclude(self, outcome: Outcome) -> bool:
        """Settle on the home hub's own thread, and deliver at once."""
        if not self.settle(outcome):
            return False
        self.deliver()  # the program itself has finished it, so it need not wait for its turn
        return True

    def deliver(self) -> None:
        """Make the outcome visible to the program at home and wake those who wait there."""
        self.delivered = True  # first: a waiter that goes on at once may look at it again
        for waiter in self.waiters or ():
            waiter.wake(self)
        self.waiters = None  # now: what a Ctrl-C breaks off is done again

    def await_with(self, waiter: Waiter) -> None:
        """Add *waiter*, on the thread of the home hub."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)

    def keep(self, holder: str) -> None:
        """Note that the prompt of the activation *holder* has this as a part.

        Of several activations the outermost counts, of two side by side the one around both.
        """
        around = holder if self.holder is None else self.holder
        while not (holder + "/").startswith(around + "/"):
            around = around.rpartition("/")[0]
        self.holder = around

    @property
    def done(self) -> bool:
        """True if there is an outcome."""
        return self.outcome is not None

    def unseen(self) -> bool:
        """True if this failed and nobody has looked."""
        outcome = self.outcome
        return isinstance(outcome, Error) and not self.looked and not outcome.looked

    def seen(self) -> BaseException:
        """The error of this failure, marked as looked at: whoever gets it handles it."""
        assert isinstance(self.outcome, Error)
        self.outcome.looked = True
        return self.outcome.raised()

    def last(self) -> Promise:
        """The last of a chain: a function may have returned the future of another call."""
        pending = self
        while isinstance(pending.outcome, Value) and isinstance(pending.outcome.value, Proxy):
            pending = pending.outcome.value._pending
        return pending

    def blockers(self) -> Iterable[Promise]:
        """Others that certainly have to be done before this one; for finding deadlocks."""
        return ()

    def suspicious(self) -> bool:
        """True if waiting for this may close a cycle of waits."""
        return True

    def answered_prompt(self) -> PromptNode | None:
        """The prompt that this answers; ``None`` if it is no answer."""
        return None

    def answered_by(self) -> tuple[str, ...]:
        """The addresses that a prompt with this as a part refers to."""
        return (self.address,)

    def cancel(self) -> None:
        """Ask for an early end; what has one already stays as it is."""

    def end_if_orphaned(self) -> None:
        """Cancel this if it can never go on because its thread or event loop has ended."""

    # -- as a part of a prompt (appl.prompt.Lazy)

    def prompt_place(self, voice: Voice) -> Part:
        """The part that a statement of this adds to a prompt: itself, or a place for messages."""
        return self

    def prompt_ready(self) -> bool:
        return self.last().outcome is not None

    def prompt_text(self) -> str:
        outcome = self.last().outcome
        assert outcome is not None, "asked for the text of a call that is not done"
        if isinstance(outcome, Error):
            raise outcome.raised()
        return format(outcome.prompt_part)

    def prompt_value(self) -> object:
        """The value that a conversion or a format spec applies to."""
        outcome = self.last().outcome
        return outcome.value if isinstance(outcome, Value) else self.prompt_text()

    def prompt_message(self) -> Message | None:
        """The answer as a whole message, when it calls tools."""
        outcome = self.last().outcome
        value = outcome.prompt_part if isinstance(outcome, Value) else None
        return value.message if isinstance(value, Answer) and value.tool_calls else None

    def prompt_provided(self) -> ProviderFields | None:
        """The fields that the provider wants back with the answer."""
        outcome = self.last().outcome
        value = outcome.prompt_part if isinstance(outcome, Value) else None
        return value.provider_fields if isinstance(value, Answer) else None

    def prompt_source(self) -> Promise:
        return self.last()

    def prompt_origin(self) -> str | None:
        """The address of the call whose answer this is."""
        last = self.last()
        answer = last.outcome.prompt_part if isinstance(last.outcome, Value) else None
        if isinstance(answer, Answer):
            return answer.call_id
        by = last.answered_by()
        return by[0] if len(by) == 1 else last.address

    def __repr__(self) -> str:
        state = "pending" if self.outcome is None else type(self.outcome).__name__.lower()
        return f"<{type(self).__name__} {self.address} {state}>"


def source_of(lazy: Lazy) -> Promise:
    """The promise that *lazy*, a part of a prompt, waits for."""
    source = lazy.prompt_source()
    assert isinstance(source, Promise)
    return source


def explained(error: BaseException, note: str) -> None:
    """Add *note* to *error*, once."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def on_finish(pending: Promise, action: Callable[[Promise], None]) -> bool:
    """Have *action* run on the I/O loop once *pending* is done; false when it is done already."""
    io = io_thread()

    def cross(done: Promise) -> None:
        if not io.on_loop():
            io.send(lambda: action(done))
        elif isinstance(done.outcome, Value):
            action(done)
        else:  # a failure may run through a long chain of calls: not through the stack
            io.soon(lambda: action(done))

    return pending.subscribe(cross)
