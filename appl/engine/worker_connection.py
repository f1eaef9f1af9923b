"""The driver's end of the connection to one worker: records its events and grants its attempts.

Invariant: everything here happens on the I/O loop, in the order in which the worker sent it. What
the program must know is handed to the program's own thread.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from appl import threads
from appl.engine.item_log import ItemLog, where
from appl.engine.protocol import Worker
from appl.engine.remote_call import RemoteCall
from appl.engine.wire import Unpacker, portable
from appl.errors import RunError
from appl.runtime.concurrency.fiber import run_on
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Value
from appl.runtime.event import AttemptFailed, CallDispatched, CallEnded, CallStarted, Event, Warned
from appl.runtime.scheduling.accounts import Amounts
from appl.runtime.scheduling.call_status import CallStatus
from appl.runtime.scheduling.dispatcher import Dispatcher
from appl.runtime.scheduling.traffic import Loan

if TYPE_CHECKING:
    from appl.engine.distributed_map import DistributedMap
    from appl.engine.worker_pool import HiredWorker


class WorkerConnection:
    """Connects *mapping* with the worker that it has *hired*, and handles the worker's messages."""

    def __init__(self, mapping: DistributedMap, hired: HiredWorker) -> None:
        self._mapping, self._hired = mapping, hired
        self._run = mapping.run_of
        self._unpacker = Unpacker()
        self._calls: dict[str, RemoteCall] = {}
        self._loans: dict[int, Loan] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}
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

    def _take(self, messages: list[tuple[object, ...]], here: int) -> None:
        for message in messages:
            try:
                self._one(message, here)
            # One bad message must not stop the others: their items would never end.
            except Exception as error:  # the program waits for what would be lost here
                self._broken(error)

    def _one(self, message: tuple[Any, ...], here: int) -> None:
        event = self._unpacker.unpack(message)
        answer = _ANSWERS.get(message[0])
        if event is not None:
            self._happened(event)
        elif answer is not None:
            answer(self, *message[1:])
        elif message[0] == "sent":
            self._unpacker.sent(message[1], here)

    def _happened(self, event: Event) -> None:
        address = where(event)
        within = self._mapping.source.within
        if address.startswith(within):
            ordinal = int(address[len(within) :].partition("/")[0])
            if not self._mapping.logs.setdefault(ordinal, ItemLog()).fresh(event):
                return
        if isinstance(event, Warned):
            self._run.reporter.tell(f"appl: {event.message}")
        self._note(event)
        self._run.reporter.emit(event)

    def _note(self, event: Event) -> None:
        """Keep track of the calls that run on the worker."""
        if isinstance(event, CallStarted):
            self._calls[event.address] = RemoteCall(event, self._end)
        elif isinstance(event, CallEnded):
            self._calls.pop(event.address, None)
        elif isinstance(event, CallDispatched | AttemptFailed) and event.address in self._calls:
            self._calls[event.address].latest = event

    def _end(self, call: RemoteCall) -> None:
        """Have the worker end *call* from outside; the worker then reports that it has ended."""
        self._hired.tell(("end", call.address))

    def held(self) -> Iterator[CallStatus]:
        """The calls that the worker has reported as started and not yet as ended."""
        places = [place.backend.profile.name for place in self._run.dispatch.places.values()]
        backend = places[0] if len(places) == 1 else ""
        for call in self._calls.values():
            yield call.holding(self._hired.number, backend, self._run.dispatch.scheduler.paused)

    def _concealed(self, words: dict[str, str]) -> None:
        """Store the worker's secrets under distinct names, as other processes may use the same."""
        known = self._mapping.secrets
        for name, word in words.items():
            if word not in known.values():
                same = sum(label.startswith(f"{name} of a worker") for label in known)
                known[f"{name} of a worker" + (f" ({same + 1})" if same else "")] = word
        self._run.reporter.conceal(known)

    def _ready(self) -> None:
        self._tell(partial(self._mapping.started, self._hired))

    def _over(self, index: int, well: bool, payload: bytes, shown: str) -> None:
        log = self._mapping.logs.pop(self._mapping.source.first + index, None)
        for event in log.left(time.monotonic_ns()) if log is not None else ():
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
        # Nobody waits for these permits any more. What the worker used is not known, so each loan
        # counts as lost: its reservation is treated as spent.
        for task in self._asking.values():
            task.cancel()
        for loan in self._loans.values():
            loan.lost()
        self._loans.clear()
        self._calls.clear()
        # Last, so that the program's thread hands the items out again only after all events of the
        # lost worker are recorded.
        self._tell(partial(self._mapping.gone, self._hired, why))

    # -- leave for attempts

    def _asked(self, number: int, place: str, worst: Any, tokens: int, patience_s: float) -> None:
        work = self._lend(number, place, worst and Amounts(*worst), tokens, patience_s)
        task = io_thread().loop.create_task(work)
        self._asking[number] = task

    async def _lend(
        self, number: int, place: str, worst: Amounts | None, tokens: int, patience_s: float
    ) -> None:
        try:
            await self._run.services.entered()
            way = self._way(place)
            loan = await way.lend(self._mapping.account, worst, tokens, patience_s)
        except Exception as error:
            self._hired.tell(("refused", number, portable(error)))
        else:
            # The worker may have ended while this coroutine waited: give the permit back unused.
            if self._ended:
                loan.back(Amounts())
                return
            self._loans[number] = loan
            self._hired.tell(("granted", number, loan.probe))
        finally:
            del self._asking[number]

    def _way(self, place: str) -> Dispatcher:
        """The route to the backend *place*, opened now if the worker is the first to use it."""
        dispatch = self._run.dispatch
        if place not in dispatch.schedulers and dispatch.open_place is not None:
            dispatch.open_place(place)
        return dispatch.schedulers[place].dispatcher

    def _withdrawn(self, number: int) -> None:
        task, loan = self._asking.get(number), self._loans.pop(number, None)
        if task is not None:
            task.cancel()
        if loan is not None:
            loan.back(Amounts())

    def _answered(self, number: int, used: Any, tokens: int | None) -> None:
        loan = self._loans.pop(number, None)
        if loan is not None:
            loan.answered(Amounts(*used), tokens)

    def _failed(self, number: int, error: BaseException, used: Any) -> None:
        loan = self._loans.pop(number, None)
        if loan is not None:
            loan.failed(error, Amounts(*used))

    def _barrier(self, number: int) -> None:
        barrier = self._run.services.barrier
        if barrier is None:
            self._hired.tell(("written", number, None))
            return

        def write() -> None:
            try:
                barrier()
            except Exception as error:
                self._hired.tell(("written", number, portable(error)))
            else:
                self._hired.tell(("written", number, None))

        threads.start(write, "appl-barrier")


_ANSWERS: dict[str, Callable[..., None]] = {
    "ready": WorkerConnection._ready,
    "secrets": WorkerConnection._concealed,
    "over": WorkerConnection._over,
    "failure": WorkerConnection._failure,
    "broken": WorkerConnection._broken,
    "closed": WorkerConnection._closed,
    "permit": WorkerConnection._asked,
    "withdrawn": WorkerConnection._withdrawn,
    "answered": WorkerConnection._answered,
    "failed": WorkerConnection._failed,
    "barrier": WorkerConnection._barrier,
}


def _outcome(well: bool, payload: bytes, shown: str) -> Value | Error:
    try:
        value = pickle.loads(payload)
    except Exception as error:
        return Error(RunError(f"a result cannot be read here ({type(error).__name__}: {error})"))
    if well:
        return Value(value)
    value.add_note(f"on a worker:\n{shown}")
    return Error(value)
