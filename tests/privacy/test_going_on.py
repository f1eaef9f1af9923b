"""Private traces are resumed and run again as others are, where their key is."""

from __future__ import annotations

from pathlib import Path

import pytest
from rehearsal import record, replay

from appl.errors import TraceError
from appl.tracing import Replayer, Trace
from appl.tracing.rerunner import Rerunner
from appl.tracing.resumer import Resumer
from tests.resume.continuing import blocks, cut, resume

from .conftest import holds


@pytest.mark.parametrize("seed", range(10))
def test_a_private_trace_that_was_cut_is_resumed_and_then_replays(here: Path, seed: int) -> None:
    record(seed, here / "whole.trace", privacy="redacted")
    ends = blocks(here / "whole.trace")
    path = cut(here / "whole.trace", ends[len(ends) // 2], here / "cut.trace")
    before = Trace.open(path, home=here / ".appl")
    answered = {call.address for call in before.calls if call.outcome == "answered"}
    values, live, _ = resume(seed, path)
    assert not answered & set(live.asked)
    found, _ = replay(seed, path, schedule=seed)
    assert found == values
    for request in live._backend.requests:
        for message in request.messages or ():
            if len(message.content) > 12:
                assert not holds(path, message.content)


def test_without_its_key_nothing_is_resumed(here: Path) -> None:
    record(1, here / "one.trace", privacy="redacted")
    trace = Trace.open("one.trace")
    for maker in (Replayer, Resumer, Rerunner):
        with pytest.raises(TraceError, match="private"):
            maker(trace)
