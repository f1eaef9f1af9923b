"""Runs a program in plain Python and by the runtime, and tells where they differ.

The backends answer as plain Python is answered, in an order drawn from a seed; some calls they
never answer.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from appl.backend import Emit, Request, Response, Sample, Usage
from appl.errors import BackendError
from appl.prompt import Message, ToolCall
from appl.runtime.frame import current
from appl.testing import CallStarted, Instrument, Log, Run
from appl.tracing import Recorder, Replayer, Rerunner, Trace, profile_data
from tests.equivalence.backends import Hurried, Shuffled
from tests.equivalence.compare import described, module_of
from tests.equivalence.python import answer

from .plain import Plain, calls_of, is_silent
from .program import Mixed
from .situation import situation

WATCHDOG_S = 10


class Hung(BaseException):
    """A program did not end within the time of the watchdog."""


@contextmanager
def watched() -> Iterator[None]:
    """Inside, what takes longer than the watchdog allows raises ``Hung``."""

    def strike(*_: object) -> None:
        raise Hung(f"not done within {WATCHDOG_S} s\n{situation()}")

    before = signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, WATCHDOG_S, WATCHDOG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def prompt_of(messages: Iterable[Message] | None) -> str:
    """The text of a prompt."""
    return "\n".join(message.content for message in messages or ())


class _Answers:
    """Answers as plain Python is answered, or as ``others`` do.

    ``asked`` are the prompts, ``addresses`` where, ``refused`` what was refused.
    """

    asked: list[str]
    addresses: list[str]
    others: Others | None
    refused: list[Request]

    async def answer(self: Any, request: Request, emit: Emit | None) -> Response:
        prompt = prompt_of(request.messages)
        self.asked.append(prompt)
        self.addresses.append(request.address)
        if is_silent(prompt) and self.others is None:
            await asyncio.get_running_loop().create_future()
        await self.pause(request)
        if self.others is not None:
            return self.others.answered(prompt, request)
        try:
            return answered(prompt, request)
        except BackendError:
            self.refused.append(request)
            raise


class HurriedAnswers(_Answers, Hurried):
    """Each after some turns of the loop."""


class ShuffledAnswers(_Answers, Shuffled):
    """One after the other, in an order of its own, whenever no program can go on."""


class SlowAnswers(HurriedAnswers):
    """Each after limits of milliseconds, and after all that ``again`` does without it."""

    again: Rerunner

    async def pause(self, request: Request) -> None:
        for turns in range(100):
            await asyncio.sleep(0.005)
            if turns > 2 and not self.again.waiting("again", "stray"):
                break


def answered(prompt: str, request: Request) -> Response:
    """The answer of the model to *prompt*, or its refusal."""
    names = [json.loads(tool)["name"] for tool in request.sampling.tools or ()]
    calls = [
        ToolCall(f"call{at}", name, json.dumps(arguments))
        for at, (name, arguments) in enumerate(calls_of(prompt, names))
    ]
    if calls:
        sample = Sample("", "tool_calls", tool_calls=tuple(calls))
    else:
        sample = Sample(answer(prompt), "stop")
    return Response((sample,), Usage(1, 1))


class Others:
    """Answers with texts of its own, and refuses only the questions that were refused in *trace*.

    Number 1 calls no tools, number 2 each tool once; number 3 is ``slow``. ``silent`` is true when
    it had to answer a question to which no answer ever comes.
    """

    def __init__(self, trace: Trace, number: int) -> None:
        self._trace, self._number, self.silent = trace, number, False
        self._refused = refused_in(trace)

    @property
    def slow(self) -> bool:
        """Whether its answers outlast all that can happen meanwhile."""
        return self._number == 3

    def answered(self, prompt: str, request: Request) -> Response:
        """The answer to *prompt*."""
        self.silent |= is_silent(prompt)
        try:
            found = answered(prompt, request)
        except BackendError:
            if self._trace.content_of(request) in self._refused:
                raise
            found = Response((Sample("well", "stop"),), Usage(1, 1))
        return replace(found, samples=(self._reworded(found.samples[0], request),))

    def _reworded(self, sample: Sample, request: Request) -> Sample:
        calls = sample.tool_calls
        if self._number == 2:
            tools = [json.loads(tool)["name"] for tool in request.sampling.tools]
            calls = tuple(ToolCall(f"call {name}", name, '{"q": "z"}') for name in tools)
        if calls and self._number != 1:
            return replace(sample, text="", tool_calls=calls)
        return Sample(f"{'ahzu'[self._number]}{sample.text}", "stop")


def refused_in(trace: Trace) -> set[bytes]:
    """The contents of the calls that failed; how one that was cancelled would end is not known."""
    return {call.content for call in trace.calls if call.outcome == "failed"}


def backend(program: Mixed, number: int = 0, others: Others | None = None) -> Any:
    """One that answers *program* in order number *number*, perhaps with *others* texts.

    While a thread of the program's own waits it cannot be seen that all wait, but after some time.
    """
    seed = program.seed * 100 + number
    hurried = program.has_threads or seed % 3 == 0
    kind = HurriedAnswers if hurried else ShuffledAnswers
    return made(SlowAnswers if others is not None and others.slow else kind, seed, others)


def made(kind: type[HurriedAnswers | ShuffledAnswers], seed: int, others: Others | None) -> Any:
    """A backend of this *kind*."""
    answers = kind(seed)
    answers.asked, answers.addresses, answers.refused, answers.others = [], [], [], others
    return answers


class Outcome(NamedTuple):
    """What a program did: its value or error, and what it wrote into its log."""

    value: Any
    log: Any


def plainly(program: Mixed) -> tuple[Outcome, Counter[str]]:
    """What CPython makes of *program*, and the prompts that a run must have asked."""
    plain, names = Plain(), {}

    def run() -> Any:
        names.update(plain.names())
        exec(compile(program.text, "<python>", "exec"), names)
        made = names["main"]()
        return asyncio.run(made) if inspect.iscoroutine(made) else made

    return outcome(run, names), Counter(plain.asked)


def outcome(run: Callable[[], Any], names: dict[str, Any]) -> Outcome:
    """The outcome of *run* in the module *names*, as plain data."""
    try:
        with watched():
            value = settled(run())
    except Exception as error:
        value = described(error)
    return Outcome(value, settled(list(names["LOG"])))


def settled(value: Any) -> Any:
    """*value* with answers in place of what stands for them."""
    if isinstance(value, list | tuple):
        return [settled(each) for each in value]
    if isinstance(value, dict):
        return {str(key): settled(each) for key, each in value.items()}
    return value if value is None or isinstance(value, int | bool) else str(value)


def compiled(program: Mixed, tools_differ: bool = False) -> dict[str, Any]:
    """The module of the prompt program; perhaps its tools have other results than before."""
    text = program.prompt_program()
    if tools_differ:
        text = text.replace("q.upper()", "q.title()").replace('f"no {q}"', 'f"none {q}"')
    return module_of(f"<mixed {program.seed}>", text)


def performed(module: dict[str, Any]) -> Any:
    """The value of the program in *module*, in the run that is open."""
    current().reporter.tell = _unheard
    made = module["main"]()
    return settled(asyncio.run(made) if inspect.iscoroutine(made) else made)


def _unheard(line: str) -> None:
    """Nobody is told of programs that were left."""


def ran(module: dict[str, Any], live: Any, **options: Any) -> Outcome:
    """What the runtime makes of the program in *module*."""

    def run() -> Any:
        with Run(live, **options):
            return performed(module)

    return outcome(run, module)


def recorded(
    module: dict[str, Any], live: Any, path: Path, again: Rerunner | None = None,
    watching: Sequence[Instrument] = (),
) -> Outcome:  # fmt: skip
    """The same, recorded in *path*; *again* answers what it can, and *watching* look on."""
    head = {"program": "mixed", "profile": profile_data(live.profile)}
    recorder = Recorder(path, head, durability="process")
    watching = [*([] if again is None else [again]), recorder, *watching]
    try:
        return ran(
            module, live, instruments=watching, gate=recorder.gate, barrier=recorder.barrier,
            world=again,
        )  # fmt: skip
    finally:
        recorder.close()


def replayed(module: dict[str, Any], path: Path) -> Outcome:
    """The same, answered from *path* alone; the record must be used up."""
    replayer = Replayer(path)
    found = ran(module, replayer.backend, instruments=[replayer], world=replayer)
    replayer.finish()
    return found


def asked_at(log: Log) -> dict[str, Request]:
    """What was asked where."""
    return {event.request.address: event.request for event in log.of(CallStarted)}


def difference(program: Mixed, path: Path | None = None) -> str | None:
    """Where the runtime departs from plain Python; a run is recorded in *path* if there is one."""
    expected, must = plainly(program)
    module = compiled(program)
    live = backend(program)
    found = recorded(module, live, path) if path else ran(module, live)
    return departs(expected, found) or missing(must, live)


def departs(expected: Outcome, found: Outcome) -> str | None:
    """Where *found* is not as *expected*."""
    if found == expected:
        return None
    return f"\n  plain {expected}\n  found {found}"


def missing(must: Counter[str], live: Any) -> str | None:
    """The prompts that plain Python asks and *live* was not asked."""
    left = must - Counter(live.asked)
    return f"not asked: {list(left)}" if left else None
