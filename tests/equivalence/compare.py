"""Runs a program in several ways and tells where the ways differ.

Scheduled in two ways, naive, in plain Python, replayed from its record, and rendered before it runs.
"""

from __future__ import annotations

import asyncio
import linecache
import random
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from appl import Future, Generation, render
from appl.errors import CallCancelled
from appl.prompt import Message
from appl.testing import CallEnded, CallStarted, Event, Run, on_backend_loop
from appl.tracing import Recorder, Replayer, profile_data

from .backends import Hurried, Shuffled, asked_of, msg_of
from .layout import Messages, Msg
from .plain import Answer, Asked, Convo, calls_of, outcome as outcome_of, shown as in_form
from .programs import Program
from .world import World

HOPS = 20  # of the I/O loop, in which a call that was cancelled has ended


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
    said: dict[str, Answer] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
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
            self.answers[event.address] = (
                repr(event.response.samples) if event.response else described(event.error)
            )

    def failed(self, error: BaseException) -> None:
        """The run ended with *error*."""
        self.error = described(error)
        self.trouble = "".join(traceback.format_exception(error))


def described(error: BaseException | None) -> str:
    """An error without its notes, and without lines of the source."""
    said = str(error).partition("in call /")[0]
    return f"{type(error).__name__}: {said}"


def compiled(program: Program) -> dict[str, Any]:
    """The module of the prompt program."""
    return module_of(f"<program {program.seed}>", program.source())


