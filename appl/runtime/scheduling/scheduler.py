"""The scheduler: calls whose prompts are complete go to the backend, in order and within its limit.

Invariant: everything here runs on the I/O loop; a call is in one place only: waiting for a part of
its prompt, in the order of ready calls, or with a worker. It starts once, or fails with the part
that failed.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from appl.errors import CallCancelled
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, on_finish, source_of
from appl.runtime.scheduling.order import CallQueue, Fifo, Order

if TYPE_CHECKING:
    from appl.backend import Response
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why
    from appl.runtime.scheduling.dispatcher import Dispatcher
    from appl.runtime.scheduling.policy import Policy


class Scheduler:
    """One backend's queue of ready calls, and the workers that empty it.

    *bring* makes the order of the calls, for which this is the ``CallQueue``. All runs that ask the
    same ``server`` have the same one. No attempt is begun while it is ``paused``. Calls that are
    sent with others, and have no worker of their own, are ``batched``.
    """

    def __init__(
        self,
        make: Callable[[], Dispatcher],
        policy: Policy,
        bring: Callable[[CallQueue], Order],
        server: object = None,
    ) -> None:
        self._make, self._bring = make, bring
        self.policy, self.server = policy, server
        self._now = policy.clock.now if policy.clock is not None else time.monotonic
        self.paused = False
        self.workers = 0
        self._starting = False
        self._is_order_busy: Callable[[], bool] | None = None
        self._close_order: Callable[[], object] | None = None
        self.coming = Counter[str]()
        self.incomplete = IncompleteCalls(self.coming)
        self.tasks: dict[asyncio.Task[None], Call | None] = {}
        self.batched: dict[Call, None] = {}

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Sends the calls; made with the first of them, as a replay sends none."""
        dispatcher = self._make()
        dispatcher.on_room = self.look
        return dispatcher

    @cached_property
    def order(self) -> Order:
        """The order of the calls; made with the first of them."""
        return self._bring(self)

    @property
    def busy(self) -> bool:
        """True if a call is on its way to the backend."""
        is_order_busy = self._is_order_busy  # once: the I/O loop may take it away meanwhile
        return self._starting or (is_order_busy is not None and is_order_busy())

    async def connected(self) -> None:
        """Wait until the backend was connected with, or could not be."""
        await self.dispatcher.probed()

    def attach(self, is_busy: Callable[[], bool], close: Callable[[], object]) -> None:
        """Note what the order adds to the run: see ``CallQueue.attach``."""
        self._is_order_busy, self._close_order = is_busy, close

    def admit(self, call: Call) -> None:
        """Take a call from its program: it is ready, or waits for a part of its prompt."""
        when_prepared(call, self.ready, self.incomplete)

    def ready(self, call: Call) -> None:
        """Put *call*, which has its request, into the queue."""
        dispatcher = self.dispatcher
        connecting = dispatcher.connecting
        if (connecting is not None and connecting.needed) or dispatcher.outages:
            dispatcher.expect(call)
        if call.batches is not None:  # it is sent with others, and has no place in the order
            call.batches.enter(call, self)
            return
        try:
            order = self.order
        except Exception as error:  # a backend brings it: nobody else would end the call
            call.failed(error)
            return
        order.add(call)
        self.look()

    def recall(self, call: Call, response: Response, requests: int) -> None:
        """Note the answer that an earlier run has to *call*: see ``Dispatcher.recall``."""
        self.dispatcher.recall(call, response, requests)

    def charge(self, call: Call, response: Response, requests: int) -> None:
        """Charge a recorded answer to the blocks around *call*: see ``Dispatcher.charge``."""
        self.dispatcher.charge(call, response, requests, blocks_only=True)

    def refusal(self, call: Call) -> Exception | None:
        """Why budgets refuse *call* now: see ``Dispatcher.refusal``."""
        return self.dispatcher.refusal(call)

    def look(self) -> bool:
        """Start one more worker if there is work and room; true if one will look for work."""
        if self.paused:
            return False
        # One worker at a time is started. It starts the next one itself when it has found work, so
        # that a burst of calls does not make a burst of workers which find the queue empty.
        if self._starting:
            return True
        if not self.order.size:
            return False
        limit = self.dispatcher.limit
        if limit is not None and self.workers >= limit:
            return False
        self._starting = True
        self.workers += 1
        # An empty context: a worker serves the calls of many programs, and must keep none of them.
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._work(), context=contextvars.Context())
        self.tasks[task] = None
        return True

    async def _work(self) -> None:
        self._starting, order = False, self.order
        task = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            while not self.paused and order.size and (call := order.take()) is not None:
                if order.size:
                    self.look()
                since = self._now()
                if call.outcome is None:  # it may have been cancelled in the queue
                    call.worker = task
                    self.tasks[task] = call
                    try:
                        call.answered(await self.dispatcher.complete(call))
                    # The program cancels a call by cancelling the task that works on it. That ends
                    # the call, and not the worker, which goes on with the next call.
                    except asyncio.CancelledError:
                        call.failed(CallCancelled(f"the call {call.address} was cancelled"))
                    except BaseException as error:
                        call.failed(error)
                    finally:
                        # From here on a cancellation of the call cannot reach this task any more.
                        # Those that came are taken back, or asyncio would hold the next call for a
                        # cancelled one.
                        call.worker = self.tasks[task] = None
                        while task.cancelling():
                            task.uncancel()
                order.over(call, since)
        finally:
            self.workers -= 1
            del self.tasks[task]

    # -- for who looks on, and for who intervenes; on the I/O loop

    def unanswered(self) -> Iterator[Call]:
        """Every call without an answer: with a worker, ready, or waiting."""
        ready = map(itemgetter(0), self.waiting())
        for call in chain(self.tasks.values(), ready, self.incomplete, tuple(self.batched)):
            if call is not None and call.outcome is None:
                yield call

    def waiting(self) -> Iterable[tuple[Call, Why | None]]:
        """The calls of the order, with the reason for which each is not ready."""
        # Any thread may look on, but the order is made on the I/O loop.
        return self.order.waiting() if "order" in vars(self) else ()

    def pause(self) -> None:
        """Begin no attempt from now on; what is on its way goes on."""
        self.paused = True
        self.dispatcher.admission.paused = True

    def resume(self) -> None:
        """Begin attempts again."""
        self.paused = False
        self.dispatcher.admission.resume()
        self.look()

    def end(self) -> None:
        """End the work for the run, which is over; from any thread."""
        # What the dispatcher and the order hold of this is let go, so that it is freed at once.
        if (dispatcher := vars(self).get("dispatcher")) is not None:
            dispatcher.end()
        if "order" in vars(self):
            io_thread().send(self._close)

    def _close(self) -> None:
        """Let go of the order; on the I/O loop, where the rest of this runs."""
        self.order, close = Fifo(), self._close_order
        self._is_order_busy = self._close_order = None
        if close is not None:
            close()

    def resize(self, most: int) -> dict[str, int]:
        """Allow *most* attempts at once; returns the number by backend."""
        dispatcher = self.dispatcher
        return {dispatcher.name: dispatcher.resize(most)}


