"""``appl trace verify`` and ``appl trace salvage``: check a trace, and copy its good part.

Invariant: the trace itself is only read.
"""

from __future__ import annotations

from pathlib import Path

from appl.cli import exits, parameters
from appl.cli.commands import Options, appl_command, argument, option
from appl.cli.parameters import LAST, RUN
from appl.cli.target import unused_path
from appl.cli.terminal import bytes_shown, counted, one_line, print_found, report_done
from appl.cli.trace.run_names import run_path, run_paths
from appl.config import load
from appl.errors import TraceError
from appl.session.ownership import is_own, owner
from appl.tracing import salvage
from appl.tracing.format.trust import end_here
from appl.tracing.keeping.verification import Verdict, compare, verify

_SHOWN = 20
_REPLAYS = {
    "whole": "replays to its end",
    "prefix": "replays as far as it goes; appl trace resume goes on with it",
    "none": "does not replay",
}


@appl_command(
    "verify",
    example="appl trace verify last",
    codes="0 nothing is wrong (a last group that a crash cut off is no damage); 1 --against "
    "differs; 4 something is wrong",
)
@argument("runs", nargs=-1, metavar="RUN", shell_complete=parameters.RUNS, help=f"{RUN}; {LAST}")
@option(
    "--against",
    metavar="RUN",
    shell_complete=parameters.RUNS,
    help="check too that this run asked and was answered the same; exit code 1 if not",
)
@parameters.as_json
def verify_command(options: Options) -> int:
    """Check every block, reference and digest of traces.

    Traces are read from the first byte to the last: checksums and sequence of the blocks,
    references, and digests of prompts and parameters, which are computed again.
    """
    other = None if options.against is None else run_path(options.against)
    home, verdicts = load().home, list[Verdict]()
    for path in run_paths(options.runs or ["last"]):
        try:
            verdict = verify(path, home)
        except TraceError as error:
            verdict = Verdict(path, wrong=[str(error)])
        else:
            if other is not None and verdict.good:
                verdict.against = compare(path, other, home)
        verdicts.append(verdict)
    data = [{**verdict.as_data(), "own": is_own(verdict.path)} for verdict in verdicts]
    print_found(options.json, data, [line for verdict in verdicts for line in _lines(verdict)])
    if not all(verdict.good for verdict in verdicts):
        return exits.TRACE
    differ = (verdict.against is not None and verdict.against.differs for verdict in verdicts)
    return exits.FAILED if any(differ) else exits.OK


def _lines(verdict: Verdict) -> list[str]:
    word = "good" if verdict.good else "DAMAGED"
    what = f"{counted(verdict.blocks, 'block')}, {counted(verdict.records, 'record')}"
    lines = [f"{verdict.path.stem}: {word}; {bytes_shown(verdict.size)}, {what}"]
    lines += [f"  wrong    {problem}" for problem in verdict.wrong]
    if verdict.torn:
        lines.append(f"  torn     {verdict.torn} bytes of a last group that a crash cut off")
    if verdict.good:
        signed = "by you" if is_own(verdict.path) else "not by you; what uses it asks for --trust"
        lines.append(f"  signed   {signed}")
        every = counted(verdict.digests + verdict.masked, "call")
        checked = f"{verdict.digests} of {every} computed again"
        lines.append(f"  digests  {checked}; {verdict.masked} masked")
        state = verdict.reason or verdict.state
        lines.append(f"  state    {one_line(state)}, {_REPLAYS[verdict.replay]}")
    if verdict.against is not None:
        same = verdict.against
        summary = f"{counted(same.calls, 'call')}: {same.contents} asked the same"
        lines.append(f"  against  {summary}, {same.answers} were answered the same")
        lines += [f"  differs  {address}" for address in same.differs[:_SHOWN]]
    return lines


@appl_command("salvage", example="appl trace salvage broken.trace -o good.trace")
@argument("run", metavar="RUN", shell_complete=parameters.RUNS, help=RUN)
@option("-o", "--out", metavar="FILE", help="default: RUN.salvaged.trace beside it")
@parameters.as_json
def salvage_command(options: Options) -> None:
    """Copy the part before the damage into a new trace.

    The new trace can be shown, replayed and resumed. The damaged one stays unchanged.
    """
    source = run_path(options.run)
    target = Path(options.out) if options.out else source.with_suffix(".salvaged.trace")
    unused_path(target, "give another name as --out FILE")
    scan = salvage(source, target)
    end_here(target, owner())
    facts = {"blocks": scan.blocks, "lost_bytes": scan.torn, "damaged": scan.damaged}
    lost = f"{bytes_shown(scan.torn)} behind them left out" if scan.torn else "all there is"
    done = f"{target} holds {counted(scan.blocks, 'block')}, {lost}"
    report_done(options.json, {"file": str(target), **facts}, done)
