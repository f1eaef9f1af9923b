"""The calls that a faithful program has still to make, in the order in which it got their answers.

Invariant: only calls whose answers the program got; each is checked once it is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from appl.tracing.reading.trace import Trace

_Turn = tuple[int, int]


class Outstanding:
    """Tells if an answer has to wait because an earlier one was not even requested yet."""

    def __init__(self, trace: Trace, turns: Mapping[str, _Turn]) -> None:
        self._trace, self._turns = trace, turns

    @cached_property
    def _left(self) -> list[tuple[_Turn, str]]:
        return sorted(
            (
                (self._turns[call.address], call.address)
                for call in self._trace.calls
                if call.address in self._turns
                and call.delivered is not None
                and call.started is not None
            ),
            reverse=True,
        )

    def before(self, turn: _Turn, asked: Callable[[str], bool]) -> bool:
        """True if a call with an earlier turn than *turn* is not *asked*, by its address."""
        left = self._left
        while left and asked(left[-1][1]):
            left.pop()
        return bool(left) and left[-1][0] < turn

    def give_up(self, turn: _Turn) -> None:
        """Nobody will ask for what is before *turn*: it is not waited for any more."""
        while self._left and self._left[-1][0] < turn:
            self._left.pop()


class Sequence:
    """The turns in which a program was *told* something, with addresses: which of them are due."""

    def __init__(self, told: Iterable[tuple[_Turn, str]]) -> None:
        self._told = told
        self._due: set[_Turn] = set()

    @cached_property
    def _left(self) -> list[tuple[_Turn, str]]:
        return sorted(set(self._told), reverse=True)

    def comes(self, turn: _Turn) -> None:
        """Note that the call with this *turn* is about to get its answer; from any thread."""
        self._due.add(turn)

    def complete(self, turn: _Turn, excused: Callable[[str], bool]) -> bool:
        """True if everything before *turn* is due too, or *excused*, by its address."""
        left = self._left
        while left and (left[-1][0] in self._due or excused(left[-1][1])):
            left.pop()
        return not left or turn < left[-1][0]
