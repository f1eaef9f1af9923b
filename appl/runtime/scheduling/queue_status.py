"""The calls in the queues of a run and the loads of its backends, for somebody who looks on.

Invariant: looking changes nothing; it is done on the I/O loop, where nothing changes meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from appl.runtime.scheduling.call_status import CallStatus, Load, Why
from appl.runtime.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.scheduling.dispatcher import Dispatcher
    from appl.runtime.scheduling.placing import Placing


def statuses(queue: Scheduler | Placing) -> Iterator[CallStatus]:
    """The status of every call without an answer: with a worker, ready, or waiting."""
    if isinstance(queue, Scheduler):
        yield from _of_backend(queue)
        return
    from appl.runtime.scheduling.placing import Leg  # few runs have several backends

    for scheduler in queue.schedulers.values():
        for status in _of_backend(scheduler):
            call = status.call
            yield replace(status, call=call.main) if isinstance(call, Leg) else status
    yield from _incomplete(queue.incomplete)


def loads(queue: Scheduler | Placing) -> list[Load]:
    """The load of each backend."""
    schedulers = [queue] if isinstance(queue, Scheduler) else queue.schedulers.values()
    return [_load(scheduler.dispatcher, scheduler.order.size) for scheduler in schedulers]


def _of_backend(scheduler: Scheduler) -> Iterator[CallStatus]:
    """The status of every call without an answer that is with *scheduler*."""
    # Any thread may look on, but the dispatcher is made on the I/O loop. Where this asks it, a
    # call has come to it already.
    for call in chain(scheduler.tasks.values(), tuple(scheduler.batched)):
        if call is not None and call.outcome is None:
            yield _with_worker(scheduler.dispatcher, call)
    number, behind = 0, None
    for call, why in scheduler.waiting():
        if call.outcome is not None:
            continue
        if why is not None:
            yield CallStatus(call, "queue", why, scheduler.dispatcher.name)
            continue
        number += 1
        if number > 1:
            behind = behind or _not_sent(scheduler, 2)
        reason = behind or _not_sent(scheduler, 1)
        yield CallStatus(call, "queue", reason, scheduler.dispatcher.name, number)
    if scheduler.incomplete:
        yield from _incomplete(scheduler.incomplete)


def _not_sent(scheduler: Scheduler, number: int) -> Why:
    """The reason for which number *number* of the queue is not sent."""
    if scheduler.paused:
        return "paused"
    dispatcher = scheduler.dispatcher
    limit = dispatcher.limit
    if limit is None or scheduler.workers < limit or number > 1:
        return "turn"
    if not dispatcher.stuck:
        return "slot"
    # A call waits for something, and keeps the others in the queue.
    reasons = (question.waits for question in dispatcher.questions.values())
    return next((why for why in reasons if why not in (None, "retry", "connect")), None) or "slot"


def _with_worker(dispatcher: Dispatcher, call: Call) -> CallStatus:
    """The status of *call*, which a worker has."""
    question, name = dispatcher.questions.get(call), dispatcher.name
    if question is None:
        return CallStatus(call, "worker", "sample", name)
    why, until, error = question.waits, question.until, question.error
    outage, refusals = dispatcher.outages.get(question.request.model), 0
    if why in ("circuit", "retry") and outage is not None:
        refusals, error = outage.refusals, error or outage.error
        until = max(until or outage.until, outage.until)
    elif why == "rate" and dispatcher.traffic.rate is not None:
        until = dispatcher.traffic.rate.ready_at()
    why = why or ("asked" if question.sent else "slot")
    since = time.monotonic() - question.at if question.number else None
    rest_s = max(until - dispatcher.now(), 0.0) if until is not None else None
    return CallStatus(call, "worker", why, name, 0, question.number, since, rest_s, error, refusals)


def _incomplete(calls: set[Call]) -> Iterator[CallStatus]:
    """The status of *calls*, which wait for a part of their prompts."""
    for call in sorted(calls, key=lambda call: call.address):
        if call.outcome is None:
            yield CallStatus(call, "prompt", "part")


def _load(dispatcher: Dispatcher, ready: int) -> Load:
    """The load of the backend of *dispatcher*, when so many calls are *ready*."""
    slots, name = dispatcher.traffic.slots, dispatcher.name
    return Load(name, slots.limit, slots.most, slots.in_use, ready, dispatcher.outages)
