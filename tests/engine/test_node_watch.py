"""When a node of a cluster counts as dead."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from appl.parts.engine.node_watch import MISSES, answers, dies


def never(_: float) -> bool:
    return False


def script(text: str) -> Iterator[bool]:
    """Answers (``+``) and misses (``-``) of a node, one a try."""
    return iter(each == "+" for each in text)


def test_a_node_is_dead_after_three_misses_in_a_row():
    tries = script("+--+-+---+")
    assert dies(lambda: next(tries), never)
    assert list(tries) == [True]  # it was decided at the third miss in a row


def test_a_node_that_never_answered_is_not_dead():
    tries, ends = script("-" * 9), iter([False] * 8 + [True])
    assert not dies(lambda: next(tries), lambda _: next(ends))


def test_the_watch_ends_with_the_map():
    ends = iter([False, True])
    assert not dies(lambda: True, lambda _: next(ends))


def test_a_daemon_that_is_gone_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as daemon:
        address = daemon.getsockname()
        assert answers(address)
    assert not any(answers(address) for _ in range(MISSES))
