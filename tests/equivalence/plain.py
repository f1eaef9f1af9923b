"""The meaning of a prompt program in plain Python: prompt lists, counters and a blocking model.

Nothing here comes from the compiler or the runtime: every wait is written out as ``v(x)``.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from . import layout, model
from .layout import Calling, Messages, Msg, Piece, ToolCall, Voice
from .model import Reply

USER, ASSISTANT = Voice("user"), Voice("assistant")


@dataclass(eq=False)
class Answer:
    """The outcome of a call or task.

    ``value`` is what Python sees, ``text`` what prompts get where that is another. ``before`` is
    the last open part of the prompt it had, ``addresses`` are the calls that gave it. ``place`` is
    what a statement of it says, where that is more than its text.
    """

    value: Any = None
    error: BaseException | None = None
    addresses: tuple[str, ...] = ()
    before: Part | None = None
    task: bool = False
    text: str | None = None
    replies: tuple[Reply, ...] = ()
    objects: tuple[Any, ...] = ()
    used: tuple[int, int] = (0, 0)
    streamed: bool = False
    tools: dict[str, Any] = field(default_factory=dict)
    place: list[Part] | None = None


class Picture(bytes):
    """An image, known by its bytes."""


@dataclass(frozen=True, eq=False)
class Place:
    """What another function says where this stands; it was said in ``voice``."""

    parts: list[Part]
    voice: Voice


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of prompt: text, a picture, a message, an answer with conversion and format spec."""

    voice: Voice
    value: Any
    starts: bool = True
    form: tuple[str, str] = ("", "")
    apart: bool = False

    @property
    def open(self) -> bool:
        """Whether this is an answer, or a place that was kept for more."""
        return isinstance(self.value, Answer | Place)


@dataclass(eq=False)
class Scribe:
    """A prompt with the voice in force; ``start`` is where its own part of the prompt begins."""

    parts: list[Part] = field(default_factory=list)
    voices: list[Voice] = field(default_factory=lambda: [USER])
    start: int = 0
    base: Voice = USER
    begun: bool = False
    end: int | None = None

    @property
    def voice(self) -> Voice:
        return self.voices[-1]

    @property
    def said(self) -> list[Part]:
        """What was said here since it began."""
        return self.parts[self.start : self.end]

    def write(self, value: Any, starts: bool = True, form: tuple[str, str] = ("", "")) -> None:
        """Add a part in the voice in force."""
        self.parts.append(Part(self.voice, value, starts, form))


@dataclass(eq=False)
class Frame(Scribe):
    """One activation: address, prompt and counters."""

    address: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    shares: bool = False

    def child(self, name: str) -> str:
        self.counts[name] += 1
        return f"{self.address}/{name}.{self.counts[name] - 1}"


@dataclass(frozen=True)
class Records:
    """What ``records()`` gave: what its frame says, while it runs and when it is over."""

    scribe: Scribe

    def parts(self, voice: Voice) -> list[Part]:
        """As they are said in *voice*."""
        as_user = moved(self.scribe.said, self.scribe.base, USER)
        return [replace(part) for part in moved(as_user, USER, voice)]

    def copy(self) -> Records:
        """What there is of them now."""
        scribe = self.scribe
        parts = scribe.parts[: len(scribe.parts) if scribe.end is None else scribe.end]
        return Records(Scribe(parts, [scribe.voice], scribe.start, scribe.base))


class Convo:
    """What ``convo()`` gave: the messages at that moment, and what the program made of them."""

    def __init__(self, messages: Iterable[Msg]) -> None:
        self.system: list[Msg] = []
        self.said: list[Msg] = []
        self.extend(messages)

    @property
    def messages(self) -> Messages:
        return (*self.system, *self.said)

    def __iter__(self) -> Iterator[Msg]:
        return iter(self.said)

    def __len__(self) -> int:
        return len(self.said)

    def append(self, message: Msg) -> None:
        (self.system if message.role == "system" else self.said).append(message)

    def extend(self, messages: Iterable[Msg]) -> None:
        for each in messages:
            self.append(each)

    def pop(self) -> Msg:
        return self.said.pop()

    def make_copy(self) -> Convo:
        return Convo(self.messages)

    def collapse(self) -> Convo:
        """Join the neighbours of one speaker."""
        pieces = [piece for each in self.messages for piece in layout.pieces_of(each, False)]
        self.system, self.said = [], []
        self.extend(layout.messages(pieces))
        return self

    def set_system_messages(self, messages: Iterable[Msg]) -> None:
        self.system = list(messages)


