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
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from appl.backend import Backend, Emit, PrefixCaching, Pricing, Request, Response, offers
from appl.backend_check import check_response
from appl.errors import BackendBusy, BackendError, CircuitOpen
from appl.price import Overridden
from appl.runtime.answers.samples import Samples
from appl.runtime.event import AttemptFailed, CallDispatched
from appl.runtime.scheduling.accounts import Amounts, BudgetLedger
from appl.runtime.scheduling.admission import Admission, Wanted
from appl.runtime.scheduling.call_status import CallStatus, Load, Why
from appl.runtime.scheduling.connecting import Connecting, let_go
from appl.runtime.scheduling.deadlines import Deadline, end_late, watching
from appl.runtime.scheduling.hedging import Hedge
from appl.runtime.scheduling.metering import Meter, tokens_of
from appl.runtime.scheduling.policy import ATTEMPT_S, Policy
from appl.runtime.scheduling.retry import wait_s
from appl.runtime.scheduling.timers import Clock, LoopClock, Timer, sleep_until
from appl.runtime.scheduling.traffic import Loan, Traffic

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call


class Dispatcher:
    """Sends one run's calls to one backend; on the I/O loop.

    *most* calls at once are allowed by the backend and the run. *seed* decides the times between
    attempts. *samples* is the backend with the caches of the run before it, where there are any:
    answers that they have are not asked for. *traffic* is that of other runs with the same server;
    the run's calls to other backends reserve at the same *ledger*. ``on_room`` is called when more
    may be sent than before. ``name`` is the backend's own.
    """

    def __init__(
        self,
        backend: Backend,
        policy: Policy,
        *,
        most: int | None = None,
        seed: int | None = None,
        samples: Samples | None = None,
        traffic: Traffic | None = None,
        ledger: BudgetLedger | None = None,
    ) -> None:
        self.backend, self.policy, self.name = backend, policy, backend.profile.name
        self.on_room: Callable[[], None] = _nothing
        self._samples, self._seed = samples, seed
        traffic = traffic or Traffic(policy, self.name, most)
        traffic.join(self)
        self._traffic, self._clock = traffic, traffic.clock
        self.connecting = Connecting(backend, traffic.breaker, self._clock, policy.deadlines)
        caching = backend if offers(backend, PrefixCaching) else None
        brought = backend.prices if offers(backend, Pricing) else None
        self.prices = Overridden(policy.prices, brought or {})
        self._meter = Meter(backend.profile, self.prices, caching)
        self.ledger = ledger or BudgetLedger()
        self._admission = Admission(traffic, policy.retries, self.ledger)
        self._hedge = Hedge(policy.hedge, self._clock) if policy.hedge is not None else None
        deadlines = policy.deadlines
        self._late = deadlines.first_token_s is not None or deadlines.between_tokens_s is not None
        self._late = self._late and "stream" in backend.profile.features
        self._resting = self._stuck = 0
        self._questions: dict[Call, Question] = {}
        self._began: dict[Call, float] = {}
        self._by_default = deadlines.total_s is None

    @property
    def limit(self) -> int | None:
        """The number of calls up to which one more may begin now; ``None`` without limit.

        None may begin while a call waits for leave to be sent. Calls that rest between attempts do
        not count.
        """
        # A call that is taken out of the queue cannot be overtaken any more. So while one waits
        # for leave, the others stay in the queue, where a later one of higher priority still goes
        # first.
        if self._stuck:
            return 0
        size = self._traffic.slots.size
        return None if size is None else int(size) + self._resting

    def patience_s(self, call: Call) -> float:
        """The seconds for which *call* waits for a backend that is taken for dead."""
        return self.policy.retries.patience_s

    def recall(self, call: Call, response: Response, requests: int) -> None:
        """Note the answer that an earlier run has to *call*: later calls find it in the cache.

        Its usage counts for the budgets of *call*, with so many *requests* if there were any.
        """
        assert call.request is not None
        if self._samples is not None:
            self._samples.remember(call.request, response)
        account = self.ledger.charged(call.account)
        if requests and account is not None:
            spent = self._meter.recorded(call.request, response, requests)
            for level in account.levels():
                level.book(spent, Amounts())

    def has_room(self) -> None:
        """Note that more calls may be sent than before."""
        self.on_room()

    def complete(self, call: Call) -> Coroutine[object, object, Response]:
        """The answer to *call*, after as many attempts as it takes. Raises the last one's error."""
        # Only the layers that the call needs are there. One without a deadline, without a cache
        # and with one sample, which is the usual one, goes to its first attempt at once.
        request = call.request
        assert request is not None
        ask = partial(self._ask, call)
        if self._samples is None or (request.n == 1 and request.cache is None):
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
        return self._in_time(max(total - late, 0.0), asking)

    async def _in_time(self, total: float, asking: _Asking) -> Response:
        with Deadline(self._clock) as late:
            late.set("total", total)
            return await asking()

    async def _ask(self, call: Call, request: Request, emit: Emit | None) -> Response:
        """Ask the backend itself, until it answers or there is no point in asking again."""
        question = self._questions[call] = Question(call, request, emit)
        attempt = self._attempt if self._hedge is None or emit is not None else self._hedged
        self._traffic.retries.calls += 1
        try:
            while True:
                try:
                    return await attempt(question)
                except BackendError as error:
                    wait = self._wait_after(question, error)
                    if wait is None:
                        raise
                    question.error = error  # for those who look on while it rests
                    if (watcher := call.run.reporter.watcher) is not None:
                        at = time.monotonic_ns()
                        failed = AttemptFailed(call.address, question.number, error, at, wait)
                        watcher.on_event(failed)
                await self._rest(question, wait)
                question.begin_again()
        finally:
            # Samples of one call may be asked for side by side, each by a question of its own.
            # The entry is that of the latest one.
            if self._questions.get(call) is question:
                del self._questions[call]

    def _hedged(self, question: Question) -> Coroutine[object, object, Response]:
        assert self._hedge is not None
        return self._hedge.ask(partial(self._attempt, question), partial(self._second, question))

    def _second(self, question: Question) -> _Asking | None:
        """One more attempt beside one that is on its way, if nothing has to be waited for."""
        loan = self._admission.now(self._wanted(question))
        return None if loan is None else partial(self._attempt, question.beside(), loan)

    async def _attempt(self, question: Question, loan: Loan | None = None) -> Response:
        """Make one attempt, with its *loan*, which is waited for if there is none."""
        if loan is None:
            if self.connecting.needed:
                await self._connected(question)
            # Most attempts are counted by neither budgets nor rates, and there is room for them
            # now: this is the fastest way. Others take their share of everything in turn.
            traffic, accounts = self._traffic, (question.call.account, self.ledger.late)
            if accounts == _UNLIMITED and traffic.rate is None and not self._admission.paused:
                loan = traffic.lend_slot(self.policy.retries)
        if loan is None:
            wanted = self._wanted(question)
            loan = await self._admission.wait(wanted, partial(self._waiting, question))
        request, meter = question.request, self._meter
        try:
            question.send(probing=loan.probe)
            by_default = self._by_default and question.call.timeout is None
            with _default_deadline() if by_default else _UNTIMED:
                if self._late:
                    response = await self._streamed(question)
                else:
                    response = await self.backend.complete(request, question.emit)
            check_response(response, self.name)
            if meter.has_prices:
                response = meter.priced(request, response)
        except BaseException as error:
            # A cancellation, too: the server may have worked, so its worst case is paid for, and
            # the slot must be given back however the attempt ends.
            if isinstance(error, BackendError):
                let_go(error)
            loan.failed(error, meter.failed(request, error, loan.worst))
            raise
        if loan.reserved is not None or loan.asked:
            loan.answered(meter.used(request, response, loan.worst), tokens_of(response))
        else:
            loan.answered()
        return response

    async def _connected(self, question: Question) -> None:
        waiting = partial(self._waiting, question)
        try:
            await self.connecting.done(self.patience_s(question.call), waiting)
        except BackendError as error:
            # All calls of the run hear of the one failed connecting. It counts as an attempt of
            # each, but takes only one retry out of the budget of retries.
            if not isinstance(error, CircuitOpen):
                question.call.attempts += 1
                question.number, question.shared = question.call.attempts, True
            raise

    def _wanted(self, question: Question) -> Wanted:
        call, request = question.call, question.request
        tokens = self._meter.tokens(request) if self._traffic.by_tokens else 0
        worst = partial(self._meter.worst, request)
        return Wanted(call.account, worst, tokens, self.patience_s(call))

    async def _streamed(self, question: Question) -> Response:
        """One answer of the backend, whose tokens have deadlines."""
        deadlines = self.policy.deadlines
        with Deadline(self._clock) as late:
            late.set("first token", deadlines.first_token_s)
            emit = watching(late, deadlines.between_tokens_s, question.emit)
            return await self.backend.complete(question.request, emit)

    def expect(self, call: Call) -> None:
        """Start the time of *call*, which is ready; it runs while the backend is probed, too."""
        if self.connecting.needed:
            self._began[call] = self._clock.now()

    def _total(self, call: Call) -> float:
        found = call.timeout if call.timeout is not None else self.policy.deadlines.total_s
        return math.inf if found is None else found

    async def probed(self) -> None:
        """Wait until the backend was probed, or the time of a call that waits for it is over.

        If the probe fails, calls find it out for themselves.
        """
        ends = (at + self._total(call) for call, at in self._began.items())
        await self.connecting.settled(min(ends, default=math.inf))

    @contextmanager
    def _waiting(self, question: Question, why: Why) -> Iterator[None]:
        """A block in which a call waits for leave; no other is taken out of the queue meanwhile."""
        # All calls wait for the connecting together, so it holds nobody back.
        stuck = why != "connect"
        self._stuck += stuck
        try:
            with question.waiting(why):
                yield
        finally:
            self._stuck -= stuck
            # The limit was held down by this wait: the queue has to be looked at again, or the
            # calls in it would wait for the next one that comes.
            if stuck and not self._stuck:
                self.on_room()

    # -- for who looks on, and for who intervenes

    @property
    def stuck_for(self) -> Why | None:
        """The reason for which a call waits and keeps the others in the queue; else ``None``."""
        if not self._stuck:
            return None
        found = (self._told(question)[0] for question in self._questions.values() if question.waits)
        return next((why for why in found if why not in ("retry", "connect")), None)

    def holding(self, call: Call) -> CallStatus:
        """The state of *call*, which a worker has."""
        question = self._questions.get(call)
        if question is None:
            return CallStatus(call, "worker", "sample", self.name)
        why, until = self._told(question)
        since = time.monotonic() - question.at if question.number else None
        left = max(until - self._clock.now(), 0.0) if until is not None else None
        return CallStatus(
            call, "worker", why, self.name, 0, question.number, since, left, question.error
        )

    def _told(self, question: Question) -> tuple[Why, float | None]:
        """The reason for which it is not answered, and the earliest end of that, if known."""
        if question.waits == "circuit":
            closed = self._traffic.gate.closed
            return (
                ("gate", self._traffic.gate.until)
                if closed
                else ("circuit", self._traffic.breaker.probe_at)
            )
        if question.waits == "rate" and self._traffic.rate is not None:
            return "rate", self._traffic.rate.ready_at()
        if question.waits is not None:
            return question.waits, question.until
        return "asked" if question.sent else "slot", None

    def load(self, ready: int) -> Load:
        """The load of the backend, when so many calls are *ready*."""
        slots, probe_at = self._traffic.slots, self._traffic.breaker.probe_at
        now = self._clock.now()
        gate_s = max(self._traffic.gate.until - now, 0.0) if self._traffic.gate.closed else 0.0
        circuit_s = max(probe_at - now, 0.0) if probe_at is not None else 0.0
        return Load(self.name, slots.limit, slots.most, slots.taken, ready, gate_s, circuit_s)

    def pause(self) -> None:
        """Begin no attempt from now on; what is on its way goes on."""
        self._admission.pause()

    def resume(self) -> None:
        """Begin attempts again."""
        self._admission.resume()

    def end(self) -> None:
        """The run is over: nobody waits for room any more."""
        self.on_room = _nothing

    def resize(self, most: int) -> int:
        """Allow *most* attempts at once, or as many as the backend bears; returns the number."""
        bears = self.backend.profile.concurrency
        most = most if bears is None else min(most, bears)
        self._traffic.slots.resize(most)
        return most

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
                await sleep_until(self._clock, until)
        finally:
            self._resting -= 1

    def _wait_after(self, question: Question, error: BackendError) -> float | None:
        """The seconds until the next attempt; ``None`` if the last one's error is final."""
        retries, call, now = self.policy.retries, question.call, self._clock.now()
        if not error.retriable or isinstance(error, CircuitOpen) or retries.attempts == 1:
            return None
        # A program that has seen a part of this answer must not be given the beginning of another.
        if question.begun() or call.run.closed or call.outcome is not None:
            return None
        question.since = now if question.since is None else question.since
        if isinstance(error, BackendBusy) or question.probing or self._traffic.breaker.open:
            # Turned away, or not there: the call has not been tried, so only the time counts.
            question.away += 1
            if now - question.since + (error.retry_after or 0) >= retries.patience_s:
                return None
        else:
            question.failed += 1
            if question.failed >= retries.attempts or (error.retry_after or 0) > retries.patience_s:
                return None
            # When a server fails for everybody, retries of all calls would add to its load.
            if not question.shared and not self._traffic.retries.spend():
                return None
        failed = max(question.failed, question.away)
        return wait_s(retries, self._seed, call.address, failed, error.retry_after or 0.0)


