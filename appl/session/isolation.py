"""The rule that nobody else is asked while a record, or a test's backend, answers a run.

Invariant: it holds for the whole process, whatever thread asks, and for the processes that it
starts, which are told by their environment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from appl.base import services
from appl.errors import DivergenceError
from appl.runtime.frame import isolated_run
from appl.runtime.isolated import ISOLATED
from appl.runtime.world import Live

if TYPE_CHECKING:
    from appl.runtime.run import Run

RECORDED = (
    "model",
    "backend",
    "temperature",
    "max_tokens",
    "top_p",
    "stop",
    "backend_options",
    "batch",
)
"""Settings that affect requests: the first run's values hold unless new ones are given."""

_INSTEAD = (
    "what is asked outside of the run is not in its record: have it return through "
    "appl.observe(f, …) or a tool, whose results are recorded, or ask in the run itself"
)


def answering_run() -> Run | None:
    """The run whose backend answers runs that are opened inside of it, if such a run is open.

    Raises ``DivergenceError`` where nobody may be asked: while a record answers.
    """
    run = isolated_run() or services.sessions().hosted_run()
    if run is None or not cast("Run", run).is_isolated:
        if ISOLATED in os.environ:
            raise DivergenceError(
                f"process {os.getpid()} was started by a program that {os.environ[ISOLATED]} "
                f"answers, and may ask nobody\n  {_INSTEAD}"
            )
        return None
    outer = cast("Run", run)
    if type(outer.outside.world) is not Live:
        raise DivergenceError(
            f"a record answers the program of this process, and another run may ask nobody\n  "
            f"{_INSTEAD}"
        )
    return outer


OUTER = "APPL_OUTER"
"""Set in the environment of the processes of a hosted program: the name of its run."""


def outer_run() -> dict[str, object]:
    """The fact in a header about the run whose program has started this process, if one has."""
    name = os.environ.get(OUTER)
    return {"outer": {"run": name, "address": None}} if name else {}


BUDGET_ACCOUNT = "APPL_BUDGET_ACCOUNT"
"""Set in the environment of a hosted program's processes: the file with its budget's account."""
