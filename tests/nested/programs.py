"""Random programs with runs inside of runs, threads, budgets, what is seen of them, and timers.

A program is a tree of steps, each of which appends to a list; an interpreter runs it in the run that
is open. Asynchronous ones have timers of asyncio around what other tasks bring.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from multiprocessing import get_context
from typing import Any

import appl
from appl import gen, ppl
from appl.errors import BudgetExceeded

SYNC = (
    "ask", "ask", "many", "run", "record", "call", "map", "thread", "spend", "refused",
    "seen", "state", "failed", "own", "settings",
)  # fmt: skip
ASYNC = (
    "ask", "ask", "many", "run", "record", "gather", "spend", "refused", "seen", "state", "failed",
    "own", "late", "event", "wait", "ticks", "limit",
)  # fmt: skip
OWN = ("own", "settings")
TIMED = ("late", "event", "wait", "ticks", "limit")
VARYING = (*TIMED, "seen")
"""Kinds whose values depend on how fast answers come."""
PROCESSES = ("spawn", "fork", "forkserver", "subprocess")
NESTING = ("run", "record", "call", "thread", "own", "settings", "gather", "map", *PROCESSES)


EDITS = ("reword", "more", "insert", "repeat", "swap", "delete")


@ppl
def ask(text: str) -> Any:
    """One call."""
    f"{text}"
    return gen()


@ppl(ctx="resume")
def state(text: str) -> Any:
    """One call that goes on with the prompt of the last one in its run."""
    f"{text}"
    return gen()


@dataclass
class Step:
    """A step: its kind, its words, and the steps in it."""

    kind: str
    text: str
    n: int
    below: list[Step] = field(default_factory=list)

    def kinds(self) -> set[str]:
        """The kinds of this step and those in it."""
        return {self.kind}.union(*(step.kinds() for step in self.below))


def in_thread(perform: Callable[[], Any]) -> Any:
    """What *perform* returns or raises on a thread of its own."""
    done: Future[Any] = Future()

    def settle() -> None:
        try:
            done.set_result(perform())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=settle)
    thread.start()
    thread.join()
    return done.result()


def values(steps: list[Step]) -> list[Any]:
    """The values of *steps*, in a process that was started for them."""
    return Program.of(steps, is_async=False).part(steps)


def in_pool(step: Step) -> list[Any]:
    """The values of the steps in *step*, from a pool of one process."""
    with ProcessPoolExecutor(1, get_context(step.kind)) as workers:
        return workers.submit(values, step.below).result()


def in_subprocess(step: Step) -> list[Any]:
    """The values of the steps in *step*, from a Python of its own; raises what it says."""
    code = f"from tests.nested.programs import *\nprint(json.dumps(values({step.below})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise ChildProcessError(done.stderr)
    return list(json.loads(done.stdout))


class Program:
    """The program of one seed; without the kinds in *without*.

    One with *processes* is a part of plain code, and has at least one step in another process.
    Where *is_observed*, the run is told what they return by ``appl.observe``.
    """

    def __init__(
        self,
        seed: int,
        without: tuple[str, ...] = (),
        processes: tuple[str, ...] = (),
        is_observed: bool = False,
    ) -> None:
        self._dice = random.Random(seed)
        self._words = 0
        self.is_async = self._dice.random() < 0.5 and not processes
        self.is_observed = is_observed
        every = ASYNC if self.is_async else SYNC
        self._choices = tuple(kind for kind in every if kind not in without)
        self.steps = self._steps(self._dice.randint(2, 4), 0)
        for kind in processes:
            text = f"process {kind}"
            below = self._steps(self._dice.randint(1, 2), 1)
            self.steps.insert(self._dice.randint(0, len(self.steps)), Step(kind, text, 1, below))

    @classmethod
    def of(cls, steps: list[Step], is_async: bool, is_observed: bool = False) -> Program:
        """The program of these *steps*."""
        program = cls(0)
        program.steps, program.is_async, program.is_observed = steps, is_async, is_observed
        return program

    @property
    def source(self) -> str:
        """A file with the program, whose function is ``main``."""
        return (
            "from tests.nested.programs import Program, Step\n\n"
            f"PROGRAM = Program.of({self.steps}, {self.is_async}, {self.is_observed})\n\n"
            "def main():\n    return PROGRAM.run()\n"
        )

    def _steps(self, count: int, depth: int) -> list[Step]:
        return [self._step(depth) for _ in range(count)]

    def _step(self, depth: int) -> Step:
        kind = self._dice.choice(self._choices)
        self._words += 1
        nests = kind in NESTING and depth < 2
        below = self._steps(self._dice.randint(1, 2), depth + 1) if nests else []
        return Step(kind, f"w{self._words}", self._dice.randint(1, 4), below)

    @property
    def kinds(self) -> set[str]:
        """All kinds of steps in it."""
        return set().union(*(step.kinds() for step in self.steps))

    def edit(self) -> str:
        """Change a part of the program at any depth: how."""
        how = self._dice.choice(EDITS)
        steps = self._dice.choice([steps for steps in self._lists(self.steps) if steps])
        at = self._dice.randrange(len(steps))
        if how == "reword":
            steps[at].text = f"new {steps[at].text}"
        elif how == "more":
            steps[at].n += 1
        elif how == "insert":
            steps.insert(at, Step("ask", f"inserted {at}", 1))
        elif how == "repeat":
            steps.insert(at, deepcopy(steps[at]))
        elif how == "swap":
            steps.insert(0, steps.pop(at))
        elif len(steps) > 1:
            del steps[at]
        return how

    def _lists(self, steps: list[Step]) -> list[list[Step]]:
        return [steps, *chain.from_iterable(self._lists(step.below) for step in steps)]

    def run(self) -> list[Any]:
        """Its value, in the run that is open."""
        if self.is_async:
            return asyncio.run(self.main())
        return self.part(self.steps)

    def part(self, steps: list[Step]) -> list[Any]:
        """The values of *steps*."""
        out: list[Any] = []
        for step in steps:
            getattr(self, f"_{step.kind}")(step, out)
        return out

    async def main(self) -> list[Any]:
        """Its value, as a coroutine."""
        return await self.apart(self.steps)

    async def apart(self, steps: list[Step]) -> list[Any]:
        """The values of *steps*, in a coroutine."""
        out: list[Any] = []
        for step in steps:
            await getattr(self, f"_a{step.kind}")(step, out)
        return out

    # -- in plain code

    def _ask(self, step: Step, out: list[Any]) -> None:
        out.append(str(ask(step.text)))

    def _many(self, step: Step, out: list[Any]) -> None:
        every = [ask(f"{step.text} {i}") for i in range(step.n)]
        out += [str(each) for each in every]

    def _run(self, step: Step, out: list[Any]) -> None:
        out.append(appl.run(self.part, step.below))
        out.append(str(ask(f"{step.text} {out[-1]}")))

    def _record(self, step: Step, out: list[Any]) -> None:
        with appl.record():
            out.append(self.part(step.below))
            left = ask(step.text)  # joined by the block's end
        out.append(str(left))

    def _call(self, step: Step, out: list[Any]) -> None:
        first, second = appl.call(appl.run, self.part, step.below), ask(step.text)
        out += [str(second), first.result()]

    def _map(self, step: Step, out: list[Any]) -> None:
        out.append(appl.map(lambda i: [i, appl.run(self.part, step.below)], range(step.n)))

    def _thread(self, step: Step, out: list[Any]) -> None:
        out.append(in_thread(partial(copy_context().run, appl.run, self.part, step.below)))
        if step in self.steps:  # without a context it is in the run that is open if only one is
            out.append(in_thread(lambda: str(ask(step.text))))

    def _spend(self, step: Step, out: list[Any]) -> None:
        with appl.budget(calls=step.n + 1) as block:
            rounds = 0
            while block.spent.calls < step.n:
                out.append(str(ask(f"{step.text} {rounds}")))
                rounds += 1
            out.append([*block.spent, block.unpriced, rounds])

    def _refused(self, step: Step, out: list[Any]) -> None:
        with appl.budget(calls=step.n):
            try:
                for i in range(step.n + 2):
                    out.append(appl.run(lambda i=i: str(ask(f"{step.text} {i}"))))
            except BudgetExceeded:
                out.append("refused")

    def _seen(self, step: Step, out: list[Any]) -> None:
        with appl.budget(calls=9) as block:
            every = [ask(f"{step.text} {i}") for i in range(step.n)]
            out.append(str(ask(f"so far {block.spent.calls} {block.reserved.calls}")))
            out += [str(each) for each in every]
            out.append([*block.spent])

    def _state(self, step: Step, out: list[Any]) -> None:
        out.append(appl.run(lambda: [str(state(step.text)), str(state("on"))]))
        out.append(str(state(f"outside {step.text}")))

    def _failed(self, step: Step, out: list[Any]) -> None:
        def fails() -> None:
            ask(f"left {step.text}").result()
            raise LookupError(step.text)

        try:
            appl.run(fails)
        except LookupError as error:
            out.append(str(error))

    def _own(self, step: Step, out: list[Any]) -> None:
        out.append(appl.run(self.part, step.below, own=True))
        out.append(str(ask(f"{step.text} {out[-1]}")))

    def _settings(self, step: Step, out: list[Any]) -> None:
        with appl.record(max_tokens=7):
            out.append(self.part(step.below))

    # -- in other processes

    def _spawn(self, step: Step, out: list[Any]) -> None:
        self._elsewhere(step, out, lambda: in_pool(step))

    _fork = _forkserver = _spawn

    def _subprocess(self, step: Step, out: list[Any]) -> None:
        self._elsewhere(step, out, lambda: in_subprocess(step))

    def _elsewhere(self, step: Step, out: list[Any], perform: Callable[[], Any]) -> None:
        out.append(appl.observe(perform) if self.is_observed else perform())
        out.append(str(ask(f"{step.text} {out[-1]}")))

    # -- in coroutines

    async def _aask(self, step: Step, out: list[Any]) -> None:
        out.append(str(await ask(step.text)))

    async def _amany(self, step: Step, out: list[Any]) -> None:
        every = [ask(f"{step.text} {i}") for i in range(step.n)]
        out += [str(await each) for each in every]

    async def _arun(self, step: Step, out: list[Any]) -> None:
        out.append(await appl.run(self.apart, step.below))
        out.append(str(await ask(f"{step.text} {out[-1]}")))

    async def _arecord(self, step: Step, out: list[Any]) -> None:
        async with appl.record():
            out.append(await self.apart(step.below))
            left = ask(step.text)
        out.append(str(await left))

    async def _agather(self, step: Step, out: list[Any]) -> None:
        runs = [appl.run(self.apart, step.below) for _ in range(step.n)]
        out += await asyncio.gather(*runs)

    async def _aspend(self, step: Step, out: list[Any]) -> None:
        async with appl.budget(calls=step.n + 1) as block:
            rounds = 0
            while block.spent.calls < step.n:
                out.append(str(await ask(f"{step.text} {rounds}")))
                rounds += 1
            out.append([*block.spent, rounds])

    async def _arefused(self, step: Step, out: list[Any]) -> None:
        async def one(i: int) -> str:
            return str(await ask(f"{step.text} {i}"))

        async with appl.budget(calls=step.n):
            try:
                for i in range(step.n + 2):
                    out.append(await appl.run(one, i))
            except BudgetExceeded:
                out.append("refused")

    async def _aseen(self, step: Step, out: list[Any]) -> None:
        async with appl.budget(calls=9) as block:
            every = [ask(f"{step.text} {i}") for i in range(step.n)]
            out.append(str(await ask(f"so far {block.spent.calls} {block.reserved.calls}")))
            out += [str(await each) for each in every]

    async def _astate(self, step: Step, out: list[Any]) -> None:
        out.append(await appl.run(lambda: [str(state(step.text)), str(state("on"))]))

    async def _afailed(self, step: Step, out: list[Any]) -> None:
        async def fails() -> None:
            await ask(f"left {step.text}")
            raise LookupError(step.text)

        try:
            await appl.run(fails)
        except LookupError as error:
            out.append(str(error))

    async def _aown(self, step: Step, out: list[Any]) -> None:
        out.append(await appl.run(self.apart, step.below, own=True))

    async def _alate(self, step: Step, out: list[Any]) -> None:
        queue: asyncio.Queue[str] = asyncio.Queue()
        task = asyncio.create_task(self._into(queue.put_nowait, step.text))
        out.append(await self._polled(queue.get))
        await task

    async def _aevent(self, step: Step, out: list[Any]) -> None:
        event = asyncio.Event()
        task = asyncio.create_task(self._into(lambda _: event.set(), step.text))
        late = await self._polled(event.wait)
        out.append(str(await ask(f"late {late[0] > 0}")))
        await task

    async def _into(self, put: Callable[[str], object], text: str) -> None:
        put(str(await ask(text)))

    async def _polled(self, wait: Callable[[], Awaitable[Any]]) -> list[Any]:
        """How often its time was up, and what came."""
        for late in range(2_000):
            with suppress(TimeoutError, asyncio.TimeoutError):
                return [late, await asyncio.wait_for(wait(), 0.001)]
        raise AssertionError("nothing came")

    async def _await(self, step: Step, out: list[Any]) -> None:
        task = asyncio.create_task(self._into(out.append, step.text))
        rounds = 0
        while not (await asyncio.wait({task}, timeout=0.001))[0]:
            rounds += 1
        out.append(rounds)

    async def _aticks(self, step: Step, out: list[Any]) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        task = asyncio.create_task(tick())
        await ask(step.text)
        out.append(str(await ask(f"{ticks} ticks")))
        task.cancel()

    async def _alimit(self, step: Step, out: list[Any]) -> None:
        async def slow() -> str:
            text = str(await ask(step.text))
            await asyncio.sleep(0.03 * (step.n - 1))
            return text

        # Far longer than the loop needs to begin the wait: after that asyncio sets no timer.
        task = asyncio.create_task(slow())
        try:
            async with asyncio.timeout(0.03):
                await asyncio.shield(task)
        except TimeoutError:
            out.append("late")
        out.append(await task)
