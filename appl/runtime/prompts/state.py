"""The memory of ``resume`` functions in a run: a prompt for each function and object.

Invariant: the activations of one state go on one after the other, in the order of their calls; a
state is forgotten with its function, with its object, or with the run.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from typing import Protocol

from appl.base.threads import process_lock
from appl.errors import DeadlockError
from appl.prompt import Prompt
from appl.runtime.concurrency.fiber import Strand, arrive, strand_here, wait
from appl.runtime.concurrency.promise import Promise, Value
from appl.runtime.frame import PromptWriter

_LOCK = process_lock()
_SWEEP = 64
_OURS = 2  # the references that a sweep itself sees: the table's, and getrefcount's argument

Place = tuple[int, int]


class Nested(Protocol):
    """An activation, which may be inside of others."""

    def within(self, other: PromptWriter) -> bool:
        """True if *other* is this activation or one around it."""


class Turn(Promise):
    """One activation's turn with a state."""

    __slots__ = ("before", "frame", "strand")

    def __init__(self, frame: PromptWriter, before: Turn | None) -> None:
        super().__init__(frame.address, None)
        self.frame, self.before = frame, before
        self.strand: Strand | None = None

    def blockers(self) -> Iterable[Promise]:
        waits = self.strand.waits if self.strand is not None else None
        return (waits,) if waits is not None else ()

    def begin(self) -> None:
        """Wait for the activation before this one."""
        self.strand = strand_here()
        if self.before is not None:
            wait(self.before)
        self._begun()

    async def abegin(self) -> None:
        """:meth:`begin` in a coroutine."""
        if self.before is not None:
            await arrive(self.before)
        self._begun()

    def _begun(self) -> None:
        """The one before has ended: this one continues its prompt."""
        self.before = None
        self.frame.origin = self.frame.prompt.tip

    def over(self) -> None:
        """The next one may begin."""
        self.settle(Value(None))


class State:
    """The prompt that the activations of one function (on one object) continue."""

    __slots__ = ("last", "prompt", "watched")

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.last: Turn | None = None
        self.watched: list[weakref.ref[object]] = []

    @property
    def idle(self) -> bool:
        """True if no activation has a turn."""
        return self.last is None or self.last.done

    def turn(self, caller: Nested, frame: PromptWriter) -> Turn:
        """The turn of the new activation *frame*. Raises ``DeadlockError`` inside itself."""
        with _LOCK:
            before = None if self.idle else self.last
            turn = Turn(frame, before)
            if before is None or not caller.within(before.frame):
                self.last = turn
                return turn
        raise DeadlockError(
            f"{frame.address} continues the prompt of {before.address}, which is still running "
            f"and called it: it would wait for itself; use ctx='copy' or 'same' for the inner call"
        )


class _Kept:
    """An object that cannot be referred to weakly, and the states that are about it."""

    __slots__ = ("places", "thing")

    def __init__(self, thing: object) -> None:
        self.thing = thing
        self.places: list[Place] = []


class States:
    """The states of a run, by the identity of function and object.

    Objects that cannot be referred to weakly are kept, and let go of when nobody else has them.
    """

    def __init__(self) -> None:
        self._states: dict[Place, State] = {}
        self._kept: dict[int, _Kept] = {}
        self._sweep_at = _SWEEP

    def __len__(self) -> int:
        return len(self._states)

    def of(self, function: object, owner: object, start: Prompt) -> State:
        """The state of *function* on *owner*; a new one begins with a copy of *start*."""
        place = id(function), id(owner)
        with _LOCK:
            state = self._states.get(place)
            if state is None:
                state = self._states[place] = State(start.copy())
                self._watch(state, place, function)
                if owner is not None:
                    self._watch(state, place, owner)
        return state

    def _watch(self, state: State, place: Place, thing: object) -> None:
        states = self._states

        def gone(_: weakref.ref[object]) -> None:
            if states.get(place) is state:
                del states[place]

        try:
            state.watched.append(weakref.ref(thing, gone))
        except TypeError:
            if len(self._kept) > self._sweep_at:
                self._sweep()
            self._kept.setdefault(id(thing), _Kept(thing)).places.append(place)

    def _sweep(self) -> None:
        """Forget the kept objects that only this table refers to: nobody can call them again."""
        for key, entry in list(self._kept.items()):
            if sys.getrefcount(entry.thing) == _OURS and self._idle(entry.places):
                del self._kept[key]
                for place in entry.places:
                    self._drop(place)
        self._sweep_at = 2 * len(self._kept) + _SWEEP

    def _idle(self, places: list[Place]) -> bool:
        return all(state.idle for place in places if (state := self._states.get(place)))

    def forget(self, function: object, owner: object = None) -> None:
        """Forget the state of *function* on *owner*, or on every object without one."""
        one = id(function), id(owner)
        every = [place for place in self._states if place[0] == id(function)]
        for place in every if owner is None else [place for place in every if place == one]:
            self._drop(place)
            entry = self._kept.get(place[1])
            if entry is not None:
                entry.places.remove(place)
                if not entry.places:
                    del self._kept[place[1]]

    def clear(self) -> None:
        """Forget all: the run is over."""
        for place in list(self._states):
            self._drop(place)
        self._kept.clear()

    def _drop(self, place: Place) -> None:
        state = self._states.pop(place, None)
        if state is not None:
            state.watched.clear()
