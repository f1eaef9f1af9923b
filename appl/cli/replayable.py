"""``appl check --replayable``: replay a program in varied environments and report differences.

Invariant: each replay varies one thing, so that every difference has a cause. The first replay
varies nothing, and finds what varying the environment cannot explain.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.cli import exits
from appl.cli.commands import Options
from appl.cli.run import entry_of
from appl.cli.target import parse
from appl.cli.terminal import as_json, out, say, term_safe
from appl.cli.trace.again import Program
from appl.cli.trace.several import counted
from appl.cli.worlds import Outcome, World, spawned

_USAGE = ("UsageError: ", "ConfigError: ")
_YEAR = 366 * 86400.0

WORLDS: tuple[tuple[str, World, str], ...] = (
    (
        "nothing varied", World(),
        "a file, a subprocess, an id() or a thread that is not waited for; appl.read and "
        "appl.observe record what a program sees of the world",
    ),
    (
        "another hash seed", World(hashes=31337),
        "iteration over a set, or hash(): write sorted(...) where the order gets into a prompt",
    ),
    (
        "other random numbers", World(dice=2),
        "random, secrets, uuid or os.urandom: appl.random() and appl.uuid() are recorded",
    ),
    (
        "another clock", World(shift=_YEAR + 7 * 3600 + 61),
        "time.time() or datetime.now(): appl.now() is recorded",
    ),
    (
        "a frozen clock", World(frozen=True),
        "durations by time.time() or datetime.now(): appl.now() is recorded",
    ),
    (
        "latencies", World(lag=1, switch=1e-5),
        "a race against a timer or a thread: appl.sleep and appl.timeout are recorded",
    ),
    (
        "other latencies", World(lag=2, slots=1, switch=0.05),
        "a race against a timer or a thread: appl.sleep and appl.timeout are recorded",
    ),
)  # fmt: skip
"""The variation of each replay, and the likely cause if the program then behaves differently."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one replay; ``problem`` is empty if nothing differed."""

    varied: str
    problem: str = ""
    hint: str = ""

    def as_data(self) -> dict[str, Any]:
        """The replay as JSON-ready data."""
        same = not self.problem
        return {
            "varied": self.varied, "same": same, "problem": self.problem or None,
            "hint": None if same else self.hint,
        }  # fmt: skip


def audited(
    program: Program, backend: str, seconds: float, folder: Path | None = None
) -> Iterator[tuple[int, Found | None]]:
    """Record *program* with *backend*, then replay it in each environment.

    Yields the number of calls and the finding of each replay. The first item is for the recording;
    if that failed, the item holds the problem and is the last one.
    """
    with tempfile.TemporaryDirectory() as made:
        trace = Path(made) / "recorded.trace"
        first = spawned(program, World(), trace, record=backend, seconds=seconds, folder=folder)
        if first.error is not None:
            yield first.calls, Found("", _said(first.error))
            return
        yield first.calls, None
        if not trace.exists():
            return  # it asks nothing
        for varied, world, hint in WORLDS:
            again = spawned(program, world, trace, seconds=seconds, folder=folder)
            yield first.calls, Found(varied, _problem(first, again), hint)


def _problem(first: Outcome, again: Outcome) -> str:
    if again.error is not None:
        return _said(again.error)
    if again.value != first.value:
        return f"its value is {_short(again.value)}, and was {_short(first.value)}"
    return ""


def _said(error: dict[str, Any]) -> str:
    return f"{error['type']}: {error['message']}"


def _short(value: str | None) -> str:
    text = value or "nothing"
    return text if len(text) <= 80 else f"{text[:79]}…"


def command(given: Options) -> int:
    """Audit the program and return the exit code."""
    target = parse(given.replayable)
    entry = entry_of(target, list(given.paths))
    program = Program("cli", str(entry.file), str(entry.function), entry.argv, 0, target.written)
    found: list[Found] = []
    calls = 0
    tell = (lambda line: None) if given.json else say
    tell(f"appl: recording {target.written} with {given.backend}")
    for calls, each in audited(program, given.backend, given.seconds):
        if each is None:
            tell(f"appl: {counted(calls, 'call')} recorded; to be replayed {len(WORLDS)} times")
            continue
        if not each.varied:
            return _not_recorded(each, given.json)
        found.append(each)
        tell(f"appl: {each.varied}: {'differs' if each.problem else 'the same'}")
    return _report(calls, found, given.json)


def _not_recorded(found: Found, as_document: bool) -> int:
    """Report that the recording failed and nothing can be replayed."""
    if as_document:
        out(as_json({"replayable": None, "problem": found.problem}, indent=2))
    say(f"appl: the program fails when it is recorded: {found.problem}")
    return exits.USAGE if found.problem.startswith(_USAGE) else exits.FAILED


def _report(calls: int, found: list[Found], as_document: bool) -> int:
    wrong = [each for each in found if each.problem]
    if as_document:
        data = {"replayable": not wrong, "calls": calls, "replays": [f.as_data() for f in found]}
        out(as_json(data, indent=2))
    for each in [] if as_document else _causes(wrong):
        out(term_safe(f"with {each.varied}: {each.problem}\n  hint: {each.hint}"))
    if not as_document:
        many = f"{len(found)} replays of {counted(calls, 'call')}"
        say(f"appl: {many}, {len(wrong)} differ" if wrong else f"appl: {many}, all the same")
    return exits.DIVERGED if wrong else exits.OK


def _causes(wrong: list[Found]) -> list[Found]:
    """The differences to report: one that occurs without variation occurs in all replays."""
    return wrong[:1] if wrong and wrong[0].varied == WORLDS[0][0] else wrong
