"""The meaning of a prompt program in plain Python: prompt lists, counters and a blocking model.

Nothing here comes from the compiler or the runtime: every wait is written out as ``v(x)``.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from appl.errors import BackendError

Messages = tuple[tuple[str, str], ...]
Model = Callable[[Messages, dict[str, Any]], str]


@dataclass(eq=False)
class Answer:
    """The outcome of a call or task; ``before`` is the last open part of the prompt it had."""

    value: Any = None
    error: BaseException | None = None
    address: str = ""
    before: Part | None = None
    task: bool = False


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of prompt: text, or an answer with conversion and format spec."""

    role: str
    value: Any
    starts: bool = True
    form: tuple[str, str] = ("", "")
    whole: bool = False

    @property
    def open(self) -> bool:
        """Whether this is an answer; text that a task returned and a statement said is text."""
        if not isinstance(self.value, Answer):
            return False
        last = outcome(self.value)
        return not (self.whole and last.task and last.error is None)


@dataclass(frozen=True)
class Snapshot:
    """What ``records()`` or ``convo()`` gave: the parts at that moment."""

    parts: tuple[Part, ...]


@dataclass
class Frame:
    """One activation: address, prompt, counters and the role in force."""

    address: str
    parts: list[Part]
    roles: list[str] = field(default_factory=lambda: ["user"])
    start: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    begun: bool = False

    def child(self, name: str) -> str:
        self.counts[name] += 1
        return f"{self.address}/{name}.{self.counts[name] - 1}"


@dataclass(frozen=True)
class Asked:
    """What the recorded trace says of a call that went out."""

    ordinal: int
    messages: Messages
    sampling: dict[str, Any]
    edges: tuple[str, ...]


@dataclass(eq=False)
class Failure:
    """A call or task that failed, in program order; a region that raised or saw it settled it."""

    error: BaseException
    settled: bool = False


class Resumed(Iterator[Any]):
    """A generator whose frame is installed at each resume."""

    def __init__(self, world: Plain, frame: Frame, inner: Any) -> None:
        self.resume = functools.partial(world.within, frame)
        self.inner = inner

    def __next__(self) -> Any:
        return self.resume(next, self.inner)

    def send(self, value: Any) -> Any:
        return self.resume(self.inner.send, value)

    def close(self) -> None:
        self.resume(self.inner.close)


