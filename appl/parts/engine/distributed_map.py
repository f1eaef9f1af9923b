"""The driver's side of a ``map`` over workers: addresses, items and results.

Invariant: an item has the address that it would have had in this process, and a worker's report
about it is recorded before its result is used. The program's own thread keeps items and results;
the I/O loop keeps calls and records (``worker_connection``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from appl.errors import InvalidOption, WorkerLost
from appl.parts.engine.item_log import ItemLog
from appl.parts.engine.prompts import sent, unready
from appl.parts.engine.protocol import Engine
from appl.parts.engine.work_items import ItemSource, MapResults, WorkItem
from appl.parts.engine.worker_pool import HiredWorker, WorkerPool
from appl.parts.engine.worker_process import WorkerSetup
from appl.runtime.concurrency.clock import Signal
from appl.runtime.concurrency.fiber import Hub, arrive, in_coroutine, strand_here, wait
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.parallel import name_of, program_behind, report_failed_item
from appl.runtime.concurrency.progress import Progress, progress_for
from appl.runtime.concurrency.promise import Error, Promise, Value
from appl.runtime.event import Observed
from appl.runtime.frame import Frame, here
from appl.runtime.scheduling.accounts import Account

_OPTIONS = ("temperature", "max_tokens", "sampling", "seed", "salt", "sequential")
"""The options of a run that its workers' runs have, too."""


def mapped(
    f: Callable[..., object],
    items: Iterable[tuple[object, ...]],
    size: int | None,
    engine: Engine,
    *,
    concurrency: int | None,
    collect: bool,
    progress: bool | None,
) -> object:
    """Apply *f* to every item on the workers of *engine*; the value that ``map`` returns."""
    mapping = DistributedMap(f, items, size, engine, concurrency, collect, progress)
    return mapping.arun() if in_coroutine() else mapping.run()


