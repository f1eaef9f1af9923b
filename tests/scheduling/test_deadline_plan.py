"""A run with a deadline: in time where that is possible, for little more than the least it costs.

The oracle tries every assignment of calls to backends, with the durations that the backends have in
this run, which nobody can know before.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any, NamedTuple

import pytest

from appl import gen, ppl
from appl.backend import Request, Response, Sample, Usage
from appl.backend.price import Price
from appl.runtime.event import CallEnded
from appl.runtime.run import Run
from appl.runtime.scheduling.deadline_plan import ExpectedCall, Forecast
from appl.testing import BackendEndpoint, Late, Log, Model, Models, Policy, Retries, VirtualClock
from tests.drawn import counts

NAMES = ("slow", "fair", "quick")
COSTS = (1.0, 3.0, 9.0)
BASES = (2.0, 1.2, 0.4)
RATES = (0.05, 0.025, 0.01)


class DrawnGraph(NamedTuple):
    """Calls with their tokens, and the earlier calls that each waits for."""

    tokens: list[int]
    needs: list[list[int]]


def drawn(dice: random.Random) -> DrawnGraph:
    size = dice.randint(1, 8)
    needs = [
        sorted(dice.sample(range(call), min(call, dice.choice([0, 1, 1, 2])))) for call in range(size)
    ]
    return DrawnGraph([dice.randint(10, 200) for _ in range(size)], needs)


def durations(graph: DrawnGraph, dice: random.Random) -> list[list[float]]:
    """The seconds of each call on each backend, in one run."""
    return [
        [
            (base + rate * tokens) * dice.uniform(0.9, 1.1)
            for base, rate in zip(BASES, RATES, strict=True)
        ]
        for tokens in graph.tokens
    ]


def end(graph: DrawnGraph, seconds: list[list[float]], chosen: tuple[int, ...]) -> float:
    ends: list[float] = []
    for call, needs in enumerate(graph.needs):
        ends.append(max((ends[need] for need in needs), default=0.0) + seconds[call][chosen[call]])
    return max(ends)


def cost(graph: DrawnGraph, chosen: tuple[int, ...]) -> float:
    return sum(COSTS[place] * tokens for place, tokens in zip(chosen, graph.tokens, strict=True))


def brute_force(graph: DrawnGraph, seconds: list[list[float]], within: float) -> float | None:
    """The least cost of all assignments that end in time."""
    every = product(range(3), repeat=len(graph.tokens))
    return min((cost(graph, each) for each in every if end(graph, seconds, each) <= within), default=None)


def recorded(graph: DrawnGraph, seconds: list[list[float]], chosen: list[int]) -> Forecast:
    """An earlier run of *graph*, in which each call went to the *chosen* backend."""
    return {
        f"/program.0/gen.{call}": ExpectedCall(
            graph.tokens[call], 5, seconds[call][place], f"{NAMES[place]}/m",
            tuple(f"/program.0/gen.{need}" for need in graph.needs[call]), 0.0,
        )
        for call, place in enumerate(chosen)
    }  # fmt: skip


class Three:
    """A run of a graph with a deadline, on three backends in virtual time."""

    def __init__(
        self, graph: DrawnGraph, seconds: list[list[float]], within: float, forecast: Forecast | None
    ) -> None:
        self.clock, self.log = VirtualClock(), Log()

        def number(request: Request) -> int:
            return int(str(list(request.messages or ())[0].content).split()[1])

        def answer(request: Request) -> Response:
            tokens = graph.tokens[number(request)]
            return Response((Sample("word", "stop"),), Usage(5, tokens))

        backends = [
            Late(answer, self.clock, lambda r, k=place: seconds[number(r)][k], name=name, default_model="m")  # type: ignore[misc]
            for place, name in enumerate(NAMES)
        ]
        prices = {f"{name}/m": Price(0.0, each) for name, each in zip(NAMES, COSTS, strict=True)}
        policy = Policy(clock=self.clock, retries=Retries(attempts=1), prices=prices)
        own, *others = backends
        listed = tuple(Model(name, "m") for name in NAMES[1:])
        default = Model("slow", "m", others=listed, prefer="deadline", within=within)
        models = Models(own.profile, default, {}, "slow", {each.profile.name: each.profile for each in others})
        places = {each.profile.name: BackendEndpoint(each, policy) for each in others}
        self.backends = backends
        self._run = Run(own, policy=policy, models=models, instruments=[self.log], places=places)
        self._run.dispatch.expect(forecast)
        self._run.dispatch.follow_routes()

        @ppl
        def program() -> None:
            calls: list[Any] = []
            for call, needs in enumerate(graph.needs):
                calls.append(gen(messages=[{"role": "user", "content": f"call {call}"}, *({"role": "user", "content": calls[need]} for need in needs)]))

        with self._run:
            program()

    @property
    def chosen(self) -> list[str]:
        """Who answered, by call."""
        found = {each.address: each.response.model for each in self.log.of(CallEnded) if each.response}
        return [str(found[f"/program.0/gen.{call}"]).partition("/")[0] for call in range(len(found))]