class Plain:
    """One run: the calls that were made, in order, and the features that really ran."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.calls: dict[str, Asked] = {}
        self.marks: Counter[str] = Counter()
        self.frames = [Frame("", [])]
        self.failed: list[Failure] = []
        self.looked: list[BaseException] = []  # raised where a value was needed
        self.regions: list[tuple[list[Part], dict[Failure, int]]] = []
        self.kept: dict[object, list[Part]] = {}

    def ppl(self, f: Any = None, *, ctx: str = "new", parallel: bool = False) -> Any:
        if f is None:
            return functools.partial(self.ppl, ctx=ctx, parallel=parallel)
        is_method = next(iter(inspect.signature(f).parameters), "") == "self"

        @functools.wraps(f)
        def run(*args: Any, later: bool = False, **kwargs: Any) -> Any:
            self.marks[f"ctx={ctx}"] += 1
            frame = self.enter(f.__name__, ctx, (run, id(args[0]) if is_method else 0))
            if inspect.isgeneratorfunction(f):
                return Resumed(self, frame, f(*args, **kwargs))
            body = functools.partial(self.within, frame, f, *args, **kwargs)
            return self.later(frame.address, body) if parallel or later else body()

        return run

    def enter(self, name: str, ctx: str, key: object) -> Frame:
        above = self.frames[-1]
        parts = above.parts if ctx == "same" else [] if ctx == "new" else list(above.parts)
        if ctx == "resume":
            parts = self.kept.setdefault(key, parts)
        roles = [above.roles[-1]] if ctx in ("same", "copy") else ["user"]
        return Frame(above.child(name), parts, roles, len(parts))

    def within(self, frame: Frame, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.frames.append(frame)
        try:
            return f(*args, **kwargs)
        finally:
            self.frames.pop()

    def later(self, address: str, body: Callable[[], Any]) -> Answer:
        start = len(self.failed)
        try:
            return Answer(body(), None, address, task=True)
        except Exception as error:
            if not self.regions:  # what it left to nobody is cancelled
                del self.failed[start:]
                self.marks["calls cancelled"] += 1
            self.looked = [each for each in self.looked if each is not error]
            return self.fail(error)

    def call(self, f: Any, *args: Any) -> Any:
        if hasattr(f, "__wrapped__"):
            return f(*args, later=True)
        return self.later(self.frames[-1].child(f.__name__), lambda: f(*args))

    def task(self, name: str, body: Callable[[], Any]) -> Any:
        """A task of a coroutine without decorator."""
        above = self.frames[-1]
        return self.within(replace(above, address=above.child(name), counts=Counter()), body)

    def map(self, f: Any, items: list[Any], on_error: str = "raise", concurrency: int = 0) -> Any:
        started = [f(item, later=True) for item in items]
        if on_error == "raise":
            self.marks["calls cancelled"] += any(
                outcome(each).error is not None for each in started
            )
            return [self.v(each) for each in started]
        return [self.caught(functools.partial(self.v, each)) for each in started]

    def caught(self, body: Callable[[], Any]) -> Any:
        try:
            return body()
        except Exception as error:
            return error

    def fail(self, error: BaseException) -> Answer:
        self.failed.append(Failure(error))
        for parts, tips in self.regions:
            tips[self.failed[-1]] = len(parts)
        return Answer(error=error)

    def gen(self, name: str = "gen", messages: Any = None, **sampling: Any) -> Answer:
        frame = self.frames[-1]
        parts = frame.parts if messages is None else parts_of(messages)
        ordinal = frame.counts["gen"] + frame.counts["select"]
        address = frame.child(name)
        holes = [part for part in reversed(parts) if part.open]
        broken = [error for hole in holes if (error := outcome(hole.value).error)]
        if broken:
            return self.fail(next(each.error for each in self.failed if each.error in broken))
        stop = {"stop": tuple(sampling["stop"])} if "stop" in sampling else {}
        asked = Asked(ordinal, render(parts), sampling | stop, edges(holes))
        self.calls[address] = asked
        try:
            text = self.model(asked.messages, asked.sampling)
        except BackendError as error:
            self.marks["failing calls"] += 1
            return self.fail(error)
        return Answer(text, None, address, holes[0] if holes else None)

    def v(self, x: Any) -> Any:
        while isinstance(x, Answer):
            if x.error is not None:
                self.looked.append(x.error)
                raise x.error
            x = x.value
        return x

    def done(self, x: Any) -> Any:
        if type(x) is list:
            x[:] = [self.done(item) for item in x]
        elif type(x) is dict:
            x.update({key: self.done(item) for key, item in x.items()})
        elif type(x) is tuple:
            return tuple(self.done(item) for item in x)
        return self.v(x)

    @contextmanager
    def region(self) -> Iterator[None]:
        start, parts = len(self.failed), self.frames[-1].parts
        tips: dict[Failure, int] = {}
        self.regions.append((parts, tips))
        flying: BaseException | None = None
        try:
            yield
        except Exception as error:
            flying = error
        self.regions.pop()
        first = next((f for f in tips if f.error is flying or self.unseen(f)), None)
        for failure in self.failed[start:]:
            failure.settled = True
        if first is not None:
            del parts[tips[first] :]
            raise first.error
        if flying:
            raise flying

    def unseen(self, failure: Failure) -> bool:
        return not failure.settled and failure.error not in self.looked

    @contextmanager
    def role(self, name: str) -> Iterator[None]:
        self.frames[-1].roles.append(name)
        try:
            yield
        finally:
            self.frames[-1].roles.pop()

    def say(self, value: Any) -> None:
        frame = self.frames[-1]
        if isinstance(value, Part):
            frame.parts.append(value)
        elif isinstance(value, Snapshot):
            frame.parts.extend(replace(part) for part in value.parts)
        elif isinstance(value, str | Answer):
            frame.parts.append(Part(frame.roles[-1], value, whole=True))
        elif value is not None:
            for item in value:
                self.say(item)

    def begin(self) -> None:
        self.frames[-1].begun = True

    def put(self, value: Any, conversion: str = "", spec: str = "") -> None:
        frame = self.frames[-1]
        form = conversion, spec
        if not isinstance(value, Answer):
            value, form = shown(value, form), ("", "")
        frame.parts.append(Part(frame.roles[-1], value, frame.begun, form))
        frame.begun = False

    def records(self) -> Snapshot:
        return Snapshot(tuple(self.frames[-1].parts[self.frames[-1].start :]))

    def convo(self) -> Snapshot:
        for part in self.frames[-1].parts:
            self.v(part.value)
        return Snapshot(tuple(Part(*each) for each in render(self.frames[-1].parts)))

    def unhandled(self) -> BaseException | None:
        return next((failure.error for failure in self.failed if self.unseen(failure)), None)


def parts_of(messages: Snapshot | list[Part]) -> list[Part]:
    """Explicit messages as parts; a conversation holds finished text."""
    return list(messages.parts) if isinstance(messages, Snapshot) else messages


def outcome(answer: Answer) -> Answer:
    """Where a chain of answers that are answers ends."""
    while isinstance(answer.value, Answer):
        answer = answer.value
    return answer


def edges(holes: list[Part]) -> tuple[str, ...]:
    """The answers in a prompt, nearest first, up to one that was asked with all earlier ones."""
    found: dict[str, None] = {}
    for hole, older in zip_longest(holes, holes[1:]):
        answer = outcome(hole.value)
        found[answer.address] = None
        if older is not None and answer.before is older:
            break
    return tuple(found)


def shown(value: Any, form: tuple[str, str]) -> str:
    return format(repr(value) if form[0] == "r" else value, form[1])


def text_of(part: Part) -> str:
    value = outcome(part.value).value if isinstance(part.value, Answer) else part.value
    return shown(value, part.form)


def render(parts: Iterable[Part]) -> Messages:
    """Adjacent parts of a role joined, system text at the front."""
    parts = list(parts)
    system = [part for part in parts if part.role == "system"]
    messages: list[list[str]] = []
    for part in [*system, *(part for part in parts if part.role != "system")]:
        if messages and messages[-1][0] == part.role:
            messages[-1][1] += "\n" * part.starts + text_of(part)
        else:
            messages.append([part.role, text_of(part)])
    return tuple((role, text) for role, text in messages)
