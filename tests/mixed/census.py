"""Judges many programs: in plain Python, replayed elsewhere, killed and gone on with, and edited."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from appl.testing import Log
from appl.tracing import Rerunner, Trace
from tests.edits.reuse import Verdict, judge
from tests.resume.continuing import cut, ended, resume

from .edits import edited
from .forms import FORMS
from .predicting import Predictions, counts, fails_as_then, holds, live_calls, predicted
from .program import Mixed
from .world import (
    Hung,
    asked_at,
    backend,
    compiled,
    departs,
    difference,
    outcome,
    performed,
    plainly,
    prompt_of,
    ran,
    recorded,
    replayed,
)

FEATURES = sorted({form.feature for form in FORMS})
SPARED = 12


@dataclass
class Found:
    """What was found over all programs."""

    programs: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    hangs: int = 0
    reuse: Verdict = field(default_factory=Verdict)
    predictions: Predictions = field(default_factory=Predictions)

    @classmethod
    def of(cls, parts: list[Found]) -> Found:
        """The sum of *parts*."""
        whole = cls()
        for part in parts:
            whole.programs += part.programs
            whole.marks += part.marks
            whole.faults += part.faults
            whole.hangs += part.hangs
            whole.predictions += part.predictions
            whole.reuse.edits += part.reuse.edits
            whole.reuse.ceiling += part.reuse.ceiling
            whole.reuse.reused += part.reuse.reused
        return whole

    def shares(self) -> dict[str, float]:
        """The share of programs that have each feature."""
        return {name: self.marks[name] / max(self.programs, 1) for name in FEATURES}

    def __str__(self) -> str:
        said = f"{self.programs} programs, {len(self.faults)} differences, {self.hangs} hangs"
        return f"{said}; predictions: {self.predictions}" if self.predictions.kinds else said

    def try_out(self, program: Mixed, judge: Callable[[Mixed], str | None]) -> None:
        """Have *judge* say what is wrong with *program*."""
        try:
            fault = judge(program)
        except Hung as hung:
            self.hangs += 1
            fault = str(hung)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        self.programs += 1
        self.marks.update(program.features)
        if fault:
            self.faults.append(f"program {program.seed}: {fault}\n{program.source()}")


def chosen(first: int, last: int) -> list[int]:
    """The programs to replay: of those whose own threads wait for rest, one in twelve."""
    programs = (Mixed(seed) for seed in range(first, last + 1))
    return [each.seed for each in programs if each.seed % SPARED == 0 or not each.waits_for_rest]


def against_plain(first: int, last: int, folder: Path | None = None) -> Found:
    """The programs of these seeds by the runtime and by CPython; recorded in *folder*."""
    found = Found()
    for seed in range(first, last + 1):
        path = folder / f"{seed}.trace" if folder is not None else None
        found.try_out(Mixed(seed), lambda program, path=path: difference(program, path))
    return found


def elsewhere(folder: Path, seeds: list[int]) -> Found:
    """Programs recorded by another process: replayed, and answered in another order."""
    found = Found()
    for seed in seeds:
        found.try_out(Mixed(seed), lambda program: replays(program, folder))
    return found


def replays(program: Mixed, folder: Path) -> str | None:
    """What is wrong with a replay of *program*, recorded in *folder*."""
    path, module = folder / f"{program.seed}.trace", compiled(program)
    expected, _ = plainly(program)
    wrong = departs(expected, replayed(module, path))
    return wrong or _moved(program, module, path)


def _moved(program: Mixed, module: dict[str, object], path: Path) -> str | None:
    """What is asked at other addresses when the answers come in another order.

    Whether a call begins before a limit of milliseconds strikes is a matter of time: of those that
    stand under one, only the addresses of both runs are compared.
    """
    if program.is_loose:
        return None
    log = Log()
    ran(module, backend(program, 1), instruments=[log])
    trace = Trace.open(path)
    every = {at: request.messages for at, request in asked_at(log).items()}
    every |= {call.address: call.messages for call in trace.calls}
    now = {at: trace.content_of(request) for at, request in asked_at(log).items()}
    before = {call.address: call.content for call in trace.calls}
    sure = {at for at, messages in every.items() if not program.is_timed(prompt_of(messages))}
    both = now.keys() & before.keys()
    wrong = sorted(at for at in sure | both if now.get(at) != before.get(at))
    return f"other addresses: {wrong}" if wrong else None


def gone_on(folder: Path, seeds: list[int]) -> Found:
    """Recorded programs cut off anywhere, gone on with until they end, and replayed."""
    found = Found()
    for seed in seeds:
        found.try_out(Mixed(seed), lambda program: goes_on(program, folder))
    return found


def goes_on(program: Mixed, folder: Path) -> str | None:
    """What is wrong when *program*, recorded in *folder*, was broken off and is gone on with."""
    whole, dice = folder / f"{program.seed}.trace", random.Random(program.seed)
    return goes_on_from(program, cut(whole, whole.with_suffix(".cut.trace"), dice))


def goes_on_from(program: Mixed, path: Path) -> str | None:
    """What is wrong when *program* is gone on with from the trace at *path*."""
    module = compiled(program)
    over, live = ended(Trace.open(path)), backend(program, 2)
    expected, _ = plainly(program)
    held: list[object] = []

    def resumed() -> object:
        value, *rest = resume(program.seed, path, program=lambda _: performed(module), backend=live)
        held.extend(rest)
        return value

    wrong = departs(expected, outcome(resumed, module))
    again = over & set(live.addresses)
    if wrong or again:
        return f"gone on: {wrong or ''} paid again: {sorted(again)}"
    return departs(expected, replayed(module, path))


def killed_and_gone_on(folder: Path, seeds: list[int]) -> Found:
    """Programs whose processes were killed, gone on with until they end, and replayed."""
    found = Found()
    for seed in seeds:
        path = folder / f"{seed}.trace"
        found.try_out(Mixed(seed), lambda program, path=path: goes_on_from(program, path))
    return found


class Swift(Rerunner):
    """Waits less for programs that may still move: too early, it would reuse less."""

    patience_s, live_patience_s = 0.05, 0.3


def edited_and_rerun(folder: Path, seeds: list[int], rerunner: type[Rerunner] = Swift) -> Found:
    """Recorded programs, edited at random and run again; an unedited one pays nothing."""
    found = Found()
    for seed in seeds:
        found.try_out(Mixed(seed), lambda program: reruns(program, folder, found, rerunner))
    found.faults += found.reuse.wrong
    return found


def reruns(
    program: Mixed, folder: Path, found: Found, rerunner: type[Rerunner] = Swift
) -> str | None:
    """What is wrong when *program*, recorded in *folder*, was edited and is run again."""
    first, second = (folder / f"{program.seed}{end}.trace" for end in ("", ".again"))
    edit, changed = edited(program)
    module, before = compiled(changed), Trace.open(first)
    foreseen = predicted(module, before, backend(changed, 4))
    again, live, reuse = rerunner(before), backend(changed, 3), found.reuse
    expected, _ = plainly(changed)
    wrong = departs(expected, recorded(module, live, second, again))
    judge(f"program {program.seed}, {edit}", before, Trace.open(second), reuse)
    reuse.runs += 1
    reuse.edits[edit] += 1
    name = f"program {program.seed}, {edit}"
    if fails_as_then(before, live):
        truth = len(again.asked)
        if not holds(foreseen, [truth]):  # the rerun has perhaps waited too little
            truth = live_calls(changed, before, 3)
        found.predictions.judge(name, foreseen, truth)
    numbers = counts(changed, before, rerunner)
    if numbers is not None and not holds(foreseen, numbers):
        numbers = counts(changed, before, Rerunner)
    found.predictions.compare(name, foreseen, numbers)
    paid = {at for at in live.addresses if edit == "nothing" and at in ended(before)}
    if wrong or paid - _failed(before):
        return f"{edit}: {wrong or ''} paid again: {sorted(paid)}"
    return departs(expected, replayed(module, second))


def _failed(trace: Trace) -> set[str]:
    return {call.address for call in trace.calls if call.outcome == "failed"}
