"""The savings by a provider's cache in a run, and the reasons why calls did not read from it.

Invariant: a saving is counted only where the provider told what was read and written, and the price
is known. A reason is the provider's own where it gave one; else it is what the record shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from appl.backend import Response
from appl.backend.price import Price, money
from appl.tracing.reading.trace import RecordedCall

LEAST = 1024
"""The tokens of the shortest prompt that providers keep."""
_BEGINNING = 4096
_KEPT_S = 300

PriceOf = Callable[[str], Price | None]
"""The price of a model, as the run's provider calls it."""


@dataclass(slots=True)
class CacheReport:
    """The tokens of prompts, those ``read`` from the cache, and those ``written`` into it.

    ``saved`` is what the cache saved, less what writing cost more, in millionths; of ``unpriced``
    calls that is not known. ``misses`` counts the calls that read nothing, by the reason.
    """

    prompt: int = 0
    read: int = 0
    written: int = 0
    saved: int = 0
    calls: int = 0
    unpriced: int = 0
    misses: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """The report for a human; empty if no provider told anything of its cache."""
        if not self.calls:
            return []
        verb = "saved" if self.saved >= 0 else "cost"
        amount = f"{verb} {money(abs(self.saved))}"
        amount = "savings unpriced" if self.unpriced == self.calls else amount
        if 0 < self.unpriced < self.calls:
            amount += f", {self.unpriced} calls unpriced"
        wrote = f", {self.written:,} written" if self.written else ""
        lines = [f"cache: {self.read:,} of {self.prompt:,} prompt tokens read{wrote}; {amount}"]
        for reason, count in self.misses.most_common():
            lines.append(f"  read nothing, {count} {'call' if count == 1 else 'calls'}: {reason}")
        return lines

    def as_data(self) -> dict[str, object]:
        """The report as JSON-ready data; savings that are unknown for all calls are null."""
        return {
            "prompt_tokens": self.prompt,
            "read_tokens": self.read,
            "written_tokens": self.written,
            "saved": None if self.unpriced == self.calls else self.saved,
            "unpriced": self.unpriced,
            "misses": dict(self.misses),
        }


def cache_report(calls: Iterable[RecordedCall], price_of: PriceOf) -> CacheReport:
    """The report of *calls* that asked a provider in this run."""
    report, earlier = CacheReport(), dict[object, list[RecordedCall]]()
    paid_calls = [call for call in calls if call.source is None and call.response is not None]
    for call in sorted(paid_calls, key=lambda call: (call.incarnation, call.started or 0)):
        response = call.response
        assert response is not None
        before = earlier.setdefault(_beginning(call), [])
        if response.usage.prompt_tokens is not None and response.usage.cached_tokens is not None:
            _count(report, call, response, before, price_of)
        before.append(call)
    return report


def _count(
    report: CacheReport,
    call: RecordedCall,
    response: Response,
    before: list[RecordedCall],
    price_of: PriceOf,
) -> None:
    usage = response.usage
    prompt, read = usage.prompt_tokens or 0, usage.cached_tokens or 0
    report.calls += 1
    report.prompt += prompt
    report.read += read
    report.written += usage.all_written_tokens or 0
    price = price_of(call.model or response.model) or price_of(response.model)
    plain = replace(usage, cached_tokens=0, written_tokens=0, written_1h_tokens=None)
    cost, without = (None if price is None else price.cost(used) for used in (usage, plain))
    if cost is None or without is None:
        report.unpriced += 1
    else:
        report.saved += without - cost
    if not read and prompt >= LEAST:
        report.misses[response.cache_miss or _reason(call, before)] += 1


def _beginning(call: RecordedCall) -> object:
    """A key that is equal for calls that may share a cached beginning."""
    if call.messages is None:
        return call.address
    first = call.messages
    while first.parent is not None:
        first = first.parent
    return call.model, first.outline.role, first.message.content[:_BEGINNING]


def _reason(call: RecordedCall, before: list[RecordedCall]) -> str:
    """Why *call* read nothing, as far as the calls *before* with the same beginning show it."""
    started = call.started or 0
    if not before:
        return "the first one with its beginning"
    ended = [
        earlier.ended
        for earlier in before
        if earlier.ended is not None and earlier.ended <= started
    ]
    if not ended:
        return "sent before the answer to another one with its beginning"
    if started - max(ended) > _KEPT_S * 1_000_000:
        return "the last one with its beginning was more than 5 minutes before"
    return "unknown: the provider told no reason"
