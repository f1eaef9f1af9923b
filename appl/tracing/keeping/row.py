"""A summary of one run, for listing, filtering and sorting.

Invariant: it depends on the file alone, so that an index of rows can be made again at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType

from appl.errors import TraceError
from appl.tracing.explaining import costs
from appl.tracing.format.failures import FailureCounts
from appl.tracing.keeping.keep_marks import is_kept
from appl.tracing.reading import runs
from appl.tracing.reading.documents import jsonable
from appl.tracing.reading.trace import Trace

WHOLE_BYTES = 64 << 20
"""Larger traces of finished runs are always known by the sums that they end with."""

_MODELS = 50
_KINDS: dict[str, type | UnionType] = {"cost": int | None, "seconds": int | float}


@dataclass(slots=True)
class RunRow:
    """A run: its file, its state and its sums. ``cost`` is in millionths; ``None`` is unknown.

    ``state`` is how it ended (``finished``, ``failed``, ``cancelled``, ``interrupted``),
    ``running``, ``crashed`` or ``unreadable``. ``began`` is UTC in ISO form. ``costs`` are the four
    kinds, as ``Costs.as_data``; missing for very large traces, whose costs are what they end with.
    """

    path: Path
    state: str = "unreadable"
    program: str = ""
    began: str = ""
    seconds: float = 0.0
    size: int = 0
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    cost: int | None = None
    models: list[str] = field(default_factory=list)
    parent: str = ""
    totals: dict[str, object] = field(default_factory=dict)
    costs: dict[str, object] = field(default_factory=dict)
    error: str = ""
    imported: bool = False

    @property
    def name(self) -> str:
        """The name by which the run can be called."""
        return self.path.stem

    @property
    def unpriced(self) -> int:
        """The number of answers whose cost is not known: ``cost`` is without them."""
        return _count(self.totals.get("cost_unknown"))

    @property
    def failures(self) -> FailureCounts:
        """The failures besides calls, as far as the run says."""
        return FailureCounts.of_data(self.totals)

    @property
    def kept(self) -> bool:
        """True if it is marked to be kept."""
        return is_kept(self.path)

    def as_data(self) -> dict[str, object]:
        """The row as JSON-ready data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        more = {"name": self.name, "path": str(self.path), "error": self.error or None}
        return {**data, **more, "kept": self.kept}

    @classmethod
    def from_data(cls, path: Path, data: Mapping[str, object]) -> RunRow:
        """The row of ``as_data``. Raises ``ValueError`` for anything else."""
        row = cls(path)
        for name in cls.__slots__[1:]:
            value = data.get(name, getattr(row, name))
            value = "" if name == "error" and value is None else value
            usual = getattr(row, name)
            if not isinstance(value, _KINDS.get(name, type(usual))):
                raise ValueError(f"{name} is {value!r:.40}")
            setattr(row, name, value)
        return row


def row_of(path: Path, imported: bool = False) -> RunRow:
    """The row of the trace at *path*; if it cannot be read, the row holds the error."""
    row = RunRow(path, imported=imported)
    try:
        row.size = path.stat().st_size
        summary = runs.finished(path)
        paid = None if summary is None else _paid(summary)
        if summary is not None and (paid is not None or row.size > WHOLE_BYTES):
            totals, head = summary.totals, summary.header
            _fill(row, summary.reason or "finished", head, totals)
            row.began, row.seconds = summary.began, summary.seconds
            if paid is not None:
                _costs(row, paid)
            else:
                cost = totals.get("cost")
                row.cost = cost if isinstance(cost, int) else None
                row.models = [str(head["model"])] if head.get("model") else []
        else:
            trace = Trace.open(path)
            state = (trace.reason or "finished") if trace.state == "finished" else trace.state
            _fill(row, state, trace.header, trace.sums())
            began = trace.began()
            row.began, row.seconds = began.isoformat() if began else "", trace.seconds()
            _costs(row, costs.of(trace))
    except (TraceError, OSError) as error:
        row.error = str(error)
    return row


def _paid(summary: runs.RunSummary) -> costs.Costs | None:
    """The costs of a finished run, if its last record tells them."""
    if summary.models is None:
        return None
    return costs.of_totals(summary.models, costs.terms_of(summary.header))


def _costs(row: RunRow, paid: costs.Costs) -> None:
    row.cost, row.costs = paid.spent.known("cost"), paid.as_data()
    row.models = sorted(name for name in paid.models if name)[:_MODELS]


def _fill(row: RunRow, state: str, head: Mapping[str, object], totals: dict[str, object]) -> None:
    row.state, row.program = state, str(head.get("program") or "")
    parent = head.get("parent")
    row.parent = str(parent.get("run") or "") if isinstance(parent, dict) else str(parent or "")
    row.totals = jsonable({**totals, **FailureCounts.of_data(totals).as_data()})
    row.calls, row.failed = _count(totals.get("calls")), _count(totals.get("failed"))
    tokens = totals.get("tokens")
    names = ("prompt_tokens", "completion_tokens")
    row.tokens = sum(_count(tokens.get(name)) for name in names) if isinstance(tokens, dict) else 0


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
