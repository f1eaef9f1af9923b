"""``call`` and ``map``: any function beside the caller, one or many, results in order.

Invariant: a started function takes its address, and its place in a shared prompt, at the call.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine, Generator, Iterable, Sized
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from appl.base import fallback, services
from appl.compiler.hooks import program_of
from appl.errors import CallCancelled, InvalidOption
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import Hub, arrive, in_coroutine, run_on, strand_here, wait
from appl.runtime.concurrency.future import Future, awaited, finished, result_of
from appl.runtime.concurrency.progress import Progress, progress_for
from appl.runtime.concurrency.promise import Error, Promise, Proxy, Value
from appl.runtime.concurrency.running import Running
from appl.runtime.concurrency.scopes import call_in_words
from appl.runtime.concurrency.structure import cancel_all
from appl.runtime.concurrency.task import Task, context_for
from appl.runtime.event import Failed, ScopeEntered
from appl.runtime.frame import Frame, FrameRun, here
from appl.runtime.future_takers import taking_futures
from appl.runtime.resolve import resolve
from appl.runtime.world import Moment

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

if TYPE_CHECKING:
    from appl.runtime.concurrency.future import Generation

    Later = Coroutine[Any, Any, R] | Generation[R]

    class Results(list[R]):
        """A list that may be awaited, too: in a coroutine ``map`` has to be."""

        def __await__(self) -> Generator[object, None, list[R]]: ...


class MapOptions(TypedDict, total=False):
    """Options of ``map``; ``help(map)`` describes them."""

    concurrency: int | None
    progress: bool | None
    engine: object
    batch: bool | str


@overload
def call(f: Callable[P, Later[R]], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]: ...
@overload
def call(f: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]: ...


@taking_futures
def call(f: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    """Start ``f(*args, **kwargs)`` beside the caller; returns the future of its result at once.

    For example, while other work goes on::

        page = call(fetch, url)      # a plain function: on a worker thread
        plan = call(think, task)     # a prompt function: beside the caller, on its thread
        use(page.result(), plan.result())

    A coroutine function runs as a task of the running loop.
    """
    if not fallback.WORDS_OF_CALL.isdisjoint(kwargs):
        kwargs = fallback.names().arguments(f, kwargs)
    task = start(f, args, kwargs)
    report_if_failed(task, task.address, 0)
    return Future(task)


def start(f: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Task:
    """Start *f*; :func:`call` returns the future of the result."""
    f = finished(f)
    while type(f) is partial:
        f, args, kwargs = f.func, (*f.args, *args), {**f.keywords, **kwargs}
    if not callable(f):
        raise InvalidOption(
            f"a function is needed, got {f!r:.80}; write call(f, x) and map(f, items), where f "
            "is not called"
        )
    program, bound = bound_program(f)
    if program is not None:
        pending: Task = program.spawn((*bound, *args), kwargs)._pending
        return pending
    caller = here(call_in_words, _name(f), args)
    frame = scope_beside(caller, _name(f))
    task, is_coroutine = Task(frame, strand_here().hub), is_async(f)
    caller.add(task)  # before it begins: it may end, or be cancelled, before this function returns
    context = context_for(frame)
    if is_coroutine and _get_running_loop() is not None:
        task.run_in_loop(f(*args, **kwargs), context)
        return task

    def body() -> object:
        # Without a running loop a coroutine needs one of its own, and so a thread of its own: a
        # loop on this thread would keep the caller from going on.
        if is_coroutine:
            return asyncio.run(f(*args, **kwargs))
        every = [resolve(argument) for argument in args]
        return f(*every, **{name: resolve(argument) for name, argument in kwargs.items()})

    if caller.run.services.sequential:
        task.run_here(body, context)
    else:
        task.run_in_thread(body, context)
    return task


def beside(caller: Frame, name: str) -> Frame:
    """A frame for a function beside *caller*, on a copy of the caller's prompt."""
    caller.run.check_open()
    return Frame(caller.run, caller, caller.issue(name), caller.prompt.copy(), caller.voice)


def scope_beside(caller: Frame, name: str) -> Frame:
    """A frame for a function beside *caller*, which is a scope of the trace."""
    frame, run = beside(caller, name), caller.run
    if (watcher := run.reporter.watcher) is not None:
        at = time.monotonic_ns()
        watcher.on_event(ScopeEntered(frame.address, caller.address, name, None, None, at))
    return frame


def _name(f: object) -> str:
    while isinstance(f, partial):
        f = f.func
    return str(getattr(f, "__name__", type(f).__name__)).replace("/", "_")


def program_behind(f: object) -> Any:
    """The program that *f* starts when called beside its caller; ``None`` for plain functions."""
    while type(f) is partial:
        f = f.func
    return bound_program(f)[0]


