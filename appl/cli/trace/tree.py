"""A run as a tree: its functions with their totals, and their calls.

Invariant: text of a trace is made safe before it becomes a cell. A function with only one shown
call is on the same line as that call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appl.backend.price import money, total as sum_of
from appl.cli.terminal import columns, counted, one_line
from appl.cli.trace.places import known, place, seconds
from appl.tracing import RecordedCall, ToolUse

if TYPE_CHECKING:
    from appl.tracing.explaining.run_overview import RunOverview, Sum

_NAME, _INDENT, _FUNCTIONS = 48, "  ", 20
Outcome = Callable[[RecordedCall | ToolUse], str]
Row = tuple[str, ...]


@dataclass(slots=True)
class _PrintedNode:
    """A part of an address, with the parts below it; ``call`` is the call at this very address."""

    call: RecordedCall | ToolUse | None = None
    below: dict[str, _PrintedNode] = field(default_factory=dict)


def lines(overview: RunOverview, outcome: Outcome) -> list[str]:
    """The rows of *overview* as a tree; *outcome* describes the outcome of a call."""
    root = _PrintedNode()
    for call in overview.rows:
        node = root
        for part in call.address.strip("/").split("/"):
            node = node.below.setdefault(part, _PrintedNode())
        node.call = call
    rows = list(_rows(overview, root, "", 0, outcome))
    if not rows:
        return []
    head: Row = ("CALL", "TIME", "TOKENS", "CACHED", "COST", "LINE", "")
    # Without those columns about tokens and cost that are empty.
    unsaid = {"-", "?", "0", "$0", "0+0", "?+?"}
    shown = [i for i in range(len(head)) if i not in (2, 3, 4) or {r[i] for r in rows} - unsaid]
    return columns([tuple(row[i] for i in shown) for row in (head, *rows)])


def _rows(
    overview: RunOverview, root: _PrintedNode, path: str, depth: int, outcome: Outcome
) -> Iterator[Row]:
    todo = [(path, depth, iter(root.below.items()))]
    while todo:
        path, depth, below = todo[-1]
        step = next(below, None)
        if step is None:
            todo.pop()
            continue
        name, child = step
        label, address = ("" if depth else "/") + name, f"{path}/{name}"
        while child.call is None and len(child.below) == 1:
            ((name, child),) = child.below.items()
            label, address = f"{label}/{name}", f"{address}/{name}"
        yield _row(overview, child, address, _INDENT * depth + one_line(label, _NAME), outcome)
        todo.append((address, depth + 1, iter(child.below.items())))


def _row(
    overview: RunOverview, node: _PrintedNode, address: str, label: str, outcome: Outcome
) -> Row:
    call = node.call
    if isinstance(call, RecordedCall):
        return label, _took(call), *_used(call), place(call.where) or "-", outcome(call)
    if call is not None:
        return label, _took(call), "-", "-", "-", place(call.where) or "-", outcome(call)
    scope, total = overview.scopes.get(address), overview.sums.get(address)
    where = place(f"{scope.file}:{scope.line}") if scope is not None and scope.file else "-"
    if total is None:
        return label, "-", "-", "-", "-", where, ""
    began, ended = total.begin, total.end
    spent = "-" if began is None or ended is None else seconds(ended - began)
    return label, spent, *_totals(total), where, _counts(total)


def _took(call: RecordedCall | ToolUse) -> str:
    if call.started is None or call.ended is None:
        return "-"
    return seconds(call.ended - call.started)


def _used(call: RecordedCall) -> tuple[str, str, str]:
    if call.response is None:
        return "-", "-", "-"
    used, cost = call.response.usage, call.response.cost
    tokens = f"{known(used.prompt_tokens)}+{known(used.completion_tokens)}"
    return tokens, known(used.cached_tokens), money(cost)


def _totals(total: Sum) -> tuple[str, str, str]:
    if not total.calls:
        return "-", "-", "-"
    cost = sum_of(total.cost, total.unknown)
    return f"{total.prompt}+{total.answer}", str(total.cached), cost


def _counts(total: Sum) -> str:
    counts = ((total.tools, "tools"), (total.failed, "failed"), (total.open, "in flight"))
    shown = [f"{count} {word}" for count, word in counts if count]
    return ", ".join([counted(total.calls, "call"), *shown])


def span(sums: Iterable[Sum]) -> int:
    """The time from the first begin to the last end of *sums*, in microseconds."""
    timed = [subtree for subtree in sums if subtree.begin is not None and subtree.end is not None]
    begins = [subtree.begin for subtree in timed if subtree.begin is not None]
    return max((subtree.end or 0 for subtree in timed), default=0) - min(begins, default=0)


def by_function(overview: RunOverview) -> list[str]:
    """The totals of a run's functions, those with most calls first."""
    names = sorted(overview.functions, key=lambda name: -overview.functions[name].calls)
    rows: list[Row] = [("  FUNCTION", "CALLS", "TIME", "TOKENS", "CACHED", "COST")]
    for name in names[:_FUNCTIONS]:
        total = overview.functions[name]
        calls = f"{total.calls or total.tools}{f' ({total.failed} failed)' if total.failed else ''}"
        rows.append((f"  {one_line(name, _NAME)}", calls, seconds(total.busy), *_totals(total)))
    more = len(names) - _FUNCTIONS
    return columns(rows) + ([f"  … and {more} more functions"] if more > 0 else [])
