"""The times of a server are found out from its requests, whatever else it has to do."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from math import isfinite
from typing import Any

import pytest

from appl import gen, ppl
from appl.runtime.run import Run
from appl.runtime.scheduling.cache_room import room_of
from appl.runtime.scheduling.server_times import SentRequest, ServerTimes, times_of
from appl.testing import Policy, VirtualClock
from appl.testing.radix import RadixServer

ANSWER_S = 0.01


def test_a_time_above_the_expected_one_raises_its_parts_by_their_shares() -> None:
    times = ServerTimes(request_s=0.05, prompt_s=0.00005)
    # 0.1 s are expected, half of it for its tokens. Each half is doubted by as much as itself, and
    # any time by 0.03 s: of the 0.1 s too many each gets 0.05² / (2 · 0.05² + 0.03²) = 25 / 59.
    times.learn(times.send(0.0, 1000), 0.2, 1000)
    assert times.request_s == pytest.approx(0.05 + 0.1 * 25 / 59)
    assert times.prompt_s == pytest.approx(0.00005 * (1 + 2 * 25 / 59))


@dataclass
class Asked:
    """A request of one client: what the times say of it, its cold tokens and those of its answer."""

    client: int
    sent: SentRequest
    cold: int
    left: int
    answer: int


def learned(seed: int, prompt_s: float, most: int, rows: int) -> ServerTimes:
    """The times as learned from 20 clients of a server that computes prompts one after the other.

    Prompts have up to *most* cold tokens, and go before answers, of which *rows* are made at once.
    """
    dice, times, now = random.Random(seed), ServerTimes(), 0.0
    asks, waiting, running = [(0.0, client) for client in range(20)], deque[Asked](), list[Asked]()
    for _ in range(20_000):
        while asks and asks[0][0] <= now:
            at, client = heappop(asks)
            cold, answer = dice.randint(1, most), dice.randint(20, 200)
            waiting.append(Asked(client, times.send(at, cold), cold, answer, answer))
        if waiting and len(running) < rows:
            running.append(waiting.popleft())
            now += running[-1].cold * prompt_s
        elif running:
            now += ANSWER_S
            for each in running:
                each.left -= 1
            for each in [each for each in running if not each.left]:
                running.remove(each)
                times.learn(each.sent, now, each.cold, each.answer)
                heappush(asks, (now + dice.expovariate(1.0), each.client))
        else:
            now = asks[0][0]
    return times


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [4000, 12_000, 35_000, 90_000])
def test_the_speed_of_a_server_is_found_out(rate: int, seed: int) -> None:
    times = learned(seed, 1 / rate, 4000, rows=64)
    assert 0.8 * rate < 1 / times.prompt_s < 1.2 * rate


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [4000, 12_000, 35_000])
def test_one_that_lets_requests_wait_does_not_look_slower(rate: int, seed: int) -> None:
    times = learned(seed, 1 / rate, 4000, rows=4)
    assert rate / 2 < 1 / times.prompt_s < 2 * rate


def test_prompts_that_are_nearly_all_cached_say_little_of_its_speed() -> None:
    times = learned(0, 1 / 35_000, 8, rows=64)
    assert 25_000 < 1 / times.prompt_s < 50_000


def test_requests_that_come_to_nothing_are_not_waited_for() -> None:
    times, anew = ServerTimes(), ServerTimes()
    for _ in range(1000):
        times.forget(times.send(0.5, 100_000))
    for each in (times, anew):
        each.learn(each.send(1.0, 1000), 1.5, 1000, 50)
    assert times.prompt_s == anew.prompt_s


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_measured_its_times_are_positive_numbers(seed: int) -> None:
    dice, times, now = random.Random(seed), ServerTimes(), 0.0
    for _ in range(20_000):
        now += dice.choice([0.0, 1e-9, 0.1, 1e6, -5.0])
        sent = times.send(now, dice.choice([0, 1, 10**6]))
        now += dice.choice([0.0, 1e-9, 0.1, 1e9])
        times.learn(sent, now, dice.choice([0, 1, 10**7]), dice.choice([0, 1, 10**18]))
        for found in (times.request_s, times.prompt_s, times.expected(1, 1)):
            assert isfinite(found) and found > 0


@ppl
def agent(number: int) -> Any:
    for turn in range(4):
        f"{' '.join(f'{number}.{turn}.{at}' for at in range(400))}"
        f"{gen(max_tokens=8)}"
    return gen(max_tokens=8)


def recompute_s(prefill: float) -> float:
    """The time to compute the whole cache of a server, as known after twelve agents."""
    clock = VirtualClock()
    server = RadixServer(clock, 8000, prefill=prefill)
    policy = Policy(clock=clock)
    with Run(server, policy=policy):
        for answer in [agent(number) for number in range(12)]:
            assert str(answer)
        found = room_of(server, policy, server).residency.recompute_s
    assert found == 8000 * times_of(server).prompt_s
    return found


def test_a_prompt_is_kept_by_the_speed_that_was_measured() -> None:
    assert recompute_s(4000) > 4 * recompute_s(35_000)
