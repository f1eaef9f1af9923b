"""Futures: what a program holds while a call runs; they behave as their value, by waiting for it.

Invariant: a future is its ``_pending`` and nothing else; using it never starts anything. Its value
is never a future: what a function returned is waited for, too.
"""

from __future__ import annotations

import math
import operator
import sys
import weakref
from collections.abc import Awaitable, Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from appl.base import fallback
from appl.base.threads import process_lock
from appl.compiler.hooks import is_compiled
from appl.errors import RunError
from appl.runtime.concurrency.cancelled_waits import note_abandoned_wait, unread
from appl.runtime.concurrency.fiber import arrive, hub_here, in_coroutine, wait
from appl.runtime.concurrency.promise import GLANCE, Error, Promise, Proxy, Value

if TYPE_CHECKING:
    from appl.backend import TokenLogprob, Usage
    from appl.prompt import AIMessage, ToolCall, ToolMessage
    from appl.prompt.notebook import Bundle
    from appl.runtime.answers.answer import CallFilter
    from appl.runtime.answers.stream import TextStream
    from appl.runtime.answers.text import Text

T = TypeVar("T")

OWN_NAMES = frozenset(
    {
        "done",
        "result",
        "cancel",
        "call_id",
        "text_stream",
        "reasoning_stream",
        "run_tool_calls",
        "_pending",
    }
)
"""The attributes of a future that do not wait."""

_PROBED = ("_repr_", "_ipython_")
_NO_TASK = "a generation is no task; write asyncio.wait([asyncio.ensure_future(g), ...])"


def result_of(pending: Promise) -> Any:
    """The value of *pending*, waiting for it and for what it returned; raises its error."""
    while True:
        try:
            wait(pending)
        except BaseException as error:
            note_abandoned_wait(pending, error)
            raise
        outcome = pending.outcome
        if type(outcome) is Error:
            raise pending.seen()
        value = outcome.value  # type: ignore[union-attr] # it is there, and no error
        if not isinstance(value, Proxy):
            return value
        pending = value._pending


async def awaited(pending: Promise) -> Any:
    """:func:`result_of` for coroutines."""
    while True:
        try:
            await arrive(pending)
        except BaseException as error:
            note_abandoned_wait(pending, error)
            raise
        outcome = pending.outcome
        if type(outcome) is Error:
            raise pending.seen()
        value = outcome.value  # type: ignore[union-attr] # it is there, and no error
        if not isinstance(value, Proxy):
            return value
        pending = value._pending


def is_there(pending: Promise) -> bool:
    """True if the value of *pending*, with what it returned, can be had without waiting."""
    hub = hub_here()
    while pending.delivered if pending.home is hub else pending.done:
        value = getattr(pending.outcome, "value", None)
        if not isinstance(value, Proxy):
            return True
        pending = value._pending
    return False


def text_of(pending: Promise) -> Any:
    """The text of *pending*, also of a typed answer; waits for it."""
    result_of(pending)
    outcome = pending.last().outcome
    assert isinstance(outcome, Value)
    return outcome.prompt_part


def finished(value: object) -> Any:
    """*value* itself; of a future the value, waiting for it."""
    return result_of(value._pending) if isinstance(value, Proxy) else value


def returned(pending: Promise) -> object:
    """The value that a function returned, waiting for it; a returned answer may be unfinished."""
    while True:
        wait(pending)
        outcome = pending.outcome
        if not isinstance(outcome, Value):
            raise pending.seen()
        if not isinstance(outcome.value, Future):
            return outcome.value
        pending = outcome.value._pending


