"""The result of a rerun in words: which calls were asked and why, and what the record answered.

Invariant: only reads; while the run goes on it says what has happened so far.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from appl.tracing.explaining.causes import explained
from appl.tracing.replaying.rerunner import LiveCall, Rerunner
from appl.tracing.replaying.tally import Tally


class RerunReport:
    """The result of a rerun: how each call of the program was answered.

    ``live`` were asked; so many others were answered as recorded at their place (``reused``),
    elsewhere in their frame (``shifted``), anywhere (``moved``), or by the user (``pinned``).
    ``removed`` were recorded and not asked for. ``tools`` ran. ``tally``, which has
    to be one of the run's instruments, is what it took, ``path`` where it is recorded.
    """

    def __init__(self, rerunner: Rerunner) -> None:
        self._rerunner = rerunner
        self.tools, self.tally = rerunner.ran, Tally()
        self.path: Path | None = None

    @property
    def live(self) -> list[LiveCall]:
        """The calls that were asked, with their causes."""
        return explained(self._rerunner, self._rerunner.asked.values())

    @property
    def _counts(self) -> Counter[str]:
        return Counter(self._rerunner.answered.values())

    @property
    def reused(self) -> int:
        """The number of calls that the record of their place answered."""
        return self._counts["reused"]

    @property
    def shifted(self) -> int:
        """The number of calls that another record of their frame answered."""
        return self._counts["shifted"]

    @property
    def moved(self) -> int:
        """The number of calls that a record of another frame answered."""
        return self._counts["moved"]

    @property
    def pinned(self) -> int:
        """The number of calls that the user answered."""
        return self._counts["pinned"]

    @property
    def removed(self) -> list[str]:
        """The recorded calls that the program does not make any more."""
        return self._rerunner.removed()

    def as_data(self) -> dict[str, object]:
        """The report as JSON-ready data."""
        names = ("reused", "shifted", "moved", "pinned", "removed", "tools")
        data = {name: getattr(self, name) for name in names}
        spent, saved = self.tally.live.as_data(), self.tally.reused.as_data()
        return {
            "live": [call.as_data() for call in self.live],
            **data,
            "spent": spent,
            "saved": saved,
            "inner": [_inner(inner) for inner in self._rerunner.inner],
        }

    def lines(self, most: int = 20) -> list[str]:
        """The report for a human: each live call with its cause, then the sums."""
        live, counts, removed = self.live, self._counts, self.removed
        lines = [f"live: {call.address}: {call.cause}" for call in live[:most]]
        lines += [f"live: {len(live) - most} more"] if len(live) > most else []
        kinds = ("shifted", "moved", "pinned")
        lines += [f"{kind}: {counts[kind]}" for kind in kinds if counts[kind]]
        if removed:
            some = ", ".join(removed[:3]) + (", …" if len(removed) > 3 else "")
            lines.append(f"not asked for any more: {len(removed)} ({some})")
        for inner in map(_inner, self._rerunner.inner):
            lines.append(
                f"in the run of its own {inner['run']}: {inner['live']} live, "
                f"{inner['reused']} reused"
            )
        return [*lines, self.tally.line()]


def _inner(rerunner: Rerunner) -> dict[str, object]:
    """The numbers of calls of an inner run that were asked, and that its record answered."""
    name, answered = rerunner.trace.path.stem, len(rerunner.answered)
    return {"run": name, "live": len(rerunner.asked), "reused": answered}
