"""Spans on their way to a collector: in bounded batches, at the pace that the collector allows.

Invariant: a span counts as arrived when the collector took its request, and is not sent again by
this export or a later one that goes on with it. Nothing is sent after the deadline.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from appl.errors import ExportError
from appl.tracing.exporting import otlp
from appl.tracing.exporting.checkpoint import Checkpoint
from appl.tracing.exporting.collector import Busy, Collector, Outcome, Rejected, Taken, TooLarge
from appl.tracing.exporting.otlp import EncodedSpan
from appl.tracing.exporting.spans import Spans

TOTAL_S = 600.0
_FIRST_PAUSE_S, _SHORTEST_S, _SLOWEST_S, _FASTER = 0.05, 0.01, 5.0, 0.9
"""Between two requests it pauses twice as long after a busy answer, and less after the others."""


class ExportClock(Protocol):
    """The part of the module ``time`` that is used: time and sleep, in seconds."""

    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment."""

    def sleep(self, seconds: float, /) -> None:
        """Wait for so many seconds."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits on an export's waiting, in seconds: for one answer, and for all.

    *tries* are the requests in a row that may stay without an answer. Between tries it waits from
    *first_s* on, each time twice as long up to *longest_s*, or as long as the collector asks.
    """

    answer_s: float = 10.0
    total_s: float = TOTAL_S
    tries: int = 5
    first_s: float = 0.5
    longest_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Batching:
    """The most spans and bytes of one request."""

    spans: int = otlp.BATCH
    bytes: int = otlp.BATCH_BYTES


@dataclass(slots=True)
class Delivery:
    """The progress of an export: counts of spans; *earlier* of those that arrived came before it.

    *stopped* says why it did not go on, *waiting* why it waits at the moment. *said* is what the
    collector reported.
    """

    arrived: int = 0
    earlier: int = 0
    rejected: int = 0
    requests: int = 0
    busy: int = 0
    said: str = ""
    stopped: str | None = None
    waiting: str = ""
    flags: bytearray = field(default_factory=bytearray, repr=False)
    calls: bytearray = field(default_factory=bytearray, repr=False)

    @property
    def spans(self) -> int:
        """The spans that were to be sent."""
        return len(self.flags)

    @property
    def complete(self) -> bool:
        """True if the collector has all of them and rejected none."""
        return self.arrived == self.spans

    def expect(self, spans: Spans) -> int:
        """Count *spans* as expected and return the place of the first."""
        first = len(self.flags)
        self.flags.extend(bytes(len(spans.spans)))
        self.calls.extend(span.kind == "client" for span in spans.spans)
        return first

    def first_calls(self) -> tuple[int, int]:
        """The calls that arrived before the first that did not, and all calls: two counts."""
        flags = itertools.compress(self.flags, self.calls)
        return sum(1 for _ in itertools.takewhile(bool, flags)), sum(self.calls)

    def line(self) -> str:
        """A one-line summary of what arrived, what did not and why."""
        earlier = f", {self.earlier:,} of them earlier" if self.earlier else ""
        line = f"sent {self.arrived:,} of {self.spans:,} spans{earlier}"
        if self.rejected:
            line += f", {self.rejected:,} were rejected"
        if self.stopped is not None:
            done, every = self.first_calls()
            calls = f"calls 1–{done:,} of {every:,}" if done else f"none of {every:,} calls"
            line += f" ({calls}): {self.stopped}"
        return f"{line}; the collector says: {self.said}" if self.said else line


class _Stopped(Exception):
    """The export cannot go on."""