class Question:
    """One question of *call*, and its attempts, which ``call.attempts`` counts.

    ``failed`` counts attempts that failed, ``away`` those for which the backend was not there,
    since ``since``. Of the present attempt: ``probing`` is true if it is to find out whether a dead
    backend is alive again, ``shared`` if its failure is one of several calls, ``sent`` if it was
    sent. ``waits`` is the reason for which it waits, at least ``until`` then, and ``waited`` holds
    the nanoseconds that it has waited, by reason.
    """

    __slots__ = (
        "at", "away", "call", "emit", "error", "failed", "number", "probing", "request", "sent",
        "shared", "since", "until", "waited", "waits",
    )  # fmt: skip

    def __init__(self, call: Call, request: Request, emit: Emit | None) -> None:
        self.call, self.request, self.emit = call, request, emit
        self.number = self.failed = self.away = 0
        self.probing = self.shared = self.sent = False
        self.since: float | None = None
        self.waits: Why | None = None
        self.waited: dict[str, int] | None = None
        self.until: float | None = None
        self.error: BaseException | None = None
        self.at = 0.0

    def beside(self) -> Question:
        """The same question, to be asked beside this one with attempts of its own."""
        return Question(self.call, self.request, self.emit)

    def begin_again(self) -> None:
        """Begin another attempt."""
        self.probing = self.shared = self.sent = False

    def send(self, *, probing: bool) -> None:
        """Note that the present attempt is sent, and tell instruments."""
        call = self.call
        self.sent, self.at, self.probing = True, time.monotonic(), probing
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
        try:
            with _timed(self.call) if why in _TIMED else nullcontext():
                yield
        finally:
            self.waits = self.until = None
            if why not in _UNCOUNTED:
                waited = self.waited = self.waited or {}
                waited[why] = waited.get(why, 0) + time.monotonic_ns() - since


