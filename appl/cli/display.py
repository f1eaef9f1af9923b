"""What a run is doing, while it does it: one live line on a terminal, plain lines elsewhere.

Invariant: a display is an Instrument and only counts; the run is the same without it.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from appl.cli.terminal import say
from appl.errors import CallCancelled
from appl.runtime.event import CallEnded, CallStarted, Event, RunEnded, Warned

EVERY_NS = 5_000_000_000


@dataclass(slots=True)
class Counts:
    """How many calls run and are done, and how many tokens they took."""

    started: int = 0
    answered: int = 0
    failed: int = 0
    cancelled: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    unknown: int = 0
    began: int = field(default_factory=time.monotonic_ns)
    first: int | None = None
    last: int = 0
    open: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Event) -> None:
        """Count *event*."""
        if isinstance(event, CallStarted):
            with self._lock:
                self.started += 1
                self.first = self.first or event.at
                self.open.add(event.request.address)
        elif isinstance(event, CallEnded):
            with self._lock:
                self._ended(event)

    def _ended(self, event: CallEnded) -> None:
        self.open.discard(event.address)
        self.last = event.at
        if event.response is None:
            cancelled = isinstance(event.error, CallCancelled)
            self.cancelled += cancelled
            self.failed += not cancelled
            return
        self.answered += 1
        usage = event.response.usage
        self.unknown += usage.completion_tokens is None
        self.prompt += usage.prompt_tokens or 0
        self.cached += usage.cached_tokens or 0
        self.completion += usage.completion_tokens or 0

    def seconds(self) -> float:
        """Since the run began."""
        return (time.monotonic_ns() - self.began) / 1e9

    def rate(self) -> float:
        """Generated tokens a second, from the first call's start to the last answer."""
        span = self.last - (self.first or self.last)
        return self.completion / (span / 1e9) if span > 0 else 0.0

    def line(self) -> str:
        """The state of the run in one line."""
        running = [f"{len(self.open)} running"] if self.open else []
        parts = [*running, f"{self.answered} done"]
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.cancelled} cancelled"] if self.cancelled else []
        if self.completion or (self.answered and not self.unknown):
            share = f" of {self.prompt}" if self.prompt else ""
            parts.append(f"{self.cached}{share} prompt tokens cached")
            parts.append(f"{self.completion} tokens, {self.rate():.0f} a second")
        return ", ".join(parts)

    def as_data(self) -> dict[str, Any]:
        """The counts for ``--json``; a sum that the backend did not say is null, not 0."""
        known = self.unknown < self.answered or not self.answered
        return {
            "calls": self.started,
            "answered": self.answered,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "prompt_tokens": self.prompt if known else None,
            "cached_tokens": self.cached if known else None,
            "completion_tokens": self.completion if known else None,
            "tokens_per_second": round(self.rate(), 1) if known else None,
            "seconds": round(self.seconds(), 3),
        }


class Display(Protocol):
    """An instrument that shows what it counts, inside a ``with`` block."""

    counts: Counts

    def on_event(self, event: Event) -> None:
        """Take note of *event*."""

    def tell(self, line: str) -> None:
        """Show a line of ours above whatever is live."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *error: object) -> None: ...


class Plain:
    """A line every five seconds at most, on stderr; nothing at all when *quiet*."""

    def __init__(self, quiet: bool = False) -> None:
        self.counts, self._quiet = Counts(), quiet
        self._next = self.counts.began + EVERY_NS

    def on_event(self, event: Event) -> None:
        """Count, and say where the run is when the last line is old."""
        self.counts.add(event)
        if event.at >= self._next and not isinstance(event, RunEnded | Warned):
            self._next = event.at + EVERY_NS
            if not self._quiet:
                say(f"appl: {self.counts.seconds():.0f} s: {self.counts.line()}")

    def tell(self, line: str) -> None:
        """Show a line."""
        say(line)

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Live:
    """One line at the bottom of the terminal, redrawn eight times a second, gone at the end."""

    def __init__(self, console: Any = None) -> None:
        self.counts = Counts()
        self._text: Any = importlib.import_module("rich.text").Text
        if console is None:
            console = importlib.import_module("rich.console").Console(stderr=True, highlight=False)
        self._live: Any = importlib.import_module("rich.live").Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )

    def _render(self) -> Any:
        counts = self.counts
        line = f"{counts.seconds():.0f} s  {counts.line()}"
        return self._text(line, style="dim", no_wrap=True, overflow="ellipsis")

    def on_event(self, event: Event) -> None:
        """Count; the line is redrawn by the display's own thread."""
        self.counts.add(event)

    def tell(self, line: str) -> None:
        """Show a line above the live one."""
        say(line)

    def __enter__(self) -> Live:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()


def display(*, quiet: bool = False) -> Display:
    """The display that fits where stderr goes."""
    if quiet or not sys.stderr.isatty():
        return Plain(quiet)
    return Live()
