"""Events are encoded later than they happen: a trace holds what was true then."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made import answer, asked, end, start

from appl import gen, ppl
from appl.errors import BackendError, TraceWriteError
from appl.prompt import Image, Message, Messages
from appl.testing import (
    AttemptFailed,
    CallStarted,
    Event,
    Instant,
    Observed,
    Run,
    RunEnded,
    ScopeEntered,
)
from appl.tracing import Masker, Recorder, Trace, records
from appl.tracing.format import codec
from appl.tracing.recording import EventEncoder


class Stalled:
    """A writer's fault that keeps it from writing until it is told, once it is armed."""

    def __init__(self) -> None:
        self.armed, self.stopped, self.go = False, threading.Event(), threading.Event()

    def __call__(self, point: str) -> None:
        if self.armed and point == "before-write":
            self.stopped.set()
            assert self.go.wait(60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.trace"


@pytest.fixture
def late(path: Path) -> Any:
    """A recorder and what lets it write: nothing is encoded before."""
    fault = Stalled()
    recorder = Recorder(path, {}, fault=fault)
    fault.armed = True
    start(recorder, asked("/p.0/first.0", "holds the writer"))
    assert fault.stopped.wait(60)
    return recorder, fault.go


def test_what_a_program_changes_afterwards_is_recorded_as_it_was(path: Path, late: Any) -> None:
    recorder, go = late
    seen, about, error = [1, [2]], {"tag": ["a"]}, BackendError("as it was")
    recorder.on_event(Observed("/p.0", 0, "read", seen, 0))
    recorder.on_event(ScopeEntered("/p.0/f.0", "/p.0", "f", None, None, 0, about))
    start(recorder, asked("/p.0/gen.0", "q"))
    recorder.on_event(AttemptFailed("/p.0/gen.0", 1, error, 0))
    seen.append(3), seen[1].append(4), about["tag"].append("b"), about.update(more=1)
    error.args = ("changed",)
    go.set()
    recorder.close()
    found = {fields[0]: fields for fields in records(path)}
    assert found["O"][4] == [1, [2]] and found["X"][8] == {"tag": ["a"]}
    assert found["A"][3][2:4] == ["as it was", ["as it was"]]


def test_what_cannot_be_encoded_is_told_and_takes_nothing_else_with_it(path: Path) -> None:
    recorder = Recorder(path, {})
    for number in range(3):
        request = asked(f"/p.0/gen.{number}", f"question {number}")
        odd: Any = request if number != 1 else replace(request, timeout=object())
        recorder.on_event(CallStarted(odd, "gen", (), None, None, 0))
    for number in (0, 2):
        end(recorder, f"/p.0/gen.{number}", answer("yes"))
    with pytest.raises(TraceWriteError, match="a record S cannot be recorded"):
        recorder.close()
    calls = Trace.open(path).calls
    assert [call.address for call in calls] == ["/p.0/gen.0", "/p.0/gen.2"]
    assert [call.outcome for call in calls] == ["answered", "answered"]


def test_long_texts_between_short_ones_stay_in_their_order(path: Path) -> None:
    recorder = Recorder(path, {})
    picture = Image.from_bytes(bytes(3 << 20), "image/png")
    for number in range(3):
        said = [Message("user", f"q{number}"), Message("assistant", "x" * (2 << 20))]
        shown = Message("user", f"see {number}", ((4, picture),))
        chain = Messages.of([*said, shown, Message("user", "y" * 600_000 + str(number))])
        start(recorder, replace(asked(f"/p.0/gen.{number}", "q"), messages=chain, _digest=None))
    recorder.close()
    trace = Trace.open(path)
    assert [[len(m.content) for m in call.messages or ()] for call in trace.calls] == [
        [2, 2 << 20, 5, 600_001]
    ] * 3
    assert max(map(len, map(codec.pack, records(path)))) < 2 << 20


@ppl
def answered(question: str) -> Any:
    f"Please answer {question}"
    return gen(max_tokens=2)


class Kept:
    """An instrument that keeps all events that a recorder would queue."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_event(self, event: Event) -> None:
        if not isinstance(event, RunEnded):
            self.events.append(event)


def test_one_call_is_encoded_in_few_steps() -> None:
    """Functions of Python that the thread which writes calls: a count that no machine changes."""
    kept, steps, calls = Kept(), list[str](), 3
    with Run(Instant(), instruments=[kept]):
        for number in range(calls):
            str(answered(f"question {number}"))
    assert len(kept.events) == 5 * calls
    encoder = EventEncoder(0, Masker(), None, whole=False)
    for at in range(0, len(kept.events), 5):
        steps.clear()
        sys.setprofile(lambda frame, what, _: what == "call" and steps.append(frame.f_code.co_name))
        packed = encoder.encode(kept.events[at : at + 5], lambda what, error: pytest.fail(what))
        sys.setprofile(None)
        assert [fields[0] for each in packed for fields in codec.unpack(each)][-4:] == [*"SDEV"]
    assert len(steps) <= 45, " ".join(steps)
