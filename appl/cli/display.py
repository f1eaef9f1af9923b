"""The display of a run in progress: one live line on a terminal, plain lines elsewhere.

With ``--stream`` it also shows the answers while they are generated: in panels on a terminal, one
answer after the other elsewhere.

Invariant: a display is an Instrument that only observes; the run is the same without it. A model's
text is made safe before a terminal gets it.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from appl.backend.price import total
from appl.base.status_line import Terminal, terminal
from appl.cli.terminal import TermSafe, counted, err, say, term_safe
from appl.errors import CallCancelled
from appl.parts.control.words import seconds
from appl.runtime.event import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    ChunkArrived,
    Event,
    RunEnded,
    Warned,
)
from appl.tracing.format.totals import Totals
from appl.tracing.recording.piecewise_masking import PiecewiseMasker
from appl.tracing.recording.secret import Masker

EVERY_NS = 5_000_000_000
MANY = 3
"""The number of refusals in a row from which on they are told at once."""
PANELS, LINES = 4, 6
EXCERPT, LONGEST = 200, 1 << 18


@dataclass(slots=True)
class Counts:
    """The numbers of calls that run, wait and are done, and of the tokens they used.

    ``open`` holds, for each call that has started and not ended, the numbers of the attempts that a
    backend works on. A call without one waits: in the queue, for a limit, or after a failure.
    ``refusals`` counts the attempts that failed, and are made again, since the last answer.
    """

    started: int = 0
    reused: int = 0
    sums: Totals = field(default_factory=Totals)
    began: int = field(default_factory=time.monotonic_ns)
    first: int | None = None
    last: int = 0
    open: dict[str, set[int]] = field(default_factory=dict)
    refusals: int = 0
    _refusal: AttemptFailed | None = None
    _words: tuple[BaseException, str] | None = None
    _masker: Masker | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Event) -> None:
        """Count *event*."""
        with self._lock:
            if isinstance(event, CallStarted):
                self.started += 1
                self.first = self.first or event.at
                self.open[event.address] = set()
            elif isinstance(event, CallDispatched):
                self.open.setdefault(event.address, set()).add(event.attempt)
            elif isinstance(event, AttemptFailed):
                self.open.get(event.address, set()).discard(event.attempt)
                self.refusals, self._refusal = self.refusals + 1, event
            elif isinstance(event, CallEnded):
                self._ended(event)

    def _ended(self, event: CallEnded) -> None:
        self.open.pop(event.address, None)
        self.last = event.at
        if event.response is None:
            cancelled = isinstance(event.error, CallCancelled)
            self.sums.cancelled += cancelled
            self.sums.failed += not cancelled
        elif event.source is None:
            self.refusals, self._refusal = 0, None
            self.sums.answered += 1
            self.sums.spend(event.response)
        else:  # it was paid for in an earlier run
            self.sums.answered += 1
            self.reused += 1

    def seconds(self) -> float:
        """Seconds since the run began."""
        return (time.monotonic_ns() - self.began) / 1e9

    def rate(self) -> float:
        """Generated tokens per second, from the first call's start to the last answer."""
        span = self.last - (self.first or self.last)
        return self.sums.tokens["completion_tokens"] / (span / 1e9) if span > 0 else 0.0

    def present(self) -> tuple[int, int]:
        """The number of calls that run, and of those that wait."""
        with self._lock:
            running = sum(1 for attempts in self.open.values() if attempts)
            return running, len(self.open) - running

    def line(self) -> str:
        """The state of the run in one line, with what a server said to calls that wait for it."""
        return ", ".join(part for part in (self.state(), self.refusal()) if part)

    def state(self) -> str:
        """The state of the run in one line."""
        sums = self.sums
        prompt, completion, cached = sums.tokens.values()
        parts = [self.shortly()]
        parts += [f"{self.reused} of them from the record"] if self.reused else []
        parts += [f"{sums.failed} failed"] if sums.failed else []
        parts += [f"{sums.cancelled} cancelled"] if sums.cancelled else []
        if completion or (sums.answered > self.reused and not sums.unknown["completion_tokens"]):
            share = f" of {prompt}" if prompt else ""
            parts.append(f"{cached}{share} prompt tokens cached")
        if completion:
            parts.append(f"{counted(completion, 'token')}, {self.rate():.0f} a second")
        if sums.cost or sums.cost_unknown:  # models on this machine cost nothing
            parts.append(f"cost {total(sums.cost, sums.cost_unknown)}")
        return ", ".join(parts)

    def shortly(self) -> str:
        """The numbers of calls that run, wait and are done."""
        running, waiting = self.present()
        parts = [f"{running} running"] if running else []
        parts += [f"{waiting} waiting"] if waiting else []
        return ", ".join([*parts, f"{self.sums.answered} done"])

    def refusal(self) -> str:
        """The last thing that a server said to calls that wait for it, how often, until when."""
        refusal = self._refusal
        if refusal is None or not self.present()[1]:
            return ""
        error, often = refusal.error, self.refusals
        if self._words is None or self._words[0] is not error:
            masker = self._masker = self._masker or Masker()
            self._words = error, _shown(str(error)[:LONGEST], masker)[:EXCERPT]
        remaining_s = refusal.wait_s - (time.monotonic_ns() - refusal.at) / 1e9
        retry = f", asked again in {seconds(remaining_s)}" if remaining_s > 0 else ""
        times = "once" if often == 1 else f"{often} times"
        return f"refused {times}{retry}: {self._words[1]}"

    def as_data(self) -> dict[str, object]:
        """The counts for ``--json``; a sum that the backend did not report is null, not 0."""
        sums, live = self.sums, self.sums.answered - self.reused
        complete = sums.unknown["completion_tokens"] < live or not live
        prompt, completion, cached = sums.tokens.values()
        return {
            "calls": self.started,
            "answered": sums.answered,
            "failed": sums.failed,
            "cancelled": sums.cancelled,
            "reused": self.reused,
            "prompt_tokens": prompt if complete else None,
            "cached_tokens": cached if complete else None,
            "completion_tokens": completion if complete else None,
            "cost": sums.cost if sums.cost or not sums.cost_unknown else None,
            "tokens_per_second": round(self.rate(), 1) if complete else None,
            "seconds": round(self.seconds(), 3),
        }


