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

    def pause(self) -> bool:
        """Begin no attempt from now on; what is on its way goes on. False if that is so already."""
        scheduler = self.run.dispatch.scheduler
        if scheduler.paused:
            return False
        scheduler.pause()
        if (detection := self.run.outside.idle_detection) is not None:
            detection.timers += 1  # somebody may move what stands still now
        return True

    def resume(self) -> bool:
        """Begin attempts again. False if nothing is paused."""
        scheduler = self.run.dispatch.scheduler
        if not scheduler.paused:
            return False
        if (detection := self.run.outside.idle_detection) is not None:
            detection.timers -= 1
        scheduler.resume()
        self.run.outside.look_soon()
        return True

    def allow(self, allowance: Allowance) -> None:
        """Have all calls keep to *allowance*, also those that wait; what was spent stays spent.

        In a run without a budget it counts from now on.
        """
        dispatch, root = self.run.dispatch, self.run.tree.root
        if root.account is None:
            root.account = dispatch.begin_account(allowance)
        dispatch.budgets.ledger.allow(root.account, allowance)
