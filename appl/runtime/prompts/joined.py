"""Lazy strings: text that is put together from answers before they are there.

Invariant: putting together never waits; the text is there when all of its parts are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from appl.runtime.concurrency.fiber import hub_here
from appl.runtime.concurrency.future import Generation
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Error, Outcome, Promise, Proxy, Value, on_finish
from appl.runtime.future_takers import taking_futures


class _Joined(Promise):
    """The text of *parts*, one after the other; the earliest failure of one is its own."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[str | Proxy]) -> None:
        super().__init__("a lazy string", hub_here())
        self._parts = parts
        if self._missing() is None:
            self.conclude(self._together())
        else:
            io_thread().send(self._follow)

    def _missing(self) -> Promise | None:
        lasts = (part._pending.last() for part in self._parts if isinstance(part, Proxy))
        return next((last for last in lasts if not last.done), None)

    def _follow(self, _: Promise | None = None) -> None:
        """On the I/O loop: wait for the parts, one after the other."""
        while (missing := self._missing()) is not None:
            if on_finish(missing, self._go_on):
                return
        self.finish(self._together())

    def _go_on(self, _: Promise) -> None:
        io_thread().soon(self._follow)  # after the part itself was handed to the program

    def _together(self) -> Outcome:
        texts: list[str] = []
        for part in self._parts:
            if isinstance(part, Proxy):
                last = part._pending.last()
                if isinstance(last.outcome, Error):
                    return last.outcome
                texts.append(last.prompt_text())
            else:
                texts.append(part)
        return Value("".join(texts))

    def blockers(self) -> Iterable[Promise]:
        return [p._pending for p in self._parts if isinstance(p, Proxy) and not p._pending.done]

    def answered_by(self) -> tuple[str, ...]:
        """The addresses of its parts, the nearest first."""
        lasts = (part._pending.last() for part in reversed(self._parts) if isinstance(part, Proxy))
        return tuple(dict.fromkeys(at for last in lasts for at in last.answered_by()))

    def prompt_origin(self) -> None:
        """None: the text comes from several calls."""

    def cancel(self) -> None:
        self.looked = True


class StringFuture(Generation):
    """Text that may hold answers that are not there yet: ``StringFuture(g) + "!"`` does not wait.

    ``+``, ``join`` and prompts keep it lazy; everything else is done by the text, and waits for it.
    """

    __slots__ = ("_parts",)
    _parts: list[str | Proxy]

    if TYPE_CHECKING:

        def __new__(cls, content: object = "") -> StringFuture: ...

    def __init__(self, content: object = "") -> None:
        self._set(_parts_of(content))

    def _set(self, parts: list[str | Proxy]) -> None:
        object.__setattr__(self, "_parts", parts)
        Generation.__init__(self, _Joined(parts))

    @classmethod
    def _of(cls, parts: list[str | Proxy]) -> StringFuture:
        future = object.__new__(cls)
        future._set(parts)
        return future

    def __add__(self, other: object) -> StringFuture:
        return StringFuture._of([*self._parts, *_parts_of(other)])

    def __radd__(self, other: object) -> StringFuture:
        return StringFuture._of([*_parts_of(other), *self._parts])

    def join(self, items: Iterable[object], /) -> StringFuture:
        """The *items* with this text between them; nothing of it is waited for."""
        parts: list[str | Proxy] = []
        for number, item in enumerate(items):
            parts += [*(self._parts if number else ()), *_parts_of(item)]
        return StringFuture._of(parts)


def _parts_of(content: object) -> list[str | Proxy]:
    if isinstance(content, StringFuture):
        return list(content._parts)
    if isinstance(content, Proxy):
        return [content]
    return [str.__str__(content) if isinstance(content, str) else str(content)]


def str_future(content: object) -> StringFuture:
    """*content* as lazy text."""
    return StringFuture(content)


def promptify(value: Any) -> object:
    """The part of a prompt for *value*: its ``__prompt__()``, else its text, lazily."""
    if hasattr(type(value), "__prompt__"):
        part = value.__prompt__()
        return str_future(part) if isinstance(part, str) else part
    return str_future(value)


for _public in (StringFuture, StringFuture.join, str_future, promptify):
    taking_futures(_public)
