"""The recorded calls that a faithful program has still to ask for, in the order of their answers.

Invariant: only calls whose answer the program was told; each is looked at once it is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from appl.tracing.reading.trace import Trace


class Outstanding:
    """Whether an answer has to wait because an earlier one was not even asked for yet."""

    def __init__(self, trace: Trace, turns: Mapping[str, tuple[int, int]]) -> None:
        self._left = sorted(
            (
                (turns[call.address], call.address)
                for call in trace.calls
                if call.address in turns and call.delivered is not None and call.started is not None
            ),
            reverse=True,
        )

    def before(self, turn: tuple[int, int], asked: Callable[[str], bool]) -> bool:
        """Whether one whose turn is before *turn* is not *asked*, by its address."""
        left = self._left
        while left and asked(left[-1][1]):
            left.pop()
        return bool(left) and left[-1][0] < turn

    def give_up(self, turn: tuple[int, int]) -> None:
        """Nobody will ask for what is before *turn*: it is not waited for any more."""
        while self._left and self._left[-1][0] < turn:
            self._left.pop()
