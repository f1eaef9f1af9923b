from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import socket
import struct
import sys
import termios
import time
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL, Popen

import pytest

from appl import Generation, gen, ppl
from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.cli.display import EVERY_NS, Counts, PlainDisplay
from appl.errors import BackendError, BackendUnavailable
from appl.testing import (
    Answer,
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    Late,
    Policy,
    Run,
    VirtualClock,
)


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
    assert counts.line() == "3 waiting, 0 done, refused once: no"
    counts.add(sent("/a", 2))
    counts.add(sent("/a", 3))  # its samples are asked for one by one
    counts.add(AttemptFailed("/a", 2, BackendError("no"), 0))
    assert counts.line() == "1 running, 2 waiting, 0 done, refused 2 times: no"
    counts.add(ended("/a", 1, Usage()))
    assert counts.line() == "2 waiting, 1 done, cost unknown"


def refused(address: str, text: str, wait_s: float = 0.0, at: int | None = None) -> AttemptFailed:
    at = time.monotonic_ns() if at is None else at
    return AttemptFailed(address, 1, BackendUnavailable(text), at, wait_s)


def test_what_a_server_says_to_calls_that_wait_how_often_and_until_when() -> None:
    counts = Counts()
    for address in ("/a", "/b"):
        counts.add(started(address))
        counts.add(sent(address))
    counts.add(refused("/a", "mill (at 127.0.0.1:9) answered 500: the wheel\x1b[2J broke"))
    assert counts.line() == (
        "1 running, 1 waiting, 0 done, refused once: "
        "mill (at 127.0.0.1:9) answered 500: the wheel broke"
    )
    counts.add(refused("/b", "mill (at 127.0.0.1:9) cannot be reached", 30.0))
    assert counts.line().startswith("2 waiting, 0 done, refused 2 times, asked again in ")
    assert counts.line().endswith(" s: mill (at 127.0.0.1:9) cannot be reached")
    counts.add(sent("/a", 2))
    counts.add(ended("/a", 1, Usage()))
    assert counts.line() == "1 waiting, 1 done, cost unknown"  # it is well again


def test_a_secret_in_what_a_server_says_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILL_API_KEY", "wheel-4711-of-the-mill")
    counts = Counts()
    counts.add(started("/a"))
    counts.add(refused("/a", f"no: wheel-4711-of-the-mill {'x' * 500}"))
    assert "wheel-4711" not in counts.line() and len(counts.line()) < 300


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


def test_a_server_that_refuses_for_long_is_told_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = PlainDisplay()
    began = plain.counts.began
    plain.on_event(started("/a", began))
    for second in range(12):
        plain.on_event(refused("/a", "it is full", 0.5, began + second * 10**9))
    shown = capsys.readouterr().err.splitlines()
    assert [line.count("refused 3 times") for line in shown] == [1, 0]
    assert all("1 waiting, 0 done, refused" in line for line in shown)
    assert "refused 8 times" in shown[1] and shown[1].endswith("it is full")


def test_one_refusal_that_may_pass_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    plain = PlainDisplay()
    plain.on_event(started("/a", plain.counts.began))
    plain.on_event(refused("/a", "it is full", 0.5, plain.counts.began))
    assert capsys.readouterr().err == ""
    plain.on_event(refused("/a", "come again", 30.0, plain.counts.began + 10**9))
    assert "refused 2 times" in capsys.readouterr().err


PROGRAM = """
from appl import gen, ppl

@ppl
def main():
    "Well?"
    return gen()
"""


def test_a_dead_server_is_named_on_a_terminal_within_seconds(tmp_path: Path) -> None:
    with closing(socket.socket()) as taken:  # bound, and not listened at: connections are refused
        taken.bind(("127.0.0.1", 0))
        (tmp_path / "prog.py").write_text(PROGRAM)
        (tmp_path / "appl.toml").write_text("[retries]\nattempts = 99\n")
        place = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        environment = {**os.environ, "OPENAI_BASE_URL": place, "OPENAI_API_KEY": "k"}
        environment["COLUMNS"] = "200"  # the words that are looked for stand in one line
        terminal, its_end = pty.openpty()
        fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 300, 0, 0))
        command = [sys.executable, "-m", "appl", "run", "prog.py", "--model", "openai/m"]
        quiet = {"stdout": DEVNULL, "stdin": DEVNULL, "cwd": tmp_path}
        with Popen(command, stderr=its_end, env=environment, **quiet) as ran:
            try:
                shown = read_until(terminal, b"cannot be reached")
            finally:
                ran.kill()
                os.close(terminal)
                os.close(its_end)
    assert b"1 waiting, 0 done" in shown
    assert re.search(rb"refused (once|\d+ times).*: openai \(model m, at 127\.0\.0\.1:", shown)


def read_until(terminal: int, words: bytes, most_s: float = 60.0) -> bytes:
    """What is shown on *terminal* up to *words*."""
    shown, end = b"", time.monotonic() + most_s
    while words not in shown:
        assert select.select([terminal], [], [], end - time.monotonic())[0], shown
        shown += os.read(terminal, 1 << 16)
    return shown