def name_of(f: object) -> str:
    """The name that *f* has in addresses."""
    program = program_behind(f)
    return str(program.name) if program is not None else _name(f)


def bound_program(f: object) -> tuple[Any, tuple[object, ...]]:
    """The program behind a ``@ppl`` function or method, and the object that it is bound to."""
    own = getattr(f, "__self__", None)
    program = program_of(f)
    if program is None or program.kind not in ("sync", "async"):
        return None, ()
    return program, (own,) if inspect.ismethod(f) else ()


def is_async(f: object) -> bool:
    """True if calling *f* gives a coroutine; also for ``@ppl async def`` before Python 3.12."""
    while isinstance(f, partial):
        f = f.func
    program = program_of(f)
    return inspect.iscoroutinefunction(f) or getattr(program, "kind", None) == "async"


@overload
def map(
    f: Callable[..., Later[R]],
    items: Iterable[object],
    *more: Iterable[object],
    on_error: Literal["raise"] = "raise",
    **options: Unpack[MapOptions],
) -> Results[R]: ...
@overload
def map(
    f: Callable[..., R],
    items: Iterable[object],
    *more: Iterable[object],
    on_error: Literal["raise"] = "raise",
    **options: Unpack[MapOptions],
) -> Results[R]: ...
@overload
def map(
    f: Callable[..., Later[R]],
    items: Iterable[object],
    *more: Iterable[object],
    on_error: Literal["collect"],
    **options: Unpack[MapOptions],
) -> Results[R | Exception]: ...
@overload
def map(
    f: Callable[..., R],
    items: Iterable[object],
    *more: Iterable[object],
    on_error: Literal["collect"],
    **options: Unpack[MapOptions],
) -> Results[R | Exception]: ...


@taking_futures
def map(
    f: Callable[..., object],
    items: Iterable[object],
    *more: Iterable[object],
    on_error: Literal["raise", "collect"] = "raise",
    concurrency: int | None = None,
    progress: bool | None = None,
    engine: object = None,
    batch: bool | str = False,
) -> object:
    """``f`` of every item, side by side; a list of the results, in the order of the items.

    For example::

        answers = appl.map(answer, questions, concurrency=20)

    In a coroutine ``await`` it.

    f: A prompt function, a coroutine function, or a plain function, which runs on worker threads.
    items, more: The arguments; of several iterables, as many as the shortest has.
    on_error: ``"raise"`` (the default) cancels the rest at the first failure in order;
        ``"collect"`` puts the exceptions in their places.
    concurrency: How many run at once; by default all of them.
    progress: Whether a progress bar is shown; by default on a terminal.
    engine: ``"ray"`` works on the items in the processes of a Ray cluster, as part of this run,
        with the same addresses, trace, budgets and rates; see ``appl.Ray``.
        What *f* refers to and what it returns must be picklable then. A replay needs no engine.
    batch: Whether the map is a run of its own whose calls are answered in batches, for half the
        price; a time, as ``"6h"``: and those that are not answered by then, at once.
    """
    if on_error not in ("raise", "collect"):
        raise InvalidOption(f"map(on_error={on_error!r}): it is 'raise' or 'collect'")
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise InvalidOption(f"map(concurrency={concurrency!r}): at least 1, or None for no limit")
    if batch:
        options: dict[str, Any] = {"concurrency": concurrency, "progress": progress}
        mapped = partial(cast(Any, map), f, items, *more, engine=engine, on_error=on_error)
        return _in_batches(partial(mapped, **options), batch)
    items = finished(items)
    if not isinstance(items, Iterable):
        raise InvalidOption(f"map(f, items) takes a list of items, got {items!r:.80}")
    arguments = f, items, more, concurrency, on_error == "collect", progress
    if engine is None:
        return _in_this_process(*arguments)
    # Workers are hired, unless the world knows what they did, or works alone.
    recorded = partial(_in_this_process, *arguments, as_recorded=True)
    live = partial(_elsewhere, *arguments, engine)
    caller, name = here(lambda: _name(f)), name_of(f)
    moment = Moment(f"{caller.address}/{name}.{caller.counts.get(name, 0)}", "workers")
    chosen: list[Callable[[], object]] = []
    caller.run.outside.expect(
        moment, lambda _: chosen.append(recorded), lambda: chosen.append(live)
    )
    return chosen[0]()


def _in_batches(mapped: Callable[[], Any], batch: bool | str) -> object:
    """*mapped* as a run of its own with batches."""
    from appl.runtime.entry import run  # which imports this module

    def whole() -> object:
        return mapped()

    async def awaited() -> object:
        return await mapped()

    return run(cast(Any, awaited if in_coroutine() else whole), batch=batch)


