"""The ways of a run's calls to its backends.

Invariant: a call goes to the backend that its model means when it is admitted; calls that are
under way stay with theirs when another backend is added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast
from weakref import ref

from appl.backend import Backend, BringsOrder, Sampling, offers
from appl.runtime.answers.models import Models
from appl.runtime.scheduling.dispatcher import BackendEndpoint, Budgets, Dispatcher
from appl.runtime.scheduling.order import CallQueue, Order, plain_order
from appl.runtime.scheduling.policy import Allowance
from appl.runtime.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from appl.runtime.answers.samples import Caches, Samples
    from appl.runtime.embedding.batches import Batches
    from appl.runtime.scheduling.accounts import Account
    from appl.runtime.scheduling.deadline_plan import Forecast
    from appl.runtime.scheduling.placing import Placing


class Dispatch:
    """The queue of a run, and its ways to one backend or several.

    All calls go to the backend of *place*, in this *order*, until another backend is added.
    ``requests`` are the ``RequestOptions`` and samplings of earlier calls, by what was written. All
    calls have the same ``budgets``. ``places`` are the backends. No cache is read without
    ``uses_caches``.
    """

    def __init__(
        self,
        models: Models,
        place: BackendEndpoint,
        order: Order | None,
        *,
        seed: int | None,
        concurrency: int | None,
        look_soon: Callable[[], None],
        warn: Callable[[str, str], None],
    ) -> None:
        self.models, self.policy = models, place.policy
        self.uses_caches = True
        self.requests: dict[object, tuple[object, Sampling]] = {}
        self.budgets = Budgets()
        self.places: list[BackendEndpoint] = []
        self._forecast: Forecast | None = None
        self._all_backends: Placing | None = None
        self._seed, self._concurrency = seed, concurrency
        self._look_soon, self._warn = look_soon, warn
        self._own = self._scheduler(place, order)
        self.scheduler: Scheduler | Placing = self._own

    def add_place(self, name: str, place: BackendEndpoint) -> None:
        """Have calls go to one more backend; from any thread, before a call names it."""
        self._placing().add(name, self._scheduler(place, None))

    def follow_routes(self) -> None:
        """Send calls where their models' routes lead; without it the own backend answers all."""
        self.models.on_route = self._placing
        if self.models.routed:
            self._placing()

    def expect(self, forecast: Forecast | None) -> None:
        """Plan by *forecast*, the calls of an earlier run, where there is a deadline."""
        self._forecast = forecast
        if self._all_backends is not None:
            self._all_backends.forecast = forecast

    def end(self) -> None:
        """End the work for the run, which is over, and let go of what leads back here."""
        if "caches" in vars(self):
            self.caches.close()
        self.scheduler.end()
        self.models.on_route = None

    def begin_account(self, allowance: Allowance) -> Account:
        """Have a budget from now on; what was spent before does not count."""
        from appl.runtime.scheduling.accounts import Account

        account = Account(allowance)
        self.budgets.ledger.late = account
        return account

    # Two threads that come first at once get the same one of these.

    @cached_property
    def embeddings(self) -> Batches:
        """The embeddings of the run; made when a program asks for the first one."""
        from appl.runtime.embedding.batches import Batches  # few runs ask for embeddings

        return cast("Batches", vars(self).setdefault("embeddings", Batches()))

    @cached_property
    def caches(self) -> Caches:
        """The caches of the run; made when a call asks for one."""
        from appl.runtime.answers.samples import Caches

        made = Caches()
        made.used = self.uses_caches
        return cast("Caches", vars(self).setdefault("caches", made))

    def cache(self, wanted: object) -> str | None:
        """The name of the cache that ``cache=`` *wanted* means; None where none is read."""
        return self.caches.named(wanted)

    def _placing(self) -> Placing:
        """The scheduler of a run with several backends; earlier calls stay with their own one."""
        if self._all_backends is None:
            from appl.runtime.scheduling.placing import Placing  # most runs have one backend

            self.scheduler = self._all_backends = Placing(
                {self.models.backend: self._own}, self.models
            )
            self._all_backends.forecast = self._forecast
        return self._all_backends

    def _scheduler(self, place: BackendEndpoint, order: Order | None) -> Scheduler:
        """A queue for the backend of *place*."""
        self.places.append(place)
        backend, policy = place.backend, place.policy
        server = backend if place.traffic is None else place.traffic
        # What makes the dispatcher does not hold this object, which holds the scheduler.
        samples = partial(_samples, ref(self), backend, self._look_soon, self._warn)
        limits = (backend.profile.concurrency, self._concurrency, policy.limits.concurrency)
        most = min((limit for limit in limits if limit is not None), default=None)
        make = partial(
            Dispatcher,
            backend,
            policy,
            seed=self._seed,
            most=most,
            samples=samples,
            traffic=place.traffic,
            budgets=self.budgets,
        )
        return Scheduler(make, policy, partial(_order, backend, order), server)


def _order(backend: Backend, order: Order | None, queue: CallQueue) -> Order:
    """The order of the calls of *queue*: the given *order*, that of *backend*, or a plain one."""
    if order is None and queue.policy.warm and offers(backend, BringsOrder):
        order = cast(Order | None, backend.order(queue))
    return order or plain_order(queue.policy)


def _samples(
    dispatch: ref[Dispatch],
    backend: Backend,
    look_soon: Callable[[], None],
    warn: Callable[[str, str], None],
) -> Samples:
    """The *backend* with the caches of the run before it."""
    from appl.runtime.answers.samples import Samples  # few calls ask for several, or for kept ones

    run = dispatch()
    assert run is not None
    return Samples(backend, run.caches, look_soon, warn)
