"""Predicts the calls that a rerun of an edited program would make, without making any.

Invariant: no backend is asked and no tool runs. The fewest calls are live when every live answer
comes out as it was recorded; the most, when each comes out different, as far as prompts carry it.
Where the program goes on with an answer that will change, only what was asked before is certain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from appl.tracing.replaying.tally import Amount

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call

_INPUT = "input"
_TOKENS = " tokens"
_TELLING = 4  # a shorter answer stands in many prompts by chance
_MOST_TEXTS = 2000


@dataclass(slots=True)
class Prediction:
    """The calls that a run would make: *fewest*, and beyond them ``further`` if answers change.

    That holds where the program goes the same way. ``decides`` is the first call, of a model or a
    tool, whose result may change and decide what comes after it, or the first block whose time
    may, "" when there is none: only ``certain`` calls are live for sure then, and how many at most
    is not known. ``every`` counts all calls of the run. ``cost`` is what the recorded answers to
    the fewest took, ``cost_most`` to the most; of ``guessed`` calls nothing is recorded, so what
    their answers lead to is a guess. ``tools`` would run. ``stopped`` says why the program could
    not be followed to its end.
    """

    fewest: list[LiveCall] = field(default_factory=list)
    further: list[LiveCall] = field(default_factory=list)
    certain: int = 0
    decides: str = ""
    every: int = 0
    cost: Amount = field(default_factory=Amount)
    cost_most: Amount = field(default_factory=Amount)
    recorded: Amount = field(default_factory=Amount)
    guessed: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    stopped: str = ""

    @property
    def live(self) -> tuple[int, int | None]:
        """The fewest and the most calls that would be live; ``None`` when that is not known."""
        return (self.certain, None) if self.decides else self.same_way

    @property
    def same_way(self) -> tuple[int, int]:
        """The fewest and the most when the program goes the way that it went."""
        return len(self.fewest), len(self.fewest) + len(self.further)

    def as_data(self) -> dict[str, Any]:
        """The prediction as JSON-ready data."""
        fewest, most = self.live
        return {
            "live": {"fewest": fewest, "most": most},
            "same_way": dict(zip(("fewest", "most"), self.same_way, strict=True)),
            "decides": self.decides or None,
            "calls": self.every,
            "cost": {"fewest": self.cost.as_data(), "most": self.cost_most.as_data()},
            "recorded": self.recorded.as_data(),
            "asked": [dataclasses.asdict(each) for each in self.fewest],
            "perhaps": [dataclasses.asdict(each) for each in self.further],
            "guessed": self.guessed,
            "tools": self.tools,
            "stopped": self.stopped or None,
        }

    def lines(self, most: int = 20) -> list[str]:
        """The prediction for a human."""
        every = [("live", each) for each in self.fewest]
        every += [("perhaps", each) for each in self.further]
        lines = [f"{word}: {each.address}: {each.cause}" for word, each in every[:most]]
        lines += [f"and {len(every) - most} more"] if len(every) > most else []
        if self.tools:
            lines.append(f"would run {len(self.tools)} tools: {', '.join(self.tools[:3])}")
        if self.guessed:
            some = ", ".join(self.guessed[:3]) + (", …" if len(self.guessed) > 3 else "")
            lines.append(f"nothing is recorded of {len(self.guessed)} calls ({some}): a guess")
        if self.decides:
            lines.append(
                f"what {self.decides} gives may change and decide what is asked after it: "
                f"{_range(*self.same_way)} live if the program goes the same way"
            )
        if self.stopped:
            lines.append(f"the program could not be followed to its end: {self.stopped}")
        return [*lines, self._sums()]

    def _sums(self) -> str:
        number = _range(*self.live)
        low, high, all_ = (a.shown() for a in (self.cost, self.cost_most, self.recorded))
        if all(text.endswith(_TOKENS) for text in (low, high, all_)):
            low, high = low.removesuffix(_TOKENS), high.removesuffix(_TOKENS)
        price = low if low == high else f"{low} to {high}"
        return f"{number} of {self.every} calls would be live, {price} of {all_}"


def _range(fewest: int, most: int | None) -> str:
    if most is None:
        return f"at least {fewest}"
    return str(fewest) if fewest == most else f"{fewest} to {most}"


class Predictor(Rerunner):
    """A rerun in which nobody is asked: what would be live is answered as it was recorded."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._asked: dict[str, LiveCall] = {}
        self._touched: dict[str, LiveCall] = {}  # their prompts hold answers of live calls
        self._guessed: list[str] = []
        self._texts: dict[str, str] = {}  # recorded answers that may change, and whose
        self._read = ""  # the first answer that may change and that the program was told
        self._decides, self._certain = "", 0
        self._limits: list[str] = []  # what has a time limit that was not reached then

    # -- calls

    def ask(self, expected: Expectation, call: Call) -> None:
        """Answer *call* as it was recorded in its place; where nothing was, with a guess."""
        if call.outcome is not None:
            return
        self._asked[call.address] = LiveCall(call.address, expected.cause, where(call))
        self._note_text(call.address)
        self._look_at_limits()
        assert call.request is not None
        answer = _fitting(self.trace.by_address.get(call.address), call.request)
        if answer is None:
            self._guessed.append(call.address)
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
                self._touched[address] = LiveCall(address, cause, where(event))
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
        for limited in () if self._decides else self._limits:
            if any(f"{at}/".startswith(f"{limited}/") for at in self._asked):
                self._may_turn(limited)

    def _may_turn(self, address: str) -> None:
        """From here on the program may go another way, for what the call at *address* answers."""
        if address and not self._decides:
            self._decides, self._certain = address, len(self._asked)

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
        if address in self._asked or address in self._touched:
            return True
        below = f"{address}/"
        return any(at.startswith(below) for at in (*self._asked, *self._touched))

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

    # -- the end

    def prediction(self, error: BaseException | None = None) -> Prediction:
        """The prediction so far; *error* is the one that ended the program."""
        found = Prediction(fewest=list(self._asked.values()), tools=self.ran)
        found.stopped = f"{type(error).__name__}: {error}" if error is not None else ""
        found.guessed, found.every = self._guessed, len(self._begun)
        found.decides, found.certain = self._decides, self._certain
        found.further = [each for at, each in self._touched.items() if at not in self._asked]
        for call in self.trace.calls:
            if call.source is None or call.response is not None:
                found.recorded.add(call.response)
        for each in found.fewest:
            self._add(found.cost, each)
        for each in (*found.fewest, *found.further):
            self._add(found.cost_most, each)
        return found

    def _add(self, amount: Amount, live: LiveCall) -> None:
        found = self.trace.by_address.get(live.address)
        if found is not None:
            amount.add(found.response)


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
