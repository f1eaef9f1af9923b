"""``appl trace stuck``: the calls that a running, or a crashed, program waits for.

Invariant: traces are only read, also while the run writes them; the run itself is not contacted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, switch
from appl.cli.terminal import counted, one_line, print_found
from appl.cli.trace.places import place, seconds
from appl.cli.trace.run_names import run_path
from appl.tracing import RecordedCall, ToolUse, Trace
from appl.tracing.explaining.run_overview import RunOverview

_MOST, _WIDTH = 20, 100


@appl_command("stuck", example="appl trace stuck")
@parameters.run
@switch("--all", help="print every call, not the oldest")
@parameters.as_json
def command(options: Options) -> None:
    """Show what a running program waits for, read from its growing trace.

    Shows which calls and tools of a run are in progress, for how long, the results of their
    attempts, and when the program last received something. For a run that ended, it shows what was
    in progress then. `appl ctl` contacts a live run itself.
    """
    now = time.time_ns()
    overview = RunOverview.of(Trace.open(run_path(options.run)), 0)
    data = _data(overview, now)
    print_found(options.json, data, _lines(data, None if options.all else _MOST))


def _data(overview: RunOverview, now: int) -> dict[str, object]:
    trace = overview.trace
    live = trace.state == "running"
    last = overview.last
    at = now if live else last
    waiting = sorted(overview.waiting.values(), key=lambda item: item.started or 0)
    return {
        "run": trace.path.stem,
        "state": trace.state,
        "reason": trace.reason,
        "calls": overview.totals.calls,
        "answered": overview.totals.answered,
        "silent_us": max((at - last) // 1000, 0) if live else None,
        "undelivered": overview.undelivered,
        "waiting": [_waiting(item, at, overview) for item in waiting],
    }


def _waiting(item: RecordedCall | ToolUse, at: int, overview: RunOverview) -> dict[str, object]:
    def age(then: int | None) -> int | None:
        if then is None:
            return None
        return max((at - overview.trace.wall(then, item.incarnation)) // 1000, 0)

    data: dict[str, object] = {
        "address": item.address,
        "where": item.where,
        "age_us": age(item.started),
    }
    if isinstance(item, ToolUse):
        return data | {"kind": "tool", "name": item.name, "effect": item.effect, "why": "running"}
    failed = [attempt for attempt in item.attempts if attempt.error is not None]
    last = item.attempts[-1] if item.attempts else None
    why = "not sent yet: it waits for a slot, the rate, the budget, or a shared beginning"
    if last is not None and last.error is not None:
        why = "rests after an attempt in vain, or waits to be sent again"
    elif last is not None:
        why = "sent, and not answered"
    return data | {
        "kind": "call",
        "model": item.model,
        "why": why,
        "attempts": len(item.attempts),
        "sent_us": age(last.at) if last is not None and last.error is None else None,
        "errors": [f"{type(a.error).__name__}: {a.error}" for a in failed],
        "timeout_s": item.timeout,
    }


def _lines(data: dict[str, Any], most: int | None) -> Iterator[str]:
    state = data["reason"] if data["state"] == "finished" else data["state"]
    yield f"{data['run']}: {state}; {data['answered']} of {counted(data['calls'], 'call')} answered"
    waiting = data["waiting"]
    if data["silent_us"] is not None:
        yield f"  last heard of {seconds(data['silent_us'])} ago"
    if not waiting:
        running = "the program itself runs, or waits for what is not recorded"
        yield (
            f"  nothing is under way: {running}"
            if data["state"] == "running"
            else ("  nothing was under way")
        )
    for item in waiting[:most]:
        yield ""
        yield f"{item['address']}  {place(item['where'])}".rstrip()
        what = f"tool {item['name']} ({item['effect']})" if item["kind"] == "tool" else "call"
        sent = (
            f", attempt {item['attempts']} {seconds(item['sent_us'])} ago"
            if item.get("sent_us")
            else ""
        )
        yield f"  {what} for {seconds(item['age_us'])}: {item['why']}{sent}"
        for error in item.get("errors", ())[-3:]:
            yield f"  in vain: {one_line(error, _WIDTH)}"
    if most is not None and len(waiting) > most:
        yield f"\n… and {len(waiting) - most} more; --all shows them"
    if data["undelivered"] and data["state"] == "running":
        yield f"\n{data['undelivered']} answers are there that the program has not asked for yet"
