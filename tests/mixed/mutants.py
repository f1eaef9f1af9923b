"""Bugs seeded on purpose, one for each kind of program, and the way in which it shows.

``hunt`` judges programs of that kind against a copy of the package with the bug, in a process of
its own, until one is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.equivalence.mutants import Mutant, mutated, verdict

SUITES = ("mixed", "equivalence", "edits", "resume", "tracing")


@dataclass(frozen=True)
class Seeded:
    """A bug that programs with *feature* show when they are judged in *way*."""

    feature: str
    way: str
    mutant: Mutant


SEEDED = (
    Seeded("limits", "plain", Mutant(
        "a time limit never strikes",
        "runtime/concurrency/timeout.py",
        "        if not self._over:\n            self._timer",
        "        if self._over:\n            self._timer",
    )),
    Seeded("limits", "replayed", Mutant(
        "it is not recorded that a time was up",
        "runtime/concurrency/timeout.py",
        'Observed(self._frame.address, self._ordinal, "deadline", limit, at)',
        'Observed(self._frame.address, self._ordinal, "timeout", limit, at)',
    )),
    Seeded("limits", "edited", Mutant(
        "a recorded limit does not strike while a live call is out",
        "tracing/replaying/rerunner.py",
        "            live = self._running or self._is_new(timer.moment.address)",
        "            live = False",
        first=105,
    )),
    Seeded("locks", "plain", Mutant(
        "a lock that is held is given to another",
        "runtime/concurrency/lock.py",
        "            if not self._held:\n                self._held = True",
        "            if self._guard:\n                self._held = True",
    )),
    Seeded("own pools", "replayed", Mutant(
        "the calls of several threads share an address",
        "runtime/scopetree.py",
        "            address = parent.issue(_named_by(content))",
        '            address = f"{parent.address}/~"',
    )),
    Seeded("as_completed", "replayed", Mutant(
        "tasks made from a set are told apart by who came first",
        "runtime/concurrency/tasks.py",
        'if maker.f_code.co_name == "as_completed":',
        'if maker.f_code.co_name == "as completed":',
    )),
    Seeded("wait", "plain", Mutant(
        "a call that failed counts as cancelled",
        "runtime/answers/call.py",
        "        self._end(Error(error), None, error)",
        "        self._end(Error(CallCancelled(str(error))), None, error)",
        first=14,
    )),
    Seeded("queues", "replayed", Mutant(
        "tasks of one coroutine function share an address",
        "runtime/concurrency/tasks.py",
        "frame.issue(name)",
        'f"{frame.address}/{name}.0"',
        first=19,
    )),
    Seeded("orphans", "plain", Mutant(
        "a program whose thread has ended is waited for",
        "runtime/concurrency/task.py",
        "return hub is not None and not self.done and not hub.alive()",
        "return hub is not None and not self.done and hub.stopped",
    )),
    Seeded("orphans", "replayed", Mutant(
        "the run does not wait for the calls of a program that was left",
        "runtime/concurrency/task.py",
        "        self.children = self.children or owed(started)\n",
        "",
        first=293,
    )),
    Seeded("failing tools", "plain", Mutant(
        "the result of a tool does not say which one has failed",
        "runtime/tools/toolrun.py",
        'f"{self._called} failed: {described(error)}"',
        'f"a tool failed: {described(error)}"',
    )),
    Seeded("generators", "plain", Mutant(
        "a generator is not told what is sent to it",
        "runtime/generators.py",
        "                step = functools.partial(inner.send, (yield out))\n"
        "            except GeneratorExit:\n                out = step",
        "                yield out\n                step = functools.partial(inner.send, None)\n"
        "            except GeneratorExit:\n                out = step",
        first=32,
    )),
    Seeded("shared objects", "plain", Mutant(
        "an activation of a resume method does not wait for the one before",
        "runtime/prompts/state.py",
        "        if self.before is not None:\n            wait(self.before)",
        "        if self.before is None:\n            wait(self.before)",
    )),
    Seeded("failing tools", "edited", Mutant(
        "a prediction believes its first rehearsal",
        "tracing/explaining/prediction.py",
        "return len(self.rehearsed[0].asked) if agree else None",
        "return len(self.rehearsed[0].asked) if self.rehearsed else None",
    )),
    Seeded("chains", "edited", Mutant(
        "a prediction takes new answers for recorded ones",
        "tracing/replaying/made_up.py",
        "return _TEXTS[min(number, len(_TEXTS) - 1)].format(text)",
        "return text",
    )),
    Seeded("try", "killed", Mutant(
        "a resumed run asks again what was answered",
        "tracing/replaying/resumer.py",
        "        self.check_usable(record)\n        return Recorded(record)",
        "        self.check_usable(record)\n        return AtEnd()",
    )),
)  # fmt: skip


def hunt(seeded: Seeded, folder: Path, programs: int = 60, limit: float = 90) -> int | None:
    """How many programs it took to find the bug; ``None`` when none of them is wrong."""
    copy = mutated(seeded.mutant, folder, SUITES)
    how = [seeded.way, seeded.feature, str(seeded.mutant.first), str(programs)]
    return verdict(seeded.mutant, copy, ["tests.mixed", "hunt", *how], limit)