class DistributedMap:
    """One ``map`` over workers: its items, its workers and its results.

    The connections to workers read ``run_of``, ``caller``, ``source``, ``account``, ``secrets`` and
    ``logs`` on the I/O loop; ``logs`` are those of items that have begun.
    """

    def __init__(
        self,
        f: Callable[..., object],
        items: Iterable[tuple[object, ...]],
        size: int | None,
        engine: Engine,
        concurrency: int | None,
        collect: bool,
        progress: bool | None,
    ) -> None:
        self._f, self._name = f, name_of(f)
        self._engine, self._concurrency = engine, concurrency
        self._shown: Progress = progress_for(self._name, size, progress)
        self.caller: Frame = here(lambda: self._name)
        self.run_of = self.caller.run
        self.source = ItemSource(items, self.caller, self._name)
        self.account: Account | None = self.caller.account
        self.secrets: dict[str, str] = {}  # those of workers, by name
        self.logs: dict[int, ItemLog] = {}
        self.hub: Hub = strand_here().hub
        self._size = size if collect else None
        self._results = MapResults(collect, self._shown)
        self._pool = WorkerPool(engine, self)
        self._queue: deque[WorkItem] = deque()  # items that no worker has, though they were taken
        self._failures: list[BaseException] = []
        self._signal: Signal | None = None
        self._needs_prompt = _check(f)

    # -- the program's thread

    def run(self) -> list[object]:
        """Run the map and return the results in order; the program waits."""
        with self._shown:
            steps = self._steps()
            try:
                for signal in steps:
                    wait(signal)
            except BaseException:
                self._cancel()
                for signal in self._ended():
                    wait(signal)
                raise
            finally:
                self._leave()
            return self._results.values

    async def arun(self) -> list[object]:
        """The same as ``run``, for a coroutine."""
        with self._shown:
            steps = self._steps()
            try:
                for signal in steps:
                    await arrive(signal)
            except BaseException:
                self._cancel()
                for signal in self._ended():
                    await arrive(signal)
                raise
            finally:
                self._leave()
            return self._results.values

    def _steps(self) -> Iterator[Promise]:
        if self._needs_prompt:
            yield from unready(self.caller.prompt.tip)
        self._engine.open()
        self._pool.setup = self._made_setup()
        while True:
            self._signal = Signal(self.caller.address, self.hub)
            # Give items to workers that have room, first those whose worker was lost.
            assigned: dict[HiredWorker, list[WorkItem]] = {}
            while (unit := self._next()) is not None:
                hired = self._pool.worker_for(unit)
                if hired is not None:
                    hired.units[unit.index] = unit
                    assigned.setdefault(hired, []).append(unit)
                elif self._pool.hopeless():
                    self._lose(
                        unit, f"no worker is left to work on it; the last one: {self._pool.why}"
                    )
                else:
                    self._queue.appendleft(unit)
                    break
            for hired, units in assigned.items():
                hired.give(units)
            self._results.advance()
            if self.source.exhausted and not self._queue and not self._pool.at_work():
                break
            yield self._signal
        for hired in self._pool:
            hired.close()
        yield from self._ended()
        if self._failures:
            raise self._failures[0]

    def _made_setup(self) -> bytes:
        run, services, models = self.run_of, self.run_of.services, self.run_of.dispatch.models
        setup = WorkerSetup(
            self._portable(self._f, f"the function {self._name}()"),
            self.caller.address,
            self._name,
            sent(self.caller.prompt.tip) if self._needs_prompt else [],
            self.caller.voice,
            self.caller.model,
            {name: getattr(services, name) for name in _OPTIONS},
            run.profile,
            (models.profile_of(models.default.name or ""), models.default),
            run.reporter.streams,
            run.reporter.shows_arguments,
            self._engine.dumps,
        )
        return self._portable(setup, "the prompt or the settings")

    def _portable(self, value: object, what: str) -> bytes:
        try:
            return self._engine.dumps(value)
        except Exception as error:
            raise InvalidOption(
                f"map(engine=...): {what} cannot be sent to a worker ({type(error).__name__}: "
                f"{error}); what it holds, closes over or refers to must be picklable: open "
                "files, connections, locks and clients inside of the function, and pass plain data"
            ) from error

    # -- handing out

    def _next(self) -> WorkItem | None:
        if self._queue:
            return self._queue.popleft()
        unsent = self._pool.unsent()
        if unsent is not None:
            return unsent
        room = self._pool.room()
        limit = min(room, self._concurrency or room)
        if self.source.exhausted or self._pool.at_work() >= limit:
            return None
        entry = self.source.take()
        if entry is None:
            return None
        index, item = entry
        try:
            payload = self._portable(item, f"item {index}")
        except InvalidOption as error:
            self._end(index, Error(error))
            return self._next()
        return WorkItem(index, self.source.first + index, payload)

    # -- what workers say, on the program's thread

    def started(self, hired: HiredWorker) -> None:
        """*hired* is ready for items."""
        self._pool.started(hired)
        self._wake()

    def over(self, hired: HiredWorker, index: int, outcome: Value | Error) -> None:
        """Store the outcome of item *index*."""
        if hired.units.pop(index, None) is not None:
            self._end(index, outcome)
            self._wake()

    def _end(self, index: int, outcome: Value | Error) -> None:
        if isinstance(outcome, Error):
            within, first = self.source.within, self.source.first
            items = self._size or 0
            report_failed_item(
                self.run_of, f"{within}{first + index}", outcome.error, f"{within}{first}", items
            )
        self._results.end(index, outcome, Signal("", self.hub))

    def failed(self, error: BaseException) -> None:
        """Note an error that is not the result of an item."""
        self._failures.append(error)

    def broken(self, hired: HiredWorker, error: BaseException) -> None:
        """A worker cannot work at all, and neither could another one: end the map."""
        for unit in (*hired.release(), *self._queue):
            self._end(unit.index, Error(error))
        self._queue.clear()
        self.source.stop()
        self._failures.append(error)
        hired.cancel()
        self._wake()

    def gone(self, hired: HiredWorker, why: BaseException | None) -> None:
        """Handle a worker that has ended, in order or by being lost with its items."""
        hired.gone = True
        units = hired.release()
        if why is not None:
            self._queue.extend(self._pool.lost(hired, why))
        if why is not None and units:
            key = self.source.within, self.source.first, str(why)
            self.run_of.reporter.tell_once(
                key, f"{self._name}(): a worker is lost ({why}); its items go to another one"
            )
        if hired.ready:
            for unit in units:
                self._begin_again(unit, why)
        else:  # nothing was sent to it
            self._queue.extend(units)
        self._wake()

    def _begin_again(self, unit: WorkItem, why: BaseException | None) -> None:
        """Queue *unit*, whose worker was lost, for another worker, or end it with an error."""
        unit.tries += 1
        log = self.logs.get(unit.ordinal) or ItemLog()
        doubtful = log.doubtful()
        if doubtful is not None:
            self._lose(
                unit,
                f"its worker was lost while the tool {doubtful} ran, and nobody knows whether it "
                "had its effect; if it may run again, make it by as_tool(f, idempotent=True)",
            )
        elif unit.tries < self._engine.tries:
            unit.answers = log.restart()
            unit.alone = unit.tries + 1 == self._engine.tries
            self._queue.append(unit)
        else:
            self._lose(unit, f"{unit.tries} workers were lost over it; the last one: {why}")

    def _lose(self, unit: WorkItem, message: str) -> None:
        """End *unit* with ``WorkerLost``; a replay reads the error from the record."""
        address = f"{self.source.within}{unit.ordinal}"
        error = WorkerLost(f"{address}: {message}")
        self.run_of.reporter.emit(Observed(address, 0, "lost", str(error), time.monotonic_ns()))
        log = self.logs.get(unit.ordinal)
        if log is not None:
            io_thread().send(log.abort)
        self._end(unit.index, Error(error))

    def _wake(self) -> None:
        if self._signal is not None:
            self._signal.reached()

    # -- the end

    def _ended(self) -> Iterator[Promise]:
        """Yield what to wait for until all workers have ended."""
        while self._pool.present():
            self._signal = Signal(self.caller.address, self.hub)
            if not self._pool.present():
                return
            yield self._signal

    def _cancel(self) -> None:
        """Stop all workers. Items that have not started keep their addresses for later calls."""
        self._queue.clear()
        self.source.skip_rest()
        for hired in self._pool:
            hired.cancel()

    def _leave(self) -> None:
        io_thread().send(self._abort)
        self._engine.close()

    # -- on the I/O loop

    def _abort(self) -> None:
        """Cancel what lost workers have asked; that of others is cancelled by who is connected."""
        for log in self.logs.values():
            log.abort()


def _check(f: object) -> bool:
    """True if *f* uses the caller's prompt. Raises ``InvalidOption`` if it would change it."""
    program = program_behind(f)
    ctx = getattr(program, "ctx", "copy")
    if ctx in ("same", "resume"):
        raise InvalidOption(
            f"map(engine=...): {name_of(f)}() has ctx={ctx!r}, and a prompt of this process cannot "
            'be written from another; use ctx="copy" and say what it returns, or leave out engine='
        )
    return ctx != "new"
