"""Deadlock detection: a program that waits for itself gets an error that names the cycle.

Invariant: only what is certain is followed, so that a cycle that is found is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.errors import DeadlockError

if TYPE_CHECKING:
    from appl.runtime.concurrency.promise import Home, Promise


def find_cycle(start: Promise) -> list[Promise] | None:
    """A cycle among what *start* is blocked by, itself included; iterative, each visited once."""
    path: list[Promise] = [start]
    on_path = {start}
    visited = {start}  # other threads go on meanwhile: each is visited once, so that this ends
    branches = [iter(start.blockers())]
    while branches:
        for blocker in branches[-1]:
            if blocker in on_path:
                return path[path.index(blocker) :]
            if blocker in visited or blocker.done:
                continue
            visited.add(blocker)
            on_path.add(blocker)
            path.append(blocker)
            branches.append(iter(blocker.blockers()))
            break
        else:
            branches.pop()
            on_path.discard(path.pop())
    return None


def deadlock_of(waits: Promise, blocked: Home | None) -> DeadlockError | None:
    """The error for a program that waits for *waits*, if that can never end.

    It waits along a cycle, or its synchronous wait keeps *blocked*, the home of a running loop,
    from what only this loop can finish.
    """
    cycle = find_cycle(waits)
    if cycle is not None:
        names = [pending.address for pending in cycle]
        chain = " waits for ".join([*names, names[0]])
        return DeadlockError(
            f"this program waits for itself: {chain}; let one of them go on without the other's "
            "value"
        )
    visited, todo = {waits}, [waits] if blocked is not None else []
    while todo:
        pending = todo.pop()
        if pending.in_loop and pending.home is blocked:
            return DeadlockError(
                f"this waits for {pending.address}, which the running loop has to finish, and "
                "blocks that loop: await the future in a coroutine, or start the synchronous "
                "program with `await appl.run(f, ...)`"
            )
        fresh = [
            blocker for blocker in pending.blockers() if blocker not in visited and not blocker.done
        ]
        visited.update(fresh)
        todo += fresh
    return None
