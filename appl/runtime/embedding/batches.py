"""The batches of a run's embeddings: what is known, what is on its way, and what waits.

Invariant: everything here runs on the I/O loop. A text that several calls ask for is in one request
at most; a call ends when its last text is there, or with the error of the first that fails.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appl.backend import Request, Response, Sample, Usage, vector_key
from appl.backend.price import tokens_in
from appl.errors import BackendError, BackendRefused, MalformedResponse, PromptTooLong
from appl.prompt import Message, Messages
from appl.runtime.answers.samples import total_of
from appl.runtime.concurrency.loop_thread import io_thread

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.scheduler import Scheduler

MOST_TEXTS: Final = 128
"""The most texts of one request: answers stay below the limits of what is read of a server."""
MOST_TOKENS: Final = 250_000
"""The estimated tokens from which on no text is added to a request; OpenAI takes 300,000."""
PARTLY_FULL: Final = 4
"""The requests that are not full which may be on their way at once: meanwhile texts gather."""
KEPT_BYTES: Final = 256 << 20
"""The bytes of vectors that a run keeps; what was not used for longest goes first."""


def keys_of(request: Request) -> list[bytes]:
    """The keys of the texts of *request*, in order."""
    model, sampling = request.model, request.sampling.canonical()
    return [vector_key(model, sampling, text) for text in _texts(request)]


def _texts(request: Request) -> list[str]:
    return [message.content for message in iter(request.messages or ())]


@dataclass(eq=False, slots=True)
class _Text:
    """A text that is wanted; ``calls`` wait for it. ``part`` is the request that it is in."""

    key: bytes
    text: str
    calls: list[_WaitingCall] = field(default_factory=list)
    part: _Part | None = None


@dataclass(eq=False, slots=True)
class _Part:
    """Texts that are asked for together, and the task that asks."""

    texts: list[_Text]
    task: asyncio.Task[None] | None = None

    @property
    def live(self) -> list[_WaitingCall]:
        """The calls that still wait for one of the texts, each once."""
        return list(dict.fromkeys(call for text in self.texts for call in text.calls))


@dataclass(eq=False, slots=True)
class _WaitingCall:
    """A call that waits for vectors, which are ``found`` by key; ``left`` are missing.

    ``answers`` are the answers of the server whose usage counts for this call.
    """

    call: Call
    keys: list[bytes]
    found: dict[bytes, bytes]
    left: int
    asked: bool
    answers: list[Response] = field(default_factory=list)

    def finish(self) -> None:
        """Give the call its vectors."""
        vectors = tuple(self.found[key] for key in self.keys)
        size = len(vectors[0]) // 4
        plural = "" if len(vectors) == 1 else "s"
        samples = (Sample(f"[{len(vectors)} vector{plural} of {size} numbers]", "stop"),)
        if self.answers:
            answer = total_of(self.answers, samples)
        else:  # others paid for what it got
            model = self.call.request.model if self.call.request is not None else ""
            reused = 0 if self.asked else 1
            answer = Response(samples, Usage(0, 0, 0), model, cost=0, reused=reused)
        self.call.answered(replace(answer, vectors=vectors))


class Batches:
    """The embeddings of one run."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._groups: dict[Hashable, _Group] = {}
        self._earlier: dict[str, Callable[[bytes], bytes | None]] = {}

    def remember(self, request: Request, response: Response) -> None:
        """Keep the vectors of a recorded answer."""
        for key, vector in zip(keys_of(request), response.vectors or (), strict=False):
            self.keep(key, vector)

    def keep(self, key: bytes, vector: bytes) -> None:
        """Keep *vector*, and forget others where there are too many."""
        if key not in self._known:
            self._size += len(vector)
        self._known[key] = vector
        while self._size > KEPT_BYTES:
            self._size -= len(self._known.popitem(last=False)[1])

    def offer(self, address: str, find: Callable[[bytes], bytes | None]) -> None:
        """Have the call at *address* take what *find* finds of an earlier run by its key."""
        self._earlier[address] = find

    def enter(self, call: Call, scheduler: Scheduler) -> None:
        """Take *call*, which is ready."""
        earlier = self._earlier.pop(call.address, None)
        assert call.request is not None
        keys, vectors = keys_of(call.request), dict[bytes, bytes]()
        for key in keys:
            vector = self._known.get(key)
            if vector is not None:
                self._known.move_to_end(key)
            elif earlier is not None and (vector := earlier(key)) is not None:
                self.keep(key, vector)
            if vector is not None:
                vectors[key] = vector
        missing = len(set(keys)) - len(vectors)
        waiting = _WaitingCall(call, keys, vectors, missing, missing > 0)
        if not missing:
            waiting.finish()
            return
        request = call.request
        # What is sent together is charged to one account, has one key and one deadline.
        place = (
            id(scheduler), request.model, request.sampling, id(call.account), call.key,
            call.timeout, call.priority,
        )  # fmt: skip
        group = self._groups.get(place)
        if group is None:
            group = _Group(self, scheduler, lambda: self._groups.pop(place, None))
            self._groups[place] = group
        group.add(waiting, _texts(request))


