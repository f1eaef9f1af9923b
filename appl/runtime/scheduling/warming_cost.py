"""The cost of sending a shared beginning ahead of its calls, against what that saves.

Calls that share a beginning can be sent at once. Then the server takes several of them into its
next batches before the beginning is in its cache, and computes it in each. Or the beginning is sent
first, and the calls when it is computed: this is called warming.

* Warming keeps back each of the calls that share the beginning by the time of one request.
* It keeps back every other call by half of that: the server makes one more batch.
* It saves every call the time in which the server computes the beginning again.

Invariant: plain numbers; equal times and equal calls give the same decision.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

_AT_ONCE = 4096
"""The most tokens of a short beginning that a server computes again: half of a batch of 8,192.

Measured on an H100 and an H200 with calls sent at once: 4,300 to 8,000 for one group of 8 to 64
calls alone, 1,000 to 5,000 for each of several groups side by side. Of what is longer than that at
least one more is computed.
"""
_SHARE = 0.2
_MOST = 4.0


class SharedBeginning(NamedTuple):
    """``calls`` that wait share the first ``end`` blocks; ``tokens`` of them are to be computed."""

    end: int
    tokens: int
    calls: int


class ServerTimes:
    """The seconds that a server takes for a request, a token of a prompt and one of an answer.

    The first values are those of an 8B model on such a machine with other calls under way (alone,
    a request takes 10 ms and 26 µs a token). Each request corrects them: if it took twice as long
    as expected, and half of what was expected was for the tokens of prompts, then a token of a
    prompt takes longer by a fifth of one half. A time above four times the expected one counts as
    that. The time of a request by itself is learned from those without an answer only.

    A server computes prompts one after the other. So those of all requests that end while one is
    under way are part of its time; ``computed`` counts them.
    """

    __slots__ = ("__weakref__", "answer_s", "computed", "prompt_s", "request_s")

    def __init__(self) -> None:
        self.request_s, self.prompt_s, self.answer_s = 0.05, 0.000025, 0.0055
        self.computed = 0

    def expected(self, computed: int, answer: int = 0) -> float:
        """The seconds of a request while *computed* tokens of prompts and *answer* are made."""
        return self.request_s + computed * self.prompt_s + answer * self.answer_s

    def learn(self, seconds: float, before: int, own: int, answer: int = 0) -> None:
        """Learn from a request of *own* cold prompt tokens and *answer* that took *seconds*.

        ``computed`` was *before* when it was sent.
        """
        self.computed += own
        computed = self.computed - before
        expected = self.expected(computed, answer)
        change = _SHARE * (min(seconds / expected, _MOST) - 1) / expected
        if not answer:
            self.request_s *= 1 + change * self.request_s
        self.prompt_s *= 1 + change * computed * self.prompt_s
        self.answer_s *= 1 + change * answer * self.answer_s

    def pays(self, shared: SharedBeginning, everybody: int) -> bool:
        """True if warming *shared* saves *everybody*, its calls included, more than it costs."""
        again = min((shared.calls - 1) * shared.tokens, max(shared.tokens, _AT_ONCE))
        waited = shared.calls + (everybody - shared.calls) / 2
        return again * self.prompt_s * everybody > waited * self.request_s


_known: WeakKeyDictionary[object, ServerTimes] = WeakKeyDictionary()


def times_of(whose: object) -> ServerTimes:
    """The times of *whose* server, as measured by all runs of this process."""
    return ServerTimes() if whose is None else _known.setdefault(whose, ServerTimes())
