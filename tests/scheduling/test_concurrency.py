"""How many calls are with the backend at once: all, so many, or as many as it bears."""

from __future__ import annotations

import asyncio

import pytest

from appl import gen, ppl
from appl.backend import Request
from appl.errors import BackendBusy
from appl.runtime.scheduling.traffic import Slots
from appl.testing import Answer, Late, Limits, Policy, Retries, VirtualClock, running
from tests.drawn import counts


@ppl
def fan(width: int) -> list[str]:
    answers = [gen() for _ in range(width)]
    return [str(each) for each in answers]


def crowded(clock: VirtualClock, room: int, seconds: float = 1.0) -> Late:
    """A server that turns away who comes when *room* are there."""

    def answer(request: Request) -> Answer:
        return BackendBusy("429") if backend.present > room else "yes"

    backend = Late(answer, clock, seconds)
    return backend


def test_without_a_limit_all_calls_are_sent_at_once() -> None:
    backend = Late(lambda _: "yes", VirtualClock())
    with running(backend, policy=Policy(clock=backend.clock)):
        fan(300)
    assert backend.most == 300
    assert backend.clock.now() == 1


@pytest.mark.parametrize(("given", "own"), [(5, None), (None, 5), (5, 9), (9, 5)])
def test_the_smaller_limit_holds(given: int | None, own: int | None) -> None:
    backend = Late(lambda _: "yes", VirtualClock(), concurrency=own)
    policy = Policy(clock=backend.clock, limits=Limits(concurrency=given))
    with running(backend, policy=policy):
        fan(50)
    assert backend.most == 5
    assert backend.clock.now() == 10


def test_a_slow_start_doubles_with_every_round() -> None:
    backend = Late(lambda _: "yes", VirtualClock())
    policy = Policy(clock=backend.clock, slow_start=True, concurrency_start=1)
    with running(backend, policy=policy):
        fan(127)
    assert backend.clock.now() == 7  # 1 + 2 + 4 + … + 64


@counts(500, 1000)
def test_a_storm_of_429_converges(count: int) -> None:
    clock = VirtualClock()
    backend = crowded(clock, room=16)
    policy = Policy(clock=clock, retries=Retries(patience_s=1000))
    with running(backend, policy=policy):
        assert fan(count) == ["yes"] * count
    rejected = len(backend.requests) - count
    print(
        f"{count} calls, room for 16: {rejected} turned away, {clock.now():.0f} s of {count / 16}"
    )
    burst, found_out = count - 16, 0.4 * count  # the latter, the room again and again
    assert rejected <= burst + found_out
    assert clock.now() <= 3 * count / 16


def test_without_adapting_the_storm_goes_on_longer() -> None:
    clock = VirtualClock()
    backend = crowded(clock, room=16)
    policy = Policy(clock=clock, adaptive=False, retries=Retries(patience_s=10_000))
    with running(backend, policy=policy):
        assert fan(200) == ["yes"] * 200
    assert len(backend.requests) > 2 * 200


def test_one_busy_round_halves_the_limit_once() -> None:
    async def main() -> None:
        slots = Slots(16, 8, lambda: None, slow=True)
        epochs = [await slots.take() for _ in range(8)]
        for epoch in epochs:
            slots.busy(epoch)
        assert slots.limit == 4

    asyncio.run(main())


def test_slots_are_taken_in_the_order_of_asking_and_none_is_lost_by_who_leaves() -> None:
    async def main() -> None:
        slots, order = Slots(1, 1, lambda: None), list[int]()
        await slots.take()

        async def come(number: int) -> None:
            await slots.take()
            order.append(number)
            slots.give()

        tasks = [asyncio.create_task(come(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        slots.give()
        tasks[2].cancel()
        await asyncio.wait(tasks)
        assert order == [0, 3, 4]
        assert slots.in_use == 0 and slots.take_now() is not None

    asyncio.run(main())


def test_growth_makes_room_known() -> None:
    async def main() -> None:
        told: list[int | None] = []
        slots = Slots(None, 2, lambda: told.append(slots.limit), slow=True)
        for _ in range(2):
            for epoch in [await slots.take() for _ in range(slots.limit or 0)]:
                slots.answered(epoch)
        assert told and slots.limit == told[-1]

    asyncio.run(main())
