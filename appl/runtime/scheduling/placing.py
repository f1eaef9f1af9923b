"""Placement: the choice of the backend that answers a call, and of the next one if it cannot.

Invariant: everything here runs on the I/O loop; a call has one leg at a time, and none follows once
somebody may have seen a part of an answer. Each backend has its own queue and its own limits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from asyncio import Task as AsyncTask
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, cast

from appl.backend import Request, Response
from appl.backend.price import price_for
from appl.errors import BackendError, BackendUnavailable
from appl.runtime.answers.call import Call
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Outcome, Promise
from appl.runtime.event import AttemptFailed
from appl.runtime.scheduling.metering import estimated
from appl.runtime.scheduling.policy import EXPECTED_ANSWER
from appl.runtime.scheduling.scheduler import IncompleteCalls, when_prepared

if TYPE_CHECKING:
    from appl.runtime.answers.models import Models, Route, Spot
    from appl.runtime.scheduling.deadline_plan import DeadlinePlanner, Forecast
    from appl.runtime.scheduling.dispatcher import Dispatcher
    from appl.runtime.scheduling.scheduler import Scheduler

_AWAY_S = 30.0
"""The seconds for which others are asked before a backend that could not be connected with."""
_MEASURED = 32
"""The number of a backend's last answers by which its duration is measured."""
_PROBE_S = 30.0
_PROBE_TIMES = 50
_PROBE_CALLS = 10
"""A backend is measured anew after so many seconds, so many times the seconds that it takes, and
so many calls to others; the longest of the three counts."""


