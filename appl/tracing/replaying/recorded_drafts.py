"""Recorded answers as drafts of those that a new run asks for.

Invariant: a draft changes no answer, so one that cannot be read is none, and no error.
"""

from __future__ import annotations

import functools

from appl.backend import Draft, DraftRun
from appl.errors import TraceError
from appl.prompt import digest_of
from appl.tracing.reading.trace import RecordedCall, Trace

_MOST = 1 << 20
"""The most characters of a run's texts: a server needs about a second for them."""


class RecordedDrafts:
    """The drafts that *trace* has for the calls of another run.

    With *with_run* each leads to the texts of all answers.
    """

    def __init__(self, trace: Trace, with_run: bool = False) -> None:
        self._trace = trace
        self._run = self._texts() if with_run else None

    def of(self, address: str) -> Draft | None:
        """The draft for the call at *address*, or for the first that differs in numbers only."""
        record = self._trace.by_address.get(address)
        own = record is not None and record.outcome is not None
        if not own:
            record = self._first_of.get(line_of(address))
        if record is None or record.lost:
            return None
        try:
            response = record.response
        except TraceError:
            return None
        return Draft(response.samples, own, self._run) if response is not None else None

    def _texts(self) -> DraftRun | None:
        """The texts of the last answers, as many as ``_MOST`` characters hold; None without any."""
        by_text: dict[str, None] = {}
        budget = _MOST
        for call in reversed(self._trace.calls):
            if call.outcome != "answered" or call.lost:
                continue
            try:
                response = call.response
            except TraceError:
                continue
            for sample in response.samples if response is not None else ():
                for text in (sample.reasoning, sample.text):
                    if text and text not in by_text and len(text) <= budget:
                        budget -= len(text)
                        by_text[text] = None
        texts = tuple(sorted(by_text))
        return DraftRun(digest_of(*texts).hex()[:16], texts) if texts else None

    @functools.cached_property
    def _first_of(self) -> dict[str, RecordedCall]:
        """The first call of each line of the program that was answered."""
        answered = (call for call in self._trace.calls if call.outcome == "answered")
        first_calls: dict[str, RecordedCall] = {}
        for call in answered:
            first_calls.setdefault(line_of(call.address), call)
        return first_calls


def line_of(address: str) -> str:
    """*address* without the numbers of its parts."""
    return "/".join(part.rpartition(".")[0] or part for part in address.split("/"))
