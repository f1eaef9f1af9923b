"""The preparation of calls: each starts once all parts of its prompt are there.

Invariant: a call starts once, on the I/O loop, or fails with the part that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from appl.runtime.concurrency.promise import Error, on_finish, source_of
from appl.runtime.scheduling.call_status import CallStatus

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call


def incomplete(calls: set[Call]) -> Iterator[CallStatus]:
    """The status of *calls*, which wait for a part of their prompts."""
    for call in sorted(calls, key=lambda each: each.address):
        if call.outcome is None:
            yield CallStatus(call, "prompt", "part")


def when_prepared(call: Call, go: Callable[[Call], None], waiting: set[Call]) -> None:
    """Have *go* called with *call* once all parts of its prompt are there, unless they fail.

    Meanwhile it is among the *waiting*.
    """
    # One part at a time: the first one that is not there. When it has come the next is looked for.
    # ``on_finish`` gives false if the part has finished meanwhile, on a program's thread; then it
    # would never call back, and the search goes on here.
    node = call.node
    while node is not None and not node.is_ready and (lazy := node.first_waiting()) is not None:
        if on_finish(source_of(lazy), lambda _: _look_again(call, go, waiting)):
            waiting.add(call)
            return
    if call.outcome is None and _prepared(call):  # else it was cancelled while it waited
        _enter(call, go, waiting)


def _look_again(call: Call, go: Callable[[Call], None], waiting: set[Call]) -> None:
    waiting.discard(call)
    when_prepared(call, go, waiting)


def _enter(call: Call, go: Callable[[Call], None], waiting: set[Call]) -> None:
    """Have the prepared *call* start now, or when its run lets it, for which it is *waiting*."""
    run = call.run
    try:
        # A world that hands things over when all programs wait does not see a call that waits here.
        if run.services.enter is None or run.outside.idle_detection is not None:
            if run.services.gate is not None:
                run.services.gate()
        elif not run.services.enter(partial(_entered, call, go, waiting)):
            waiting.add(call)
            return
    except Exception as error:
        call.failed(error)
        return
    _start(call, go)


def _entered(
    call: Call, go: Callable[[Call], None], waiting: set[Call], error: Exception | None
) -> None:
    waiting.discard(call)
    if call.outcome is not None:  # it was cancelled while it waited
        return
    if error is not None:
        call.failed(error)
    else:
        _start(call, go)


def _start(call: Call, go: Callable[[Call], None]) -> None:
    call.starts()
    answer = call.run.outside.answer
    if answer is None:
        go(call)
    else:
        answer(call, go)


def _prepared(call: Call) -> bool:
    try:
        if call.run.outside.amend is not None:
            call.run.outside.amend(call)
        call.prepare()
    except BaseException as error:
        cause = _failed_part(call, error)
        if cause is None:
            call.failed(error)
        else:
            call.failed_as(cause)
        return False
    return True


def _failed_part(call: Call, error: BaseException) -> Error | None:
    """The outcome of the part that made the prompt fail."""
    for lazy in call.node.holes() if call.node is not None else ():
        source = source_of(lazy)
        if isinstance(source.outcome, Error) and source.outcome.error is error:
            return source.outcome
    return None
