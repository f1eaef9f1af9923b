"""``appl trace diff``: the differences between two runs, first causes first.

Invariant: traces are only read. The exit code distinguishes equal, different and failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from appl.cli import exits, parameters
from appl.cli.commands import Options, appl_command, argument, option, switch
from appl.cli.failure import explain
from appl.cli.parameters import LAST, RUN
from appl.cli.target import UsageError
from appl.cli.terminal import counted, print_found
from appl.cli.trace.places import place
from appl.cli.trace.run_names import run_path
from appl.tracing import Trace
from appl.tracing.explaining import diff as differ
from appl.tracing.explaining.diff import Diff, RunDifference

SAME, DIFFERENT = 0, 1
_MOST, _PARTS = 5, 4
_VERBS = {"changed": "changed", "added": "only in B", "removed": "only in A", "moved": "moved"}


@appl_command(
    "diff",
    example="appl trace diff 20260131T1200 last --ignore timing",
    codes="0 nothing differs; 1 something differs; 2 the runs cannot be compared",
)
@argument("a", metavar="A", shell_complete=parameters.RUNS, help=f"the run before: {RUN}")
@argument(
    "b",
    metavar="B",
    shell_complete=parameters.RUNS,
    required=False,
    default="last",
    help=f"the run after; {LAST}",
)
@option(
    "--ignore",
    multiple=True,
    metavar="ASPECT,…",
    help="leave out: program, settings, answers (and what follows from them alone), tools, "
    "observations, timing, places (calls that only moved)",
)
@switch("--all", help="print every difference, not the first")
@parameters.as_json
def command(options: Options) -> int:
    """Show what differs between two runs, first causes first.

    Calls are aligned by their addresses, and differences are listed in the order in which they came
    about. A call whose prompt differs only because it holds another call's answer is listed as a
    consequence of that call.
    """
    try:
        ignore = [word for words in options.ignore for word in words.split(",") if word]
        unknown = sorted(set(ignore) - set(differ.ASPECTS))
        if unknown:
            aspects = ", ".join(differ.ASPECTS)
            raise UsageError(f"--ignore takes no {unknown[0]!r}; write one or more of {aspects}")
        a, b = Trace.open(run_path(options.a)), Trace.open(run_path(options.b))
        difference: Diff = differ.compare(a, b, ignore)
        most = None if options.all else _MOST
        print_found(options.json, difference.as_data(most, options.all), _lines(difference, most))
        return DIFFERENT if difference.differences else SAME
    except BrokenPipeError:
        raise
    except Exception as error:
        explain(error, options)
        return exits.USAGE


def _lines(difference: Diff, most: int | None) -> Iterator[str]:
    yield f"A  {_run(difference.a, difference.calls[0])}"
    yield f"B  {_run(difference.b, difference.calls[1])}"
    calls = f"{counted(difference.same, 'call')} {'is' if difference.same == 1 else 'are'}"
    if not difference.differences:
        yield f"{calls} the same; nothing differs"
        return
    causes, consequences = difference.causes(), difference.consequences()
    differences = counted(len(difference.differences), "difference")
    yield f"{calls} the same; {differences}, {counted(len(causes), 'first cause')}"
    after: dict[str, list[RunDifference]] = {}
    for consequence in consequences:
        after.setdefault(difference.root(consequence), []).append(consequence)
    for number, cause in enumerate(causes[:most], 1):
        yield ""
        yield from _cause(number, cause, after.get(cause.address, []), most)
    if most is not None and len(causes) > most:
        yield f"\n… and {len(causes) - most} more first causes; --all shows them"


def _run(trace: Trace, calls: int) -> str:
    state = trace.reason if trace.state == "finished" else trace.state
    return f"{trace.path.stem}: {state}, {counted(calls, 'call')}"


def _cause(
    number: int, difference: RunDifference, after: list[RunDifference], most: int | None
) -> Iterator[str]:
    yield f"{number}. {_named(difference)}"
    parts = difference.parts if most is None else difference.parts[:_PARTS]
    for part in parts:
        if len(difference.parts) > 1 or part.name != difference.address:
            yield f"     {part.name}"
        yield from (f"     {line}" for line in part.lines())
    if len(difference.parts) > len(parts):
        yield f"     … and {len(difference.parts) - len(parts)} more parts"
    if difference.perhaps:
        yield f"     its prompt also holds answers that differ: {', '.join(difference.perhaps)}"
    if after:
        yield f"     so also ({len(after)}):"
        for other in after[:most]:
            where = f" {place(other.where)}" if other.where else ""
            why = f"{_THROUGH.get(other.through, 'after')} {', '.join(other.causes[:3])}"
            yield f"       {other.address}{where} {_VERBS[other.how]}: {why}"
        if most is not None and len(after) > most:
            yield f"       … and {len(after) - most} more"


def _named(difference: RunDifference) -> str:
    where = f" {place(difference.where)}" if difference.where else ""
    was = f", was {difference.was}" if difference.was else ""
    kind = "" if difference.kind in ("call", "program", "settings") else f"{difference.kind} "
    names = ", ".join(part.name for part in difference.parts) if len(difference.parts) > 1 else ""
    detail = f": {names}" if names else ""
    return f"{kind}{difference.address}{where} {_VERBS[difference.how]}{was}{detail}"


_THROUGH = {
    "prompt": "its prompt holds what differs in",
    "settings": "as the run was told otherwise:",
    "program": "the program had seen another answer of",
}