class Display:
    """An instrument that counts a run, and shows it inside a ``with`` block.

    With *answers*, it shows the models' answers too.
    """

    def __init__(self, answers: bool = False) -> None:
        self.counts, self.wants_chunks = Counts(), answers

    def on_event(self, event: Event) -> None:
        """Count and perhaps show *event*."""
        self.counts.add(event)

    def tell(self, line: str) -> None:
        """Show a line above everything live."""
        say(line)

    def clear(self) -> None:
        """Clear the terminal for text that the program writes piece by piece."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End what is live."""


class AnswerPrinter:
    """Prints the models' answers on stderr as they are generated, one after the other.

    The answer that began first is shown until it is complete, then the next one, beginning with the
    part that has already arrived.
    """

    wants_chunks = True

    def __init__(self) -> None:
        self._begun: dict[str, _PartialAnswer] = {}
        self._lock = threading.Lock()

    @property
    def begun(self) -> bool:
        """True if an answer is shown that is not complete."""
        return bool(self._begun)

    def on_event(self, event: Event) -> None:
        """Show the new text of *event*."""
        if isinstance(event, ChunkArrived):
            if event.chunk.kind == "text":
                with self._lock:
                    self._answer(event).add(event.chunk.sample, event.chunk.text)
                    self._show()
        elif isinstance(event, CallEnded) and event.address in self._begun:
            with self._lock:
                self._begun[event.address].end(event.error)
                self._show()

    def _answer(self, event: ChunkArrived) -> _PartialAnswer:
        if event.address not in self._begun:
            self._begun[event.address] = _PartialAnswer(event.chunk.sample, self._masker)
        return self._begun[event.address]

    @cached_property
    def _masker(self) -> Masker:
        return Masker()

    def _show(self) -> None:
        while self._begun:
            address, saying = next(iter(self._begun.items()))
            if not saying.headed:
                saying.headed = True
                err(f"--- {term_safe(address)}\n")
            if saying.new:
                err(saying.new)
                saying.new = ""
            if not saying.ended:
                return
            del self._begun[address]


class _PartialAnswer:
    """The part of one answer, of its first *sample*, that is not shown yet."""

    def __init__(self, sample: int, masker: Masker) -> None:
        self._sample, self._masker, self._text = sample, masker, _Shown(masker)
        self.new, self.headed, self.ended = "", False, False

    def add(self, sample: int, text: str) -> None:
        if sample == self._sample:
            self.new += self._text.feed(text)

    def end(self, error: BaseException | None) -> None:
        self.new += self._text.close() + "\n"
        if error is not None:
            self.new += f"--- {type(error).__name__}: {_shown(str(error), self._masker)}\n"
        self.ended = True


class _Shown:
    """The text of a model, piece by piece: safe for a terminal, and without secrets."""

    def __init__(self, masker: Masker) -> None:
        self._safe, self._flow = TermSafe(), PiecewiseMasker(masker)

    def feed(self, piece: str) -> str:
        return self._flow.feed(self._safe.feed(piece))

    def close(self) -> str:
        return self._flow.feed(self._safe.close()) + self._flow.close()


def _shown(text: str, masker: Masker) -> str:
    return masker.text(term_safe(text), [])