class Deferred(Proxy):
    """The behaviour that all futures share."""

    __slots__ = ()

    def __init__(self, pending: Promise) -> None:
        object.__setattr__(self, "_pending", pending)
        pending.proxy = weakref.ref(self)

    def __await__(self) -> Generator[object, None, object]:
        return awaited(self._pending).__await__()

    if not TYPE_CHECKING:  # a misspelled name of a text answer is an error of type checkers

        def __getattr__(self, name: str) -> Any:
            if name.startswith(_PROBED) or (name.startswith("__") and name.endswith("__")):
                raise AttributeError(name)  # probes for a protocol must not wait
            if name == "add_done_callback" and in_coroutine() and not is_there(self._pending):
                raise AttributeError(_NO_TASK)  # asyncio.wait: it must not wait here either
            value = result_of(self._pending)
            try:
                return getattr(value, name)
            except AttributeError:
                attribute = fallback.names().attribute(self, value, name)
                if attribute is fallback.MISSING:
                    raise
                return attribute

    def __copy__(self) -> object:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> object:
        return self

    def __reduce__(self) -> Any:
        return _same, (result_of(self._pending),)

    def result(self, timeout: float | None = None) -> Any:
        """The value, waiting for it; ``TimeoutError`` after *timeout* seconds."""
        if timeout is not None:
            from appl.runtime.concurrency import clock  # most waits have no end of their own

            timeout = clock.seconds("result(timeout=...)", timeout)
            if clock.expired(self._pending, timeout):
                unread(self._pending)
                raise TimeoutError(f"{self._pending.address} has no answer after {timeout} s")
        return result_of(self._pending)

    def done(self) -> bool:
        """True if there is an outcome; recorded, as it depends on time."""
        from appl.runtime.frame import run_of  # few programs look without waiting

        pending = self._pending
        outside = run_of(pending).outside
        return bool(outside.observe(pending, "done", lambda: pending.last().done))

    def cancel(self) -> None:
        """Ask for an early end; the value then is the error ``CallCancelled``."""
        self._pending.cancel()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Bundle:
        """The answer as a notebook shows it; waits, unless only the running loop can end it."""
        from appl.runtime.concurrency.running import shown  # only notebooks show answers

        return shown(self._pending)

    @property
    def call_id(self) -> str:
        """The address of the call in its program; it does not wait."""
        return self._pending.address

    @property
    def text_stream(self) -> TextStream[Any]:
        """The answer piece by piece, while it is made: see ``TextStream``; it does not wait."""
        from appl.runtime.answers.stream import TextStream  # few answers are read as they come

        return TextStream(self)

    @property
    def reasoning_stream(self) -> TextStream[str]:
        """The reasoning before the answer, piece by piece; it does not wait."""
        from appl.runtime.answers.stream import TextStream

        return TextStream(self, "reasoning")


def _same(value: T) -> T:
    return value


