"""An earlier run that answers a part of a new one: what resumed and edited runs have in common.

Invariant: a record is given to one call at most; what is given is let go in the order in which it
was delivered then, one outcome each time all programs wait. A run that has diverged asks nobody.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from appl.errors import TraceError
from appl.runtime.event import Source
from appl.runtime.world import Go, How, Moment
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.replaying.sequencer import AtEnd, Expectation, Kind, Recorded, Sequencer, Verdict

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.call_status import Why
    from appl.tracing.replaying.recorded_drafts import RecordedDrafts
    from appl.tracing.replaying.recorded_vectors import RecordedVectors


class Recall(Sequencer):
    """The world of a run that an earlier one answers in part.

    Where it ``is_foreign``, a run of somebody else that the user trusts, nobody has approved in
    advance what would happen now: answers of people that nothing followed are asked for again.
    Subclasses give the verdicts, and say when the record is used up. What was cancelled then is
    held for the program to cancel it again, and happens if it does not.
    """

    def __init__(self, trace: Trace | str | os.PathLike[str]) -> None:
        super().__init__(trace)
        self._too_late: dict[str, Go] = {}  # ends that came too late, if their calls are as then
        self._drafts: RecordedDrafts | None = None
        self.is_foreign = False

    # -- what subclasses decide

    def departs(self, address: str) -> None:
        """The call or tool at *address* is live, whatever is recorded of it."""
        self.departed.add(address)

    def reads_on(self, call: Call) -> TraceError | None:
        """The program has read a part of the recorded answer of *call*, which is about to be live.

        What is returned ends it instead.
        """
        raise NotImplementedError

    def go_live(self, expected: Expectation) -> None:
        """Let *expected* happen."""
        if expected.call is not None:
            self.offer_vectors(expected.call)
        expected.live()

    def offer_vectors(self, call: Call) -> None:
        """Have *call*, if it embeds texts, take the vectors of those that were embedded then."""
        if call.batches is not None:
            call.batches.offer(call.address, self._vectors.find)

    @functools.cached_property
    def _vectors(self) -> RecordedVectors:
        from appl.tracing.replaying.recorded_vectors import RecordedVectors  # few programs embed

        return RecordedVectors(self.trace)

    def requests(self, record: RecordedCall) -> int:
        """The requests that the answer of *record* counts for, if those of a run are limited."""
        return 0

    def verdict(self, expected: Expectation) -> Verdict:
        """The verdict on *expected*. Raises the error with which it is refused."""
        moment = expected.moment
        if moment.kind == "answered" and self.is_foreign and not self._is_spent(moment):
            self._observations.pop(moment, None)
        return super().verdict(expected)

    def _is_spent(self, moment: Moment) -> bool:
        """True if the recorded answer at *moment* has had its effect then."""
        question = self._observations.get(Moment(moment.address, "asked", moment.ordinal))
        if question is None or (isinstance(question.value, Mapping) and question.value.get("tool")):
            return moment.address in self.trace.tools
        answer = self._observations.get(moment)
        deliveries = (call.delivered for call in self.trace.calls if call.delivered is not None)
        return answer is None or any(position > answer.position for position in deliveries)

    # -- what is live

    def _apply(self, verdict: Verdict, expected: Expectation) -> None:
        runs_anew = isinstance(verdict, AtEnd) and verdict.why == "again"
        if expected.is_request and not (runs_anew or isinstance(verdict, Recorded)):
            self.departs(expected.moment.address)
        super()._apply(verdict, expected)

    def begin(self, expected: Expectation) -> None:
        """Let *expected* happen, unless its program has ended it, or the run has diverged."""
        end, call = self._too_late.pop(expected.moment.address, None), expected.call
        if end is not None:
            end()
        if end is not None or expected.over:
            return
        error = expected.error or self.error
        if error is None and call is not None and expected.is_read:
            error = self.reads_on(call)
        if error is not None and expected.is_request:
            self.refuse(expected, error)
            return
        if expected.is_request:
            self.departs(expected.moment.address)
        if call is not None and "drafts" in call.profile.features:
            if self._drafts is None:
                from appl.tracing.replaying.recorded_drafts import RecordedDrafts  # few backends

                with_run = "draft_runs" in call.profile.features
                self._drafts = RecordedDrafts(self.trace, with_run)
            if call.request is not None:  # to have the answer makes the one to come faster
                call.request.draft = self._drafts.of(call.address)
        self.go_live(expected)

    def begin_all(self, *whys: Why) -> bool:
        """Begin all that is held for one of these reasons, or for any: strays in program order."""
        expectations = self.take(*whys)
        for expected in sorted(expectations, key=strays_first):
            self.begin(expected)
        return bool(expectations)

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        super().ends(moment, how, end)
        # It may come too late, as then, before it is known what the call asks. Should that not be
        # what was recorded, then nothing recorded comes first, and the call ends after all.
        record = self.trace.by_address.get(moment.address)
        as_then = record is not None and record.outcome is not None and self.stands(moment.address)
        if how == "cancelled" and as_then and moment.address not in self.claimed:
            self._too_late[moment.address] = end

    # -- what is recorded

    def reuses(self, call: Call, record: RecordedCall, kind: Kind) -> None:
        call.source = Source(kind, record.address) if kind != "guessed" else None
        if record.response is not None and kind not in ("pinned", "guessed"):
            self.programs.recalled(call, record.response, self.requests(record))

    def partly(self, record: RecordedCall) -> RecordedCall | None:
        """*record*, if its program cancelled it, and not what ended the run: a part was told."""
        if self.trace.reason in ("", "finished"):
            return record
        return record if record.delivered is not None and record.delivered < self._last else None

    @functools.cached_property
    def _last(self) -> int:
        """When the program was told something for the last time, cancelled calls aside."""
        calls = (call for call in self.trace.calls if call.outcome != "cancelled")
        positions = [call.delivered for call in calls if call.delivered is not None]
        return max(
            positions + [observation.position for observation in self.trace.observations], default=0
        )

    def dropped(self, address: str) -> bool:
        """True if a call at *address* or below was cancelled, and not by the run's end."""
        return self.trace.reason in ("", "finished") and super().dropped(address)


def strays_first(expected: Expectation) -> tuple[bool, list[tuple[str, int]]]:
    """A key that sorts strays in program order, and leaves what comes after them as it is."""
    stray = expected.why == "stray"
    return not stray, natural(expected.moment.address) if stray else []


def natural(address: str) -> list[tuple[str, int]]:
    """A key that sorts addresses in program order, as far as they show it: ``f.9``, ``f.10``."""
    parts = (part.rpartition(".") for part in address.split("/"))
    return [
        (name, int(count)) if count.isdecimal() else (f"{name}.{count}", 0)
        for name, _, count in parts
    ]
