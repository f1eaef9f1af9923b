"""The driver's end of the connection to one worker: takes its questions and records its events.

Invariant: everything here happens on the I/O loop, in the order in which the worker sent it. What
the program must know is handed to the program's own thread.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from appl.base import threads
from appl.errors import RunError
from appl.parts.engine.item_log import ItemLog
from appl.parts.engine.protocol import Worker
from appl.parts.engine.questions import WorkerCall, WorkerQuestion
from appl.parts.engine.wire import SOON_S, ClockOffset, Message, ReceivedPrompts, portable
from appl.runtime.answers.models import Model
from appl.runtime.concurrency.fiber import run_on
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Value
from appl.runtime.event import Event, Warned
from appl.runtime.scheduling.accounts import Account
from appl.runtime.scheduling.policy import Allowance

if TYPE_CHECKING:
    from appl.backend import Profile
    from appl.parts.engine.distributed_map import DistributedMap
    from appl.parts.engine.worker_pool import HiredWorker


class WorkerConnection:
    """Connects *mapping* with the worker that it has *hired*, and handles the worker's messages."""

    def __init__(self, mapping: DistributedMap, hired: HiredWorker) -> None:
        self._mapping, self._hired = mapping, hired
        self._run = mapping.run_of
        self._clock, self._prompts = ClockOffset(), ReceivedPrompts()
        self._calls: dict[str, WorkerCall] = {}
        self._budgets: dict[int, Account] = {}
        self._replies: list[Message] = []
        self._ended = False

    # -- as a listener, on any thread

    def heard(self, worker: Worker, batch: bytes) -> None:
        """Receive a batch."""
        # Taken on the engine's thread, before the batch waits for the I/O loop: the offset of the
        # clocks is estimated from it.
        here = time.monotonic_ns()
        messages = pickle.loads(batch)
        io_thread().send(partial(self._take, messages, here))

    def lost(self, worker: Worker, why: BaseException) -> None:
        """The worker is lost."""
        io_thread().send(partial(self._gone, why))

    # -- on the I/O loop

    def _take(self, messages: list[Message], here: int) -> None:
        for kind, *about in messages:
            try:
                if kind == "sent":
                    self._clock.sent(about[0], here)
                else:
                    _HANDLERS[kind](self, *about)
            # One bad message must not stop the others: their items would never end.
            except Exception as error:  # the program waits for what would be lost here
                self._broken(error)

    def _happened(self, event: Event) -> None:
        self._clock.adjust(event)
        log = self._log_of("" if isinstance(event, Warned) else event.address)  # type: ignore[union-attr]
        if log is not None and not log.fresh(event):
            return
        if isinstance(event, Warned):
            self._run.reporter.tell(f"appl: {event.message}")
        self._run.reporter.emit(event)

    def _log_of(self, address: str) -> ItemLog | None:
        """The log of the item that *address* is in, if it is in any."""
        ordinal = self._ordinal(address)
        return None if ordinal is None else self._mapping.logs.setdefault(ordinal, ItemLog())

    def _ordinal(self, address: str) -> int | None:
        within = self._mapping.source.within
        if not address.startswith(within):
            return None
        return int(address[len(within) :].partition("/")[0])

    def _link(self, *about: Any) -> None:
        self._prompts.add(*about)

    def _forget(self) -> None:
        self._prompts.forget()

    def _concealed(self, words: dict[str, str]) -> None:
        """Store the worker's secrets under distinct names, as other processes may use the same."""
        secrets = self._mapping.secrets
        for name, word in words.items():
            if word not in secrets.values():
                same = sum(label.startswith(f"{name} of a worker") for label in secrets)
                secrets[f"{name} of a worker" + (f" ({same + 1})" if same else "")] = word
        self._run.reporter.conceal(secrets)

    def _ready(self) -> None:
        self._tell(partial(self._mapping.started, self._hired))

    def _over(self, index: int, well: bool, payload: bytes, shown: str) -> None:
        log = self._mapping.logs.pop(self._mapping.source.first + index, None)
        for event in log.end(time.monotonic_ns()) if log is not None else ():
            self._run.reporter.emit(event)
        self._tell(partial(self._mapping.over, self._hired, index, _outcome(well, payload, shown)))

    def _failure(self, error: BaseException) -> None:
        self._tell(partial(self._mapping.failed, error))

    def _broken(self, error: BaseException) -> None:
        self._tell(partial(self._mapping.broken, self._hired, error))

    def _tell(self, action: Callable[[], None]) -> None:
        # Items and results belong to the program's own thread: it runs the action on its hub.
        run_on(self._mapping.hub, action)

    def _closed(self) -> None:
        self._gone(None)

    def _gone(self, why: BaseException | None) -> None:
        if self._ended:
            return
        self._ended = True
        # The calls of items that are to begin again go on: the next worker asks the same. Nobody
        # will ask those again that an item has left behind.
        for address, call in tuple(self._calls.items()):
            if why is None or self._ordinal(address) not in self._mapping.logs:
                call.aborted()
        # Last, so that the program's thread hands the items out again only after all events of the
        # lost worker are recorded.
        self._tell(partial(self._mapping.gone, self._hired, why))

    # -- its calls

    def _asked(self, question: WorkerQuestion) -> None:
        log = self._log_of(question.address)
        frame = (log or ItemLog()).frame(self._mapping.caller, question.conversation)
        messages, account = self._prompts.get(question.prompt), self._account(question.budgets)
        call = WorkerCall(question, frame, messages, account, self._hired.number, self._told)
        try:
            if log is None:
                raise RunError(
                    f"{call.address} was asked on a thread or task of your own, whose address is "
                    "not known beyond this worker; start it with appl.call(f, ...)"
                )
            call.cache = self._run.dispatch.cache(question.cache)
        except Exception as error:
            call.prepare()
            call.starts()
            call.failed(error)
        else:
            logged = log.ask(call)
            if logged.outcome is None:
                self._calls[logged.address] = logged

    def _account(self, budgets: tuple[tuple[int, Any], ...]) -> Account | None:
        """The account that a call is charged to, inside of those around the map."""
        account = self._mapping.account
        for number, limits in reversed(budgets):
            if number not in self._budgets:
                self._budgets[number] = Account(Allowance(), account)
                self._budgets[number].limits = limits
            account = self._budgets[number]
        return account

    def _told(self, call: WorkerCall, news: object) -> None:
        if call.outcome is not None:
            self._calls.pop(call.address, None)
        if isinstance(news, BaseException):
            news = portable(news)
        numbers = (number for number, _ in call.question.budgets)
        states = tuple((number, self._budgets[number].state) for number in numbers)
        self._reply("told", call.address, news, states)

    def _cancel(self, address: str) -> None:
        if address in self._calls:
            self._calls[address].aborted()

    def abort(self) -> None:
        """Cancel all calls: the worker was told to stop."""
        for call in tuple(self._calls.values()):
            call.aborted()

    def _reply(self, *message: object) -> None:
        """Send *message* soon, together with those that come meanwhile."""
        self._replies.append(message)
        if len(self._replies) == 1:
            io_thread().loop.call_later(SOON_S, self._flush)

    def _flush(self) -> None:
        replies, self._replies = self._replies, []
        self._hired.tell(*replies)

    # -- requests for which a thread of the worker waits

    def _barrier(self, number: int) -> None:
        self._answer(number, self._run.services.barrier or _nothing)

    def _model(self, number: int, name: str, has_key: bool) -> None:
        self._answer(number, partial(self._resolved, name, has_key))

    def _resolved(self, name: str, has_key: bool) -> tuple[Model, Profile]:
        models = self._run.dispatch.models
        model = models.resolve(name, has_key)
        return model, models.profile_of(model.name or "")

    def _answer(self, number: int, act: Callable[[], object]) -> None:
        """Reply with the value of *act*, which may wait, and so runs on a thread of its own."""

        def reply() -> None:
            try:
                value = act()
            except Exception as error:
                value = portable(error)
            io_thread().send(partial(self._reply, "replied", number, value))

        threads.start(reply, "appl-worker-request")


_HANDLERS: dict[str, Callable[..., None]] = {
    "event": WorkerConnection._happened,
    "link": WorkerConnection._link,
    "forget": WorkerConnection._forget,
    "asked": WorkerConnection._asked,
    "cancel": WorkerConnection._cancel,
    "ready": WorkerConnection._ready,
    "secrets": WorkerConnection._concealed,
    "over": WorkerConnection._over,
    "failure": WorkerConnection._failure,
    "broken": WorkerConnection._broken,
    "closed": WorkerConnection._closed,
    "barrier": WorkerConnection._barrier,
    "model": WorkerConnection._model,
}


def _nothing() -> None:
    """Wait for nothing: this run is not recorded."""


def _outcome(well: bool, payload: bytes, shown: str) -> Value | Error:
    try:
        value = pickle.loads(payload)
    except Exception as error:
        return Error(RunError(f"a result cannot be read here ({type(error).__name__}: {error})"))
    if well:
        return Value(value)
    value.add_note(f"on a worker:\n{shown}")
    return Error(value)
