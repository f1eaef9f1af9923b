"""Every client against every kind of wrong answer, through a run: a typed error of that call, in time.

What these ask is drawn from what ``python -m tests.servers`` asks, which takes a quarter of an hour.
"""

from __future__ import annotations

import random

import pytest

from tests.drawn import counts
from tests.servers import matrix
from tests.servers.asked import Found, found_in, found_of_slow
from tests.servers.matrix import PROTOCOLS, Case, Protocol
from tests.wire.servers import FaultServer

SHARE = {"openai": 0.15, "sglang": 0.15, "litellm": 0.03}
"""How many of all cases the long tests ask: litellm takes the longest for each."""

clients = pytest.mark.parametrize("client", SHARE)
of_share = counts(2, 1, "part")
forms = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def drawn(protocol: Protocol, share: float, elsewhere: str) -> list[Case]:
    """The cases of this run; of the many orders and fields only a few."""
    draw = random.Random(protocol.name)
    common = [
        *matrix.statuses(protocol), *matrix.encodings(protocol), *matrix.framings(protocol),
        *matrix.redirects(protocol, elsewhere), *matrix.bytes_changed(protocol, 1, 200),
        *draw.sample([*matrix.orders(protocol), *matrix.fields(protocol)], 200),
    ]  # fmt: skip
    return [case for case in common if draw.random() < share]


@of_share
@forms
@clients
def test_no_answer_stops_a_run_or_is_an_error_without_a_type(
    client: str, stream: bool, part: int
) -> None:
    with FaultServer() as other:
        cases = drawn(PROTOCOLS[client][stream], SHARE[client] / part, f"{other.url}/canary")
        found = found_in(client, cases, stream)
        assert not other.connections
    assert not found.wrong, found.wrong
    assert found.kinds.total() == len(cases) and found.asked >= len(cases) * 0.9
    assert {"ok", "MalformedResponse", "BackendRefused", "BackendUnavailable"} <= set(found.kinds)


@of_share
@forms
@clients
def test_choices_in_any_order_are_answers_or_typed_errors(
    client: str, stream: bool, part: int
) -> None:
    every = list(matrix.choices(PROTOCOLS[client][stream]))
    cases = every[:: 5 * part if client == "litellm" else part]
    found = found_in(client, cases, stream, wanted=2)
    assert not found.wrong, found.wrong
    assert found.kinds.total() == len(cases)


@forms
@clients
def test_silence_and_drips_end_at_the_deadline_of_the_call(client: str, stream: bool) -> None:
    cases = list(matrix.slow(PROTOCOLS[client][stream], every=0.05))
    found: Found = found_of_slow(client, cases, stream, 0.75)
    late, ended = found.kinds["BackendTimeout"], found.kinds["MalformedResponse"]
    assert found.slowest < 1.75, found
    assert late + ended + found.kinds["ok"] == len(cases) == found.asked, found
    assert late >= len(cases) - 2, found  # an answer that is whole need not end
