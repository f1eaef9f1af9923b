"""What an earlier run of a program says of the next one: its calls, and what each waited for.

Invariant: reads only; a trace that cannot be read is no forecast, and no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from appl.errors import ApplError
from appl.runtime.scheduling.deadline_plan import ExpectedCall, Forecast
from appl.runtime.world import World
from appl.session.entry import Entry
from appl.tracing.explaining.moment_graph import END, START, MomentGraph
from appl.tracing.format.keys import first_record
from appl.tracing.reading import runs
from appl.tracing.reading.trace import Trace

_LOOKED_AT = 100
"""The most earlier runs that are looked at, the latest first."""
_ENOUGH = 200
"""So many answers of runs before the latest one say enough of the backends."""
_MOST_BYTES = 64 << 20
"""A longer trace is not read: it would hold up the begin of the run."""
_WAITS = frozenset({"queue", "budget", "rate", "circuit", "retry"})
"""The phases of a call in which nobody works on its answer."""


def forecast_for(entry: Entry, home: Path | None, world: World | None) -> Forecast:
    """The calls of the latest run of the program *entry* in *home* that did not fail, and the
    answers of other runs of it.

    A rerun and a resumed run, which have a *world* of records, go by the run in it as far as that
    went.
    """
    trace = getattr(world, "trace", None)
    own: Mapping[str, ExpectedCall] = {}
    wanted: object = entry.as_data()
    if isinstance(trace, Trace):
        own, wanted = forecast_of(trace).calls, trace.header.get("entry")
        if trace.reason == "finished":
            return Forecast(own)
    calls: Mapping[str, ExpectedCall] = {}
    answers: list[tuple[str, int | None, float]] = []
    for path in reversed(runs.paths(home)[-_LOOKED_AT:]):
        with suppress(ApplError, OSError):
            head = first_record(path) or {}
            ended = runs.finished(path) if _same(head.get("entry"), wanted) else None
            if ended is None or path.stat().st_size > _MOST_BYTES:
                continue
            earlier = forecast_of(Trace.open(path)).calls
            if not calls and ended.reason == "finished":
                calls = earlier
                if not own:
                    continue
            answers[:0] = [
                (call.place, call.tokens, call.seconds)
                for call in earlier.values()
                if call.seconds is not None
            ]
            if calls and len(answers) >= _ENOUGH:
                break
    return Forecast({**calls, **own}, answers[-_ENOUGH:])


def _same(recorded: object, wanted: object) -> bool:
    """True if both entries are the same function of the same file."""
    if not isinstance(recorded, dict) or not isinstance(wanted, dict):
        return False
    return all(recorded.get(each) == wanted.get(each) for each in ("kind", "file", "function"))


def forecast_of(trace: Trace) -> Forecast:
    """The calls of the run of *trace* that were answered, in the order of their begins."""
    graph = MomentGraph(trace)
    steps = graph.steps
    calls = {call.address: call for call in trace.calls if call.response is not None}
    found: dict[str, ExpectedCall] = {}
    needs_of: list[frozenset[int]] = [frozenset()] * len(steps)
    order = sorted(range(len(steps)), key=lambda step: graph.place(step, START))
    for step in order:
        here = graph.place(step, START)
        waited = {graph.step(each) for each in (*graph.data(step), *graph.round(here))}
        needs: set[int] = set()
        for other in waited - {step}:  # tools are a part of the time between calls
            needs |= {other} if steps.address[other] in calls else needs_of[other]
        needs_of[step] = frozenset(needs)
        call = calls.get(steps.address[step])
        if call is None or call.response is None:
            continue
        ended = max((graph.at[graph.place(other, END)] for other in needs), default=graph.begin)
        waits = sum(took for kind, took in steps.phases(step) if kind in _WAITS)
        asked = call.attempts and not call.response.reused
        usage = call.response.usage if not call.response.reused else None
        found[call.address] = ExpectedCall(
            usage.completion_tokens if usage else None,
            usage.prompt_tokens if usage else None,
            max(steps.end[step] - steps.start[step] - waits, 0) / 1e6 if asked else None,
            call.response.model or call.model,
            tuple(steps.address[other] for other in sorted(needs)),
            max(steps.start[step] - ended, 0) / 1e6,
        )
    return Forecast(found)
