"""Evaluation: programs on cases with scores, intervals and paired comparisons, as one recorded run.

Invariant: a failure of a case is a result like another; it is counted and shown, and ends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.parts.evaluation.report import (
        Difference as Difference,
        Evaluation as Evaluation,
        Sample as Sample,
        Summary as Summary,
    )
    from appl.parts.evaluation.sample_runs import evaluate as evaluate
    from appl.parts.evaluation.scores import READY as READY
    from appl.parts.evaluation.trace_reading import (
        all_recorded as all_recorded,
        recorded as recorded,
    )
else:
    __getattr__ = names_of(
        __name__,
        {
            "sample_runs": "evaluate",
            "trace_reading": "all_recorded recorded",
            "report": "Difference Evaluation Sample Summary",
            "scores": "READY",
        },
    )
