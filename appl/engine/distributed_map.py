"""The driver's side of a ``map`` over workers: addresses, items and results.

Invariant: an item has the address that it would have had in this process, and a worker's report
about it is recorded before its result is used. The program's own thread keeps items and results;
the I/O loop keeps what is recorded and lent (``worker_connection``).
"""

from __future__ import annotations

import itertools
import pickle
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from appl.engine.item_log import ItemAnswers, ItemLog
from appl.engine.prompts import sent, unready
from appl.engine.protocol import Engine, Worker
from appl.engine.worker_connection import WorkerConnection
from appl.engine.worker_process import RunFactory, WorkerSetup
from appl.errors import InvalidOption, WorkerLost
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import Hub, arrive, in_coroutine, strand_here, wait
from appl.runtime.concurrency.loop_thread import io_thread, void
from appl.runtime.concurrency.parallel import name_of, program_behind
from appl.runtime.concurrency.progress import Progress, progress_for
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.current import here
from appl.runtime.event import Observed
from appl.runtime.frame import Frame
from appl.runtime.scheduling.accounts import Account
from appl.runtime.scheduling.call_status import CallStatus

_CLOSING_S = 10.0


def mapped(
    f: Callable[..., Any],
    items: Iterable[tuple[Any, ...]],
    size: int | None,
    engine: Engine,
    *,
    concurrency: int | None,
    collect: bool,
    progress: bool | None,
) -> Any:
    """Apply *f* to every item on the workers of *engine*; the value that ``map`` returns."""
    mapping = DistributedMap(f, items, size, engine, concurrency, collect, progress)
    return mapping.arun() if in_coroutine() else mapping.run()


class WorkItem:
    """One item: its index, the number in its address, and the payload that a worker receives."""

    __slots__ = ("alone", "answers", "index", "ordinal", "payload", "tries")

    def __init__(self, index: int, ordinal: int, payload: bytes) -> None:
        self.index, self.ordinal, self.payload = index, ordinal, payload
        self.tries = 0
        self.alone = False
        self.answers: ItemAnswers | None = None

    def message(self) -> tuple[Any, ...]:
        return "item", self.index, self.ordinal, self.payload, self.answers


class HiredWorker:
    """A worker, by its number from 1, and the items that it works on."""

    def __init__(self, mapping: DistributedMap, number: int) -> None:
        self.number = number
        self.units: dict[int, WorkItem] = {}
        self.connection = WorkerConnection(mapping, self)
        self.worker: Worker | None = None
        self.gone = False

    def tell(self, *messages: tuple[Any, ...]) -> None:
        """Send *messages* unless the worker is gone."""
        if self.worker is not None and not self.gone:
            self.worker.tell(pickle.dumps(messages, 5))


