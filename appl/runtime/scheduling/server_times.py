"""The times of a server, measured: what a request takes, a token of a prompt, one of an answer.

Whether a shared beginning is sent ahead is decided by them (``warming_cost.py``), and for how long
a prompt is kept in the server's cache (``residency.py``).

Invariant: plain numbers, and no clock is read; equal times and equal calls give the same decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

_NOISE = 0.3
"""The usual error of an expected time, as a share of it."""

_DRIFT = 0.001
"""The share of a value, squared, by which the doubt about it grows with each request."""

_ENOUGH = 64
"""The requests under way at once from whose times something is learned."""

_MOST = 4.0
_OTHERS = 0.0003


@dataclass(slots=True, eq=False)
class SentRequest:
    """A request that was sent ``at`` a time; so many of its tokens were expected to be ``cold``.

    The server had ``computed`` so many tokens of prompts then, and ``made`` so many of answers.
    Nothing is learned from its time unless it ``tells`` something.
    """

    at: float
    computed: float
    made: int
    cold: int
    tells: bool


class ServerTimes:
    """The seconds that a server takes for a request, a token of a prompt and one of an answer.

    The first values are those of an 8B model on such a machine with other calls under way (alone,
    a request takes 10 ms and 26 µs a token). Each request corrects them, as a Kalman filter does:
    the less the requests before have told of one of them, the more it is changed. A time above four
    times the expected one counts as that. The time of a request by itself is learned from those
    without an answer only.

    A server computes prompts one after the other, before it goes on with answers. So all prompts
    that it computes while a request is under way are part of its time, also those that were sent
    before it and those that end after it. Each token of the answers of others that end meanwhile
    takes time too: much where the request waits for their end, and hardly any else. Without that a
    server whose requests wait would seem to compute prompts slowly. Of very many that are under way
    together the times of some are enough.
    """

    __slots__ = (
        "__weakref__",
        "_at",
        "_computed",
        "_doubts",
        "_made",
        "_sent",
        "_telling",
        "_values",
    )

    def __init__(
        self, request_s: float = 0.05, prompt_s: float = 0.000025, answer_s: float = 0.0055
    ) -> None:
        self._values = [request_s, prompt_s, answer_s, _OTHERS / 3]
        doubts = enumerate((request_s, prompt_s, answer_s, _OTHERS))
        self._doubts = [[0.0] * at + [each**2] + [0.0] * (3 - at) for at, each in doubts]
        self._made = self._telling = 0
        self._sent = self._computed = self._at = 0.0

    @property
    def request_s(self) -> float:
        """The seconds of a request by itself."""
        return self._values[0]

    @property
    def prompt_s(self) -> float:
        """The seconds in which a token of a prompt is computed."""
        return self._values[1]

    def expected(self, computed: float, answer: int = 0, others: int = 0) -> float:
        """The seconds of a request while *computed* tokens of prompts and *answer* are made.

        Requests that end meanwhile have *others*, the tokens of their answers.
        """
        request, prompt, each, other = self._values
        return request + computed * prompt + answer * each + others * other

    def send(self, now: float, cold: int) -> SentRequest:
        """Note that a request with so many *cold* tokens is sent *now*."""
        tells = self._telling < _ENOUGH
        sent = SentRequest(now, self._computed_by(now), self._made, cold, tells)
        self._sent += cold
        self._telling += tells
        return sent

    def _computed_by(self, now: float) -> float:
        """The tokens of prompts computed until *now*, one after the other as they were sent."""
        passed, self._at = now - self._at, now
        computed = self._computed + (passed / self._values[1] if passed > 0 else 0.0)
        self._computed = computed = self._sent if computed > self._sent else computed
        return computed

    def forget(self, sent: SentRequest) -> None:
        """Note that *sent* is over, and that nothing is known of its tokens."""
        self._sent -= sent.cold
        self._telling -= sent.tells

    def learn(self, sent: SentRequest, now: float, cold: int, answer: int = 0) -> None:
        """Learn from a request that is over *now*; *cold* tokens and *answer* were made for it."""
        self._sent += cold - sent.cold
        if not sent.tells:
            self._made += answer
            return
        self._telling -= 1
        computed = self._computed_by(now) - sent.computed
        computed = cold if cold > computed else computed
        others = self._made - sent.made
        self._made += answer
        # In plain steps, as this is done for every call.
        values, doubts, alone, gains = self._values, self._doubts, not answer, list[float]()
        request, prompt, each, other = values
        expected = request + computed * prompt + answer * each + others * other
        for a, b, c, d in doubts:
            gains += (a * alone + b * computed + c * answer + d * others,)
        one, two, three, four = gains
        spread = one * alone + two * computed + three * answer + four * others
        spread += (_NOISE * expected) ** 2
        took, most = now - sent.at, _MOST * expected
        off = ((most if took > most else took) - expected) / spread
        for at, (gain, row, old) in enumerate(zip(gains, doubts, values, strict=True)):
            new, share = old + gain * off, gain / spread
            values[at] = new = new if new > old / 2 else old / 2
            a, b, c, d = row
            row[:] = a - share * one, b - share * two, c - share * three, d - share * four
            most = (new if at < 3 else _OTHERS) ** 2
            if row[at] < most:
                row[at] += _DRIFT * most


_known: WeakKeyDictionary[object, ServerTimes] = WeakKeyDictionary()


def times_of(whose: object) -> ServerTimes:
    """The times of *whose* server, as measured by all runs of this process."""
    return ServerTimes() if whose is None else _known.setdefault(whose, ServerTimes())
