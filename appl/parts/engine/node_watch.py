"""Notices that a node of a cluster is dead, sooner than the cluster itself.

A Ray cluster counts missed heartbeats for 13 s or more before it tells anybody. But whoever knows
where a node's daemon listens can try to connect: the kernel of a machine refuses at once if the
daemon was killed, and nobody answers if the machine is gone.

Invariant: a node that has never answered is never called dead; its port may be closed to us.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

Address = tuple[str, int]
PERIOD_S = 1.0
PATIENCE_S = 2.0
MISSES = 3
"""A node is dead if it misses so many tries in a row: after 2 s at best and 9 s at worst."""


def answers(address: Address) -> bool:
    """True if something at *address* accepts a connection."""
    try:
        socket.create_connection(address, PATIENCE_S).close()
    except OSError:
        return False
    return True


def dies(answering: Callable[[], bool], stopped: Callable[[float], bool]) -> bool:
    """Watch a node until it is dead (true), or until *stopped* (false).

    *answering* tries to reach it. *stopped* waits for the given seconds unless the watch ends.
    """
    was_present, misses = False, 0
    while not (was_present and misses >= MISSES):
        present = answering()
        was_present, misses = was_present or present, 0 if present else misses + 1
        if stopped(PERIOD_S):
            return False
    return True