@dataclass(frozen=True)
class Asked:
    """What the recorded trace says of a call that went out."""

    ordinal: int
    messages: Messages
    sampling: dict[str, Any]
    edges: tuple[str, ...]
    n: int = 1


@dataclass(eq=False)
class Failure:
    """A call or task that failed, in program order; a region that raised or saw it settled it.

    ``late`` is what a statement does not wait for: a task, or an answer that began to come.
    """

    error: BaseException
    settled: bool = False
    late: bool = False


@dataclass(eq=False)
class Region:
    """A body: its failures, with the prompts that lived on then and how long they were."""

    depth: int
    failures: dict[Failure, list[tuple[list[Part], int]]] = field(default_factory=dict)


class Unknown(BaseException):
    """A preview needs an answer."""


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
    """One run: the calls that were made, in order, and the features that really ran.

    ``able`` says that the model offers what else has to be asked for in words.
    """

    def __init__(self, able: bool) -> None:
        self.able = able
        self.calls: dict[str, Asked] = {}
        self.said: dict[str, Answer] = {}
        self.marks: Counter[str] = Counter()
        self.begin_run()
        self.kept: dict[object, list[Part]] = {}
        self.owners: list[Any] = []  # so that no other object gets the identity of one
        self.previewing = False

    def begin_run(self) -> None:
        self.frames: list[Frame] = [Frame()]
        self.failed: list[Failure] = []
        self.looked: list[BaseException] = []  # raised where a value was needed
        self.regions: list[Region] = []

    # -- functions

    def ppl(
        self, f: Any = None, *, ctx: str = "new", parallel: bool = False, compositor: Any = None,
        auto_prime: bool = False, default_return: str | None = None, docstring_as: str = "",
    ) -> Any:  # fmt: skip
        if f is None:
            return functools.partial(
                self.ppl, ctx=ctx, parallel=parallel, compositor=compositor,
                auto_prime=auto_prime, default_return=default_return, docstring_as=docstring_as,
            )  # fmt: skip
        is_method = next(iter(inspect.signature(f).parameters), "") in ("self", "cls")

        def begin(frame: Frame, block: Any) -> None:
            if block is not None:
                block.__enter__()
            if docstring_as:
                frame.parts.append(Part(Voice(docstring_as, None, None), inspect.getdoc(f)))

        def end(frame: Frame, block: Any) -> None:
            if block is not None:
                block.__exit__(None, None, None)
            frame.end = len(frame.parts)

        def body(frame: Frame, block: Any, args: Any, kwargs: Any) -> Any:
            begin(frame, block)
            result = f(*args, **kwargs)
            end(frame, block)
            return Records(frame) if result is None and default_return == "prompt" else result

        def steps(frame: Frame, block: Any, inner: Any) -> Iterator[Any]:
            begin(frame, block)
            result = yield from inner
            end(frame, block)
            return result

        @functools.wraps(f)
        def run(*args: Any, later: bool = False, _ctx: Scribe | None = None, **kwargs: Any) -> Any:
            self.marks[f"ctx={kwargs.get('ctx_method', ctx)}"] += 1
            block = kwargs.pop("compositor", compositor)
            manner = kwargs.pop("ctx_method", ctx)
            owner = args[0] if is_method else None
            self.owners.append(owner)
            around = _ctx or self.frames[-1]
            frame = self.enter(f.__name__, manner, (run, id(owner)), around, later)
            if inspect.isgeneratorfunction(f):
                made = Resumed(self, frame, steps(frame, block, f(*args, **kwargs)))
                if auto_prime:
                    next(made)
                return made
            inside = functools.partial(self.within, frame, body, frame, block, args, kwargs)
            if not (parallel or later):
                return inside()
            answer = self.later(frame.address, inside)
            if manner == "same":
                around.write(Place(frame.said, frame.base))
                del self.said[frame.address]  # where it stands is what it said, not its value
            return answer

        return run

    def enter(self, name: str, ctx: str, key: object, around: Scribe, beside: bool) -> Frame:
        parts = [] if ctx == "new" else list(around.parts)
        if ctx == "same" and not beside:
            parts = around.parts
        if ctx == "resume":
            parts = self.kept.setdefault(key, parts)
        voice = around.voice if ctx in ("same", "copy") else USER
        address = self.frames[-1].child(name)
        shares = ctx in ("same", "resume")
        return Frame(parts, [voice], len(parts), voice, address=address, shares=shares)

    def within(self, frame: Frame, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.frames.append(frame)
        try:
            return f(*args, **kwargs)
        finally:
            self.frames.pop()

    def beside(self, name: str) -> Frame:
        """The frame of what runs beside, on a copy of the prompt."""
        above = self.frames[-1]
        parts = list(above.parts)
        return Frame(parts, [above.voice], len(parts), above.voice, address=above.child(name))

    def later(self, address: str, body: Callable[[], Any], late: bool = True) -> Answer:
        """A task; the regions around hear of its failures when it is over."""
        start, regions, self.regions = len(self.failed), self.regions, []
        try:
            self.said[address] = answer = self.ended(address, body)
        finally:
            self.regions = regions
        for failure in self.failed[start:]:
            self.note(failure, late)
        return answer

    def ended(self, address: str, body: Callable[[], Any]) -> Answer:
        """How a task ends."""
        start = len(self.failed)
        try:
            return Answer(body(), None, (address,), task=True)
        except Unknown:
            return Answer(error=Unknown(), task=True)
        except Exception as error:
            del self.failed[start:]  # what it left to nobody is cancelled
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
        scope = replace(above, address=above.child(name), counts=Counter())
        return self.within(scope, body)

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

    def fail(self, error: BaseException, late: bool = False) -> Answer:
        self.failed.append(Failure(error))
        self.note(self.failed[-1], late)
        return Answer(error=error)

    def note(self, failure: Failure, late: bool) -> None:
        """Tell the regions around of *failure*."""
        failure.late = late
        for region in self.regions:
            own, *inner = self.frames[region.depth :]
            prompts = [own, *(frame for frame in inner if frame.shares)]
            region.failures[failure] = [(each.parts, len(each.parts)) for each in prompts]

    # -- what is asked of the model

    def ask(
        self, address: str, ordinal: int, parts: list[Part], sampling: dict[str, Any], n: int = 1
    ) -> Answer:
        """One call. Raises what the model refuses with."""
        holes = holes_of(parts)
        asked = Asked(ordinal, render(parts), sampling, edges(holes), n)
        self.calls[address] = asked
        before = holes[0] if holes else None
        if self.previewing:
            return Answer(error=Unknown(), addresses=(address,), before=before)
        replies = tuple(model.reply(asked.messages, sampling, number) for number in range(n))
        used = n * len(asked.messages), sum(len(each.text) for each in replies)
        return Answer(
            replies[0].text, None, (address,), before, replies=replies, used=used,
            objects=(None,) * n,
        )  # fmt: skip

    def broken(self, parts: list[Part]) -> BaseException | None:
        """The earliest failure in a prompt, with which a call fails that has it."""
        holes = [part for part in flat(parts) if part.open]
        errors = [error for hole in holes if (error := outcome(hole.value).error)]
        if not errors or isinstance(errors[0], Unknown):
            return None
        return next(each.error for each in self.failed if each.error in errors)

    # -- waiting

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
        region = Region(len(self.frames) - 1)
        self.regions.append(region)
        flying: BaseException | None = None
        try:
            yield
        except Exception as error:
            flying = error
        finally:
            self.regions.pop()
        failed = [f for f in region.failures if f.error is flying or self.unseen(f)]
        lost = [f for f in failed if not f.settled]
        from_before = flying and all(f.error is not flying for f in region.failures)
        in_parts = self.marks["continued"] or self.marks["asked again"]
        if from_before or (flying and in_parts):
            self.marks["calls cancelled"] += 1  # of calls inside, or the next part of an answer
        if flying:  # what is held in a variable is not taken back
            lost = [f for f in lost if f.error is flying or not f.late]
        for failure in region.failures:
            failure.settled = True
        for failure in reversed(lost):
            for parts, length in region.failures[failure]:
                del parts[length:]
        if flying or lost:
            raise flying or lost[0].error

    def answered(self, value: Any = None) -> Any:
        """*value*, if no call of the running statement has failed."""
        failures = self.regions[-1].failures if self.regions else {}
        for failure in failures:
            if not failure.late and self.unseen(failure):
                self.looked.append(failure.error)
                raise failure.error
        return value

    def unseen(self, failure: Failure) -> bool:
        return not failure.settled and failure.error not in self.looked

    def unhandled(self) -> BaseException | None:
        return next((failure.error for failure in self.failed if self.unseen(failure)), None)

    # -- text

    def say(self, value: Any, _ctx: Scribe | None = None) -> None:
        """What a statement of *value* adds to the prompt."""
        scribe = _ctx or self.frames[-1]
        parts = scribe.parts
        if isinstance(value, Answer) and value.place is not None:
            scribe.write(Place(value.place, scribe.voice))
        elif isinstance(value, Answer) and value.task:
            self.say(self.v(value) if value.error is not None else value.value, scribe)
        elif isinstance(value, str | Answer | Picture):
            scribe.write(value)
        elif isinstance(value, Msg):
            parts.append(Part(Voice(value.role, value.name, None), value))
        elif isinstance(value, Records):
            if value.scribe.parts is not parts:
                parts.extend(value.parts(scribe.voice))
        elif isinstance(value, Convo):
            self.say(value.messages, scribe)
        elif hasattr(value, "__prompt__"):
            self.say(value.__prompt__(), scribe)
        elif value is not None:
            for item in value:
                self.say(item, scribe)

    def joined(self, *parts: Any) -> Answer:
        """A lazy string of texts and answers."""
        answers = [outcome(part) for part in parts if isinstance(part, Answer)]
        addresses = tuple(dict.fromkeys(at for each in answers[::-1] for at in each.addresses))
        error = next((each.error for each in answers if each.error is not None), None)
        if error is not None:
            return Answer(error=error, addresses=addresses)
        texts = [said_by(outcome(p)) if isinstance(p, Answer) else str(p) for p in parts]
        return Answer("".join(texts), addresses=addresses)

    def traceable(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """A plain function with an address of its own."""

        def run(*args: Any) -> Any:
            frame = self.enter(f.__name__, "same", None, self.frames[-1], False)
            result = self.within(frame, f, *args)
            frame.end = len(frame.parts)
            return result

        return run

    def text_of(self, records: Records) -> str:
        """Records as text."""
        parts = list(flat(records.parts(USER)))
        for part in parts:
            self.v(part.value)
        found = render(parts)
        alone = all(each.role == "user" and each.name is None for each in found)
        return "\n".join(each.content if alone else str(each) for each in found)

    def keep(self, value: Answer) -> None:
        """A call statement that gives a task: what it returns is said in its place."""
        frame = self.frames[-1]
        inner = Frame([], [frame.voice])
        if value.error is not None:
            inner.parts.append(Part(USER, value))
        else:
            self.say(value.value, inner)
        frame.write(Place(inner.parts, frame.voice))

    def begin(self) -> None:
        self.frames[-1].begun = True

    def put(self, value: Any, conversion: str = "", spec: str = "") -> None:
        frame = self.frames[-1]
        form = conversion, spec
        if isinstance(value, Stream):
            value = value.answer
        if not isinstance(value, Answer) and not (isinstance(value, Picture) and not any(form)):
            value, form = shown(value, form), ("", "")
        frame.write(value, frame.begun, form)
        frame.begun = False

    def records(self, _ctx: Scribe | None = None) -> Records:
        return Records(_ctx or self.frames[-1])

    def convo(self, _ctx: Scribe | None = None) -> Convo:
        parts = (_ctx or self.frames[-1]).parts
        for part in flat(parts):
            self.v(part.value)
        return Convo(render(parts))


@dataclass(frozen=True, eq=False)
class Stream:
    """An answer piece by piece; every loop over it begins at its beginning."""

    world: Plain
    answer: Answer

    def __iter__(self) -> Iterator[str]:
        answer, able = outcome(self.answer), self.world.able
        if answer.error is not None:
            if able and answer.streamed:
                yield from model.pieces(model.REFUSAL)
            self.world.v(answer)
        text = answer.value
        yield from model.pieces(text) if able and answer.streamed else [text]

    def __prompt__(self) -> Answer:
        return self.answer


def outcome(answer: Answer) -> Answer:
    """Where a chain of answers that are answers ends."""
    while isinstance(answer.value, Answer):
        answer = answer.value
    return answer


# -- prompts


def flat(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts with what stands in places in their stead."""
    for part in parts:
        if isinstance(part.value, Place):
            yield from flat(moved(part.value.parts, part.value.voice, part.voice))
        else:
            yield part


def moved(parts: list[Part], old: Voice, new: Voice) -> list[Part]:
    """*parts* that were said inside *old*, as they are said inside *new*."""
    blocks: dict[layout.Block, layout.Block] = {}

    def voice(own: Voice) -> Voice:
        if own.path is None:
            return own
        outer = old.path or ()
        common = sum(a is b for a, b in zip(own.path, outer, strict=False))
        inner = [blocks.setdefault(block, layout.Block(block.look)) for block in own.path[common:]]
        path = (*(new.path or ()), *inner)
        if own.depth == old.depth:
            return Voice(new.role, new.name, path, new.depth)
        return Voice(own.role, own.name, path, new.depth + own.depth - old.depth)

    if old == new:
        return parts
    return [replace(part, voice=voice(part.voice)) for part in parts]


def holes_of(parts: Sequence[Part]) -> list[Part]:
    """The parts that are answers, nearest first."""
    return [part for part in reversed(parts) if part.open]


def edges(holes: list[Part]) -> tuple[str, ...]:
    """The answers in a prompt, nearest first, up to one that was asked with all earlier ones."""
    found: dict[str, None] = {}
    for hole, older in zip_longest(holes, holes[1:]):
        if isinstance(hole.value, Place):
            inside = [outcome(part.value) for part in flat([hole]) if part.open]
            found |= dict.fromkeys(at for answer in inside[::-1] for at in answer.addresses)
            continue
        answer = outcome(hole.value)
        found |= dict.fromkeys(answer.addresses)
        if older is not None and answer.before is older:
            break
    return tuple(found)


def shown(value: Any, form: tuple[str, str]) -> str:
    return format(repr(value) if form[0] == "r" else value, form[1])


def _pieces(part: Part) -> Iterator[Piece]:
    value = part.value
    if isinstance(value, Msg):
        yield from layout.pieces_of(value, part.apart)
        return
    content: Any = value
    if isinstance(value, Answer):
        answer = outcome(value)
        if isinstance(answer.error, Unknown):
            content = f"‹{answer.addresses[0]}›"
        elif any(part.form):
            content = shown(answer.value, part.form)
        else:
            content = said_by(answer)
            if calls := calls_of(answer):
                content = Calling(content, calls)
    yield Piece(part.voice, content, part.starts, part.apart)


def said_by(answer: Answer) -> str:
    """What an answer that has arrived says in a prompt."""
    return str(answer.value) if answer.text is None else answer.text


def calls_of(answer: Answer) -> tuple[ToolCall, ...]:
    """The tools that the model called."""
    return answer.replies[0].calls if answer.replies else ()


def render(parts: Iterable[Part]) -> Messages:
    """The conversation that finished parts make."""
    return layout.messages(piece for part in flat(parts) for piece in _pieces(part))
