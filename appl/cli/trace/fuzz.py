"""``appl trace fuzz``: a recorded run under other orders and with faults, for free.

Invariant: nothing is asked live and no tool runs. A seed determines its run.
"""

from __future__ import annotations

import contextlib
import io
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from appl.cli import exits, parameters
from appl.cli.commands import Options, WordChoice, appl_command, option, switch
from appl.cli.display import PlainDisplay
from appl.cli.failure import describe
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, counted, one_line, out, say, term_safe, to_stderr
from appl.cli.trace.recorded_program import RecordedProgram, opened
from appl.errors import ApplError, nearest
from appl.runtime.scheduling.policy import Policy
from appl.session.replaying import checked, replay_session
from appl.testing.clock import VirtualClock
from appl.tracing import Replayer, Trace
from appl.tracing.replaying.fuzzer import FAULTS, Fuzzer, NoAnswer, Plan, plan

_TOLD = 3
_PYTHON = sysconfig.get_paths()["stdlib"]
_REPLAYS = ("usual causes", "next:", "same:", "nearest")  # what is said of replays alone


@dataclass(slots=True)
class FuzzFinding:
    """The finding of one seed. ``kind`` is ``order``, ``fault`` or ``unhandled``.

    ``unhandled`` is a lasting fault that ends the program with that very error.
    """

    plan: Plan
    kind: str
    text: str
    address: str = ""
    details: str = ""
    seeds: list[int] = field(default_factory=list)

    def as_data(self) -> dict[str, object]:
        """The finding as JSON-ready data."""
        return {
            "kind": self.kind,
            "text": self.text,
            "address": self.address or None,
            "details": self.details or None,
            "seeds": self.seeds,
            "plan": self.plan.told,
        }


@appl_command(
    "fuzz",
    example="appl trace fuzz last --seeds 100",
    codes="0 nothing found, but for lasting faults that end the program; 1 something found, or "
    "with --strict also such faults",
)
@parameters.recorded_program
@option("--seeds", type=int, default=40, metavar="N", help="the seeds 0 to N-1")
@option("--seed", type=int, metavar="S", help="this seed alone")
@option(
    "--fault",
    type=WordChoice(tuple(FAULTS)),
    metavar="KIND",
    help=f"no seeds, but this fault, once and at each attempt: {', '.join(FAULTS)}",
)
@option("--call", metavar="CALL", help="with --fault: at this call, not at each")
@switch("--strict", help="a lasting fault that ends the program is a finding")
@parameters.another_program
@parameters.as_json
def command(options: Options) -> int:
    """Try a recorded run with other orders and with faults, for free.

    Runs a recorded program many times, answered from its trace: with answers and timers in other
    orders (even seeds), and with faults of the backend at one call (odd seeds: a 429, a timeout, a
    stream that breaks off, an answer that breaks the protocol, an answer that ends in the middle;
    once, or at each attempt). Reports the prompts and values that depended on the order, and the
    failures that nobody handled. No token is paid and no tool runs.
    """
    trace, program = opened(options)
    plans = _plans(trace, options)
    tell = (lambda line: None) if options.json else say
    tell(f"appl: {counted(len(plans), 'run')} of {counted(len(trace.calls), 'call')}, 0 tokens")
    with _quiet():
        expected = _expected(trace, program)
    findings: dict[tuple[str, ...], FuzzFinding] = {}
    unclear = 0
    for number, trial in enumerate(plans, 1):
        with _quiet():
            new_findings = list(_tried(trace, program, trial, expected))
        unclear += any(finding.kind == "unclear" for finding in new_findings)
        for finding in new_findings:
            if finding.kind != "unclear":
                findings.setdefault(_key(finding), finding).seeds.append(trial.seed)
        if number % 20 == 0 and number < len(plans):
            tell(f"appl: {number} runs, {counted(len(findings), 'finding')}")
    return _report(list(findings.values()), unclear, options)


def _plans(trace: Trace, options: Options) -> list[Plan]:
    """The plans to try. Raises ``UsageError``."""
    if options.fault is None:
        if options.call is not None:
            raise UsageError(
                "--call names the call that a fault strikes: give --fault KIND with it"
            )
        if options.seeds < 1:
            raise UsageError(f"--seeds is a number of runs from 1 on, got {options.seeds}")
        seeds = range(options.seeds) if options.seed is None else [options.seed]
        return [plan(trace, seed) for seed in seeds]
    if options.call is not None and options.call not in trace.by_address:
        hint = nearest(options.call, trace.by_address)
        raise UsageError(f"{trace.path.name} has no call {options.call!r}{hint}")
    answered = [call.address for call in trace.calls if call.response is not None]
    calls = answered if options.call is None else [options.call]
    return [Plan(0, options.fault, call, lasting) for call in calls for lasting in (False, True)]