class Leg(Call):
    """One leg of a call, to one backend. To the scheduler it is a call for a model there.

    ``others`` are the places of legs that may follow. ``spent`` are the seconds that earlier legs
    took, ``took`` those of this one. ``attempts`` go on from leg to leg.
    """

    __slots__ = ("batches", "begun", "main", "others", "placing", "spent", "spot", "took")

    def __init__(self, main: Call, placing: Placing, spots: tuple[Spot, ...]) -> None:
        self.main, self.placing, self.spot, self.others = main, placing, spots[0], spots[1:]
        for name in Call.__slots__:
            setattr(self, name, getattr(main, name))
        Promise.__init__(self, main.address, None)
        self.batches = main.batches
        self.spent, self.took, self.begun = 0.0, 0.0, math.inf
        assert main.request is not None
        if self.spot.model != main.model:
            self.request = dataclasses.replace(main.request, model=self.spot.model, _digest=None)
        # The program may cancel the call while the leg is still in a queue. Then the leg ends, too,
        # and the scheduler drops it. Subscribed last: this may be called at once.
        main.subscribe(self._over)

    def _over(self, main: Promise) -> None:
        if self.outcome is None:
            self.finish(cast(Outcome, main.outcome))

    @property
    def worker(self) -> AsyncTask[None] | None:
        """The task that works on it; the program knows the call, and cancels the call's worker."""
        return self.main.worker

    @worker.setter
    def worker(self, task: AsyncTask[None] | None) -> None:
        self.main.worker = task
        if task is not None:
            self.begun = self.dispatcher.now()

    @property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher of its backend."""
        return self.placing.schedulers[self.spot.backend].dispatcher

    def remaining_s(self) -> float | None:
        """The seconds that are left for it: the deadline of its call is that of all legs."""
        total = self.main.timeout
        if total is None:
            total = self.dispatcher.policy.deadlines.total_s
        return None if total is None else max(total - self.spent, 0.0)

    def _end_work(self) -> None:
        """Note how long it took; one that was never begun took no time."""
        self.took = max(self.dispatcher.now() - self.begun, 0.0)

    def answered(self, response: Response) -> None:
        """Give the call its answer, with the name of the backend that made it."""
        self._end_work()
        self.placing.measured(self, response)
        if self.spot.model != self.main.model:
            model = response.model or self.spot.model
            whole = f"{self.spot.backend}/{model}" if model else self.spot.backend
            response = dataclasses.replace(response, model=whole)
        self.main.answered(response)

    def failed(self, error: BaseException) -> None:
        """Ask another backend, or have the call fail."""
        self._end_work()
        self.placing.failed(self, error)
        following = self._following(error)
        if following is None:
            self.main.failed(error)
            return
        if (watcher := self.run.reporter.watcher) is not None:
            at = time.monotonic_ns()
            watcher.on_event(
                AttemptFailed(self.address, self.attempts, cast(BackendError, error), at, 0.0)
            )
        self.placing.send(following)

    def _following(self, error: BaseException) -> Leg | None:
        is_streamed = self.emit is not None and self.emit.fresh()
        over = self.main.outcome is not None or self.run.closed
        retriable = isinstance(error, BackendError) and error.retriable
        if not self.others or is_streamed or over or not retriable:
            return None
        leg = Leg(self.main, self.placing, self.others)
        leg.spent, leg.attempts = self.spent + self.took, self.attempts
        return leg


class Placing:
    """The schedulers of a run with several backends, by name."""

    def __init__(self, schedulers: Mapping[str, Scheduler], models: Models) -> None:
        self._models, self.schedulers = models, schedulers
        self.coming = next(iter(schedulers.values())).coming
        self.incomplete = IncompleteCalls(self.coming)
        self._away_until: dict[str, float] = {}  # by backend, on the clock of its limits
        self._took: dict[Spot, deque[float]] = {}
        self._last_calls: dict[Spot, tuple[float, int]] = {}  # when, and at which of all calls
        self._sent = 0
        self.forecast: Forecast | None = None
        self._planners: dict[Route, DeadlinePlanner] = {}
        self._over: set[str] = set()  # what no planner has to expect any more

    def add(self, name: str, scheduler: Scheduler) -> None:
        """Have calls go to one more backend; from any thread, before a call names it."""
        if self.paused:
            io_thread().send(scheduler.pause)
        scheduler.coming = self.coming  # which of the backends a call goes to is not known yet
        # Not changed in place: the loop may be going through the old one.
        self.schedulers = {**self.schedulers, name: scheduler}

    @property
    def busy(self) -> bool:
        """True if a call is on its way to a backend."""
        return any(scheduler.busy for scheduler in self.schedulers.values())

    def admit(self, call: Call) -> None:
        """Take a call from its program; its backend is chosen when its prompt is complete."""
        when_prepared(call, self._place, self.incomplete)

    def _place(self, call: Call) -> None:
        route, request = self._models.route(call.model), call.request
        assert request is not None
        self.send(Leg(call, self, self._ranked(call, route, request)))

    def send(self, leg: Leg) -> None:
        """Hand *leg* to the scheduler of its backend."""
        if self._due(leg.spot):
            self._took.pop(leg.spot, None)  # how it was then says little about how it is
        self._sent += 1
        scheduler = self.schedulers[leg.spot.backend]
        self._last_calls[leg.spot] = scheduler.dispatcher.now(), self._sent
        leg.timeout = leg.remaining_s()
        for planner in self._planners.values():
            planner.begun(leg.address, leg.spot, scheduler.dispatcher.now())
        scheduler.ready(leg)

    def recall(self, call: Call, response: Response, requests: int) -> None:
        """Note the answer that an earlier run has to *call*: see ``Dispatcher.recall``."""
        first = self._models.route(call.model).spots[0]
        self.schedulers[first.backend].recall(call, response, requests)
        self._passed(call.address)

    def charge(self, call: Call, response: Response, requests: int) -> None:
        """Charge a recorded answer to the blocks around *call*: see ``Dispatcher.charge``."""
        first = self._models.route(call.model).spots[0]
        self.schedulers[first.backend].charge(call, response, requests)

    def refusal(self, call: Call) -> Exception | None:
        """Why budgets refuse *call* now: see ``Dispatcher.refusal``."""
        first = self._models.route(call.model).spots[0]
        return self.schedulers[first.backend].refusal(call)

    def measured(self, leg: Leg, response: Response) -> None:
        """Note how long the answer to *leg* took, if a server was asked for all of it."""
        if not response.reused:
            self._took.setdefault(leg.spot, deque(maxlen=_MEASURED)).append(leg.took)
            tokens = response.usage.completion_tokens if response.usage else None
            for planner in self._planners.values():
                planner.measured(leg.spot, tokens, leg.took)
        self._passed(leg.address)

    def _passed(self, address: str) -> None:
        """Note that the call at *address* is not asked any more."""
        if self.forecast is not None:
            self._over.add(address)
        for planner in self._planners.values():
            planner.passed(address)

    def failed(self, leg: Leg, error: BaseException) -> None:
        """Note that *leg* failed with *error*: others are asked before a backend that is away."""
        for planner in self._planners.values():
            planner.failed(leg.address)
        way = leg.dispatcher
        away = isinstance(error, BackendUnavailable) and way.connects
        if away and way.policy.circuit:
            self._away_until[leg.spot.backend] = way.now() + _AWAY_S

    # -- for who looks on, and for who intervenes

    def unanswered(self) -> Iterator[Call]:
        """Every call that is not answered yet."""
        for scheduler in self.schedulers.values():
            for call in scheduler.unanswered():
                yield call.main if isinstance(call, Leg) else call
        yield from (call for call in self.incomplete if call.outcome is None)

    @property
    def paused(self) -> bool:
        """True if no attempt is begun at present."""
        return any(scheduler.paused for scheduler in self.schedulers.values())

    def pause(self) -> None:
        """Begin no attempt from now on; what is on its way goes on."""
        for scheduler in self.schedulers.values():
            scheduler.pause()

    def resume(self) -> None:
        """Begin attempts again."""
        for scheduler in self.schedulers.values():
            scheduler.resume()

    def resize(self, most: int) -> dict[str, int]:
        """Allow *most* attempts at once with each backend; returns the number by backend."""
        limits: dict[str, int] = {}
        for scheduler in self.schedulers.values():
            limits |= scheduler.resize(most)
        return limits

    def end(self) -> None:
        """End the work for the run, which is over; from any thread."""
        for scheduler in self.schedulers.values():
            scheduler.end()

    def _ranked(self, call: Call, route: Route, request: Request) -> tuple[Spot, ...]:
        """The places to go to with *request* of *call*, the best first."""
        spots = route.spots
        if len(spots) == 1:
            return spots
        if route.prefer == "cost":
            spots = tuple(sorted(spots, key=partial(self._price, request)))
        elif route.prefer == "latency":
            spots = tuple(sorted(spots, key=self._took_s))
        elif route.within is not None:
            # Few runs have a deadline.
            from appl.runtime.scheduling.deadline_plan import DeadlinePlanner

            planner = self._planners.get(route)
            if planner is None:
                planner = DeadlinePlanner(
                    route.within, route.spots, self.forecast, self._over, self._room
                )
                self._planners[route] = planner
            price = partial(self._price, request)
            spots = planner.ranked(call, price, self._now(spots[0]))
        return tuple(sorted(spots, key=self._is_away))

    def _is_away(self, spot: Spot) -> bool:
        """True if its backend could not be connected with recently."""
        until = self._away_until.get(spot.backend)
        return until is not None and self._now(spot) < until

    def _room(self, spot: Spot) -> int | None:
        return self.schedulers[spot.backend].dispatcher.traffic.slots.most

    def _now(self, spot: Spot) -> float:
        return self.schedulers[spot.backend].dispatcher.now()

    def _price(
        self, request: Request, spot: Spot, prompt: int | None = None, answer: int | None = None
    ) -> float:
        """The most that *request* costs there, in trillionths; infinite if unknown.

        *prompt* and *answer* are the tokens of another call, which is asked like it.
        """
        price = price_for(self.schedulers[spot.backend].dispatcher.prices, spot.model)
        if price is None:
            return math.inf
        if answer is None:
            longest = request.sampling.max_tokens
            answer = (EXPECTED_ANSWER if longest is None else longest) * max(request.n, 1)
        return price.trillionths(estimated(request) if prompt is None else prompt, answer)

    def _took_s(self, spot: Spot) -> float:
        """The median of its last answers; one that is to be measured goes first, by one call."""
        if spot not in self._last_calls or self._due(spot):
            return -1.0
        took = self._took.get(spot)
        return median(took) if took else math.inf

    def _due(self, spot: Spot) -> bool:
        """True if it was not asked for so long that it may have become quicker."""
        if spot not in self._last_calls:
            return False
        (at, number), took = self._last_calls[spot], self._took.get(spot)
        rest = max(_PROBE_S, _PROBE_TIMES * median(took) if took else 0.0)
        away = self._now(spot) - at
        return self._sent - number >= _PROBE_CALLS and away >= rest
