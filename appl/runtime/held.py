"""Which calls a failing function leaves to nobody: those that only its own variables refer to.

Invariant: a call that anybody else might still read is never named.
"""

from __future__ import annotations

from appl.runtime.pending import Pending


def unheld(started: list[Pending], error: BaseException) -> list[Pending]:
    """Those of *started* that nobody can read once *error* has left the function."""
    return [pending for pending in started if not pending.done]
