"""Predicts the calls that a rerun of an edited program would make, without making any.

Invariant: no backend is asked and no tool runs. The fewest calls are live when every live answer
comes out as it was recorded; the most, when each comes out different, as far as prompts carry it.
Where the program goes on with an answer that will change, only what was asked before is certain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from appl.backend import Chunk, Request, Response, Sample, Usage
from appl.prompt import Message
from appl.runtime.event import (
    CallStarted,
    ChunksDelivered,
    Delivered,
    Event,
    Observed,
    ScopeEntered,
    ToolStarted,
)
from appl.runtime.world import Moment
from appl.tracing.format.chunks import texts
from appl.tracing.reading.spans import spans_of
from appl.tracing.reading.trace import RecordedCall
from appl.tracing.replaying.rerunner import LiveCall, Rerunner
from appl.tracing.replaying.sequencer import Expectation, Given, Recorded, Verdict, where

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_INPUT = "input"
_TELLING = 4  # a shorter answer stands in many prompts by chance
_MOST_TEXTS = 2000


class Predictor(Rerunner):
    """A rerun in which nobody is asked: what would be live is answered as it was recorded.

    ``asked`` are the calls that would be, ``touched`` those whose prompts hold answers of such
    calls, ``guessed`` those whose answers nobody knows. After ``certain`` calls the result of what
    is at ``decides``, if it is not "", may lead the program elsewhere.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.touched: dict[str, LiveCall] = {}
        self.guessed: list[str] = []
        self._texts: dict[str, str] = {}  # recorded answers that may change, and whose
        self._read = ""  # the first answer that may change and that the program was told
        self.decides, self.certain = "", 0
        self._limits: list[str] = []  # what has a time limit that was not reached then

    # -- calls

    def ask(self, expected: Expectation, call: Call) -> None:
        """Answer *call* as it was recorded in its place; where nothing was, with a guess."""
        if call.outcome is not None:
            return
        self.asked[call.address] = LiveCall(call.address, where(call), call.request, expected.cause)
        self._note_text(call.address)
        self._look_at_limits()
        assert call.request is not None
        answer = _fitting(self.trace.by_address.get(call.address), call.request)
        if answer is None:
            self.guessed.append(call.address)
            answer = _guess(call.request, call.emit.chunks if call.emit is not None else ())
        if call.home is None or call.request.sampling.tools:
            # whether it is asked again, or goes on, depends on what is answered
            self.park(self.turn_or_last(call.address), partial(self._may_turn, call.address))
        self.give(expected, Given(answer, "guessed"))

    def on_event(self, event: Event) -> None:
        """See whose answers a prompt holds."""
        super().on_event(event)
        if isinstance(event, CallStarted):
            address = event.request.address
            told = next(filter(self._changes, _sources(event)), None)
            source = told or self._holds(event)
            if source is not None:
                cause = f"holds text from {source}"
                self.touched[address] = LiveCall(address, where(event), cause=cause)
                self._note_text(address)
            if told is None:  # else it waited for that answer, whatever the program reads
                self._may_turn(self._read)
        elif isinstance(event, Delivered | ChunksDelivered):
            if not self._read and self._changes(event.address):
                self._read = event.address
        elif isinstance(event, ScopeEntered | ToolStarted | Observed):
            self._may_turn(self._read)

    def _look_at_limits(self) -> None:
        """A live call takes its time: whether it is in time decides what comes after it."""
        for limited in () if self.decides else self._limits:
            if any(f"{at}/".startswith(f"{limited}/") for at in self.asked):
                self._may_turn(limited)

    def _may_turn(self, address: str) -> None:
        """From here on the program may go another way, for what the call at *address* answers."""
        if address and not self.decides:
            self.decides, self.certain = address, len(self.asked)

    def _note_text(self, address: str) -> None:
        """The recorded answer of *address* may be another one."""
        found = self.trace.by_address.get(address)
        text = found.response.text if found is not None and found.response is not None else ""
        if len(text) >= _TELLING:
            self._texts.setdefault(text, address)

    def _holds(self, event: CallStarted) -> str | None:
        """The call whose answer stands in a prompt that does not record the origin of its text."""
        if not self._texts or len(self._texts) > _MOST_TEXTS:
            return None
        said = "\n".join(message.content for message in event.request.messages or ())
        return next((self._texts[text] for text in self._texts if text in said), None)

    def _changes(self, address: str) -> bool:
        """True if the text of *address*, a call or function, comes from a live call."""
        if address in self.asked or address in self.touched:
            return True
        below = f"{address}/"
        return any(at.startswith(below) for at in (*self.asked, *self.touched))

    # -- the world

    def verdict(self, expected: Expectation) -> Verdict:
        """Nothing is waited for, and no tool runs."""
        address, running = expected.moment.address, expected.moment.address in self._tools
        if expected.call is None and expected.tool is None:
            self._note_limit(expected.moment)
            if expected.moment.kind == "sleep" and expected.moment not in self._seen:
                return Given(None)
        verdict = super().verdict(expected)
        if expected.tool is None or isinstance(verdict, Recorded) or not running:
            return verdict
        self._may_turn(address)
        used = self.trace.tools.get(address)
        self.ran.append(address)
        return Given((used and used.message) or Message("tool", ""))

    def _arm(self) -> None:
        """Time does not count."""

    def _ended_then(self, expected: Expectation) -> None:
        """A function that nobody ended then may be ended now, when its calls are live."""
        if expected.call is None:
            self._note_limit(expected.moment)
        super()._ended_then(expected)

    def _note_limit(self, moment: Moment) -> None:
        """A limit of time that was not reached then, if *moment* is the end of one, may be now."""
        seen = self._seen.get(moment)
        if seen is None or self._was_in_time(seen):
            self._limits.append(moment.address)
            self._look_at_limits()

    def see(self, moment: Moment, live: Callable[[], Any]) -> Any:
        if moment.kind == _INPUT and moment not in self._seen:
            return ""
        return super().see(moment, live)


def _sources(event: CallStarted) -> dict[str, None]:
    """The addresses of the calls and functions whose text the prompt of a call holds."""
    found = dict.fromkeys(event.edges)
    for spans in spans_of(event.request.messages):
        found.update(dict.fromkeys(span.call for span in spans if span.call))
    return found


def _fitting(found: RecordedCall | None, request: Request) -> Response | None:
    """The recorded answer, with as many samples as *request* wants."""
    if found is None or found.response is None or not found.response.samples:
        return None
    samples = found.response.samples
    more = (samples[-1],) * max(request.n - len(samples), 0)
    return dataclasses.replace(found.response, samples=(*samples, *more)[: max(request.n, 1)])


def _guess(request: Request, begun: Sequence[Chunk]) -> Response:
    """Some answer to a question that was never answered, which begins as *begun*."""
    choices = request.sampling.choices
    text = choices[0] if choices else "…"
    scores = tuple(-float(at) for at in range(len(choices))) if choices else None
    said = texts(begun)
    samples = (
        Sample(said.get((at, 0), "") + text, "stop", reasoning=said.get((at, 1)))
        for at in range(request.sample, request.sample + max(request.n, 1))
    )
    return Response(tuple(samples), Usage(), scores=scores)