@contextmanager
def _timed(call: Call) -> Iterator[None]:
    """A block in which *call* waits for a timer: its run will move by itself, and is not idle."""
    detection = call.run.outside.idle_detection
    if detection is None:
        yield
        return
    detection.timers += 1
    try:
        yield
    finally:
        detection.timers -= 1


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
            end_late(task, before, error, f"no answer within {self._seconds} s", "total")

    def _arm(self) -> None:
        # All have the same number of seconds, so the oldest is due first. A timer for work that
        # has ended meanwhile is not cancelled: it finds nothing due, and is set for the next one.
        oldest = next(iter(self._began.values()), None)
        due = None if oldest is None else oldest + self._seconds
        self._timer = None if due is None else self._clock.at(due, self._strike)

    def _strike(self) -> None:
        now = self._clock.now()
        for task in [each for each, at in self._began.items() if at + self._seconds <= now]:
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
    found: CommonDeadline | None = getattr(loop, _ATTRIBUTE, None)
    if found is None:
        found = CommonDeadline(LoopClock(), ATTEMPT_S)  # a test's clock may jump past it
        setattr(loop, _ATTRIBUTE, found)
    return found


_Asking = Callable[[], Coroutine[object, object, Response]]
_UNTIMED = nullcontext()
_TIMED = ("circuit", "rate", "paused", "retry")
"""Waits that end at a time, or from outside, and not by what other calls do."""
_UNCOUNTED = ("retry", "connect")
"""Waits that are not part of the time between being ready and being sent."""
_UNLIMITED = (None, None)


def _nothing() -> None:
    """Does nothing: nobody waits for room."""
