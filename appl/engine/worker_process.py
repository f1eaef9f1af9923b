"""A worker: a run of its own in another process; its items have the addresses given to them.

Invariant: a worker decides nothing that others must know. Budgets, rates and the trace belong to
the driver, and events are reported in the order in which they happened.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from appl.engine.item_log import ItemAnswers, LoggedWorld
from appl.engine.prompts import SentPart, received
from appl.engine.wire import Outbox, portable
from appl.errors import ApplError, CallCancelled, RunError
from appl.prompt import Voice
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import arrive, in_coroutine, strand_here, wait
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.parallel import Item, is_async, start
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.event import Instrument
from appl.runtime.frame import FRAME, Frame
from appl.runtime.run import Run
from appl.runtime.scheduling.accounts import ONE, Account, Amounts
from appl.runtime.scheduling.policy import Allowance
from appl.runtime.scheduling.remote_permits import Lender, Permit
from appl.runtime.world import World

_SOON_S = 0.002


class OpenRun(Protocol):
    """A run that is about to be entered, with the resources that belong to it."""

    run: Run

    def close(self) -> None:
        """Close backends and everything else that was opened."""


class RunFactory(Protocol):
    """Opens, in another process, a run like the driver's. Can be pickled."""

    def open(self, lender: Lender, instruments: list[Instrument], world: World) -> OpenRun:
        """Open the run: *lender* permits each attempt, and *instruments* observe it."""


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message to a worker: the function, and where in the program it is called.

    ``limited`` says whether a budget limits cost and tokens (``None``: there is no budget).
    ``by_tokens`` are the backends whose tokens per minute are limited. ``key`` is random.
    """

    function: bytes
    blueprint: RunFactory
    caller: str
    name: str
    prompt: list[SentPart]
    voice: Voice
    model: str | None
    limited: tuple[bool, bool] | None
    by_tokens: frozenset[str]
    streams: bool
    key: bytes
    dumps: Callable[[Any], bytes]


class BorrowedPermit:
    """A permit for one attempt, granted by the driver, which has reserved *worst* for it."""

    def __init__(self, say: Callable[..., None], number: int, probe: bool, worst: Amounts) -> None:
        self._say, self._number, self.probe = say, number, probe
        self.worst: Amounts | None = worst

    def answered(self, used: Amounts, tokens: int | None) -> None:
        """Report what the attempt used, which returns the rest of the reservation."""
        self._say("answered", self._number, tuple(used), tokens)

    def failed(self, error: BaseException, used: Amounts) -> None:
        """Report a failed attempt, which returns what may be returned."""
        self._say("failed", self._number, portable(error), tuple(used))


class PermitBorrower:
    """Borrows permits from the driver; runs on the I/O loop."""

    def __init__(self, setup: WorkerSetup, out: Outbox) -> None:
        self._out, self._by_tokens = out, setup.by_tokens
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[bool]] = {}
        self._writing: dict[int, _Barrier] = {}
        self._given_up: CallCancelled | None = None
        self.account: Account | None = None
        if setup.limited is not None:
            cost, tokens = (0 if limited else None for limited in setup.limited)
            self.account = Account(Allowance(cost, tokens, 0))

    def by_tokens(self, place: str) -> bool:
        """True if the tokens per minute of *place* are limited."""
        return place in self._by_tokens

    async def permit(
        self, place: str, worst: Amounts | None, tokens: int, patience_s: float
    ) -> Permit:
        """Request a permit from the driver and wait for it."""
        if self._given_up is not None:
            raise self._given_up
        number = next(self._numbers)
        # The future is stored before the request is sent, so a reply that comes at once finds it.
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._out.say("permit", number, place, worst and tuple(worst), tokens, patience_s)
        try:
            return BorrowedPermit(self._out.say, number, await answer, worst or ONE)
        except asyncio.CancelledError:
            # The driver may be granting this permit just now: it must take the reservation back, or
            # the budget would stay short.
            self._out.say("withdrawn", number)
            raise
        finally:
            del self._asked[number]

    def granted(self, number: int, probe: bool) -> None:
        """A permit was granted. If nobody waits for it any more, that was reported already."""
        answer = self._asked.get(number)
        if answer is not None and not answer.done():
            answer.set_result(probe)

    def refused(self, number: int, error: BaseException) -> None:
        """A permit was refused."""
        answer = self._asked.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def barrier(self) -> None:
        """Wait until the driver has everything on disk that was reported so far."""
        number, written = next(self._numbers), _Barrier()
        # The entry is stored before the request is sent. If give_up() ran before this line, the
        # check below ends the wait; if it runs later, it finds the entry. Without both, this thread
        # would wait for ever.
        self._writing[number] = written
        if self._given_up is not None:
            self.written(number, self._given_up)
        self._out.say("barrier", number)
        written.wait()

    def give_up(self) -> None:
        """End all waiting: the driver no longer replies."""
        self._given_up = error = CallCancelled("the map was cancelled")
        for number in list(self._asked):
            self.refused(number, error)
        for number in list(self._writing):
            self.written(number, error)

    def written(self, number: int, error: BaseException | None) -> None:
        """The driver has written everything to disk, or failed with *error*."""
        written = self._writing.pop(number, None)
        if written is not None:
            written.reached(error)


class _Barrier:
    """One thread's wait for the driver's disk."""

    def __init__(self) -> None:
        self._event, self._error = threading.Event(), None

    def wait(self) -> None:
        self._event.wait()
        if self._error is not None:
            raise self._error

    def reached(self, error: Any) -> None:
        self._error = error
        self._event.set()


class _RunningItem:
    """One item in progress; the owner of its ``Item``."""

    def __init__(self, process: WorkerProcess, index: int) -> None:
        self._process, self._index = process, index
        self.hub = process.hub
        self.pending: Promise | None = None

    def one_over(self, pending: Promise) -> None:
        """The item has ended with *pending*."""
        self._process.over.append((self._index, pending))
        self._process.wake()


class WorkerProcess:
    """Works on the items it receives until the driver closes it; ``run`` is its whole life.

    *send* takes batches for the driver, on the I/O thread of this process.
    """

    def __init__(self, setup: bytes, send: Callable[[bytes], None]) -> None:
        self._bytes, self._send = setup, send
        self._inbox: deque[tuple[Any, ...]] = deque()
        self._closing = self._cancelled = False
        self._signal: Signal | None = None
        self.over: deque[tuple[int, Promise]] = deque()
        self._jobs: dict[int, _RunningItem] = {}
        self._borrower: PermitBorrower | None = None
        self._run: Run | None = None

    # -- from any thread

    def receive(self, batch: bytes) -> None:
        """Receive *batch* from the driver."""
        for message in pickle.loads(batch):
            kind, *rest = message
            # Batches come on the engine's own thread. Replies about permits belong to futures of
            # the I/O loop; everything else is for the worker's own thread, which takes it from the
            # inbox.
            if kind in ("granted", "refused", "written"):
                assert self._borrower is not None
                io_thread().send(partial(getattr(self._borrower, kind), *rest))
            elif kind == "end":
                io_thread().send(partial(self._end, *rest))
            else:
                # Signal end the waits for permits and disk, as the driver will not reply any more;
                # then the worker's own thread can see the cancellation.
                if kind == "cancel" and self._borrower is not None:
                    io_thread().send(self._borrower.give_up)
                # Append before waking: see _steps for the order on the other side.
                self._inbox.append(message)
                self.wake()

    def _end(self, address: str) -> None:
        """End the call at *address*, on the I/O loop."""
        holdings = self._run.holdings() if self._run is not None else []
        for holding in holdings:
            if holding.call.address == address:
                holding.call.end_from_outside()

    def wake(self) -> None:
        """Wake the worker's own thread: there is something to do."""
        # Read once: the worker's own thread may replace the signal at any moment.
        signal = self._signal
        if signal is not None:
            signal.reached()

    # -- on the worker's own thread

    def run(self) -> None:
        """Work until the driver closes or cancels, then report the end."""
        try:
            setup: WorkerSetup = pickle.loads(self._bytes)
            f = pickle.loads(setup.function)
        except BaseException as error:
            self._send(pickle.dumps([("broken", _unreadable(error))]))
            return
        out = Outbox(setup.key, self._send, time.monotonic_ns, _soon, setup.streams)
        try:
            self._serve(setup, f, out)
        except BaseException as error:
            out.say("broken", portable(error))
        # The last message, after every event of the run; the driver counts the worker as ended by
        # it.
        out.say("closed")
        _flushed(out)

    def _serve(self, setup: WorkerSetup, f: object, out: Outbox) -> None:
        self._setup, self._f, self._out = setup, f, out
        self._borrower = borrower = PermitBorrower(setup, out)
        self._known = LoggedWorld(f"{setup.caller}/{setup.name}.")
        opened = setup.blueprint.open(borrower, [out], self._known)
        try:
            self._run = run = opened.run
            run.services = replace(run.services, barrier=borrower.barrier)
            out.say("ready")
            if is_async(f):
                asyncio.run(self._alive(run))
            else:
                self._live(run)
        finally:
            opened.close()

    def _live(self, run: Run) -> None:
        failed: BaseException | None = None
        run.__enter__()
        try:
            for signal in self._steps(run):
                wait(signal)
        except BaseException as error:
            failed = error
        try:
            run.finish(failed)
        except Exception as error:
            self._ended(error)
        finally:
            run._leave()

    async def _alive(self, run: Run) -> None:
        failed: BaseException | None = None
        run.__enter__()
        try:
            for signal in self._steps(run):
                await arrive(signal)
        except BaseException as error:
            failed = error
        try:
            await run.afinish(failed)
        except Exception as error:
            self._ended(error)
        finally:
            run._leave()

    def _ended(self, error: Exception) -> None:
        """Report an error of something that was left running and that nobody waited for."""
        if not self._cancelled:
            self._out.say("failure", portable(error))

    def _steps(self, run: Run) -> Iterator[Signal]:
        """Yield what to wait for, one after the other, until there is nothing more to do."""
        self.hub = strand_here().hub
        setup = self._setup
        self._caller = Frame(run, run.tree.root, setup.caller, received(setup.prompt), setup.voice)
        self._caller.model = setup.model
        run.tree.root.started = (
            self._caller.started
        )  # the run answers for what the items leave behind
        FRAME.set(self._caller)
        while True:
            # A new signal first, then the queues: whatever is added after this line wakes the new
            # signal, so nothing is overlooked between emptying a queue and waiting.
            self._signal = Signal("", self.hub)
            while self._inbox:
                self._receive_message(*self._inbox.popleft())
            while self.over:
                self._tell(*self.over.popleft())
            if self._cancelled:
                raise CallCancelled("the map was cancelled")
            if self._closing and not self._jobs:
                return
            yield self._signal

    def _receive_message(self, kind: str, *rest: Any) -> None:
        if kind == "item":
            self._begin(*rest)
        elif kind == "close":
            self._closing = True
        elif kind == "cancel":
            self._cancelled = True

    def _begin(self, index: int, ordinal: int, payload: bytes, answers: ItemAnswers | None) -> None:
        if answers is not None:
            self._known.add(answers)
        job = self._jobs[index] = _RunningItem(self, index)
        self._caller.counts[self._setup.name] = ordinal
        try:
            job.pending = pending = start(self._f, pickle.loads(payload), {})
        except Exception as error:
            self._over(index, None, error)
            return
        Item(job, pending).follow(pending)

    def _tell(self, index: int, pending: Promise) -> None:
        outcome = pending.outcome
        if isinstance(outcome, Value):
            self._over(index, outcome.value, None)
        else:
            assert isinstance(outcome, Error)
            outcome.looked = True
            self._over(index, None, outcome.error)

    def _over(self, index: int, value: object, error: BaseException | None) -> None:
        job = self._jobs.pop(index)
        if job.pending is not None:
            job.pending.looked = True
            if not in_coroutine():
                structure.join(job.pending.children or [])
        payload: bytes | None = None
        if error is None:
            try:
                payload = self._setup.dumps(value)
            except Exception as why:
                error = RunError(
                    f"{self._setup.name}() returned what cannot be sent to the driver "
                    f"({type(value).__name__}: {why}); return plain data or text"
                )
        if error is not None:
            shown = "".join(traceback.format_exception(error)).rstrip()
            payload = self._error(error)
        self._out.say("over", index, error is None, payload, shown if error is not None else "")

    def _error(self, error: BaseException) -> bytes:
        try:
            payload = self._setup.dumps(error)
            pickle.loads(payload)
        except Exception:
            return pickle.dumps(portable(error))
        return payload


def _unreadable(error: BaseException) -> ApplError:
    return RunError(
        f"a worker cannot read what it was sent ({type(error).__name__}: {error}); the modules "
        "that the program imports must be there, too: see runtime_env of Ray"
    )


def _flushed(out: Outbox) -> None:
    """Wait until everything is sent."""
    done, io = threading.Event(), io_thread()
    io.send(out.flush)
    io.send(done.set)
    io.recall()
    done.wait()


def _soon(action: Callable[[], None]) -> None:
    io = io_thread()
    io.send(lambda: _later(io.loop, action))


def _later(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    loop.call_later(_SOON_S, action)
