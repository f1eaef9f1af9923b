"""Interventions in a run; on the I/O loop.

Invariant: what a replay has to know of an intervention (a call or function that was ended) comes
to the program through its world, as an answer does.
"""

from __future__ import annotations

from appl.runtime.run import Run
from appl.runtime.scheduling.call_status import Endable, When
from appl.runtime.scheduling.policy import Allowance
from appl.runtime.world import Moment


class Steering:
    """Pauses *run*, ends parts of it, or gives it another budget."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def end(self, started: Endable) -> When:
        """End a call or a function as cancelled by somebody outside of the program.

        Raises ``ControlError`` when an earlier run has recorded how it ended.
        """
        ended: list[bool] = []
        moment = Moment(started.address, "cancelled")
        world = self.run.outside.world
        if not world.arrived(moment, lambda: ended.append(started.end_from_outside())):
            return "later"
        return "now" if any(ended) else "never"

    @property
    def paused(self) -> bool:
        """True if no attempt is begun at present."""
        return self.run.dispatch.scheduler.paused

    def pause(self) -> None:
        """Begin no attempt from now on; what is on its way goes on."""
        if not self.paused:
            self.run.dispatch.scheduler.pause()
            if (detection := self.run.outside.idle_detection) is not None:
                detection.timers += 1  # somebody may move what stands still now

    def resume(self) -> None:
        """Begin attempts again."""
        if self.paused:
            if (detection := self.run.outside.idle_detection) is not None:
                detection.timers -= 1
            self.run.dispatch.scheduler.resume()
            self.run.outside.look_soon()

    def allow(self, allowance: Allowance) -> None:
        """Have all calls keep to *allowance*, also those that wait; what was spent stays spent.

        In a run without a budget it counts from now on.
        """
        dispatch, root = self.run.dispatch, self.run.tree.root
        if root.account is None:
            root.account = dispatch.begin_account(allowance)
        dispatch.ledger.allow(root.account, allowance)
