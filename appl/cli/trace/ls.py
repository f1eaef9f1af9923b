"""``appl trace ls``: the list of recorded runs.

Invariant: traces are only read; an unreadable one is listed with its error.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from appl.backend.price import total
from appl.cli import parameters
from appl.cli.commands import Options, WordChoice, appl_command, argument, option, switch
from appl.cli.target import UsageError
from appl.cli.terminal import bytes_shown, columns, counted, one_line, print_found, say
from appl.config import load
from appl.errors import TraceError
from appl.tracing.keeping import index
from appl.tracing.keeping.row import RunRow
from appl.tracing.keeping.run_filter import ORDERS, STATES, RunFilter, found, moment

_WIDTH = 60
T = TypeVar("T")


@appl_command("ls", example="appl trace ls --failed --since 2d")
@argument("words", nargs=-1, metavar="WORD", help="a part of a name")
@option("-n", "n", type=int, default=20, metavar="N", help="at most N runs; 0: all")
@option("--program", metavar="NAME", help="of this program; * stands for anything")
@option("--state", multiple=True, type=WordChoice(STATES), help="how it ended; may be repeated")
@option("--since", metavar="TIME", help="began then or later")
@option("--until", metavar="TIME", help="began before")
@option("--model", metavar="NAME", help="asked a model with this in its name")
@switch("--waiting", help="waits for a person, a time, or a batch; with what it waits for")
@switch("--failed", help="failed, crashed, or something in it failed")
@option("--min-cost", type=float, metavar="X", help="spent at least so much")
@option("--min-calls", type=int, metavar="N", help="made at least so many calls")
@option("--sort", type=WordChoice(ORDERS), default="began", help="the order of the list")
@switch("--reverse", help="oldest or smallest first")
@parameters.as_json
def command(options: Options) -> None:
    """List the recorded runs, newest first.

    WORDs must all be in the names of run, program and models. TIME is a length (2h, 3d) before now,
    or a date (2026-01-31, UTC).
    """
    home = load().home
    wanted = _wanted(options)
    if options.n < 0:
        raise UsageError(f"-n is a number of runs, 0 for all, got {options.n}")
    every = index.rows(home)
    runs = found(every, wanted, options.sort, options.reverse)
    runs = runs[: options.n] if options.n > 0 else runs
    if runs or options.json:
        data = [{**row.as_data(), "reason": row.state} for row in runs]
        lines = columns(_table(runs, options.sort))
        if options.waiting:
            waits = [_waits(row) for row in runs]
            data = [{**row, "waits": some} for row, some in zip(data, waits, strict=True)]
            for row, some in zip(runs, waits, strict=True):
                lines += [
                    f"{row.name}  {wait['address']}  {wait['kind']}: {wait['text']}"
                    for wait in some
                ]
        print_found(options.json, data, lines)
    elif not every:
        say(f"appl: no run is recorded in {home / 'runs'}")
    else:
        say(f"appl: none of {len(every)} runs matches")


def _waits(row: RunRow) -> list[dict[str, object]]:
    """The waits of the run."""
    from appl.tracing.reading.trace import Trace  # a list reads no whole traces
    from appl.tracing.reading.waits import waits_in

    try:
        return [entry._asdict() for entry in waits_in(Trace.open(row.path, home=load().home))]
    except (TraceError, OSError):
        return []


def _wanted(options: Options) -> RunFilter:
    now = datetime.now(UTC)
    cost = options.min_cost
    if cost is not None and not 0 <= cost < 1e12:
        raise UsageError(f"--min-cost must be a number of at least 0, got {cost}")
    return RunFilter(
        program=options.program,
        states=(*(options.state or ()), *(("waiting",) if options.waiting else ())),
        since=_moment("--since", options.since, now),
        until=_moment("--until", options.until, now),
        model=options.model,
        failed=options.failed,
        cost=None if cost is None else round(cost * 1e6),
        calls=options.min_calls,
        words=tuple(options.words),
    )


def _moment(option: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        return moment(text, now)
    except ValueError as error:
        raise UsageError(f"{option} must be {error}, got {text!r}") from None


Column = tuple[str, Callable[[RunRow], str]]


def _table(runs: list[RunRow], order: str) -> list[tuple[str, ...]]:
    """The rows with a heading; costs or sizes are shown only if there is something to show."""
    shown: list[Column] = [
        ("RUN", lambda row: row.name),
        ("STATE", _state),
        ("CALLS", lambda row: str(row.calls)),
        ("TOKENS", _tokens),
    ]
    if any(map(_failed, runs)):
        shown.append(("FAILED", lambda row: _failed(row) or "-"))
    if any(row.cost or row.unpriced for row in runs):
        shown.append(("COST", lambda row: total(row.cost, row.unpriced)))
    if order == "size":
        shown.append(("SIZE", lambda row: bytes_shown(row.size)))
    shown.append(("SECONDS", lambda row: f"{row.seconds:.1f}"))
    heads = tuple(head for head, _ in shown)
    return [heads, *(_cells(row, shown) for row in runs)]


def _cells(row: RunRow, shown: list[Column]) -> tuple[str, ...]:
    if row.error:
        blank = ("-",) * (len(shown) - 3)
        return row.name, "unreadable", *blank, one_line(row.error, _WIDTH)
    return tuple(cell(row) for _, cell in shown)


def _state(row: RunRow) -> str:
    marks = [word for word, held in (("kept", row.kept), ("imported", row.imported)) if held]
    return ", ".join([row.state, *marks])


def _failed(row: RunRow) -> str:
    """The failures of the run, in few words."""
    calls = [counted(row.failed, "call")] if row.failed else []
    return ", ".join([*row.failures.brief(), *calls])


def _tokens(row: RunRow) -> str:
    tokens = row.totals.get("tokens")
    if not isinstance(tokens, dict):
        return "-"
    return f"{tokens.get('prompt_tokens', 0)}+{tokens.get('completion_tokens', 0)}"
