"""The sums over a run, as its last record holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from appl.backend import Response

if TYPE_CHECKING:
    from appl.tracing.reading.trace import RecordedCall, Trace


class Sums:
    """The sums that the last record holds, so that listing runs need not read them whole."""

    def __init__(self) -> None:
        self.calls = self.answered = self.failed = self.cancelled = self.attempts_failed = 0
        self.tokens = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0}
        self.unknown = dict.fromkeys(self.tokens, 0)
        self.cost, self.cost_unknown, self.reused = 0, 0, 0
        self.recalled = self.saved = self.in_doubt = self.earlier_us = 0

    @classmethod
    def of(cls, trace: Trace) -> Sums:
        """The sums over what *trace* holds, for who goes on with it."""
        sums = cls()
        known = trace.totals()
        names = [name for name in vars(sums) if name in known.__slots__]
        vars(sums).update({name: getattr(known, name) for name in names})
        sums.earlier_us = round(trace.seconds() * 1e6)
        return sums

    def forget(self, call: RecordedCall) -> None:
        """*call* is begun again: what it took stays, how it ended does not count."""
        self.calls -= 1
        if call.ended_as is not None:
            setattr(self, call.ended_as, getattr(self, call.ended_as) - 1)
        elif call.attempts:
            self.in_doubt += 1

    def recall(self, response: Response | None) -> None:
        """An answer, or a failure, of an earlier run."""
        self.recalled += 1
        self.answered += response is not None
        self.failed += response is None
        self.saved += (response.cost or 0) if response is not None else 0

    def add(self, response: Response) -> None:
        self.answered += 1
        self.reused += response.reused
        used, tokens = response.usage, self.tokens
        for name, count in (
            ("prompt_tokens", used.prompt_tokens),
            ("completion_tokens", used.completion_tokens),
            ("cached_tokens", used.cached_tokens),
        ):
            if count is None:
                self.unknown[name] += 1
            else:
                tokens[name] += count
        if response.cost is None:
            self.cost_unknown += 1
        else:
            self.cost += response.cost

    def as_data(self) -> dict[str, Any]:
        return dict(vars(self))
