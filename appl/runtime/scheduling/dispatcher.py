"""A call's way to the backend: it is let in, asked, and asked again if that failed.

Invariant: a call has one outcome, however often it is tried; it is not tried again once somebody
may have seen a part of its answer. What one attempt took is given back when it ends, however it
ends.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from appl.backend import Backend, Connects, Emit, PrefixCaching, Pricing, Request, Response, offers
from appl.backend.check import check_response
from appl.errors import BackendError, BudgetExceeded
from appl.runtime.event import AttemptFailed, CallDispatched
from appl.runtime.scheduling.policy import ATTEMPT_S, Policy
from appl.runtime.scheduling.timers import Clock, LoopClock, Timer
from appl.runtime.scheduling.traffic import Loan, Traffic

if TYPE_CHECKING:
    from appl.backend.price import Overridden
    from appl.runtime.answers.call import Call
    from appl.runtime.answers.samples import Samples
    from appl.runtime.scheduling.accounts import Account, BudgetLedger
    from appl.runtime.scheduling.admission import Admission
    from appl.runtime.scheduling.call_status import Why
    from appl.runtime.scheduling.connecting import Connecting
    from appl.runtime.scheduling.metering import Meter

# Imported where they are used: what most calls do without (budgets, prices, rates, caches, and
# deadlines of their own), and what follows a failure.


def nobody_waits() -> None:
    """Does nothing, as nobody waits for room."""


class Budgets:
    """The budgets of a run, for all its calls, whoever answers them.

    ``made`` is their ledger, once there is a budget.
    """

    def __init__(self) -> None:
        self.made: BudgetLedger | None = None

    @property
    def ledger(self) -> BudgetLedger:
        """The ledger at which calls reserve; on the I/O loop."""
        if self.made is None:
            from appl.runtime.scheduling.accounts import BudgetLedger

            self.made = BudgetLedger()
        return self.made

    def charged(self, account: Account | None) -> Account | None:
        """The account that a call of *account* is charged to: see ``BudgetLedger.charged``."""
        return account if self.made is None else self.made.charged(account)


@dataclass(frozen=True, slots=True)
class BackendEndpoint:
    """One more backend of a run, with its own policy and, if it is shared, its traffic."""

    backend: Backend
    policy: Policy = field(default_factory=Policy)
    traffic: Traffic | None = None


class Dispatcher:
    """Sends one run's calls to one backend; on the I/O loop.

    *most* calls at once are allowed by the backend and the run. *seed* decides the times between
    attempts. *samples* is the backend with the caches of the run before it, where there are any:
    answers that they have are not asked for. *traffic* is that of other runs with the same server;
    the run's calls to other backends have the same *budgets*. ``on_room`` is called when more calls
    may be sent than before. ``name`` is the backend's own, and ``outages`` are those of its models.
    """

    def __init__(
        self,
        backend: Backend,
        policy: Policy,
        *,
        most: int | None = None,
        seed: int | None = None,
        samples: Callable[[], Samples] | None = None,
        traffic: Traffic | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        self.backend, self.policy, self.name = backend, policy, backend.profile.name
        self._make_samples, self.seed = samples, seed
        traffic = traffic or Traffic(policy, most)
        self.traffic, self._clock, self.outages = traffic, traffic.clock, traffic.outages
        self.connecting: Connecting | None = None
        if offers(backend, Connects):
            from appl.runtime.scheduling.connecting import Connecting

            self.connecting = Connecting(backend, self._clock, policy.deadlines)
        self._brought = (backend.prices if offers(backend, Pricing) else None) or {}
        self._has_prices = bool(policy.prices) or bool(self._brought)
        self.budgets = budgets or Budgets()
        self.on_room: Callable[[], object] = nobody_waits
        self._admission: Admission | None = None
        traffic.join(self)
        deadlines = policy.deadlines
        self._late = deadlines.first_token_s is not None or deadlines.between_tokens_s is not None
        self._late = self._late and "stream" in backend.profile.features
        self._resting = 0
        self.questions: dict[Call, Question] = {}
        self._began: dict[Call, float] = {}
        self._ready: dict[Call, float] = {}
        self._by_default = deadlines.total_s is None

    @cached_property
    def prices(self) -> Overridden:
        """The prices of its models."""
        from appl.backend.price import Overridden

        return Overridden(self.policy.prices, self._brought)

    @cached_property
    def _meter(self) -> Meter:
        from appl.runtime.scheduling.metering import Meter

        backend = self.backend
        caching = backend if offers(backend, PrefixCaching) else None
        tier = getattr(backend, "tier", None)  # of a backend that has calls answered for less
        return Meter(backend.profile, self.prices, caching, tier)

    @cached_property
    def _samples(self) -> Samples:
        assert self._make_samples is not None
        return self._make_samples()

    @property
    def admission(self) -> Admission:
        """Lets in the attempts that have to wait for something."""
        if self._admission is None:
            from appl.runtime.scheduling.admission import Admission

            # It holds nothing that leads back here, or this would not be freed at once.
            backend_meter = partial(_meter_of, ref(self))
            self._admission = Admission(
                self.traffic, self.connecting, self.policy.retries, self.budgets, backend_meter,
                self.on_room,
            )  # fmt: skip
        return self._admission

    @property
    def connects(self) -> bool:
        """True if the backend is not connected with yet."""
        return self.connecting is not None and self.connecting.needed

    @property
    def limit(self) -> int | None:
        """The number of calls up to which one more may begin now; ``None`` without limit.

        None may begin while a call waits for leave to be sent. Calls that rest between attempts do
        not count.
        """
        # A call that is taken out of the queue cannot be overtaken any more. So while one waits
        # for leave, the others stay in the queue, where a later one of higher priority still goes
        # first. Where calls wait no longer for a server, they have to come out to be told so.
        traffic = self.traffic
        if self.outages and self.policy.retries.attempts > 1 and traffic.gives_up:
            return None
        admission = self._admission
        if admission is not None and admission.stuck:
            return 0
        size = traffic.slots.size
        return None if size is None else int(size) + self._resting

    @property
    def stuck(self) -> bool:
        """True if an attempt waits for something that keeps others in the queue."""
        return self._admission is not None and self._admission.stuck > 0

    def now(self) -> float:
        """The time on the clock of its limits."""
        return self._clock.now()

    def recall(self, call: Call, response: Response, requests: int) -> None:
        """Note the answer that an earlier run has to *call*: later calls find it in the cache.

        Its usage counts for the budgets of *call*, with so many *requests* if there were any.
        """
        assert call.request is not None
        if self._make_samples is not None and call.request.cache is not None:
            self._samples.remember(call.request, response)
        if call.batches is not None:
            call.batches.remember(call.request, response)
        self.charge(call, response, requests)

    def charge(
        self, call: Call, response: Response, requests: int, *, blocks_only: bool = False
    ) -> None:
        """Charge the usage of *response* to the budgets of *call*, or only to those of blocks."""
        account = self.budgets.charged(call.account)
        if requests and account is not None and call.request is not None:
            from appl.runtime.scheduling.accounts import Amounts

            spent = self._meter.recorded(call.request, response, requests)
            for level in account.levels():
                if level.is_block or not blocks_only:
                    level.book(spent, Amounts())

    def refusal(self, call: Call) -> BudgetExceeded | None:
        """The error with which the budgets of *call* refuse it now, whoever answers it."""
        account = self.budgets.charged(call.account)
        if account is None or call.request is None:
            return None
        from appl.runtime.scheduling.accounts import refusal

        return refusal(account, partial(self._meter.worst, call.request, account))

    def complete(
        self, call: Call, request: Request | None = None
    ) -> Coroutine[object, object, Response]:
        """The answer to *call*, after as many attempts as it takes. Raises the last one's error.

        *request* is what is asked on its behalf, by default its own.
        """
        # Only the layers that the call needs are there. One without a deadline, without a cache
        # and with one sample, which is the usual one, goes to its first attempt at once.
        request = request or call.request
        assert request is not None
        ask = partial(self._ask, call)
        if self._make_samples is None or (request.n == 1 and request.cache is None):
            asking = partial(ask, request, call.emit)
        else:
            asking = partial(self._samples.complete, request, call.emit, ask)
        began = self._began.pop(call, None) if self._began else None
        if call.timeout is None and self._by_default:
            return asking()
        total = self._total(call)
        if total == math.inf:
            return asking()
        late = 0.0 if began is None else self._clock.now() - began
        from appl.runtime.scheduling.deadlines import in_time  # few calls have one

        return in_time(self._clock, max(total - late, 0.0), asking)

    async def _ask(self, call: Call, request: Request, emit: Emit | None) -> Response:
        """Ask the backend itself, until it answers or there is no point in asking again."""
        ready = self._ready.pop(call, -math.inf) if self._ready else -math.inf
        question = self.questions[call] = Question(call, request, emit, ready)
        self.traffic.calls += 1
        try:
            while True:
                try:
                    return await self._attempt(question)
                except BackendError as error:
                    from appl.runtime.scheduling.retry import wait_after  # few attempts fail

                    wait = wait_after(self, question, error)
                    question.error = error  # for those who look on while it rests
                    if (watcher := call.run.reporter.watcher) is not None:
                        at, number = time.monotonic_ns(), question.number
                        outage_left_s = self.traffic.outage(request.model).until - self._clock.now()
                        rests = max(wait, outage_left_s)
                        watcher.on_event(AttemptFailed(call.address, number, error, at, rests))
                await self._rest(question, wait)
                question.shared = question.sent = False  # another attempt begins
        finally:
            # Samples of one call may be asked for side by side, each by a question of its own.
            # The entry is that of the latest one.
            if self.questions.get(call) is question:
                del self.questions[call]
            if self.outages:
                self.traffic.tidy(request.model)

    async def _attempt(self, question: Question) -> Response:
        """Make one attempt."""
        # Most attempts are counted by neither budgets nor rates, and there is room for them now:
        # this is the fastest way. Others take their share of everything in turn.
        traffic, ledger, admission = self.traffic, self.budgets.made, self._admission
        counted = question.call.account is not None or (
            ledger is not None and ledger.late is not None
        )
        loan = None
        connecting = self.connecting
        if not counted and traffic.rate is None and (connecting is None or not connecting.needed):
            is_free = not traffic.outages and (admission is None or not admission.paused)
            epoch = traffic.slots.take_now() if is_free else None
            if epoch is not None:
                loan = Loan(traffic, question.request.model, epoch)
        if loan is None:
            loan = await self.admission.wait(question)
        request = question.request
        try:
            question.send()
            by_default = self._by_default and question.call.timeout is None
            with _default_deadline() if by_default else _UNTIMED:
                if self._late:
                    from appl.runtime.scheduling.deadlines import watched

                    emit, deadlines = question.emit, self.policy.deadlines
                    ask = partial(self.backend.complete, request)
                    response = await watched(self._clock, deadlines, ask, emit)
                else:
                    response = await self.backend.complete(request, question.emit)
            check_response(response, self.name)
            if self._has_prices:
                response = self._meter.priced(request, response)
        except BaseException as error:
            # A cancellation, too: the server may have worked, so its worst case is paid for, and
            # the slot must be given back however the attempt ends.
            if isinstance(error, BackendError):
                from appl.runtime.scheduling.connecting import let_go

                let_go(error)
            worst = loan.worst
            used = None if worst is None else self._meter.failed(request, error, worst)
            loan.failed(error, used)
            raise
        if loan.reserved is not None or loan.requested:
            from appl.runtime.scheduling.metering import tokens_of

            loan.answered(self._meter.used(request, response, loan.worst), tokens_of(response))
        else:
            loan.answered()
        return response

    def expect(self, call: Call) -> None:
        """Start the times of *call*, which is ready: they run while it is in the queue, too."""
        if self.connects:
            self._began[call] = self._clock.now()
        if self.outages:
            self._ready[call] = self._clock.now()
        elif self._ready:  # calls that ended in the queue
            self._ready.clear()

    def _total(self, call: Call) -> float:
        seconds = call.timeout if call.timeout is not None else self.policy.deadlines.total_s
        return math.inf if seconds is None else seconds

    async def probed(self) -> None:
        """Wait until the backend was probed, or the time of a call that waits for it is over.

        If the probe fails, calls find it out for themselves.
        """
        if self.connecting is not None:
            ends = (at + self._total(call) for call, at in self._began.items())
            await self.connecting.settled(min(ends, default=math.inf))

    # -- for who looks on, and for who intervenes

    def resize(self, most: int) -> int:
        """Allow *most* attempts at once, or as many as the backend bears; returns the number."""
        bears = self.backend.profile.concurrency
        most = most if bears is None else min(most, bears)
        self.traffic.slots.resize(most)
        return most

    def end(self) -> None:
        """Call nobody any more when there is room: the run is over."""
        self.on_room = nobody_waits
        if self._admission is not None:
            self._admission.on_room = nobody_waits

    # -- after a failure

    async def _rest(self, question: Question, seconds: float) -> None:
        """Let others go on until the call is tried again."""
        until = self._clock.now() + seconds
        # Its slot was given back, but its worker still counts. The limit is raised by one, so that
        # another call can use the slot.
        self._resting += 1
        try:
            self.on_room()
            with question.waiting("retry", until):
                await self.admission.rest(question, until)
        finally:
            self._resting -= 1


def _meter_of(dispatcher: ref[Dispatcher]) -> Meter:
    """The meter of a *dispatcher*, which asks for it and so is there."""
    there = dispatcher()
    assert there is not None
    return there._meter


class Question:
    """One question of *call*, and its attempts, which ``call.attempts`` counts.

    ``failed`` counts attempts that failed, ``away`` those for which the backend was not there; it
    is ``over`` when it waits no longer. For its patience it was ``ready`` to be sent then, and
    ``refused`` for the first time at that time. Of the present attempt: ``shared`` is true if its
    failure is one of several calls, ``sent`` if it was sent. ``waits`` is the reason for which it
    waits, at least ``until`` then, and ``waited`` holds the nanoseconds that it has waited, by
    reason.
    """

    __slots__ = (
        "at", "away", "call", "emit", "error", "failed", "number", "over", "ready",
        "refused",
        "request", "sent", "shared", "until", "waited", "waits",
    )  # fmt: skip

    def __init__(self, call: Call, request: Request, emit: Emit | None, ready: float) -> None:
        self.call, self.request, self.emit, self.ready = call, request, emit, ready
        self.number = self.failed = self.away = 0
        self.shared = self.sent = self.over = False
        self.refused: float | None = None
        self.waits: Why | None = None
        self.waited: dict[str, int] | None = None
        self.until: float | None = None
        self.error: BackendError | None = None
        self.at = 0.0

    @property
    def elsewhere(self) -> bool:
        """True if it may go to another backend, and so waits for none that is left alone."""
        return bool(self.call.others)

    def send(self) -> None:
        """Note that the present attempt is sent, and tell instruments."""
        call = self.call
        self.sent, self.at = True, time.monotonic()
        self.number = call.attempts = call.attempts + 1
        if call.emit is not None:
            call.emit.begin(self._samples())
        run = call.run
        if (watcher := run.reporter.watcher) is not None:
            at = time.monotonic_ns()
            watcher.on_event(CallDispatched(call.address, self.number, at, self.waited))
        # Some worlds hand something over only when all programs wait. Now that this call is with
        # the backend nothing more of it is on its way here, and all may be waiting.
        if run.outside.idle_detection is not None:
            run.outside.idle_detection.soon()
        self.waited = None

    def begun(self) -> bool:
        """True if the program may have seen a part of one of these answers."""
        if self.call.emit is None:
            return False
        samples = self._samples()
        return any(chunk.sample in samples for chunk in self.call.emit.fresh())

    def _samples(self) -> range:
        return range(self.request.sample, self.request.sample + self.request.n)

    @contextmanager
    def waiting(self, why: Why, until: float | None = None) -> Iterator[None]:
        """A block in which it waits for *why*, at least until *until*."""
        self.waits, self.until = why, until
        since = time.monotonic_ns()
        # Its run will move by itself where it waits for a timer, and is not idle.
        detection = self.call.run.outside.idle_detection if why in _TIMED else None
        if detection is not None:
            detection.timers += 1
        try:
            yield
        finally:
            if detection is not None:
                detection.timers -= 1
            self.waits = self.until = None
            if why not in _UNCOUNTED:
                waited = self.waited = self.waited or {}
                waited[why] = waited.get(why, 0) + time.monotonic_ns() - since


class CommonDeadline:
    """``with deadline:`` ends the block with ``BackendTimeout`` after *seconds*.

    There is one timer for the blocks of all tasks. So it costs a tenth of a :class:`Deadline`, and
    every attempt can have it. A task is in one such block at a time.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._began: dict[asyncio.Task[object], float] = {}  # the oldest first
        self._passed: dict[asyncio.Task[object], int] = {}  # how often each was cancelled before
        self._timer: Timer | None = None

    def __enter__(self) -> None:
        self._began[cast("asyncio.Task[Any]", asyncio.current_task())] = self._clock.now()
        if self._timer is None:
            self._arm()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._began.pop(task, None)
        if not self._passed:
            return
        before = self._passed.pop(task, None)
        if before is not None:
            from appl.runtime.scheduling.deadlines import end_late

            end_late(task, before, error, f"no answer within {self._seconds} s", "total")

    def _arm(self) -> None:
        # All have the same number of seconds, so the oldest is due first. A timer for work that
        # has ended meanwhile is not cancelled: it finds nothing due, and is set for the next one.
        oldest = next(iter(self._began.values()), None)
        due = None if oldest is None else oldest + self._seconds
        self._timer = None if due is None else self._clock.at(due, self._strike)

    def _strike(self) -> None:
        now = self._clock.now()
        for task in [task for task, at in self._began.items() if at + self._seconds <= now]:
            del self._began[task]
            self._passed[task] = task.cancelling()
            task.cancel()
        self._arm()


_ATTRIBUTE = "_appl_deadline"  # of a loop: no weak dictionary lets go of a key its value refers to


def _default_deadline() -> CommonDeadline:
    """The deadline of all attempts on the running loop that were given none.

    Runs share it: else each would leave a timer behind that the loop keeps for half an hour.
    """
    loop = asyncio.get_running_loop()
    deadline: CommonDeadline | None = getattr(loop, _ATTRIBUTE, None)
    if deadline is None:
        deadline = CommonDeadline(LoopClock(), ATTEMPT_S)  # a test's clock may jump past it
        setattr(loop, _ATTRIBUTE, deadline)
    return deadline


_TIMED = ("circuit", "rate", "paused", "retry")
"""Waits that end at a time, or from outside, and not by what other calls do."""
_UNCOUNTED = ("retry", "connect")
"""Waits that are not part of the time between being ready and being sent."""
_Asking = Callable[[], Coroutine[object, object, Response]]
_UNTIMED = nullcontext()