class PlainDisplay(Display):
    """Prints a line on stderr, every five seconds at most; nothing if *quiet*.

    When a server refuses calls for long, there is a line at once. With *answers*, it prints the
    models' answers instead, and lines about servers between them.
    """

    def __init__(self, quiet: bool = False, answers: bool = False) -> None:
        super().__init__(answers)
        self._quiet = quiet
        self._answers = AnswerPrinter()
        self._next = self.counts.began + EVERY_NS
        self._next_refusal = 0

    def on_event(self, event: Event) -> None:
        """Count *event*, and print a line if the last one is old."""
        super().on_event(event)
        if self.wants_chunks:
            self._answers.on_event(event)
            if self._answers.begun:
                return
        due = event.at >= self._next and not self.wants_chunks
        if due and isinstance(event, RunEnded | Warned):
            due = False
        elif due and isinstance(event, CallEnded | AttemptFailed):
            # When a call has ended, a waiting one takes its place in a moment. If none does, a line
            # is printed after the time of one more line.
            due = not self.counts.present()[1] or event.at >= self._next + EVERY_NS
        if due or self._refused(event):
            self._next = self._next_refusal = event.at + EVERY_NS
            if not self._quiet:
                say(f"appl: {self.counts.seconds():.0f} s: {self.counts.line()}")

    def _refused(self, event: Event) -> bool:
        """True if *event* is a refusal to be told at once: not the first ones, which may pass."""
        if not isinstance(event, AttemptFailed) or event.at < self._next_refusal:
            return False
        return self.counts.refusals >= MANY or event.wait_s * 1e9 >= EVERY_NS


class LiveDisplay(Display):
    """One line at the bottom of the terminal, redrawn eight times a second and removed at the end.

    What a server has said to calls that wait for it stands in it, too. With *answers*, it has a
    panel above the line for each of the latest unfinished answers; finished ones stay.
    """

    def __init__(self, answers: bool = False, terminal: Terminal = terminal) -> None:
        super().__init__(answers)
        self._saying: dict[str, list[str]] = {}
        self._texts: dict[str, dict[tuple[int, str], _Shown]] = {}
        self._lock = threading.Lock()
        from rich.text import Text  # only a live display needs it

        self._text: Any = Text
        self._terminal = terminal

    def shown(self) -> object:
        """The line, below the panels of answers."""
        counts = self.counts
        line = f"{counts.seconds():.0f} s  {self._words()}"
        row = self._text(line, style="dim", no_wrap=True, overflow="ellipsis")
        if not self.wants_chunks:
            return row
        with self._lock:
            latest = list(self._saying.items())[-PANELS:]
            saying = [(address, "".join(pieces)) for address, pieces in latest]
        panels = (self._panel(address, self._tail(text)) for address, text in saying)
        from rich.console import Group  # only a live display needs it

        return Group(*panels, row)

    def _words(self) -> str:
        """The state of the run; what a server says comes first, as the line may be cut."""
        refusal, state = self.counts.refusal(), self.counts.state()
        return f"{self.counts.shortly()}, {refusal}" if refusal else state

    def _tail(self, text: str) -> str:
        """The last lines of *text*, as many as a panel shows."""
        width = max(self._terminal.width - 5, 1)
        lines = term_safe(text[-LINES * width :]).splitlines()
        rows = [line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)]
        return "\n".join(rows[-LINES:])

    def _panel(self, address: str, text: str) -> Any:
        from rich.panel import Panel  # only a live display needs it

        title = self._text(term_safe(address), style="dim")
        return Panel(self._text(text), title=title, title_align="left", border_style="dim")

    def on_event(self, event: Event) -> None:
        """Count *event*; the terminal's own thread redraws."""
        super().on_event(event)
        if not self.wants_chunks:
            return
        if isinstance(event, ChunkArrived):
            with self._lock:
                self._saying.setdefault(event.address, []).append(self._new(event))
        elif isinstance(event, CallEnded):
            with self._lock:
                self._saying.pop(event.address, None)
                self._texts.pop(event.address, None)
            if event.response is not None:
                text = _shown(event.response.text, self._masker)
                self._terminal.print(self._panel(event.address, text))

    @cached_property
    def _masker(self) -> Masker:
        return Masker()

    def _new(self, event: ChunkArrived) -> str:
        """The text of an answer that can be shown after its piece in *event*."""
        texts = self._texts.setdefault(event.address, {})
        which = event.chunk.sample, event.chunk.kind
        return texts.setdefault(which, _Shown(self._masker)).feed(event.chunk.text)

    def tell(self, line: str) -> None:
        self._terminal.say(term_safe(line))

    def clear(self) -> None:
        """Stop the live line before the program's own output."""
        self._terminal.hide(self)

    def __enter__(self) -> Self:
        self._terminal.show(self)
        return self

    def __exit__(self, *error: object) -> None:
        self._terminal.hide(self)


def display(*, quiet: bool = False, answers: bool = False) -> Display:
    """The display that fits stderr; with *answers* it shows the models' answers."""
    if quiet or not sys.stderr.isatty():
        return PlainDisplay(quiet, answers)
    return LiveDisplay(answers=answers)