class Future(Deferred, Generic[T]):
    """The future of a function's result, from ``call`` or a parallel function."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __await__(self) -> Generator[object, None, T]: ...
        def __getattr__(self, name: str) -> Any: ...
        def result(self, timeout: float | None = None) -> T: ...

    def __setattr__(self, name: str, value: object) -> None:
        setattr(result_of(self._pending), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(result_of(self._pending), name)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        value = result_of(self._pending)
        return value(*args, **kwargs) if args or kwargs or callable(value) else value

    def __enter__(self) -> Any:
        return result_of(self._pending).__enter__()

    def __exit__(self, *error: object) -> object:
        return result_of(self._pending).__exit__(*error)

    async def __aenter__(self) -> Any:
        return await (await awaited(self._pending)).__aenter__()

    async def __aexit__(self, *error: object) -> object:
        return await (await awaited(self._pending)).__aexit__(*error)

    def __next__(self) -> Any:
        return next(result_of(self._pending))

    def __aiter__(self) -> Any:
        return result_of(self._pending).__aiter__()

    def __setitem__(self, key: object, value: object) -> None:
        result_of(self._pending)[finished(key)] = value

    def __delitem__(self, key: object) -> None:
        del result_of(self._pending)[finished(key)]

    def __fspath__(self) -> Any:
        return result_of(self._pending).__fspath__()


if TYPE_CHECKING:
    from typing_extensions import TypeVar as _TypeVar

    _Text = Text
    A_co = _TypeVar("A_co", covariant=True, default=Text)

    class _ResponseObject:
        """``None`` for a text, the object for what has one."""

        @overload
        def __get__(self, of: Generation[Text], owner: object = ...) -> None: ...
        @overload
        def __get__(self, of: Generation[T], owner: object = ...) -> T: ...
        def __get__(self, of: object, owner: object = ...) -> Any: ...

    class _TextStream:
        """Pieces of text, or objects that become more complete."""

        @overload
        def __get__(self, of: Generation[Text], owner: object = ...) -> TextStream[str]: ...
        @overload
        def __get__(self, of: Generation[T], owner: object = ...) -> TextStream[T]: ...
        def __get__(self, of: object, owner: object = ...) -> Any: ...
else:
    A_co = TypeVar("A_co", covariant=True)

    class _Text:
        __slots__ = ()


class Generation(Deferred, _Text, Generic[A_co]):  # type: ignore[misc]
    """The future of an answer. It behaves as its text wherever text is used.

    That of a typed answer, ``Generation[Model]``, behaves as its object, and is its text in a
    prompt; the properties are those of the answer, also where the object has some of that name.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __init__(self, pending: Promise) -> None: ...
        def __new__(cls, pending: Promise) -> Generation[A_co]: ...
        def __await__(self) -> Generator[object, None, A_co]: ...
        def result(self, timeout: float | None = None) -> A_co: ...

        response_obj: _ResponseObject
        text_stream: _TextStream  # type: ignore[assignment]
    else:

        @property
        def response_obj(self) -> Any:
            """The object of a typed answer, validated; ``None`` when no type was asked for."""
            return self._text().response_obj

    def _text(self) -> Text:
        return cast("Text", text_of(self._pending))

    @property
    def message(self) -> AIMessage:
        """The answer as a message."""
        return self._text().message

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model wants to be called; none when it just answers."""
        return self._text().tool_calls

    def run_tool_calls(
        self,
        filter: CallFilter | None = None,
        *,
        parallel: bool | None = None,
        timeout: float | None = None,
        **older: Any,
    ) -> list[ToolMessage]:
        """Run the tools that the model called; a message for each, in the order of the calls.

        *filter* says which calls are run; all, without it. They run one after the other: plain
        functions on worker threads, ``@ppl`` functions beside the caller, coroutine functions on
        the running loop. ``parallel=True`` runs them side by side, ``parallel=False`` runs plain
        functions on the caller's own thread.
        One that takes longer than *timeout* seconds is answered for, and cancelled; a plain
        function, which nothing can stop, then goes on unheard. What goes wrong in a call stands in
        its message, which has an error then. In a coroutine ``await`` it.
        """
        options = {"parallel": parallel, "timeout": timeout, **older}
        if in_coroutine():
            return self._arun_tool_calls(filter, options)  # type: ignore[return-value]
        return self._text().run_tool_calls(filter, **options)

    async def _arun_tool_calls(
        self, filter: CallFilter | None, options: dict[str, Any]
    ) -> list[ToolMessage]:
        await awaited(self._pending)
        running: Any = self._text().run_tool_calls(filter, **options)
        return cast("list[ToolMessage]", await running)

    @property
    def reasoning(self) -> str | None:
        """The reasoning before the answer, where the backend tells it apart."""
        return self._text().reasoning

    @property
    def usage(self) -> Usage:
        """Tokens of the call; a field is ``None`` when the backend does not say."""
        return self._text().usage

    @property
    def cost(self) -> int | None:
        """The cost of the call, in millionths of the model's currency unit."""
        return self._text().cost

    @property
    def finish_reason(self) -> str:
        """The reason for which the answer ended."""
        return self._text().finish_reason

    @property
    def prompt_logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """The prompt's tokens but the first, with their log-probabilities, where asked for."""
        return self._text().prompt_logprobs

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """The generated tokens with their log-probabilities, where they were asked for."""
        return self._text().logprobs

    @property
    def samples(self) -> tuple[Text, ...]:
        """All samples that were asked for with ``n=``; the generation is the first."""
        return self._text().samples

    @property
    def choice_method(self) -> str | None:
        """The method of a choice: ``logprob``, ``constrained`` or ``asked``."""
        return self._text().choice_method

    @property
    def scores(self) -> tuple[float, ...] | None:
        """The log-probabilities of the choices, in their order."""
        return self._text().scores


if TYPE_CHECKING:

    class TypedGeneration(Generation[A_co], Awaitable[A_co], Any):  # type: ignore[misc]
        """The future of a typed answer, as type checkers see it.

        It stands for the answer's object too (the base ``Any``): a function that is annotated
        ``-> Ticket`` may return it, and so may one that is annotated ``-> Generation[Ticket]``.
        """

        @property
        def response_obj(self) -> A_co: ...  # type: ignore[override]
        @property
        def text_stream(self) -> TextStream[A_co]: ...  # type: ignore[override]
else:
    TypedGeneration = Generation


Install = Callable[..., Any]


def _unary(op: Install) -> Install:
    return lambda self: op(result_of(self._pending))


def _binary(op: Install) -> Install:
    return lambda self, other: op(result_of(self._pending), finished(other))


