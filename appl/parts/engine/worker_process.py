"""A worker: runs the Python of items in another process, at the addresses given to them.

Invariant: a worker asks no model. Its calls are the driver's, which has all limits and the trace;
events are reported in the order in which they happened.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from appl.backend import Profile
from appl.errors import CallCancelled, RunError
from appl.parts.engine.driver_world import DriverModels, DriverWorld
from appl.parts.engine.item_log import ItemAnswers
from appl.parts.engine.prompts import SentPart, received
from appl.parts.engine.wire import SOON_S, Outbox, portable
from appl.prompt import Voice
from appl.runtime.answers.models import Model
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import arrive, in_coroutine, strand_here, wait
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.parallel import Item, is_async, start
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.frame import FRAME, Frame
from appl.runtime.run import Run
from appl.runtime.world import Nobody


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """The first message to a worker: the function, and where in the program it is called.

    ``options`` are those of the worker's run, as the driver's run has them; ``profile`` is that of
    its own backend, and ``default`` its default model, with the profile of that.
    """

    function: bytes
    caller: str
    name: str
    prompt: list[SentPart]
    voice: Voice
    model: str | None
    options: Mapping[str, Any]
    profile: Profile
    default: tuple[Profile, Model]
    streams: bool
    shows_arguments: bool
    dumps: Callable[[Any], bytes]


class _RunningItem:
    """One item in progress; the owner of its ``Item``."""

    def __init__(self, process: WorkerProcess, index: int) -> None:
        self._process, self._index = process, index
        self.hub = process.hub
        self.pending: Promise | None = None

    def one_over(self, item: Item, end: Promise) -> None:
        """The item has ended with *end*."""
        self._process.over.append((self._index, end))
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
        self._world: DriverWorld | None = None

    # -- from any thread

    def receive(self, batch: bytes) -> None:
        """Receive *batch* from the driver."""
        for message in pickle.loads(batch):
            kind, *rest = message
            # Batches come on the engine's own thread. What calls are told belongs to the I/O loop;
            # everything else is for the worker's own thread, which takes it from the inbox.
            if kind in ("told", "replied"):
                io_thread().send(partial(getattr(self._world, kind), *rest))
            else:
                # Signal end the waits for the driver, which will not reply any more; then the
                # worker's own thread can see the cancellation.
                if kind == "cancel" and self._world is not None:
                    io_thread().send(self._world.give_up)
                # Append before waking: see _steps for the order on the other side.
                self._inbox.append(message)
                self.wake()

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
            unreadable = RunError(
                f"a worker cannot read what it was sent ({type(error).__name__}: {error}); the "
                "modules that the program imports must be there, too: see runtime_env of Ray"
            )
            self._send(pickle.dumps([("broken", unreadable)]))
            return
        out = Outbox(self._send, time.monotonic_ns, _soon, setup.streams, setup.shows_arguments)
        try:
            self._serve(setup, f, out)
        except BaseException as error:
            out.say("broken", portable(error))
        # The last message, after every event of the run; the driver counts the worker as ended by
        # it.
        out.say("closed")
        # Wait until everything is sent.
        done, io = threading.Event(), io_thread()
        io.send(out.flush)
        io.send(done.set)
        done.wait()

    def _serve(self, setup: WorkerSetup, f: object, out: Outbox) -> None:
        self._setup, self._f, self._out = setup, f, out
        self._world = world = DriverWorld(out)
        run = Run(
            Nobody(setup.profile),
            instruments=[out],
            world=world,
            barrier=world.barrier,
            models=DriverModels(world, *setup.default, setup.profile),
            **setup.options,
        )
        run.dispatch.caches = world.caches
        run.reporter.tell = lambda _: None  # the driver shows the lines of this run
        out.say("ready")
        if is_async(f):
            asyncio.run(self._alive(run))
        else:
            self._live(run)

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
                kind, *rest = self._inbox.popleft()
                if kind == "item":
                    self._begin(*rest)
                elif kind == "close":
                    self._closing = True
                elif kind == "cancel":
                    self._cancelled = True
            while self.over:
                self._tell(*self.over.popleft())
            if self._cancelled:
                raise CallCancelled("the map was cancelled")
            if self._closing and not self._jobs:
                return
            yield self._signal

    def _begin(self, index: int, ordinal: int, payload: bytes, answers: ItemAnswers | None) -> None:
        if answers is not None and self._world is not None:
            self._world.add(answers)
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


def _soon(action: Callable[[], None]) -> None:
    io = io_thread()
    io.send(lambda: _later(io.loop, action))


def _later(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    loop.call_later(SOON_S, action)