def _in_this_process(
    f: Callable[..., object],
    items: Iterable[object],
    more: tuple[Iterable[object], ...],
    concurrency: int | None,
    collect: bool,
    progress: bool | None,
    *,
    as_recorded: bool = False,
) -> object:
    every = list(zip(items, *more, strict=False)) if more else [(item,) for item in items]
    shown = progress_for(_name(f), len(every), progress)
    limit = concurrency or len(every) or 1
    job = MapItems(f, every, limit, collect, shown, as_recorded=as_recorded)
    if in_coroutine():
        return Running(job.arun(), None if is_async(f) else job.run)
    return job.run()


def _elsewhere(
    f: Callable[..., object],
    items: Iterable[object],
    more: tuple[Iterable[object], ...],
    concurrency: int | None,
    collect: bool,
    progress: bool | None,
    engine: object,
) -> object:
    lengths = [len(column) for column in (items, *more) if isinstance(column, Sized)]
    size = min(lengths) if len(lengths) == 1 + len(more) else None
    every = zip(items, *more, strict=False) if more else ((item,) for item in items)
    engines = services.engines()
    return engines.mapped(
        f,
        every,
        size,
        engines.engine_of(engine),
        concurrency=concurrency,
        collect=collect,
        progress=progress,
    )


def report_failed_item(
    run: FrameRun, address: str, error: BaseException, first: str, items: int
) -> None:
    """Report that the item at *address* raised *error*; one that was cancelled has not failed."""
    if isinstance(error, Exception) and not isinstance(error, CallCancelled):
        at = time.monotonic_ns()
        run.reporter.emit(Failed(address, "item", error, first, items, at))


def report_if_failed(item: Task, first: str, items: int) -> None:
    """Report *item* once it has failed: one of so many *items* beside that at *first*."""
    run = item.run
    if run.reporter.watcher is None:
        return

    # On the thread that finishes it, and without a waiter: to look on wakes nobody, and changes
    # nothing of the order in which the program is told of its answers. It is also reported if
    # nobody is told of it any more, as the thread that waited for it has ended.
    def ended(pending: Promise) -> None:
        while not pending.subscribe(ended):
            outcome = pending.outcome
            if isinstance(outcome, Error):
                report_failed_item(run, item.address, outcome.error, first, items)
                return
            if not isinstance(outcome, Value) or not isinstance(outcome.value, Proxy):
                return
            pending = outcome.value._pending

    ended(item)


class ItemOwner(Protocol):
    """The starter of an item, on ``hub``."""

    hub: Hub

    def one_over(self, item: Item, end: Promise) -> None:
        """Note that *item* is over, by *end*; on the thread of ``hub``."""


class Item:
    """One item of a ``map``; ``over`` when the program has been told of its result, or failure."""

    __slots__ = ("_map", "over", "pending")

    def __init__(self, owner: ItemOwner, pending: Promise) -> None:
        self._map, self.pending = owner, pending
        self.over = False

    def follow(self, pending: Promise) -> None:
        """Go on from *pending* to what it returned, as the program is told of them.

        So what a ``map`` starts depends on the order in which answers were delivered, which is
        recorded, and not on when they came.
        """
        hub = self._map.hub
        while True:
            # At home it counts when it is delivered. From elsewhere the end is posted to this
            # map's hub, and this goes on there, between two deliveries.
            if pending.home is hub:
                if not pending.delivered:
                    pending.await_with(self)
                    return
            elif pending.subscribe(self._elsewhere):
                return
            outcome = pending.outcome
            if not isinstance(outcome, Value) or not isinstance(outcome.value, Proxy):
                break
            pending = outcome.value._pending
        self.over = True
        self._map.one_over(self, pending)

    def wake(self, pending: Promise) -> None:
        """Go on: *pending* was delivered at home."""
        self.follow(pending)

    def _elsewhere(self, pending: Promise) -> None:
        run_on(self._map.hub, lambda: self.follow(pending))