class _Group:
    """Texts that may be sent together; *empty* is called when none is left."""

    def __init__(self, batches: Batches, scheduler: Scheduler, empty: Callable[[], object]) -> None:
        self._batches, self._scheduler, self._empty = batches, scheduler, empty
        self._texts: dict[bytes, _Text] = {}
        self._parts: dict[_Part, bool] = {}  # on their way; true for those that are full
        self._most = MOST_TEXTS
        self._planned = False

    def add(self, waiting: _WaitingCall, texts: Sequence[str]) -> None:
        """Have the texts that *waiting* misses asked for."""
        for key, content in zip(waiting.keys, texts, strict=True):
            if key in waiting.found:
                continue
            text = self._texts.get(key)
            if text is None:
                text = self._texts[key] = _Text(key, content)
            if waiting not in text.calls:
                text.calls.append(waiting)
        self._scheduler.batched[waiting.call] = None
        # An outcome from elsewhere: the program cancels the call, or its run ends.
        waiting.call.subscribe(lambda _: self._over(waiting))
        self._plan()

    def _plan(self) -> None:
        """Look soon what may be sent: calls that come in one wake-up of the loop come first."""
        if not self._planned:
            self._planned = True
            io_thread().loop.call_soon(self._send, context=contextvars.Context())

    def _send(self) -> None:
        self._planned = False
        waiting = [text for text in self._texts.values() if text.part is None]
        while waiting:
            texts = self._first(waiting)
            is_full = len(texts) < len(waiting)
            if not is_full and sum(not full for full in self._parts.values()) >= PARTLY_FULL:
                return
            part = _Part(texts)
            for text in texts:
                text.part = part
            self._parts[part] = is_full
            loop = io_thread().loop
            part.task = loop.create_task(self._answer(part), context=contextvars.Context())
            del waiting[: len(texts)]
        if not self._texts:
            self._empty()

    def _first(self, waiting: list[_Text]) -> list[_Text]:
        """As many of *waiting* as go into one request."""
        tokens = 0
        for number, text in enumerate(waiting[: self._most]):
            tokens += tokens_in(text.text)
            if number and tokens > MOST_TOKENS:
                return waiting[:number]
        return waiting[: self._most]

    async def _answer(self, part: _Part) -> None:
        try:
            refused = await self._ask(part.texts)
            if refused is not None:
                self._fail(part.texts, refused)
        except asyncio.CancelledError:
            pass  # nobody waited for it any more
        except BaseException as error:
            self._fail(part.texts, error)
        finally:
            del self._parts[part]
            for text in part.texts:
                if self._texts.get(text.key) is text:  # a call that came meanwhile wants it again
                    text.part = None
                    if not text.calls:
                        del self._texts[text.key]
            self._plan()

    async def _ask(self, texts: list[_Text], splits: bool = True) -> BackendError | None:
        """Have *texts* answered; returns the refusal of all of them, where that is what came.

        A server may refuse a request for one of its texts, or as it takes fewer at once. So halves
        are asked for, unless a whole half was refused and the other one is, too.
        """
        refused = await self._ask_once(texts)
        if refused is None or len(texts) == 1 or not splits:
            return refused
        half = len(texts) // 2
        first, second = texts[:half], texts[half:]
        first_refused = await self._ask(first)
        second_refused = await self._ask(second, splits=first_refused is None)
        if first_refused is None and second_refused is None:
            if all(text.key not in self._texts for text in texts):
                self._most = max(half, 1)
            return None
        if first_refused is not None and second_refused is not None:
            return refused
        self._fail(first if first_refused is not None else second, refused)
        return None

    async def _ask_once(self, texts: list[_Text]) -> BackendError | None:
        """Ask for *texts* that somebody still waits for. Raises what is no refusal."""
        while owner := next((text.calls[0] for text in texts if text.calls), None):
            request = owner.call.request
            assert request is not None
            wanted = [text for text in texts if text.calls]
            messages = Messages.of(Message("user", text.text) for text in wanted)
            request = replace(request, messages=messages, reuse=None, _digest=None)
            try:
                response = await self._scheduler.dispatcher.complete(owner.call, request)
                self._arrived(wanted, response)
            except (BackendRefused, PromptTooLong) as error:
                if type(error) in (BackendRefused, PromptTooLong):
                    return error
                raise
            except BackendError:
                # Nobody is asked again on behalf of a call that is over: another one goes on.
                if owner.call.outcome is None:
                    raise
                continue
            return None
        return None

    def _arrived(self, texts: list[_Text], response: Response) -> None:
        vectors = response.vectors
        if vectors is None or len(vectors) != len(texts):
            got = "no vectors" if vectors is None else f"{len(vectors)} vectors"
            raise MalformedResponse(f"the backend answered {len(texts)} texts with {got}")
        # Its tokens count once: for the first of the calls that wait for it.
        owner = next((text.calls[0] for text in texts if text.calls), None)
        if owner is not None:
            owner.answers.append(response)
        for text, vector in zip(texts, vectors, strict=True):
            self._batches.keep(text.key, vector)
            self._texts.pop(text.key, None)
            for waiting in text.calls:
                waiting.found[text.key] = vector
                waiting.left -= 1
        for waiting in dict.fromkeys(call for text in texts for call in text.calls):
            if not waiting.left and waiting.call.outcome is None:
                waiting.finish()

    def _fail(self, texts: list[_Text], error: BaseException) -> None:
        """End the calls that wait for one of *texts* which did not come."""
        lost = [text for text in texts if self._texts.pop(text.key, None) is not None]
        for waiting in dict.fromkeys(call for text in lost for call in text.calls):
            if waiting.call.outcome is None:
                waiting.call.failed(copy.copy(error))  # it gets a note of that call's place

    def _over(self, waiting: _WaitingCall) -> None:
        """Let go of a call that has an outcome; a request that nobody waits for is aborted."""
        self._scheduler.batched.pop(waiting.call, None)
        for key in waiting.keys:
            text = self._texts.get(key)
            if text is None or waiting not in text.calls:
                continue
            text.calls.remove(waiting)
            if not text.calls and text.part is None:
                del self._texts[key]
            elif text.part is not None and not text.part.live and text.part.task is not None:
                text.part.task.cancel()