def _must_not_wait(caller: FrameType) -> bool:
    """True if *caller* is plain code of a running event loop, which a wait would block.

    asyncio puts what it awaits into sets and dicts. There a future is hashed by identity, and
    equals no other one; in bodies of prompt functions it waits, and is hashed by its value.
    """
    # A program in a fiber of the loop may wait: the loop goes on.
    return in_coroutine() and not is_compiled(caller.f_code)


_FIXING = process_lock()


def _hash(self: Proxy) -> int:
    fixed = _fixed_hash(self)
    if fixed is not None:
        return fixed
    # A program may be told of time only by what is recorded: so a finished future, too, is hashed
    # by identity on a loop.
    by_identity = _must_not_wait(sys._getframe(1))
    number = object.__hash__(self) if by_identity else hash(result_of(self._pending))
    with _FIXING:  # two threads may come here at once, one on a loop and one on none
        fixed = _fixed_hash(self)
        if fixed is None:
            _HASH.__set__(self, number)
    return number if fixed is None else fixed


_HASH: Any = vars(Proxy)["_hash"]  # an attribute of a future is one of its value


def _fixed_hash(future: Proxy) -> int | None:
    """The hash of *future*, which never changes; ``None`` if it was not hashed yet."""
    try:
        return cast(int, _HASH.__get__(future))
    except AttributeError:
        return None


def _equality(op: Install, unequal: bool) -> Install:
    """``==``, or ``!=``, whose result is *unequal* for two that differ."""

    def compare(self: Any, other: object) -> object:
        if GLANCE.on:
            return unequal
        if _must_not_wait(sys._getframe(1)):
            if isinstance(other, Proxy):
                return unequal if self is not other else not unequal
            _check_there(self)
        return op(result_of(self._pending), finished(other))

    return compare


def _ordering(op: Install) -> Install:
    def compare(self: Any, other: object) -> object:
        if _must_not_wait(sys._getframe(1)):
            _check_there(self, other)
        return op(result_of(self._pending), finished(other))

    return compare


def _check_there(*compared: object) -> None:
    """Refuse to compare a future that is not there."""
    for value in compared:
        if isinstance(value, Proxy) and not is_there(value._pending):
            raise RunError(
                f"{value._pending.address} is compared before it is there, and to wait for it here "
                "would block the running event loop: write `await g` first, and compare what "
                "that gives"
            )


def _reflected(op: Install) -> Install:
    return lambda self, other: op(finished(other), result_of(self._pending))


_UNARY: dict[str, Install] = {
    "__str__": str, "__repr__": repr, "__bytes__": bytes, "__bool__": bool,
    "__len__": len, "__iter__": iter, "__reversed__": lambda value: reversed(value), "__int__": int,
    "__float__": float, "__complex__": complex, "__index__": operator.index,
    "__neg__": operator.neg, "__pos__": operator.pos, "__abs__": abs,
    "__invert__": operator.invert, "__trunc__": math.trunc, "__floor__": math.floor,
    "__ceil__": math.ceil,
}  # fmt: skip
_ORDER: dict[str, Install] = {
    "__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt, "__ge__": operator.ge,
}  # fmt: skip
_BINARY: dict[str, Install] = {
    "__getitem__": operator.getitem,
    "__contains__": operator.contains,
    "__format__": format,
}
_ARITHMETIC: dict[str, Install] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "matmul": operator.matmul,
    "truediv": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "divmod": divmod, "pow": pow, "lshift": operator.lshift, "rshift": operator.rshift,
    "and": operator.and_, "xor": operator.xor, "or": operator.or_,
}  # fmt: skip


def _install() -> None:
    for name, op in _UNARY.items():
        setattr(Deferred, name, _unary(op))
    for name, op in _BINARY.items():
        setattr(Deferred, name, _binary(op))
    for name, op in _ORDER.items():
        setattr(Deferred, name, _ordering(op))
    Deferred.__eq__ = _equality(operator.eq, False)  # type: ignore[method-assign]
    Deferred.__ne__ = _equality(operator.ne, True)  # type: ignore[method-assign]
    Deferred.__hash__ = _hash  # type: ignore[method-assign, assignment]
    for name, op in _ARITHMETIC.items():
        setattr(Deferred, f"__{name}__", _binary(op))
        setattr(Deferred, f"__r{name}__", _reflected(op))
        in_place = getattr(operator, f"i{name.rstrip('_')}", None)
        if in_place is not None:
            setattr(Future, f"__i{name}__", _binary(in_place))
    Deferred.__round__ = lambda self, *digits: round(result_of(self._pending), *digits)  # type: ignore[attr-defined]


_install()
