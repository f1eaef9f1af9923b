"""Private traces are resumed and run again as others are, where their key is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import rehearsal
from rehearsal import record, replay

from appl.errors import TraceError
from appl.testing import Fake, Policy, Retries, Run
from appl.tracing import Appender, Replayer, Rerunner, Resumer, Trace
from appl.tracing.format import block

from .conftest import Project, holds


def cut_in_half(path: Path, to: Path) -> Path:
    """What a crash in the middle leaves of the trace *path*.

    It comes where the program has seen no part of an answer: what follows from one that is not
    recorded comes otherwise (``tests/resume/test_seen_in_part.py``). How many blocks there are, and
    so where the middle is, depends on the time that the run took.
    """
    found, ends = block.Scan(), list[int]()
    with path.open("rb") as file:
        for _ in block.scan(file, found):
            ends.append(found.good)
    middle = len(ends) // 2
    for end in sorted(ends, key=lambda end: abs(ends.index(end) - middle)):
        to.write_bytes(path.read_bytes()[:end])
        if not rehearsal.seen_in_part(Trace.open(to)):
            break
    return to


def go_on(seed: int, trace: Trace) -> tuple[Any, Fake]:
    """Go on with program *seed*; its values, and the backend that answered what was not there."""
    live = rehearsal.backend(seed)
    doubtful = rehearsal.in_doubt(trace)
    resumer = Resumer(trace, rerun=doubtful)
    appender = Appender(resumer, durability="process")
    policy = Policy(retries=Retries(attempts=1 + seed % 2, base_s=0, spare=1000), circuit=None)
    with Run(
        live, instruments=[resumer, appender], gate=appender.gate, barrier=appender.barrier,
        world=resumer, policy=policy,
    ):  # fmt: skip
        values = rehearsal.program(seed)
    appender.close()
    return values, live


@pytest.mark.parametrize("seed", range(10))
def test_a_private_trace_that_was_cut_is_resumed_and_then_replays(here: Path, seed: int) -> None:
    record(seed, here / "whole.trace", privacy="redacted")
    path = cut_in_half(here / "whole.trace", here / "cut.trace")
    before = Trace.open(path, home=here / ".appl")
    answered = {call.address for call in before.calls if call.outcome == "answered"}
    values, live = go_on(seed, before)
    assert not answered & {request.address for request in live.requests}
    found, _ = replay(seed, path, schedule=seed)
    assert found == values
    for request in live.requests:
        for message in request.messages or ():
            if len(message.content) > 12:
                assert not holds(path, message.content)


def test_without_its_key_nothing_is_resumed(here: Path) -> None:
    record(1, here / "one.trace", privacy="redacted")
    trace = Trace.open("one.trace")
    for maker in (Replayer, Resumer, Rerunner):
        with pytest.raises(TraceError, match="private"):
            maker(trace)


def test_a_rerun_of_a_private_run_asks_nothing_and_is_private_too(project: Project) -> None:
    first = project.run("ask", "--question", "a-precious-question", "--privacy", "redacted")
    again = project.appl("trace", "rerun", "last")
    assert again.code == 0, again.err
    assert first.out.strip() in again.out
    _, new = project.traces
    assert not holds(new, "a-precious-question")
    assert [call.source for call in Trace.open(new).calls] == ["reused"]
    assert project.appl("trace", "replay", new.stem).out == first.out
