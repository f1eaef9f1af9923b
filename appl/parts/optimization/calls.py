"""The calls of an optimisation: what they said, what they took, and answers that are used again.

Invariant: an answer is used again only for the same content, and at the same place of the same
sample: two samples, or two calls of one prompt, never share an answer. At temperature 0 they would
have the same one, so all samples of one number share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from appl.errors import BudgetExceeded
from appl.prompt import Messages
from appl.prompt.origin import line_of
from appl.runtime.answers.call import Call
from appl.runtime.answers.samples import RunAnswers
from appl.runtime.event import CallEnded, CallStarted, Event
from appl.runtime.frame import Frame

Line = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Spending:
    """The model calls of a part of an optimisation.

    ``calls`` and ``tokens`` are those that were paid, ``cost`` is in millionths of the currency
    unit, without that of ``cost_unknown`` calls. ``reused`` calls of candidates got the answer of
    an earlier candidate. ``earlier`` of the paid ones were paid by an earlier run.
    """

    calls: int = 0
    tokens: int = 0
    cost: int = 0
    cost_unknown: int = 0
    reused: int = 0
    earlier: int = 0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.cost + other.cost,
            self.cost_unknown + other.cost_unknown,
            self.reused + other.reused,
            self.earlier + other.earlier,
        )

    def __sub__(self, other: Spending) -> Spending:
        return Spending(
            self.calls - other.calls,
            self.tokens - other.tokens,
            self.cost - other.cost,
            self.cost_unknown - other.cost_unknown,
            self.reused - other.reused,
            self.earlier - other.earlier,
        )


@dataclass(slots=True)
class SeenCall:
    """A call of a sample: its prompt, its answer, and the source lines that are in the prompt.

    ``content`` is what calls that share an answer have in common.
    """

    address: str
    messages: Messages | None
    content: tuple[str, bytes]
    answer: str | None = None
    tokens: int = 0
    cost: int | None = 0
    _lines: frozenset[Line] | None = field(default=None, repr=False)

    @property
    def lines(self) -> frozenset[Line]:
        """The source lines whose text is in the prompt."""
        if self._lines is None:
            self._lines = frozenset(_lines_of(self.messages))
        return self._lines


class _PlaceAnswers(RunAnswers):
    """The answers to the calls at one place of a sample."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Calls:
    """Watches the calls below the *frame* of an optimisation, and has candidates share answers.

    ``refusal`` is the first error with which a budget refused a call since it was set to ``None``.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame, self._prefix = frame, f"{frame.address}/"
        self._seen: dict[str, SeenCall] = {}
        self._stores: dict[str, _PlaceAnswers] = {}
        self._paid: dict[tuple[str, bytes], tuple[int, int | None]] = {}
        self._lock = threading.Lock()
        self._amend: Callable[[Call], None] | None = None
        self._spent = {True: Spending(), False: Spending()}  # by whether it is a candidate's
        self.refusal: BudgetExceeded | None = None

    def __enter__(self) -> Calls:
        run = self._frame.run
        self._amend = run.outside.amend
        run.outside.amend = self._amended
        run.reporter.add_first(self)
        return self

    def __exit__(self, *error: object) -> None:
        run = self._frame.run
        run.reporter.remove(self)
        run.outside.amend = self._amend

    def _amended(self, call: Call) -> None:
        """Have *call* look for an answer that an earlier candidate got at its place."""
        if self._amend is not None:
            self._amend(call)
        place = self._place(call.address)
        if place and call.cache is None and call.batches is None:
            name = f"{self._prefix}{_sharing(place, call.sampling.temperature)}"
            store = self._stores.setdefault(name, _PlaceAnswers(name))
            call.cache = self._frame.run.dispatch.cache(store)

    def _place(self, address: str) -> str:
        """The *address* of a call below its evaluation; empty for others."""
        if not address.startswith(self._prefix):
            return ""
        first, _, rest = address[len(self._prefix) :].partition("/")
        return rest if first.startswith("evaluate.") else ""

    def on_event(self, event: Event) -> None:
        """Take note of a call that starts or ends."""
        if isinstance(event, CallStarted):
            if place := self._place(event.address):
                request = event.request
                self._seen[event.address] = SeenCall(
                    event.address,
                    request.messages,
                    (_sharing(place, request.sampling.temperature), request.digest),
                )
        elif isinstance(event, CallEnded) and event.address.startswith(self._prefix):
            self._ended(event)

    def _ended(self, event: CallEnded) -> None:
        if isinstance(event.error, BudgetExceeded) and self.refusal is None:
            self.refusal = event.error
        response, call = event.response, self._seen.get(event.address)
        if response is None:
            return
        is_reused = bool(response.samples) and response.reused >= len(response.samples)
        used = response.usage
        tokens, cost = (used.prompt_tokens or 0) + (used.completion_tokens or 0), response.cost
        spent = Spending(reused=1)
        if not is_reused:
            unknown, earlier = cost is None, event.source is not None
            spent = Spending(1, tokens, cost or 0, unknown, 0, earlier)
        if call is not None:
            call.answer = "".join(each.text for each in response.samples[:1])
            if not is_reused:
                self._paid[call.content] = tokens, cost
            call.tokens, call.cost = tokens, cost
        is_candidate = bool(self._place(event.address))
        with self._lock:
            self._spent[is_candidate] += spent

    @property
    def spent(self) -> Spending:
        """The calls so far."""
        return self._spent[True] + self._spent[False]

    @property
    def of_candidates(self) -> Spending:
        """Those of the program and its scores."""
        return self._spent[True]

    @property
    def of_proposer(self) -> Spending:
        """Those of the proposer."""
        return self._spent[False]

    def below(self, addresses: Collection[str]) -> Iterator[SeenCall]:
        """The calls of the samples at *addresses*."""
        starts = tuple(f"{address}/" for address in addresses)
        yield from (call for call in self._seen.values() if call.address.startswith(starts))

    def taken(self, call: SeenCall) -> tuple[int, int | None]:
        """The tokens and the cost of *call*, also where another one has paid for its answer."""
        return self._paid.get(call.content, (call.tokens, call.cost))


def _sharing(place: str, temperature: float | None) -> str:
    """The name of the calls that share answers with one at *place*."""
    if temperature != 0:
        return place
    sample = place.partition("/")[0]
    return f"sample {sample.rpartition('.')[2]}"


def _lines_of(messages: Messages | None) -> Iterator[Line]:
    link = messages
    while link is not None:
        for origin in link.spans[1::2]:
            line = line_of(origin)
            if line is not None:
                yield line
        link = link.parent