# -- from a call to one that is ready


class IncompleteCalls(set["Call"]):
    """Calls that wait for parts of their prompts, counted in *coming* by activation."""

    def __init__(self, coming: Counter[str]) -> None:
        super().__init__()
        self.coming = coming

    def add(self, call: Call) -> None:
        """Note that *call* waits."""
        if call not in self:
            super().add(call)
            self.coming[call.address.rpartition("/")[0]] += 1

    def remove(self, call: Call) -> None:
        """Note that *call* waits no longer."""
        if call in self:
            super().remove(call)
            address = call.address.rpartition("/")[0]
            self.coming[address] -= 1
            if not self.coming[address]:
                del self.coming[address]


def when_prepared(call: Call, go: Callable[[Call], None], waiting: IncompleteCalls) -> None:
    """Have *go* called with *call* once all parts of its prompt are there, unless they fail.

    It starts then, or when its run lets it. Meanwhile it is among the *waiting*.
    """
    # One part at a time: the first one that is not there. When it has come the next is looked for.
    # ``on_finish`` gives false if the part has finished meanwhile, on a program's thread; then it
    # would never call back, and the search goes on here.
    node = call.node
    while node is not None and not node.is_ready and (lazy := node.first_waiting()) is not None:
        if on_finish(source_of(lazy), lambda _: _recheck(call, go, waiting)):
            waiting.add(call)
            return
    if call.outcome is not None:  # it was cancelled while it waited
        return
    run = call.run
    try:
        if run.outside.amend is not None:
            run.outside.amend(call)
        call.prepare()
    except BaseException as error:
        for lazy in call.node.holes() if call.node is not None else ():
            cause = source_of(lazy).outcome  # of the part that made the prompt fail
            if isinstance(cause, Error) and cause.error is error:
                call.failed_as(cause)
                return
        call.failed(error)
        return
    try:
        # A world that hands things over when all programs wait does not see a call that waits here.
        if run.services.enter is None or run.outside.idle_detection is not None:
            if run.services.gate is not None:
                run.services.gate()
        elif not run.services.enter(partial(_entered, call, go, waiting)):
            waiting.add(call)
            return
    except Exception as error:
        call.failed(error)
        return
    _start(call, go)


def _recheck(call: Call, go: Callable[[Call], None], waiting: IncompleteCalls) -> None:
    waiting.remove(call)
    when_prepared(call, go, waiting)


def _entered(
    call: Call, go: Callable[[Call], None], waiting: IncompleteCalls, error: Exception | None
) -> None:
    waiting.remove(call)
    if call.outcome is not None:  # it was cancelled while it waited
        return
    if error is not None:
        call.failed(error)
    else:
        _start(call, go)


def _start(call: Call, go: Callable[[Call], None]) -> None:
    call.starts()
    answer = call.run.outside.answer
    try:
        if answer is None:
            go(call)
        else:
            answer(call, go)
    except Exception as error:  # of what a backend brings: nobody else would end the call
        call.failed(error)
