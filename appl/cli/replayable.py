"""``appl check --replayable``: replay a program in varied environments and report differences.

Invariant: each replay varies one thing, so that every difference has a cause. The first replay
varies nothing, and finds what varying the environment cannot explain.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from appl.cli import exits
from appl.cli.commands import Options
from appl.cli.perturbed_process import Environment, ProcessOutcome, spawned
from appl.cli.target import parse
from appl.cli.terminal import as_json, counted, out, say, term_safe
from appl.cli.trace.recorded_program import RecordedProgram

_USAGE = ("UsageError: ", "ConfigError: ")
_YEAR = 366 * 86400.0

VARIATIONS: tuple[tuple[str, Environment, str], ...] = (
    (
        "nothing varied",
        Environment(),
        "a file, a subprocess, an id() or a thread that is not waited for; appl.read and "
        "appl.observe record what a program sees of the world",
    ),
    (
        "another hash seed",
        Environment(hashes=31337),
        "iteration over a set, or hash(): write sorted(...) where the order gets into a prompt",
    ),
    (
        "other random numbers",
        Environment(dice=2),
        "random, secrets, uuid or os.urandom: appl.random() and appl.uuid() are recorded",
    ),
    (
        "another clock",
        Environment(shift=_YEAR + 7 * 3600 + 61),
        "time.time() or datetime.now(): appl.now() is recorded",
    ),
    (
        "a frozen clock",
        Environment(frozen=True),
        "durations by time.time() or datetime.now(): appl.now() is recorded",
    ),
    (
        "latencies",
        Environment(lag=1, switch=1e-5),
        "a race against a timer or a thread: appl.sleep and appl.timeout are recorded",
    ),
    (
        "other latencies",
        Environment(lag=2, slots=1, switch=0.05),
        "a race against a timer or a thread: appl.sleep and appl.timeout are recorded",
    ),
)
"""The variation of each replay, and the likely cause if the program then behaves differently."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of one replay; ``problem`` is empty if nothing differed."""

    varied: str
    problem: str = ""
    hint: str = ""

    def as_data(self) -> dict[str, object]:
        """The replay as JSON-ready data."""
        same = not self.problem
        return {
            "varied": self.varied,
            "same": same,
            "problem": self.problem or None,
            "hint": None if same else self.hint,
        }


def _problem(first: ProcessOutcome, replay: ProcessOutcome) -> str:
    if replay.error is not None:
        return _said(replay.error)
    if replay.value != first.value:
        return f"its value is {_short(replay.value)}, and was {_short(first.value)}"
    return ""


def _said(error: dict[str, object]) -> str:
    return f"{error['type']}: {error['message']}"


def _short(value: str | None) -> str:
    text = value or "nothing"
    return text if len(text) <= 80 else f"{text[:79]}…"


def command(options: Options) -> int:
    """Record the program, replay it in each environment, and return the exit code."""
    target = parse(options.replayable)
    entry = target.entry(options.paths)
    program = RecordedProgram(
        "cli", str(entry.file), str(entry.function), entry.argv, 0, target.written
    )
    results: list[ReplayResult] = []
    seconds = options.seconds
    tell = (lambda line: None) if options.json else say
    tell(f"appl: recording {target.written} with {options.backend}")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "recorded.trace"
        first = spawned(program, Environment(), trace, record=options.backend, seconds=seconds)
        if first.error is not None:
            problem = _said(first.error)
            if options.json:
                out(as_json({"replayable": None, "problem": problem}, indent=2))
            say(f"appl: the program fails when it is recorded: {problem}")
            return exits.USAGE if problem.startswith(_USAGE) else exits.FAILED
        calls = counted(first.calls, "call")
        tell(f"appl: {calls} recorded; to be replayed {len(VARIATIONS)} times")
        for varied, world, hint in VARIATIONS if trace.exists() else ():  # else it asks nothing
            replay = spawned(program, world, trace, seconds=seconds)
            results.append(ReplayResult(varied, _problem(first, replay), hint))
            tell(f"appl: {varied}: {'differs' if results[-1].problem else 'the same'}")
    return _report(first.calls, results, options.json)


def _report(calls: int, results: list[ReplayResult], as_document: bool) -> int:
    wrong = [difference for difference in results if difference.problem]
    if as_document:
        data = {"replayable": not wrong, "calls": calls, "replays": [f.as_data() for f in results]}
        out(as_json(data, indent=2))
    else:
        # a difference that occurs without variation occurs in all replays
        always = bool(wrong) and wrong[0].varied == VARIATIONS[0][0]
        for cause in wrong[:1] if always else wrong:
            out(term_safe(f"with {cause.varied}: {cause.problem}\n  hint: {cause.hint}"))
        many = f"{len(results)} replays of {counted(calls, 'call')}"
        say(f"appl: {many}, {len(wrong)} differ" if wrong else f"appl: {many}, all the same")
    return exits.DIVERGED if wrong else exits.OK
