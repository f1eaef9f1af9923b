"""A call's way to the backend: budget, slot, leave to ask, rate, the attempt, and the next one.

Invariant: a call has one outcome, however often it is tried; it is not tried again once somebody
may have seen a part of its answer. What one attempt took is given back when it ends, however it
ends.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from appl.backend import Backend, Emit, PrefixCaching, Request, Response
from appl.errors import UNWORKED, BackendBusy, BackendError, CircuitOpen
from appl.runtime.event import AttemptFailed, CallDispatched
from appl.runtime.samples import Samples
from appl.runtime.scheduling.budget import Account, Amounts, Desk, Prices, Reservation
from appl.runtime.scheduling.deadlines import Deadline, watching
from appl.runtime.scheduling.hedging import Hedge
from appl.runtime.scheduling.holding import Holding, Load, Why
from appl.runtime.scheduling.lending import Lender, Loan, tokens_of
from appl.runtime.scheduling.policy import Policy
from appl.runtime.scheduling.retry import wait_s
from appl.runtime.scheduling.timers import ring, sleep_until
from appl.runtime.scheduling.traffic import Traffic

if TYPE_CHECKING:
    from appl.runtime.call import Call
    from appl.runtime.run import Run


class Attempts:
    """The way of one run's calls to one backend; on the I/O loop.

    *most* is how many calls the backend and the run allow at once. *seed* is that of the times
    between attempts. *samples* is the backend with the caches of the run before it, where there
    are any: what they have is not asked for. *traffic* is that of other runs with the same server,
    *desk* is where the run's calls to other backends reserve.
    ``on_room`` is called when more may be sent than before. While ``paused`` no attempt is begun.
    """

    place = ""
    lender: Lender | None = None

    def __init__(
        self,
        backend: Backend,
        policy: Policy,
        *,
        most: int | None = None,
        seed: int | None = None,
        samples: Samples | None = None,
        traffic: Traffic | None = None,
        desk: Desk | None = None,
    ) -> None:
        self.backend, self.policy = backend, policy
        self.on_room: Callable[[], None] = _nothing
        self._samples, self._seed = samples, seed
        self._connect: Callable[[], Coroutine[Any, Any, None]] | None
        self._connect = getattr(backend, "connect", None)
        self._connecting: asyncio.Task[None] | None = None
        traffic = traffic or Traffic(policy, backend.profile.name, most)
        traffic.join(self)
        self._clock = clock = traffic.clock
        self._slots, self._rate, self._retries = traffic.slots, traffic.rate, traffic.retries
        self._gate, self._breaker = traffic.gate, traffic.breaker
        caching = backend if isinstance(backend, PrefixCaching) else None
        prices = policy.prices or getattr(backend, "prices", None) or {}
        self._prices = Prices(backend.profile, prices, caching)
        self.desk = desk or Desk()
        self._hedge = Hedge(policy.hedge, clock) if policy.hedge is not None else None
        deadlines = policy.deadlines
        self._late = deadlines.first_token_s is not None or deadlines.between_tokens_s is not None
        self._late = self._late and "stream" in backend.profile.features
        self._present = self._resting = self._stuck = 0
        self._asking: dict[Call, _Asking] = {}
        self.paused = False
        self._unpaused: list[asyncio.Future[None]] = []
        self._timeless = bool(getattr(backend, "timeless", False))

    @property
    def limit(self) -> int | None:
        """How many calls may be on their way now, ``None`` for all that there are.

        No more than there are while one waits for leave, so that the others are still in order
        when theirs comes; those that rest between attempts hold nobody up.
        """
        slots = None if self._timeless else self._slots.limit
        limit = None if slots is None else slots + self._resting
        if self._stuck:
            return self._present if limit is None else min(limit, self._present)
        return limit

    def numbers(self, call: Call) -> Iterator[int]:
        """The numbers of the attempts of *call*."""
        return count(1)

    def patience_s(self, call: Call) -> float:
        """How long *call* waits for a backend that is taken for dead."""
        return self.policy.retries.patience_s

    def recall(self, call: Call, response: Response, requests: int) -> None:
        """An earlier run has the answer to *call*: later calls find it in the run's cache.

        What it took counts for the budgets of *call*, with so many *requests* if there were any.
        """
        assert call.request is not None
        if self._samples is not None:
            self._samples.remember(call.request, response)
        account = self.desk.charged(call.account)
        if requests and account is not None:
            spent = self._prices.recorded(call.request, response, requests)
            for level in account.levels():
                level.book(spent, Amounts())

    def has_room(self) -> None:
        """More calls may be sent than before."""
        self.on_room()

    async def complete(self, call: Call) -> Response:
        """The answer to *call*, after as many attempts as it takes. Raises what the last raised."""
        request = call.request
        assert request is not None
        if self._timeless:
            _dispatched(call, 1)
            return await self.backend.complete(request, call.emit)
        total = call.timeout if call.timeout is not None else self.policy.deadlines.total_s
        self._present += 1
        try:
            if total is None:
                return await self._answer(call, request)
            with Deadline(self._clock) as late:
                late.set("total", total)
                return await self._answer(call, request)
        finally:
            self._present -= 1

    def _answer(self, call: Call, request: Request) -> Coroutine[Any, Any, Response]:
        numbers = self.numbers(call)
        if self._samples is None or (request.n == 1 and request.cache is None):
            return self._ask(call, numbers, request, call.emit)
        return self._samples.complete(request, call.emit, partial(self._ask, call, numbers))

    async def _ask(
        self, call: Call, numbers: Iterator[int], request: Request, emit: Emit | None
    ) -> Response:
        """Ask the backend itself, until it answers or there is no point in asking again."""
        asking = self._asking[call] = _Asking(call, numbers, request, emit)
        self._retries.earn()
        try:
            while True:
                try:
                    if self._hedge is None or emit is not None:
                        return await self._attempt(asking)
                    return await self._hedge.ask(
                        partial(self._attempt, asking), partial(self._second, asking)
                    )
                except BackendError as error:
                    wait = self._wait_after(asking, error)
                    if wait is None:
                        raise
                    asking.error = error
                    if call.run.watched:
                        at = time.monotonic_ns()
                        failed = AttemptFailed(call.address, asking.number, error, at, wait)
                        call.run.emit(failed)
                await self._rest(asking, wait)
        finally:
            if self._asking.get(call) is asking:
                del self._asking[call]

    def _second(self, asking: _Asking) -> Callable[[], Coroutine[Any, Any, Response]] | None:
        """One more attempt beside one that is on its way, if nothing has to be waited for."""
        call, request = asking.call, asking.request
        if not self._slots.room or self._breaker.open or self._gate.closed or self.paused:
            return None
        reserved = None
        account = self.desk.charged(call.account)
        if account is not None:
            worst = self._prices.worst(request, account)
            reserved = self.desk.try_reserve(account, worst)
            if reserved is None:
                return None
        other = _Asking(call, asking.numbers, request, asking.emit)
        return partial(self._beside, other, reserved)

    async def _beside(self, other: _Asking, reserved: Reservation | None) -> Response:
        try:
            return await self._reserved(other, reserved)
        except _Paused:
            return await self._attempt(other)

    async def _attempt(self, asking: _Asking) -> Response:
        asking.probing = asking.shared = asking.sent = False
        if self._connect is not None:
            await self._connected(self._connect, asking)
        while True:
            if self.paused:
                await self._pausing(asking)
            try:
                return await self._reserved(asking, await self._reserve(asking))
            except _Paused:
                continue

    async def _reserved(self, asking: _Asking, reserved: Reservation | None) -> Response:
        try:
            epoch = await self._slots.take()
            try:
                return await self._with_leave(asking, epoch, reserved)
            finally:
                self._slots.give()
        finally:
            if reserved is not None:  # nothing was sent, or it is settled
                reserved.settle(Amounts())

    async def _reserve(self, asking: _Asking) -> Reservation | None:
        account = self.desk.charged(asking.call.account)
        if account is None:
            return None
        worst = self._prices.worst(asking.request, account)
        reserved = self.desk.try_reserve(account, worst)
        if reserved is None:
            with self._waiting(asking, "budget"):
                reserved = await self.desk.reserve(account, worst)
        return reserved

    async def _with_leave(
        self, asking: _Asking, epoch: int, reserved: Reservation | None
    ) -> Response:
        if self.lender is not None:
            return await self._lent(self.lender, asking, reserved)
        probe = False
        if self._breaker.open or self._gate.closed:
            with self._waiting(asking, "circuit"), _timed(asking.call):
                probe = await self._enter(self.patience_s(asking.call))
        asked = 0
        if self._rate is not None:
            try:
                asked = self._rated(asking.request)
                with self._waiting(asking, "rate"), _timed(asking.call):
                    await self._rate.take(asked)
            except BaseException:
                self._breaker.left(probe)
                raise
        if self.paused:
            self._breaker.left(probe)
            if asked and self._rate is not None:
                self._rate.settle(asked, 0)
            raise _Paused
        asking.sent, asking.at = True, time.monotonic()
        asking.number = next(asking.numbers)
        asking.probing = probe
        _dispatched(asking.call, asking.number, asking.waited)
        asking.waited = None
        try:
            response = await self._once(asking)
        except BaseException as error:
            self._failed(error, probe, epoch)
            if reserved is not None:
                free = isinstance(error, UNWORKED)
                reserved.settle(Amounts() if free else reserved.worst)
            raise
        self._breaker.answered()
        self._slots.answered(epoch)
        self._settle(asking.request, response, reserved, asked)
        return response

    # -- attempts in other processes

    @property
    def by_tokens(self) -> bool:
        """Whether the tokens of a minute are limited."""
        return self._rate is not None and self._rate.by_tokens

    async def _lent(
        self, lender: Lender, asking: _Asking, reserved: Reservation | None
    ) -> Response:
        """One attempt with leave from whoever keeps the limits; *reserved* is of budgets inside."""
        call, request, worst = asking.call, asking.request, None
        if lender.account is not None:
            worst = self._prices.worst(request, lender.account)
        tokens = self._tokens(request) if lender.by_tokens(self.place) else 0
        with _timed(call):
            permit = await lender.permit(self.place, worst, tokens, self.patience_s(call))
        asking.sent, asking.at = True, time.monotonic()
        asking.number, asking.probing = next(asking.numbers), permit.probe
        _dispatched(call, asking.number, asking.waited)
        asking.waited = None
        try:
            response = await self._once(asking)
        except BaseException as error:
            free = isinstance(error, UNWORKED)
            permit.failed(error, free)
            if reserved is not None:
                reserved.settle(Amounts() if free else reserved.worst)
            raise
        used = Amounts() if worst is None else self._prices.used(request, response, worst)
        permit.answered(used, tokens_of(response))
        self._settle(request, response, reserved, 0)
        return response

    async def lend(
        self, account: Account | None, worst: Amounts | None, tokens: int, patience_s: float
    ) -> Loan:
        """Wait until an attempt may be made elsewhere, and lend it what it takes.

        Raises what keeps an attempt from being made: ``BudgetExceeded``, ``CircuitOpen``.
        """
        loan, account = Loan(self, tokens), self.desk.charged(account)
        try:
            if account is not None:
                loan.reserved = await self.desk.reserve(account, worst or Amounts(0, 0, 1))
            loan.epoch = await self._slots.take()
            if self._breaker.open or self._gate.closed:
                loan.probe = await self._enter(patience_s)
            if self._rate is not None:
                await self._rate.take(tokens)
            await self._resumed()
        except BaseException:
            self.lent_lost(loan)
            loan.back(Amounts())
            raise
        return loan

    def lent_answered(self, loan: Loan, asked: int, tokens: int | None) -> None:
        """The attempt of *loan* was answered, and took so many *tokens* of those *asked* for."""
        assert loan.epoch is not None
        self._breaker.answered()
        self._slots.answered(loan.epoch)
        if asked and tokens is not None and self._rate is not None:
            self._rate.settle(asked, tokens)

    def lent_failed(self, loan: Loan, error: BaseException) -> None:
        """The attempt of *loan* failed with *error*."""
        assert loan.epoch is not None
        self._failed(error, loan.probe, loan.epoch)

    def lent_lost(self, loan: Loan) -> None:
        """Nobody knows what came of the attempt of *loan*, or it was not made."""
        self._breaker.left(loan.probe)

    def lent_back(self) -> None:
        """The slot of a loan is free."""
        self._slots.give()

    async def _enter(self, patience_s: float) -> bool:
        """Wait until the backend may be asked; whether to see if it is alive again."""
        while True:
            while self._gate.closed:
                await sleep_until(self._clock, self._gate.until)
            probe = self._breaker.open and await self._breaker.enter(patience_s)
            if not self._gate.closed:
                return probe
            self._breaker.left(probe)

    async def _connected(
        self, connect: Callable[[], Coroutine[Any, Any, None]], asking: _Asking
    ) -> None:
        """Wait until the backend was probed, once for all calls, or again after a failure.

        A failure counts once for the circuit; while that is open, one call sees if it has passed.
        """
        probe = False
        if self._breaker.open:
            with self._waiting(asking, "circuit"), _timed(asking.call):
                probe = await self._breaker.enter(self.patience_s(asking.call))
        connecting = self._probing(connect)
        asking.waits, asking.probing = "connect", probe
        try:
            await asyncio.shield(connecting)
        except BackendError as error:
            if self._connecting is connecting:
                self._connecting = None
                self._breaker.failed(error, probe)
            asking.number, asking.shared = next(asking.numbers), True
            raise copy.copy(error) from None  # each call adds its own note
        except BaseException:
            self._breaker.left(probe)
            raise
        finally:
            asking.waits = None
        asking.probing = False
        if self._connect is not None or probe:
            self._connect = None
            self._breaker.answered()

    async def probed(self) -> None:
        """Wait until the backend was probed; if that fails, calls find it out for themselves."""
        if self._connect is not None:
            await asyncio.wait([self._probing(self._connect)])

    def _probing(self, connect: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(connect())
        return self._connecting

    async def _once(self, asking: _Asking) -> Response:
        if not self._late:
            return await self.backend.complete(asking.request, asking.emit)
        deadlines = self.policy.deadlines
        with Deadline(self._clock) as late:
            late.set("first token", deadlines.first_token_s)
            emit = watching(late, deadlines.between_tokens_s, asking.emit)
            return await self.backend.complete(asking.request, emit)

    def _rated(self, request: Request) -> int:
        return self._tokens(request) if self.by_tokens else 0

    def _tokens(self, request: Request) -> int:
        """The tokens of the prompt and of the longest answer."""
        longest = (request.sampling.max_tokens or 0) * max(request.n, 1)
        return self._prices.prompt_tokens(request) + longest

    def _settle(
        self, request: Request, response: Response, reserved: Reservation | None, asked: int
    ) -> None:
        if reserved is not None:
            reserved.settle(self._prices.used(request, response, reserved.worst))
        usage = response.usage
        if asked and usage.prompt_tokens is not None and usage.completion_tokens is not None:
            assert self._rate is not None
            self._rate.settle(asked, usage.prompt_tokens + usage.completion_tokens)

    @contextmanager
    def _waiting(self, asking: _Asking, why: Why) -> Iterator[None]:
        """While a call waits for leave to be sent, no other is taken out of the queue."""
        self._stuck += 1
        asking.waits = why
        since = time.monotonic_ns()
        try:
            yield
        finally:
            waited = asking.waited = asking.waited or {}
            waited[why] = waited.get(why, 0) + time.monotonic_ns() - since
            asking.waits = None
            self._stuck -= 1
            if not self._stuck:
                self.on_room()

    # -- for who looks on, and for who intervenes

    @property
    def name(self) -> str:
        """What the backend calls itself."""
        return self.backend.profile.name

    @property
    def stuck_for(self) -> Why | None:
        """What a call waits for that keeps the others in the queue."""
        if not self._stuck:
            return None
        found = (self._told(asking)[0] for asking in self._asking.values() if asking.waits)
        return next((why for why in found if why not in ("retry", "connect")), None)

    def holding(self, call: Call) -> Holding:
        """What a worker does with *call*."""
        asking = self._asking.get(call)
        if asking is None:
            why: Why = "asked" if self._timeless else "sample"
            return Holding(call, "worker", why, self.name)
        why, until = self._told(asking)
        since = time.monotonic() - asking.at if asking.number else None
        left = max(until - self._clock.now(), 0.0) if until is not None else None
        return Holding(
            call, "worker", why, self.name, 0, asking.number, since, left, asking.error
        )  # fmt: skip

    def _told(self, asking: _Asking) -> tuple[Why, float | None]:
        """Why it is not answered, and until when at least."""
        if asking.waits == "circuit":
            closed = self._gate.closed
            return ("gate", self._gate.until) if closed else ("circuit", self._breaker.probe_at)
        if asking.waits == "rate" and self._rate is not None:
            return "rate", self._rate.ready_at()
        if asking.waits is not None:
            return asking.waits, asking.until
        return "asked" if asking.sent else "slot", None

    def load(self, ready: int) -> Load:
        """What the backend has to do, when so many calls are *ready*."""
        slots, now, probe_at = self._slots, self._clock.now(), self._breaker.probe_at
        gate_s = max(self._gate.until - now, 0.0) if self._gate.closed else 0.0
        circuit_s = max(probe_at - now, 0.0) if probe_at is not None else 0.0
        return Load(self.name, slots.limit, slots.most, slots.taken, ready, gate_s, circuit_s)

    def pause(self) -> None:
        """Begin no attempt from now on; what is on its way goes on."""
        self.paused = True

    def resume(self) -> None:
        """Begin attempts again."""
        self.paused, unpaused, self._unpaused = False, self._unpaused, []
        for bell in unpaused:
            ring(bell)

    def resize(self, most: int) -> int:
        """Have at most so many attempts at once, or as many as the backend bears; how many."""
        bears = self.backend.profile.concurrency
        most = most if bears is None else min(most, bears)
        self._slots.resize(most)
        return most

    async def _pausing(self, asking: _Asking) -> None:
        with self._waiting(asking, "paused"), _timed(asking.call):
            await self._resumed()

    async def _resumed(self) -> None:
        while self.paused:
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unpaused.append(bell)
            await bell

    # -- after a failure

    async def _rest(self, asking: _Asking, seconds: float) -> None:
        """Let others go on until the call is tried again."""
        self._resting += 1
        self.on_room()
        asking.waits, asking.until = "retry", self._clock.now() + seconds
        try:
            with _timed(asking.call):
                await sleep_until(self._clock, asking.until)
        finally:
            asking.waits = asking.until = None
            self._resting -= 1

    def _failed(self, error: BaseException, probe: bool, epoch: int) -> None:
        self._breaker.failed(error, probe)
        if isinstance(error, BackendBusy):
            self._slots.busy(epoch)
        after = getattr(error, "retry_after", None)
        tries = self.policy.retries.attempts > 1
        if isinstance(error, BackendError) and error.retriable and after and tries:
            self._gate.close(min(after, self.policy.retries.patience_s))

    def _wait_after(self, asking: _Asking, error: BackendError) -> float | None:
        """How many seconds until the next attempt; ``None`` for the last one's error to stand."""
        retries, call, now = self.policy.retries, asking.call, self._clock.now()
        if not error.retriable or isinstance(error, CircuitOpen) or retries.attempts == 1:
            return None
        if asking.begun() or call.run.closed or call.outcome is not None:
            return None
        asking.since = now if asking.since is None else asking.since
        if isinstance(error, BackendBusy) or asking.probing or self._breaker.open:
            asking.away += 1
            if now - asking.since + (error.retry_after or 0) >= retries.patience_s:
                return None
        else:
            asking.failed += 1
            if asking.failed >= retries.attempts:
                return None
            if not asking.shared and not self._retries.spend():
                return None
        failed = max(asking.failed, asking.away)
        return wait_s(retries, self._seed, call.address, failed, error.retry_after or 0.0)