class MapItems:
    """One ``map``: starts items in order, at most so many at once, and collects in order.

    A subclass may ``begin`` them otherwise than by calling the function. With *as_recorded* only
    the items begin that had begun in the record, and the others when they are needed: the workers
    of a cluster begin items in an order that does not follow from their answers.
    """

    def __init__(
        self,
        f: Callable[..., object],
        every: list[tuple[Any, ...]],
        limit: int,
        collect: bool,
        progress: Progress,
        *,
        as_recorded: bool = False,
    ) -> None:
        self._f, self._every, self._limit, self._collect = f, every, limit, collect
        self._progress, self._as_recorded = progress, as_recorded
        self.hub = strand_here().hub
        self._items: list[Item | None] = []
        self._ended = 0
        self._signal: Signal | None = None
        self._counted = len(every) if collect else 0
        self._first_address = ""
        if as_recorded:
            self._caller, self._name = here(lambda: _name(f)), name_of(f)
            self._first = self._caller.counts.get(self._name, 0)
            self._first_address = f"{self._caller.address}/{self._name}.{self._first}"

    def begin(self, index: int) -> Task:
        """Start item *index* beside the caller."""
        return start(self._f, self._every[index], {})

    def _start_next(self) -> None:
        index = len(self._items)
        if not self._as_recorded:
            self._start(index)
            return
        address = f"{self._caller.address}/{self._name}.{self._first + index}"
        moment = Moment(address, "item")
        self._caller.run.outside.expect(moment, self._lost, partial(self._start, index))
        if len(self._items) == index:  # neither begun nor lost
            self._caller.issue(self._name)
            self._items.append(None)
            self._ended += 1

    def _lost(self, error: Exception) -> None:
        """Add an item that no worker has ended; the record of its calls is not used."""
        address = self._caller.issue(self._name)
        self._caller.run.outside.world.skip(address)
        pending = Signal(address, self.hub)
        pending.conclude(Error(error))
        run, counted = self._caller.run, self._counted
        report_failed_item(run, address, error, self._first_address, counted)
        self._add(len(self._items), pending)

    def _start(self, index: int) -> None:
        task = self.begin(index)
        if not index:
            self._first_address = task.address
        report_if_failed(task, self._first_address, self._counted)
        self._add(index, task)

    def _add(self, index: int, pending: Promise) -> None:
        item = Item(self, pending)
        self._items[index:] = [item, *self._items[index + 1 :]]
        item.follow(pending)

    def one_over(self, item: Item, end: Promise) -> None:
        """Note that *item* is over, by *end*; on the thread of ``hub``."""
        self._ended += 1
        self._progress.step(end)
        signal, self._signal = self._signal, None
        if signal is not None:
            signal.conclude(Value(None))

    def _room(self) -> int:
        """The number of items that can be started now."""
        started = len(self._items)
        return min(len(self._every) - started, self._limit - (started - self._ended))

    def _next_end(self, index: int) -> Signal | None:
        """The signal to wait for before more can be started; ``None`` if *index* can be read."""
        # As many are started as there is room for. An item may run at once up to its first wait,
        # and block the thread: the watchdog counts those that are still to be started, which
        # ``due`` tells, among the programs that could go on.
        try:
            while (room := self._room()) > 0:
                self.hub.due = room - 1
                self._start_next()
        finally:
            self.hub.due = 0
        item = self._items[index]
        if item is None:
            # Begun late, at the address that it was passed over with. Addresses are numbered in
            # the order of issuing: the counter is put back for a moment.
            counts = self._caller.counts
            after, counts[self._name] = counts[self._name], self._first + index
            self._ended -= 1
            self._start(index)
            counts[self._name] = after
            item = self._items[index]
        assert item is not None
        if len(self._items) == len(self._every) or item.over:
            return None
        self._signal = Signal(item.pending.address, self.hub)
        return self._signal

    def run(self) -> list[object]:
        with self._progress:
            try:
                return [self._result(index) for index in range(len(self._every))]
            except BaseException:
                self._cancel()
                raise

    def _result(self, index: int) -> object:
        while (signal := self._next_end(index)) is not None:
            wait(signal)
        try:
            return result_of(self._pending(index))
        except Exception as error:
            if not self._collect:
                raise
            return error

    async def arun(self) -> list[object]:
        with self._progress:
            try:
                return [await self._aresult(index) for index in range(len(self._every))]
            except BaseException:
                self._cancel()
                raise

    async def _aresult(self, index: int) -> object:
        while (signal := self._next_end(index)) is not None:
            await arrive(signal)
        try:
            return await awaited(self._pending(index))
        except Exception as error:
            if not self._collect:
                raise
            return error

    def _pending(self, index: int) -> Promise:
        item = self._items[index]
        assert item is not None
        return item.pending

    def _cancel(self) -> None:
        """Cancel the rest; items that were not started keep their addresses."""
        if self._as_recorded:  # workers went on for a while before they heard of the end
            for item in self._items:
                if item is not None and not item.over:
                    self._caller.run.outside.world.skip(item.pending.address)
        cancel_all([item.pending for item in self._items if item is not None])
        name = name_of(self._f)
        # Later calls are numbered behind all items, however many of them had been started.
        for _ in range(len(self._items), len(self._every)):
            here(lambda: name).issue(name)
