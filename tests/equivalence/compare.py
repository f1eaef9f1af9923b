"""Runs a program three ways and tells where the ways differ: scheduled, naive, plain Python."""

from __future__ import annotations

import asyncio
import hashlib
import linecache
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

from appl.backend import Emit, Profile, Request, Response, Sample
from appl.errors import BackendError, CallCancelled
from appl.runtime.event import CallEnded, CallStarted, Event
from appl.runtime.future import Future, Generation
from appl.runtime.run import Run

from .author import WORDS
from .plain import Asked, Messages, Part, Plain, Snapshot, render
from .programs import Program


def model(messages: Messages, sampling: Mapping[str, Any]) -> str:
    """A model as a function of its question; it refuses some questions that say "risky" last."""
    digest = hashlib.blake2b(repr((messages, sorted(sampling.items()))).encode()).digest()
    last = messages[-1][1].split("\n")[-1] if messages else ""
    if "risky" in last and digest[0] % 5 < 2:
        raise BackendError(f"refused {digest.hex()[:6]}")
    if "choices" in sampling:
        return str(sampling["choices"][digest[3] % len(sampling["choices"])])
    return f"{WORDS[digest[1] % 12]}{digest[2] % 10}"


def asked_of(request: Request, edges: tuple[str, ...]) -> Asked:
    """A request as plain Python notes it."""
    messages = tuple((m.role, m.content) for m in request.messages or ())
    names = ("temperature", "max_tokens", "stop", "choices")
    sampling = {name: value for name in names if (value := getattr(request.sampling, name))}
    return Asked(request.ordinal, messages, sampling, edges)


class Hurried:
    """Answers as ``model`` does, each call after a number of turns of the loop drawn from a seed."""

    def __init__(self, seed: int, concurrency: int | None = None, turns: int = 20) -> None:
        self.profile = Profile("fake", frozenset({"choices"}), concurrency=concurrency)
        self.random, self.turns = random.Random(seed), turns

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        await self.pause()
        asked = asked_of(request, ())
        return Response((Sample(model(asked.messages, asked.sampling), "stop"),))

    async def pause(self) -> None:
        for _ in range(self.random.randrange(self.turns)):
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        pass


class Shuffled(Hurried):
    """Holds all calls; whenever no program can go on, releases one drawn from the seed."""

    def __init__(self, seed: int, concurrency: int | None = None) -> None:
        super().__init__(seed, concurrency)
        self.held: dict[str, asyncio.Future[None]] = {}

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        gate = self.held[request.address] = asyncio.get_running_loop().create_future()
        try:
            await gate
        finally:
            del self.held[request.address]
        return await super().complete(request, emit)

    async def pause(self) -> None:
        pass

    def on_quiet(self, final: bool = True) -> bool:
        waiting = sorted(address for address, gate in self.held.items() if not gate.done())
        if waiting:
            self.held[self.random.choice(waiting)].set_result(None)
        return bool(waiting)


@dataclass
class Outcome:
    """What a run shows: its value or error, its calls by address, and those cancelled."""

    value: Any = None
    error: str | None = None
    calls: dict[str, Asked] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    marks: Counter[str] = field(default_factory=Counter)
    twice: list[str] = field(default_factory=list)
    trouble: str = ""

    def on_event(self, event: Event) -> None:
        """Collect, as an instrument."""
        if isinstance(event, CallStarted):
            address = event.request.address
            if address in self.calls:
                self.twice.append(address)
            self.calls[address] = asked_of(event.request, event.edges)
            self.digests[address] = event.request.digest
        elif isinstance(event, CallEnded) and isinstance(event.error, CallCancelled):
            self.cancelled.add(event.address)
        elif isinstance(event, CallEnded):
            said = event.response.text if event.response else described(event.error)
            self.answers[event.address] = said

    def failed(self, error: BaseException) -> None:
        """The run ended with *error*."""
        self.error = described(error)
        self.trouble = "".join(traceback.format_exception(error))


def described(error: BaseException | None) -> str:
    """An error without its notes."""
    return f"{type(error).__name__}: {error}"


def compiled(program: Program) -> dict[str, Any]:
    """The module of the prompt program."""
    name, source = f"<program {program.seed}>", program.source()
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = sys.modules["random_program"] = ModuleType("random_program")
    exec(compile(source, name, "exec"), vars(module))
    return vars(module)


def run_compiled(
    module: dict[str, Any], program: Program, backend: Hurried, *, sequential: bool = False
) -> Outcome:
    """One run of the prompt program by the runtime."""
    outcome = Outcome()
    try:
        if program.asynchronous:
            asyncio.run(_run_async(module["main"], backend, outcome, sequential))
        else:
            with Run(backend, instruments=[outcome], sequential=sequential):
                outcome.value = settled(module["main"]())
    except Exception as error:
        outcome.failed(error)
    return outcome


async def _run_async(main: Any, backend: Hurried, outcome: Outcome, sequential: bool) -> None:
    async with Run(backend, instruments=[outcome], sequential=sequential):
        outcome.value = await arrived(await main())