class _Paused(Exception):
    """The run was paused before an attempt was begun: what it has taken is given back."""


class _Asking:
    """What one question to the backend has been through."""

    __slots__ = (
        "at", "away", "call", "emit", "error", "failed", "number", "numbers", "probing", "request",
        "sent", "shared", "since", "until", "waited", "waits",
    )  # fmt: skip

    def __init__(
        self, call: Call, numbers: Iterator[int], request: Request, emit: Emit | None
    ) -> None:
        self.call, self.numbers, self.request, self.emit = call, numbers, request, emit
        self.number = self.failed = self.away = 0
        self.probing = self.shared = self.sent = False
        self.since: float | None = None
        self.waits: Why | None = None
        self.waited: dict[str, int] | None = None
        self.until: float | None = None
        self.error: BaseException | None = None
        self.at = 0.0

    def begun(self) -> bool:
        """Whether somebody may have seen a part of one of these answers."""
        if self.call.emit is None:
            return False
        samples = range(self.request.sample, self.request.sample + self.request.n)
        return any(chunk.sample in samples for chunk in self.call.emit.chunks)


def _dispatched(call: Call, attempt: int, waited: dict[str, int] | None = None) -> None:
    run: Run = call.run
    if run.watched:
        run.emit(CallDispatched(call.address, attempt, time.monotonic_ns(), waited))
    if run.quiet is not None:
        run.quiet.soon()


@contextmanager
def _timed(call: Call) -> Iterator[None]:
    """While *call* waits for a timer: a run that looks for stillness knows that it will end."""
    quiet = call.run.quiet
    if quiet is None:
        yield
        return
    quiet.timers += 1
    try:
        yield
    finally:
        quiet.timers -= 1


def _nothing() -> None:
    """Nobody waits for room."""
