"""The seconds for which each line has blocked its thread while other programs could go on.

Invariant: the user is told of a line once, when it has blocked others for ``ENOUGH`` seconds in
all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from appl.runtime.concurrency.fiber import Hub
    from appl.runtime.reporter import Reporter

ENOUGH = 1.0


class Activation(Protocol):
    """An activation of a function, as far as the watchdog looks at it: a ``Frame``."""

    address: str
    generations: int

    @property
    def parent(self) -> Activation | None:
        """The one around it."""

    @property
    def run(self) -> ReportingRun:
        """The run that it belongs to."""


class ReportingRun(Protocol):
    """A run that tells the user something."""

    reporter: Reporter


@dataclass(slots=True)
class _Line:
    """The seconds for which a line has blocked others so far, and the most others at one time.

    ``streak`` counts the activations before ``last`` that stood there too, since the program was
    last told of an answer, at the turn ``turns`` of its hub.
    """

    seconds: float = 0.0
    others: int = 0
    is_reported: bool = False
    last: Activation | None = None
    turns: int = 0
    streak: int = 0


class BlockingTimes:
    """The lines that have blocked a thread, by file and number."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], _Line] = {}

    def forget(self, run: object = None) -> None:
        """Let go of the activations of *run*, which is over, or of all."""
        for line in self._lines.values():
            if line.last is not None and (run is None or line.last.run is run):
                line.last = None

    def note(
        self, hub: Hub, activation: Activation | None, user: FrameType, seconds: float
    ) -> None:
        """Count that *user* has blocked *hub* for *seconds*, if others could have gone on."""
        line = self._lines.setdefault((user.f_code.co_filename, user.f_lineno), _Line())
        if line.is_reported:
            return
        if activation is not None:
            # If the one before has asked a model, and no program has been told of an answer since,
            # then this one needed nothing of the one before, and could have gone on beside it.
            last = line.last
            if last is not activation:
                beside = last is not None and last.parent is activation.parent and last.generations
                line.streak = line.streak + 1 if beside and hub.turns == line.turns else 0
            line.last, line.turns = activation, hub.turns
        waiting: list[object] = []  # the programs that could go on now
        if hub.fibers or hub.ready:
            fibers = tuple(hub.fibers)
            waiting += [fiber for fiber in fibers if (w := fiber.waits) is not None and w.done]
            waiting += [strand for strand, _ in tuple(hub.ready)]
        others = max(hub.due + len(waiting), line.streak)
        if not others:
            return
        line.seconds += seconds
        line.others = max(line.others, others)
        run = activation.run if activation is not None else _run_of(waiting)
        if line.seconds >= ENOUGH and run is not None:
            line.is_reported, line.last = True, None
            address = activation.address if activation is not None else ""
            from appl.runtime.concurrency.blocking_lines import warning  # few lines block for long

            run.reporter.warn(address, warning(user, line.seconds, line.others))


def _run_of(strands: Iterable[Any]) -> ReportingRun | None:
    """The run of one of the programs that wait."""
    for strand in strands:
        run: ReportingRun | None = getattr(strand.waits, "run", None)
        if run is not None:
            return run
    return None
