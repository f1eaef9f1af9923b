"""What an earlier run knows about this one: asked before budget, rate and slots.

Invariant: everything here is called on the I/O loop, ``on_cancel`` of a tool excepted; a call that
was claimed is answered, failed, cancelled or let go to the scheduler by whoever claimed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.effects import Effects
    from appl.runtime.run import Run
    from appl.runtime.scheduling.holding import Why

Go = Callable[[], None]


class Recorded(Protocol):
    """A record that answers some calls of a run; the backend answers the others."""

    def begin(self, run: Run, live: Effects) -> Effects:
        """*run* begins: what its programs see of the outside world, which *live* would show."""

    def amend(self, call: Call) -> None:
        """A call is about to become a request: change what is asked of its model, if at all."""

    def claim(self, call: Call, go: Go) -> bool:
        """A call has its request. True to take it over; *go* hands it to the scheduler later."""

    def on_quiet(self, final: bool = True) -> bool:
        """Every program waits; true when something was let go. See ``quiet.OnQuiet``."""

    def on_cancel(self, address: str, go: Go) -> bool:
        """The program cancels a call or a tool: true when *go*, which ends it, has to wait."""

    def on_failed(self, address: str, go: Go) -> bool:
        """A part of a prompt failed, and the call with it: true when *go* has to wait."""

    def on_outside(self, address: str, go: Callable[[], object]) -> bool:
        """Somebody outside ends a call or a function: true when *go*, which ends it, has to wait.

        Raises ``ControlError`` when its end is recorded.
        """

    def held(self) -> Iterable[tuple[Call, Why, int]]:
        """The calls that were claimed, and neither ended nor let go: why, behind how many ends."""

    def dropped(self, address: str) -> bool:
        """Whether a call at *address* or below was cancelled when nobody held it any more."""
