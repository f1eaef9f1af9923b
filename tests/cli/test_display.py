from __future__ import annotations

import io

import pytest
from rich.console import Console

from appl import Generation, gen, ppl
from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.cli.display import EVERY_NS, Counts, LiveDisplay, PlainDisplay
from appl.errors import BackendError
from appl.runtime.event import AttemptFailed, CallDispatched, CallEnded, CallStarted
from appl.runtime.run import Run
from appl.testing import Answer, Late, Policy, VirtualClock


def started(address: str, at: int = 0) -> CallStarted:
    return CallStarted(Request(address, 0, "m", None, Sampling()), "gen", (), None, None, at)


def sent(address: str, attempt: int = 1) -> CallDispatched:
    return CallDispatched(address, attempt, 0)


def ended(address: str, at: int = 0, usage: Usage | None = None) -> CallEnded:
    if usage is None:
        return CallEnded(address, None, BackendError("no"), at)
    return CallEnded(address, Response((Sample("hi", "stop"),), usage), None, at)


def test_counts_follow_the_events() -> None:
    counts = Counts()
    counts.add(started("/a", 1_000_000_000))
    counts.add(started("/b", 1_000_000_000))
    counts.add(sent("/a"))
    counts.add(sent("/b"))
    assert counts.line().startswith("2 running, 0 done")
    counts.add(ended("/a", 2_000_000_000, Usage(10, 30, 4)))
    counts.add(ended("/b", 3_000_000_000))
    line = counts.line()
    assert "running" not in line
    assert (
        line
        == "1 done, 1 failed, 4 of 10 prompt tokens cached, 30 tokens, 15 a second, cost unknown"
    )


def test_a_call_runs_only_while_it_is_with_a_backend() -> None:
    counts = Counts()
    for address in ("/a", "/b", "/c"):
        counts.add(started(address))
    assert counts.line() == "3 waiting, 0 done"
    counts.add(sent("/a"))
    assert counts.line() == "1 running, 2 waiting, 0 done"
    counts.add(AttemptFailed("/a", 1, BackendError("no"), 0, 2.0))  # it rests now
    assert counts.line() == "3 waiting, 0 done"
    counts.add(sent("/a", 2))
    counts.add(sent("/a", 3))  # its samples are asked for one by one
    counts.add(AttemptFailed("/a", 2, BackendError("no"), 0))
    assert counts.line() == "1 running, 2 waiting, 0 done"
    counts.add(ended("/a", 1, Usage()))
    assert counts.line() == "2 waiting, 1 done, cost unknown"


class Looking(Late):
    """Notes what the display shows whenever an answer is there."""

    def __init__(self, counts: Counts) -> None:
        super().__init__(lambda _: "yes", VirtualClock(), concurrency=2)
        self._counts, self.lines = counts, list[str]()

    def end(self, request: Request, answer: Answer) -> Response:
        self.lines.append(self._counts.line())
        return super().end(request, answer)


def test_calls_in_the_queue_are_not_shown_as_running() -> None:
    @ppl
    def ask(question: str) -> Generation:
        f"{question}"
        return gen()

    plain = PlainDisplay(quiet=True)
    backend = Looking(plain.counts)
    with Run(backend, instruments=[plain], policy=Policy(clock=backend.clock)):
        assert [str(each) for each in [ask(str(number)) for number in range(5)]] == ["yes"] * 5
    assert backend.lines[0] == "2 running, 3 waiting, 0 done"
    assert plain.counts.line().startswith("5 done")


def test_unknown_usage_is_not_zero() -> None:
    counts = Counts()
    counts.add(started("/a"))
    counts.add(ended("/a", 1, Usage()))
    assert counts.as_data()["completion_tokens"] is None
    assert counts.line() == "1 done, cost unknown"


def test_plain_lines_come_at_most_every_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    plain = PlainDisplay()
    began = plain.counts.began
    for step in range(11):
        plain.on_event(started(f"/{step}", began + step * EVERY_NS // 2))
    assert capsys.readouterr().err.count("\n") == 5


def test_the_live_display_draws_on_a_terminal_and_leaves_nothing() -> None:
    screen = io.StringIO()
    live = LiveDisplay(Console(file=screen, force_terminal=True, width=100))
    with live:
        live.on_event(started("/a.0/gen.0"))
        live._live.refresh()
    assert "1 waiting" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is wiped at the end