def _key(finding: FuzzFinding) -> tuple[str, ...]:
    """The identity of a finding: an order by its prompt, a lasting fault by its kind."""
    where = finding.address if finding.kind != "unhandled" else ""
    return (
        finding.kind,
        where,
        finding.plan.fault or "",
        "" if where else finding.text.split(" at ")[0],
    )


def _report(findings: list[FuzzFinding], unclear: int, options: Options) -> int:
    counting = [finding for finding in findings if options.strict or finding.kind != "unhandled"]
    if options.json:
        data = {"findings": [finding.as_data() for finding in findings], "unclear": unclear}
        out(as_json(data, indent=2))
    else:
        for finding in sorted(findings, key=lambda one: one.kind):
            some, rest = ", ".join(map(str, finding.seeds[:_TOLD])), finding.seeds[_TOLD:]
            word = "seed" if len(finding.seeds) == 1 else "seeds"
            seeds = f" ({word} {some}{'…' if rest else ''})" if options.fault is None else ""
            out(term_safe(f"{finding.kind}: {finding.text}{seeds}"))
            if finding.details:
                out(term_safe("  " + finding.details))
        counts = Counter(finding.kind for finding in findings)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        more = f"; {counted(unclear, 'run')} went where nothing was recorded" if unclear else ""
        say(f"appl: {kinds or 'nothing found'}{more}")
        if findings and options.fault is None:
            say(f"appl: `appl trace fuzz {options.run} --seed {findings[0].seeds[0]}` repeats one")
    return exits.FAILED if counting else exits.OK


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide what the program prints, and restore the path of imports afterwards."""
    path = list(sys.path)
    try:
        with to_stderr(True), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.path[:] = path


def _expected(trace: Trace, program: RecordedProgram) -> str:
    """The value of the run as it was recorded. Raises ``DivergenceError``."""
    replayer = Replayer(trace)
    with checked(replayer):
        return as_json(program.run(lambda: replay_session(replayer)))


def _tried(
    trace: Trace, program: RecordedProgram, plan: Plan, expected: str
) -> Iterator[FuzzFinding]:
    clock = VirtualClock()
    fuzzer = Fuzzer(trace, plan, clock.advance)
    policy = Policy(clock=clock)
    value, error = None, None
    try:
        value = as_json(
            program.run(
                lambda: replay_session(
                    fuzzer, instruments=[PlainDisplay(quiet=True)], policy=policy
                )
            )
        )
    except Exception as caught:
        error = caught
    if fuzzer.unknown or isinstance(error, NoAnswer):
        yield FuzzFinding(plan, "unclear", "")
    elif plan.fault is None:
        for address, text in list(fuzzer.changed.items())[:1]:  # the others may follow from it
            lines = [
                line for line in text.splitlines()[1:] if not line.strip().startswith(_REPLAYS)
            ]
            sentence = f"the prompt of {address} depended on the order"
            yield FuzzFinding(plan, "order", sentence, address, "\n".join(lines).lstrip())
        if error is not None:
            yield FuzzFinding(
                plan, "order", f"the program failed: {_said(error)}", details=_where(error)
            )
        elif value != expected and not fuzzer.changed:
            text = f"the value depended on the order: {one_line(value or '', 60)}"
            yield FuzzFinding(plan, "order", text)
    elif error is not None:
        own = plan.lasting or plan.fault == "garbled"
        kind = "unhandled" if own and _is_ours(error) else "fault"
        text = f"{plan.told}, ends the program: {_said(error)}"
        yield FuzzFinding(plan, kind, text, plan.address, _where(error))
    elif value != expected and not plan.lasting and plan.fault != "garbled":
        yield FuzzFinding(plan, "fault", f"{plan.told}, changed the value", plan.address)


def _is_ours(error: BaseException) -> bool:
    """True if *error* is the backend's own, alone or with those of its siblings."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_ours, error.exceptions))
    return isinstance(error, ApplError)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(str(error), 100)}"


def _where(error: Exception) -> str:
    """The last line of the user's program that led to *error*."""
    lines: list[str] = describe(error)["traceback"]
    at = [n for n, line in enumerate(lines) if line.startswith('  File "') and _PYTHON not in line]
    return "\n".join(lines[at[-1] : at[-1] + 2]).strip() if at else ""
