"""``appl trace critical``: the critical path of a run, and waits that the data did not need.

Invariant: traces are only read.
"""

from __future__ import annotations

from collections.abc import Iterator

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, switch
from appl.cli.terminal import columns, print_found
from appl.cli.trace.places import place, seconds
from appl.cli.trace.run_names import run_path
from appl.tracing import Trace
from appl.tracing.explaining import critical
from appl.tracing.explaining.critical import Critical

_MOST = 20
_MEANS = {
    "queue": "waiting for their turn: slots, or a shared beginning that is sent first",
    "rate": "waiting for the rate limit",
    "budget": "waiting for room in the budget",
    "circuit": "waiting for a server that was down, or asked for patience",
    "retry": "attempts that failed, and the waits after them",
    "prefill": "until the first piece of a streamed answer",
    "decode": "the rest of a streamed answer",
    "answer": "answers in one piece: prefill and decode together",
    "tool": "tools",
    "delivery": "finished answers on their way to the program",
    "program": "the program's own code",
}


@appl_command("critical", example="appl trace critical last")
@parameters.run
@switch("--all", help="print the whole path")
@parameters.as_json
def command(options: Options) -> None:
    """Show the critical path of a run, and waits that the data did not need.

    Follows the chain of waits from the end of a run back to its begin: the run gets shorter only if
    something on this path gets faster. Also lists calls that began only after an answer that their
    prompt does not hold, and how long the run would have taken if both had been asked at once. The
    program may still need that answer, to decide what to do.
    """
    run = Trace.open(run_path(options.run))
    path_found: Critical = critical.critical(run)
    most = None if options.all else _MOST
    print_found(options.json, path_found.as_data(most), _lines(run, path_found, most))


def _lines(trace: Trace, path: Critical, most: int | None) -> Iterator[str]:
    yield f"{trace.path.stem}: {seconds(path.duration)}"
    if not path.segments:
        yield "nothing in it was waited for"
        return
    yield "\nthe time went to"
    kinds = sorted(path.kinds.items(), key=lambda kind: -kind[1])
    rows = [
        (f"  {kind}", seconds(took), _share(took, path.duration), _MEANS.get(kind, ""))
        for kind, took in kinds
    ]
    yield from columns(rows)
    longest, count = critical.longest(path.segments, most), len(path.segments)
    cut = f"\nthe {len(longest)} longest of the {count} parts of the path; --all shows them all"
    yield "\nthe path" if len(longest) == count else cut
    begin = path.segments[0].start
    yield from columns(
        (
            f"  at {seconds(step.start - begin)}",
            seconds(step.took),
            step.kind,
            f"{step.address} {place(step.where)}".rstrip(),
        )
        for step in longest
    )
    yield from _waits(path)


def _waits(path: Critical) -> Iterator[str]:
    waits = [wait for wait in path.waits if wait.predicted < path.duration]
    if not waits:
        return
    yield "\nbegan only after an answer that its prompt does not hold"
    for wait in waits:
        gain = path.duration - wait.predicted
        yield f"  {wait.address} {place(wait.where)}".rstrip()
        yield f"    after {wait.after} {place(wait.after_where)}".rstrip()
        yield (
            f"    asked at once: {seconds(wait.predicted)}, "
            f"{seconds(gain)} ({_share(gain, path.duration)}) less"
        )

    yield from advice(path)


def advice(path: Critical) -> Iterator[str]:
    """For each function whose calls began one after another, the time lost and what to write."""
    groups: dict[str, list[int]] = {}
    for wait in path.waits:
        name = _repeated(wait.address, wait.after)
        if name and wait.predicted < path.duration:
            groups.setdefault(name, []).append(path.duration - wait.predicted)
    for name, gains in groups.items():
        yield (
            f"\n{len(gains) + 1} calls of {name} began one after another: started at once, up to "
            f"{seconds(sum(gains))} less; if none needs the answer of another, write "
            f"appl.map({name}, items), or @ppl(parallel=True) above {name}"
        )


def _repeated(address: str, after: str) -> str:
    """The prompt function that both calls belong to, in two neighbouring calls of it."""
    for one, other in zip(address.split("/")[1:-1], after.split("/")[1:-1], strict=False):
        if one != other:
            name = one.rpartition(".")[0]
            return name if name == other.rpartition(".")[0] else ""
    return ""


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"