def module_of(name: str, source: str) -> dict[str, Any]:
    """The module with this *source*."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = sys.modules["random_program"] = ModuleType("random_program")
    exec(compile(source, name, "exec"), vars(module))
    return vars(module)


def run_compiled(
    module: dict[str, Any], program: Program, backend: Any, outcome: Outcome, **options: Any
) -> Outcome:
    """One run of the prompt program by the runtime."""
    options["instruments"] = [outcome, *options.get("instruments", ())]
    try:
        if program.asynchronous:
            asyncio.run(_run_async(module["main"], backend, outcome, options))
        else:
            with Run(backend, **options):
                outcome.value = settled(module["main"]())
    except Exception as error:
        outcome.failed(error)
    outcome.left = left_running(backend)
    return outcome


def left_running(backend: Any) -> list[str]:
    """The calls that *backend* still runs when what was sent to it before has been done."""
    running: set[str] = getattr(backend, "running", set())
    for _ in range(HOPS):
        if not running:
            break
        on_backend_loop(lambda: None)
    return sorted(running)


async def _run_async(main: Any, backend: Any, outcome: Outcome, options: dict[str, Any]) -> None:
    async with Run(backend, **options):
        outcome.value = await arrived(await main())


def run_recorded(module: dict[str, Any], program: Program, backend: Any, path: Path) -> Outcome:
    """One run that leaves a trace."""
    head = {"program": "random", "profile": profile_data(backend.profile)}
    recorder = Recorder(path, head, durability="process")
    try:
        return run_compiled(
            module, program, backend, Outcome(), instruments=[recorder],
            gate=recorder.gate, barrier=recorder.barrier,
        )  # fmt: skip
    finally:
        recorder.close()


def run_replayed(module: dict[str, Any], program: Program, path: Path) -> Outcome:
    """The same run, answered from its trace alone."""
    replayer, outcome = Replayer(path), Outcome()
    run_compiled(
        module, program, replayer.backend, outcome, instruments=[replayer],
        world=replayer,
    )  # fmt: skip
    if outcome.error is None:
        try:
            replayer.finish()
        except Exception as error:
            outcome.failed(error)
    return outcome


def run_plain(program: Program) -> Outcome:
    """The same program without compiler and runtime."""
    world, outcome = World(program.able), Outcome()
    names = world.namespace()
    try:
        exec(compile(program.plain(), f"<plain {program.seed}>", "exec"), names)
        outcome.value = settled(world.done(names["main"]()))
        error = world.unhandled()
        if error:
            raise error
    except Exception as error:
        outcome.failed(error)
    outcome.calls, outcome.marks, outcome.said = world.calls, world.marks, world.said
    return outcome


def settled(value: Any) -> Any:
    """A value with finished answers and prompts as plain data."""
    if isinstance(value, Generation | Future):
        value = value.result()
    if isinstance(value, Convo):
        return ("prompt", value.messages)
    if isinstance(value, Message):
        return msg_of(value)
    if hasattr(type(value), "as_list"):
        return ("prompt", tuple(map(msg_of, value.all())))
    if isinstance(value, Msg):
        return value
    if isinstance(value, list | tuple):
        return [settled(item) for item in value]
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    return value if value is None or isinstance(value, int) else str(value)


async def arrived(value: Any) -> Any:
    """``settled`` without blocking the loop."""
    if isinstance(value, list | tuple) and not isinstance(value, Msg):
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
    if one.left or two.left:
        return f"{name}: still running: {one.left} {two.left}"
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


# -- rendering before a run

HOLE = re.compile("‹(/[^›!:]*)(?:!(.))?(?::([^›]*))?›")


def misrendered(module: dict[str, Any], program: Program, plain: Outcome) -> str | None:
    """Where the prompts that are shown before a run are not those that are sent in it."""
    log = Outcome()
    try:
        with Run(Hurried(0, able=program.able), instruments=[log]):
            rendering = render(module["main"])
    except Exception as error:
        return f"rendering: {described(error)}" if plain.error != described(error) else None
    if log.calls:
        return f"rendering asked {sorted(log.calls)}"
    for shown in rendering:
        asked = plain.calls.get(shown.address)
        messages = filled(shown, plain.said)
        if asked is None and not plain.marks["failing calls"]:
            return f"rendered: {shown.address} is not asked"
        if asked is not None and messages is not None and messages != asked.messages:
            return f"rendered: {shown.address}: {messages} / {asked.messages}"
    return None


def filled(shown: Any, said: dict[str, Answer]) -> Messages | None:
    """The messages that were shown, with answers in the holes; ``None`` if one is no text."""
    answers = {address: said.get(address) for address in shown.holes}
    if not all(answer is not None and is_text(answer) for answer in answers.values()):
        return None

    def text(hole: re.Match[str]) -> str:
        answer = outcome_of(said[hole[1]])
        form = hole[2] or "", hole[3] or ""
        return in_form(answer.value, form) if any(form) else str(answer.text or answer.value)

    return tuple(_filled(message, text) for message in map(msg_of, shown.messages))


def _filled(message: Msg, text: Callable[[re.Match[str]], str]) -> Msg:
    said = message.content
    media = tuple((len(HOLE.sub(text, said[:at])), picture) for at, picture in message.media)
    return message._replace(content=HOLE.sub(text, said), media=media)


def is_text(answer: Answer) -> bool:
    """Whether it says text and nothing else."""
    last = outcome_of(answer)
    return (
        last.error is None
        and last.place is None
        and not calls_of(last)
        and not (last.task and not isinstance(last.value, str))
    )


# -- the verdict


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


def judge(program: Program) -> Verdict:
    """Run *program* in every way and compare."""
    plain = run_plain(program)
    try:
        module = compiled(program)
    except Exception as error:
        return Verdict(f"compile: {described(error)}", plain.marks, 0)
    return Verdict(problem_of(program, module, plain), plain.marks, len(plain.calls))


def problem_of(program: Program, module: dict[str, Any], plain: Outcome) -> str | None:
    """The first disagreement."""
    slow = Hurried(0, None, 1, program.able)
    naive = run_compiled(module, program, slow, Outcome(), sequential=True)
    problem = disagreement("plain / naive", plain, naive, missing=False)
    excused = naive.error is not None or plain.marks["calls cancelled"] > 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.trace"
        runs: list[tuple[str, Callable[[], Outcome]]] = [
            ("hurried", lambda: run_recorded(module, program, backend(Hurried, program, 0), path)),
            ("replayed", lambda: run_replayed(module, program, path)),
            (
                "shuffled",
                lambda: run_compiled(module, program, backend(Shuffled, program, 1), Outcome()),
            ),
        ]
        for name, run in runs:
            problem = problem or disagreement(f"naive / {name}", naive, run(), missing=excused)
    return problem or misrendered(module, program, plain)


def backend(kind: type[Hurried], program: Program, number: int) -> Hurried:
    """A backend that answers this program in an order of its own."""
    limit = random.Random(f"{program.seed}/{number}").choice([None, None, 1, 2, 3])
    return kind(program.seed * 100 + number, limit, able=program.able)


def same_sort(verdict: Verdict) -> Callable[[Program], bool]:
    """Whether another program disagrees in the same way."""
    return lambda program: judge(program).sort == verdict.sort