def run_plain(program: Program) -> Outcome:
    """The same program without compiler and runtime."""
    world, outcome = Plain(model), Outcome()
    names = namespace(world)
    try:
        exec(compile(program.plain(), f"<plain {program.seed}>", "exec"), names)
        outcome.value = settled(world.done(names["main"]()))
        error = world.unhandled()
        if error:
            raise error
    except Exception as error:
        outcome.failed(error)
    outcome.calls, outcome.marks = world.calls, world.marks
    return outcome


def namespace(world: Plain) -> dict[str, Any]:
    """What the plain text uses."""
    same = [
        "v",
        "done",
        "say",
        "begin",
        "put",
        "region",
        "role",
        "ppl",
        "gen",
        "call",
        "map",
        "records",
        "convo",
        "task",
        "caught",
    ]
    names: dict[str, Any] = {name: getattr(world, name) for name in same}
    names["grow"], names["mark"] = world.say, lambda feature: world.marks.update([feature])
    names["select"] = lambda options: world.gen("select", choices=tuple(options))
    for role, name in (
        ("user", "UserMessage"),
        ("assistant", "AIMessage"),
        ("system", "SystemMessage"),
    ):
        names[name] = partial(Part, role)
    return names


def settled(value: Any) -> Any:
    """A value with finished answers and prompts as plain data."""
    if isinstance(value, Generation | Future):
        value = value.result()
    if isinstance(value, Snapshot):
        return ("prompt", render(value.parts))
    if hasattr(type(value), "as_list"):
        return ("prompt", tuple((m["role"], m["content"]) for m in value.as_list()))
    if isinstance(value, list | tuple):
        return [settled(item) for item in value]
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    return value if value is None or isinstance(value, int) else str(value)


async def arrived(value: Any) -> Any:
    """``settled`` without blocking the loop."""
    if isinstance(value, list | tuple):
        return [await arrived(item) for item in value]
    if isinstance(value, dict):
        return {key: await arrived(item) for key, item in value.items()}
    return settled(await value if hasattr(type(value), "__await__") else value)


def disagreement(name: str, one: Outcome, two: Outcome, *, missing: bool) -> str | None:
    """Where *two* departs from *one*; ``missing`` calls are excused in runs that fail or cancel."""
    if one.error != two.error:
        return f"{name}: error {one.error} / {two.error}\n{two.trouble or one.trouble}"
    if one.error is None and one.value != two.value:
        return f"{name}: value {one.value} / {two.value}"
    if two.twice:
        return f"{name}: started twice: {two.twice}"
    return _calls_differ(name, one, two, missing)


def _calls_differ(name: str, one: Outcome, two: Outcome, missing: bool) -> str | None:
    absent = one.calls.keys() - two.calls.keys()
    if absent and not missing:
        return f"{name}: calls missing: {sorted(absent)}"
    extra = two.calls.keys() - one.calls.keys() - two.cancelled
    if extra:
        return f"{name}: extra calls: {sorted(extra)}"
    for address in one.calls.keys() & two.calls.keys():
        if one.calls[address] != two.calls[address]:
            return f"{name}: {address}: {one.calls[address]} / {two.calls[address]}"
    for address in one.answers.keys() & two.answers.keys():
        if one.answers[address] != two.answers[address]:
            return f"{name}: {address} answered {one.answers[address]} / {two.answers[address]}"
    for address in one.digests.keys() & two.digests.keys():
        if one.digests[address] != two.digests[address]:
            return f"{name}: digests of {address} differ"
    return None


@dataclass
class Verdict:
    """The first disagreement about a program, if any, and what ran."""

    problem: str | None
    marks: Counter[str]
    calls: int

    @property
    def sort(self) -> str:
        """What kind of disagreement it is; the shrinker keeps to it."""
        words = (self.problem or "").split()
        return " ".join(words[:4] + words[-1:]) if "error" in words else " ".join(words[:4])


SCHEDULES = (Hurried, Shuffled)


def judge(program: Program, schedules: int = 2) -> Verdict:
    """Run *program* in every way and compare."""
    plain = run_plain(program)
    try:
        module = compiled(program)
    except Exception as error:
        return Verdict(f"compile: {described(error)}", plain.marks, 0)
    naive = run_compiled(module, program, Hurried(0, None, 1), sequential=True)
    problem = disagreement("plain / naive", plain, naive, missing=False)
    excused = naive.error is not None or plain.marks["calls cancelled"] > 0
    for number in range(schedules):
        if problem is None:
            limit = random.Random(f"{program.seed}/{number}").choice([None, None, 1, 2, 3])
            kind = SCHEDULES[number % len(SCHEDULES)]
            backend = kind(program.seed * 100 + number, limit)
            scheduled = run_compiled(module, program, backend)
            problem = disagreement(f"naive / schedule {number}", naive, scheduled, missing=excused)
    return Verdict(problem, plain.marks, len(plain.calls))


def same_sort(verdict: Verdict) -> Callable[[Program], bool]:
    """Whether another program disagrees in the same way."""
    return lambda program: judge(program).sort == verdict.sort