class DistributedMap:
    """One ``map`` over workers."""

    def __init__(
        self,
        f: Callable[..., Any],
        items: Iterable[tuple[Any, ...]],
        size: int | None,
        engine: Engine,
        concurrency: int | None,
        collect: bool,
        progress: bool | None,
    ) -> None:
        self._engine, self._collect = engine, collect
        self._f, self._name = f, name_of(f)
        self._shown: Progress = progress_for(self._name, size, progress)
        self._items, self._exhausted = iter(items), False
        self._size, self._most = size, concurrency
        self._caller: Frame = here(lambda: self._name)
        self.run_of = self._caller.run
        self.within = f"{self._caller.address}/{self._name}."  # what addresses of items begin with
        self.first = self._caller.counts.get(self._name, 0)
        self.account: Account | None = self._caller.account
        self.words: dict[str, str] = {}  # in place of secrets of workers, by name
        self.logs: dict[int, ItemLog] = {}  # of items that have begun; on the I/O loop
        self._waiting_again: deque[WorkItem] = deque()
        self._hired: list[HiredWorker] = []
        self._results: dict[int, Value | Error] = {}
        self._taken = itertools.count()
        self._failures: list[BaseException] = []
        self._signal: Signal | None = None
        self.hub: Hub = strand_here().hub
        self._needs_prompt = _check(f)

    # -- the program's thread

    def run(self) -> list[Any]:
        """Run the map and return the results in order; the program waits."""
        with self._shown:
            steps = self._steps()
            try:
                for signal in steps:
                    wait(signal)
            except BaseException:
                self._cancel()
                for signal in self._closed():
                    wait(signal)
                raise
            finally:
                self._leave()
            return self._values

    async def arun(self) -> list[Any]:
        """The same as ``run``, for a coroutine."""
        with self._shown:
            steps = self._steps()
            try:
                for signal in steps:
                    await arrive(signal)
            except BaseException:
                self._cancel()
                for signal in self._closed():
                    await arrive(signal)
                raise
            finally:
                self._leave()
            return self._values

    def _steps(self) -> Iterator[Promise]:
        self._values: list[Any] = []
        if self._needs_prompt:
            yield from unready(self._caller.prompt.tip)
        self._engine.open()
        # The I/O loop reads the run's holders, so only the I/O loop changes them.
        io_thread().send(partial(self.run_of.dispatch.holders.append, self.held))
        self._setup = self._made_setup()
        while True:
            self._signal = Signal(self._caller.address, self.hub)
            self._hand_out()
            while len(self._values) in self._results:
                self._values.append(self._value(self._results.pop(len(self._values))))
            if (
                self._exhausted
                and not self._waiting_again
                and not any(h.units for h in self._hired)
            ):
                break
            yield self._signal
        yield from self._closed()
        if self._failures:
            raise self._failures[0]

    def _value(self, outcome: Value | Error) -> Any:
        if isinstance(outcome, Value):
            return outcome.value
        if self._collect and isinstance(outcome.error, Exception):
            return outcome.error
        raise outcome.error

    def _made_setup(self) -> bytes:
        run = self.run_of
        if run.dispatch.blueprint is None:
            raise InvalidOption(
                "map(engine=...): this run was made by hand, so that nobody knows how to make one "
                "like it in another process; use appl.record(), appl.run() or the process's own run"
            )
        setup = WorkerSetup(
            self._portable(self._f, f"the function {self._name}()"),
            cast(RunFactory, run.dispatch.blueprint),
            self._caller.address,
            self._name,
            sent(self._caller.prompt.tip) if self._needs_prompt else [],
            self._caller.voice,
            self._caller.model,
            _limited(self.account),
            frozenset(name for name, way in run.dispatch.ways.items() if way.by_tokens),
            run.reporter.streams,
            secrets.token_bytes(32),
            self._engine.dumps,
        )
        return self._portable(setup, "the prompt or the settings")

    def _portable(self, value: Any, what: str) -> bytes:
        try:
            return self._engine.dumps(value)
        except Exception as error:
            raise InvalidOption(
                f"map(engine=...): {what} cannot be sent to a worker ({type(error).__name__}: "
                f"{error}); what it holds, closes over or refers to must be picklable: open "
                "files, connections, locks and clients inside of the function, and pass plain data"
            ) from error

    # -- handing out

    def _hand_out(self) -> None:
        """Give items to workers that have room, first those whose worker was lost."""
        messages: dict[HiredWorker, list[tuple[Any, ...]]] = {}
        while (unit := self._next()) is not None:
            hired = self._room_for(unit)
            if hired is None:
                self._waiting_again.appendleft(unit)
                break
            hired.units[unit.index] = unit
            messages.setdefault(hired, []).append(unit.message())
        for hired, each in messages.items():
            hired.tell(*each)

    def _next(self) -> WorkItem | None:
        if self._waiting_again:
            return self._waiting_again.popleft()
        if self._exhausted or not self._may_begin():
            return None
        item = next(self._items, None)
        if item is None:
            self._exhausted = True
            return None
        index = next(self._taken)
        self._caller.counts[self._name] = self.first + index + 1
        try:
            payload = self._portable(item, f"item {index}")
        except InvalidOption as error:
            self._end(index, Error(error))
            return self._next()
        return WorkItem(index, self.first + index, payload)

    def _may_begin(self) -> bool:
        """True if one more item may start: workers have room, and *concurrency* allows it."""
        at_work = sum(len(hired.units) for hired in self._hired)
        most = self._engine.at_once * self._engine.workers
        return at_work < min(most, self._most or most)

    def _room_for(self, unit: WorkItem) -> HiredWorker | None:
        """The worker with the fewest items; one by itself for an item that may kill its worker."""
        present = [hired for hired in self._hired if not hired.gone]
        fewest = min(present, key=lambda hired: len(hired.units), default=None)
        if (fewest is None or fewest.units) and len(present) < self._engine.workers:
            fewest = self._hire()
        if fewest is None or len(fewest.units) >= (1 if unit.alone else self._engine.at_once):
            return None
        if any(each.alone for each in fewest.units.values()):
            return None
        return fewest

    def _hire(self) -> HiredWorker:
        hired = HiredWorker(self, len(self._hired) + 1)
        hired.worker = self._engine.hire(self._setup, hired.connection)
        self._hired.append(hired)
        return hired

    # -- what workers say, on the program's thread

    def over(self, hired: HiredWorker, index: int, outcome: Value | Error) -> None:
        """Store the outcome of item *index*."""
        if hired.units.pop(index, None) is not None:
            self._end(index, outcome)
            self._wake()

    def _end(self, index: int, outcome: Value | Error) -> None:
        self._results[index] = outcome
        self._shown.step(Signal("", self.hub))

    def failed(self, error: BaseException) -> None:
        """Note an error that is not the result of an item."""
        self._failures.append(error)

    def broken(self, hired: HiredWorker, error: BaseException) -> None:
        """A worker cannot work at all, and neither could another one: end the map."""
        for index in list(hired.units):
            self.over(hired, index, Error(error))
        self._items, self._exhausted = iter(()), True
        self._failures.append(error)
        hired.tell(("cancel",))
        self._kill_later(hired)

    def gone(self, hired: HiredWorker, why: BaseException | None) -> None:
        """Handle a worker that has ended, in order or by being lost with its items."""
        hired.gone = True
        units, hired.units = hired.units, {}
        for unit in units.values():
            unit.tries += 1
            log = self.logs.get(unit.ordinal) or ItemLog()
            doubtful = log.doubtful()
            if doubtful is not None:
                why = WorkerLost(
                    f"{self._at(unit)}: its worker was lost while the tool {doubtful} ran, and "
                    "nobody knows whether it had its effect; if it may run again, make it by "
                    "as_tool(f, idempotent=True)"
                )
            elif unit.tries < self._engine.tries:
                unit.answers = log.restart()
                unit.alone = unit.tries + 1 == self._engine.tries
                self._waiting_again.append(unit)
                continue
            else:
                why = WorkerLost(
                    f"{self._at(unit)}: {unit.tries} workers were lost over it; the last one: {why}"
                )
            address = self._at(unit)
            self.run_of.reporter.emit(Observed(address, 0, "lost", str(why), time.monotonic_ns()))
            self._end(unit.index, Error(why))
        self._wake()

    def _at(self, unit: WorkItem) -> str:
        return f"{self.within}{unit.ordinal}"

    def _wake(self) -> None:
        if self._signal is not None:
            self._signal.reached()

    # -- the end

    def _closed(self) -> Iterator[Promise]:
        """Yield what to wait for until all workers have ended."""
        for hired in self._hired:
            hired.tell(("close",))
        while any(not hired.gone for hired in self._hired):
            self._signal = Signal(self._caller.address, self.hub)
            if all(hired.gone for hired in self._hired):
                return
            yield self._signal

    def _cancel(self) -> None:
        """Stop all workers. Items that have not started keep their addresses for later calls."""
        self._waiting_again.clear()
        rest = sum(1 for _ in self._items) if not self._exhausted else 0
        self._exhausted = True
        self._caller.counts[self._name] = self.first + next(self._taken) + rest
        for hired in self._hired:
            hired.units.clear()
            hired.tell(("cancel",))
            self._kill_later(hired)

    def _kill_later(self, hired: HiredWorker) -> None:
        """Kill a worker that does not end by itself in time."""
        io = io_thread()

        def kill() -> None:
            if not hired.gone and hired.worker is not None:
                hired.worker.kill()

        # call_later is not safe on another thread: the loop schedules the timer itself.
        io.send(lambda: void(io.loop.call_later(_CLOSING_S, kill)))

    def _leave(self) -> None:
        io_thread().send(self._left)
        self._engine.close()

    # -- on the I/O loop

    def held(self) -> Iterator[CallStatus]:
        """The calls that run on workers."""
        for hired in tuple(self._hired):
            yield from hired.connection.held()

    def _left(self) -> None:
        if self.held in self.run_of.dispatch.holders:
            self.run_of.dispatch.holders.remove(self.held)


def _check(f: Any) -> bool:
    """True if *f* uses the caller's prompt. Raises ``InvalidOption`` if it would change it."""
    program = program_behind(f)
    ctx = getattr(program, "ctx", "copy")
    if ctx in ("same", "resume"):
        raise InvalidOption(
            f"map(engine=...): {name_of(f)}() has ctx={ctx!r}, and a prompt of this process cannot "
            'be written from another; use ctx="copy" and say what it returns, or leave out engine='
        )
    return ctx != "new"


def _limited(account: Account | None) -> tuple[bool, bool] | None:
    if account is None:
        return None
    levels = account.levels()
    cost, tokens = (any(each.limits[i] is not None for each in levels) for i in (0, 1))
    return cost, tokens
