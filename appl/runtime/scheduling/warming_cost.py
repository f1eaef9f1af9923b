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

from appl.runtime.scheduling.server_times import ServerTimes

_AT_ONCE = 4096
"""The most tokens of a short beginning that a server computes again: half of a batch of 8,192.

Measured on an H100 and an H200 with calls sent at once: 4,300 to 8,000 for one group of 8 to 64
calls alone, 1,000 to 5,000 for each of several groups side by side. Of what is longer than that at
least one more is computed.
"""


class SharedBeginning(NamedTuple):
    """``calls`` that wait share the first ``end`` blocks; ``tokens`` of them are to be computed."""

    end: int
    tokens: int
    calls: int


def pays(shared: SharedBeginning, everybody: int, times: ServerTimes) -> bool:
    """True if warming *shared* saves *everybody*, its calls included, more than it costs."""
    again = min((shared.calls - 1) * shared.tokens, max(shared.tokens, _AT_ONCE))
    waited = shared.calls + (everybody - shared.calls) / 2
    return again * times.prompt_s * everybody > waited * times.request_s
