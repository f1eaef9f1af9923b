"""``observe``: a plain function on a worker thread whose result is recorded.

Invariant: the program gets the value that is recorded, so that it sees the same one in a replay.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Any

from appl.errors import InvalidOption, TraceCorrupt
from appl.prompt import Message
from appl.runtime.concurrency.fiber import Hub, strand_here
from appl.runtime.concurrency.future import result_of
from appl.runtime.concurrency.parallel import beside, name_of
from appl.runtime.concurrency.promise import Error, Outcome, Value
from appl.runtime.concurrency.scopes import call_in_words
from appl.runtime.frame import Frame, here
from appl.runtime.resolve import resolve
from appl.runtime.tools.effecttask import EffectTask
from appl.runtime.tools.plaindata import NotPlain, decode, encode, hint
from appl.runtime.tools.signature import place_of


def observed(
    f: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    effect: str = "observed",
) -> object:
    """The value of ``f(*args, **kwargs)``: recorded, or from a record. Raises what it raised.

    With the *effect* ``"effect"`` it is as much in doubt after a kill as a tool with effects.
    """
    args, kwargs = resolve(args), resolve(kwargs)
    name = name_of(f)
    caller = here(call_in_words, name, args)
    task = ObserveTask(beside(caller, name), strand_here().hub, lambda: f(*args, **kwargs), effect)
    caller.add(task)
    try:
        task.begin(name, _arguments(f, args, kwargs), place_of(f))
        return result_of(task)
    except BaseException as error:
        task.looked = True
        if not task.done:
            task.cancel() if task.begun else task.conclude(Error(error))
        raise


class ObserveTask(EffectTask):
    """One call of ``observe``; ``begun`` is true once it runs, or a record answers for it."""

    __slots__ = ("_effect", "_look", "_text", "begun")

    def __init__(
        self, frame: Frame, home: Hub, look: Callable[[], Any], effect: str = "observed"
    ) -> None:
        super().__init__(frame, home)
        self._look, self._text, self._effect = look, "", effect
        self.begun = False

    def begin(self, name: str, arguments: str, place: tuple[str | None, int | None]) -> None:
        """Run the function, or take its result from a record."""
        self.tell_start(name, arguments, self._effect, place)
        self.expect(name, arguments, self.run.services.sequential, self._go)
        self.begun = True

    def _go(self, context: Any) -> None:
        self._active = self.begun = True
        start = self.run_here if self.run.services.sequential else self.run_in_thread
        start(self._perform, context)

    def _perform(self) -> object:
        if self._effect == "effect" and self.run.services.barrier is not None:
            self.run.services.barrier()
        elif self.run.services.gate is not None:
            self.run.services.gate()
        value = self._look()
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        name = self.frame.address.rpartition("/")[2].rpartition(".")[0]
        try:
            self._text = encode(resolve(value))
            return decode(self._text)
        except NotPlain as error:
            problem, instead = f"a {error}", f"; return {hint(error.value)} in place of that x"
        except ValueError as error:
            problem, instead = f"something that cannot be recorded: {error}", ""
        raise InvalidOption(
            f"observe({name}, ...) records what {name} returns, which must be plain data (None, "
            f"bool, int, float, str, bytes, list, tuple, dict), but it returned {problem}{instead}"
            f"; or use call({name}, ...), which records nothing"
        )

    def message_of(self, value: object) -> Message:
        return Message("tool", self._text)

    def outcome_of(self, recorded: Message | BaseException) -> Outcome:
        if isinstance(recorded, BaseException):
            return Error(_as_raised(recorded))
        self._text = recorded.content
        try:
            return Value(decode(self._text))
        except ValueError as error:
            return Error(TraceCorrupt(f"{self.address}: no recorded result can be read: {error}"))


def _arguments(
    f: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> str:
    """The arguments as JSON, by name; an object that is no data stands there by its type."""
    try:
        named = dict(inspect.signature(f).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        named = {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    try:
        return encode(named, lambda value, _: {"$type": type(value).__qualname__})
    except ValueError:
        return "{}"


def _as_raised(error: BaseException) -> BaseException:
    """A recorded *error* as the exception that the function raised, if its type is loaded here.

    The constructor is not called: the exception has its arguments and its notes, and no more.
    """
    kind = _loaded(getattr(error, "recorded_type", ""))
    if kind is None or not issubclass(kind, type(error)):
        return error
    try:
        exception = type(error).__new__(kind, *error.args)
        exception.args = error.args
        if str(exception) != str(error):
            return error
    except Exception:  # a type with conditions of its own
        return error
    return exception


def _loaded(name: str) -> type[Exception] | None:
    """The exception type *name*, dotted, of a module that is imported already."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        target: object = sys.modules.get(".".join(parts[:end]))
        for part in parts[end:] if target is not None else ():
            target = getattr(target, "__dict__", {}).get(part)
        if isinstance(target, type) and issubclass(target, Exception):
            return target
    return None