class Courier:
    """Sends spans to a collector until all have arrived or the patience ends.

    *checkpoint* knows the spans that arrived earlier. *watch* is called when something has changed.
    """

    def __init__(
        self,
        collector: Collector,
        *,
        checkpoint: Checkpoint | None = None,
        encode: otlp.RequestEncoder | None = None,
        patience: Patience = Patience(),
        batching: Batching = Batching(),
        clock: ExportClock = time,
        dice: random.Random | None = None,
        watch: Callable[[Delivery], None] = lambda delivery: None,
    ) -> None:
        self.delivery = Delivery()
        self._collector, self._checkpoint = collector, checkpoint
        self._encode = encode or otlp.encoder()
        self._patience, self._batching = patience, batching
        self._clock, self._dice, self._watch = clock, dice or random.Random(), watch
        self._end = 0.0
        self._pause_s = 0.0
        self._most = batching.spans

    def deliver(self, spans: Spans) -> Delivery:
        """Send *spans* and return the progress of all sent so far."""
        first = self.delivery.expect(spans)
        self._end = self._clock.monotonic() + self._patience.total_s
        try:
            for batch in otlp.batches(
                self._missing(spans, first), self._batching.spans, self._batching.bytes
            ):
                self._send(spans, first, batch)
        except _Stopped as stop:
            self.delivery.stopped = str(stop)
        return self.delivery

    def _missing(self, spans: Spans, first: int) -> Iterator[EncodedSpan]:
        """The spans that did not arrive earlier."""
        delivered = (
            self._checkpoint if self._checkpoint is not None and len(self._checkpoint) else ()
        )
        for span in otlp.encoded(spans):
            if span.mark not in delivered:
                yield span
            else:
                self.delivery.flags[first + span.place] = True
                self.delivery.arrived += 1
                self.delivery.earlier += 1

    def _send(self, spans: Spans, first: int, batch: list[EncodedSpan]) -> None:
        """Send *batch*, in parts when the collector takes smaller requests only."""
        while batch:
            part = batch[: self._most]
            outcome = self._settled(self._encode(otlp.request(spans, part)), len(part))
            if isinstance(outcome, Taken):
                self._note(first, part, outcome)
            elif len(part) == 1:
                self._note(first, part, Taken(1, outcome.why))
            else:
                self._most = len(part) // 2
                continue
            batch = batch[len(part) :]

    def _note(self, first: int, part: list[EncodedSpan], outcome: Taken) -> None:
        delivery = self.delivery
        for span in part:
            delivery.flags[first + span.place] = True
        delivery.arrived += len(part) - outcome.rejected
        delivery.rejected += outcome.rejected
        delivery.said = outcome.said or delivery.said
        if self._checkpoint is not None:
            self._checkpoint.add(span.mark for span in part)
        self._watch(delivery)

    def _settled(self, body: tuple[str, bytes], count: int) -> Taken | TooLarge:
        """The final outcome of a request, after all tries. Raises ``_Stopped``."""
        self._sleep(self._pause_s)
        unanswered = 0
        for tried in itertools.count():
            outcome = self._ask(body, count)
            if isinstance(outcome, Taken | TooLarge):
                self._pause_s *= _FASTER if self._pause_s > _SHORTEST_S else 0.0
                return outcome
            unanswered = unanswered + 1 if isinstance(outcome, Busy) and not outcome.answered else 0
            if isinstance(outcome, Rejected) or unanswered >= self._patience.tries:
                raise _Stopped(outcome.why)
            # It waits at least as long as the collector asks, and at random, so that exports spread
            # out; then it sends more slowly.
            patience, uniform, retry_after = self._patience, self._dice.uniform, outcome.wait_s
            if retry_after is not None and retry_after > 0:
                wait = max(retry_after * uniform(1.0, 1.1), patience.first_s * uniform(0.5, 1.0))
            else:
                longest = min(patience.first_s * 2.0 ** min(tried, 30), patience.longest_s)
                wait = longest * uniform(0.5, 1.0)
            self.delivery.busy += 1
            problem = "busy" if outcome.answered else "not reached"
            self.delivery.waiting = f"the collector is {problem}; the next try is in {wait:.1f} s"
            self._watch(self.delivery)
            if self._clock.monotonic() + wait >= self._end:
                raise _Stopped(
                    f"{outcome.why}, and its {patience.total_s:g} s end before the next try"
                )
            self._sleep(wait)
            self.delivery.waiting = ""
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _SLOWEST_S)
        raise AssertionError("the loop returns or raises")

    def _ask(self, body: tuple[str, bytes], count: int) -> Outcome:
        remaining_s = self._end - self._clock.monotonic()
        if remaining_s <= 0:
            raise _Stopped(f"its {self._patience.total_s:g} s are over")
        self.delivery.requests += 1
        return self._collector.ask(*body, count, min(self._patience.answer_s, remaining_s))

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._clock.sleep(seconds)


def send(spans: Spans, to: str, **options: Any) -> Delivery:
    """Send *spans* to the collector at *to*; *options* are those of ``Courier``.

    Raises ``ExportError`` when it cannot be reached or refuses them.
    """
    delivery = Courier(Collector(to), **options).deliver(spans)
    if delivery.stopped is not None:
        raise ExportError(delivery.stopped)
    return delivery
