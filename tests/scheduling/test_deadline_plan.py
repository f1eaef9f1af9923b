"""A run with a deadline: in time where that is possible, for little more than the least it costs.

The oracle tries every assignment of calls to backends, with the durations that the backends have in
this run, which nobody can know before.
"""

from __future__ import annotations

import dataclasses
import heapq
import random
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from appl import gen, ppl
from appl.backend import Profile, Request, Response, Sample, Usage
from appl.backend.price import Price
from appl.config import load
from appl.errors import ConfigError
from appl.runtime import models_from
from appl.runtime.scheduling import Placing
from appl.runtime.scheduling.deadline_plan import DeadlinePlan, ExpectedCall, Forecast, chosen_by
from appl.session.entry import Entry
from appl.session.forecast import forecast_for, forecast_of
from appl.testing import (
    BackendEndpoint,
    CallDispatched,
    CallEnded,
    Late,
    Limits,
    Log,
    Model,
    Models,
    Policy,
    Retries,
    Run,
    VirtualClock,
)
from appl.tracing import Attempt, Recorder, Rerunner, Resumer, Trace
from tests.drawn import counts
from tests.explain import support
from tests.sessions import open_run

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
        sorted(dice.sample(range(call), min(call, dice.choice([0, 1, 1, 2]))))
        for call in range(size)
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
    return min(
        (cost(graph, each) for each in every if end(graph, seconds, each) <= within), default=None
    )


def recorded(graph: DrawnGraph, dice: random.Random) -> Forecast:
    """An earlier run of *graph*, in which calls went to any backend, and answers before it."""
    seconds = durations(graph, dice)
    chosen = [dice.randrange(3) for _ in graph.tokens]
    past = DrawnGraph([dice.randint(10, 200) for _ in range(12)], [])
    answers = [
        (f"{NAMES[place]}/m{place}", tokens, row[place])
        for place in range(3)
        for tokens, row in zip(past.tokens, durations(past, dice), strict=True)
    ]
    calls = {
        f"/program.0/gen.{call}": ExpectedCall(
            graph.tokens[call], 5, seconds[call][place], f"{NAMES[place]}/m{place}",
            tuple(f"/program.0/gen.{need}" for need in graph.needs[call]), 0.0,
        )
        for call, place in enumerate(chosen)
    }  # fmt: skip
    return Forecast(calls, answers)


class Three:
    """A run of a graph with a deadline, on three backends in virtual time."""

    def __init__(
        self,
        graph: DrawnGraph,
        seconds: list[list[float]],
        within: float,
        forecast: Forecast | None,
        *instruments: Any,
        world: Any = None,
        edit: str = "",
        room: int | None = None,
    ) -> None:
        self.clock, self.log = VirtualClock(), Log()

        def number(request: Request) -> int:
            return int(str(next(iter(request.messages or ())).content).split()[1])

        def answer(request: Request) -> Response:
            tokens = graph.tokens[number(request)]
            return Response((Sample("word", "stop"),), Usage(5, tokens))

        backends = [
            Late(
                answer,
                self.clock,
                lambda r, k=place: seconds[number(r)][k],
                name=name,
                default_model=f"m{place}",
            )  # type: ignore[misc]
            for place, name in enumerate(NAMES)
        ]
        prices = {f"m{place}": Price(0.0, each) for place, each in enumerate(COSTS)}
        policy = Policy(clock=self.clock, retries=Retries(attempts=1), prices=prices)
        limited = dataclasses.replace(policy, limits=Limits(concurrency=room))
        own, *others = backends
        listed = tuple(Model(name, None) for name in NAMES[1:])
        default = Model("slow", None, others=listed, prefer="deadline", within=within)
        models = Models(
            own.profile, default, {}, "slow", {each.profile.name: each.profile for each in others}
        )
        places = {each.profile.name: BackendEndpoint(each, policy) for each in others}
        self.backends = backends
        self._run = Run(
            own, policy=limited, models=models, instruments=[self.log, *instruments], places=places,
            world=world,
        )  # fmt: skip
        self._run.dispatch.expect(forecast)
        self._run.dispatch.follow_routes()

        @ppl
        def program() -> None:
            calls: list[Any] = []
            for call, needs in enumerate(graph.needs):
                calls.append(
                    gen(
                        messages=[
                            {"role": "user", "content": f"call {call} {edit if call else ''}"},
                            *({"role": "user", "content": calls[need]} for need in needs),
                        ]
                    )
                )

        with self._run:
            program()

    @property
    def chosen(self) -> list[str]:
        """Who answered, by call."""
        found = {
            each.address: each.response.model for each in self.log.of(CallEnded) if each.response
        }
        return [
            str(found[f"/program.0/gen.{call}"]).partition("/")[0] for call in range(len(found))
        ]


def outcome(seed: int) -> tuple[bool, float, float] | None:
    """Whether a drawn graph ended in time, its cost and that of brute force, if that is in time."""
    dice = random.Random(seed)
    graph = drawn(dice)
    seconds = durations(graph, dice)
    quickest, cheapest = (end(graph, seconds, (place,) * len(graph.tokens)) for place in (2, 0))
    within = quickest + dice.uniform(0.05, 1.1) * (cheapest - quickest)
    three = Three(graph, seconds, within, recorded(graph, dice))
    least = brute_force(graph, seconds, within)
    if least is None:
        return None
    chosen = tuple(map(NAMES.index, three.chosen))
    return three.clock.now() <= within + 1e-9, cost(graph, chosen), least


@counts(40, 1000)
def test_random_graphs_end_in_time_for_little_more_than_the_least_cost(count: int) -> None:
    found = [each for seed in range(count) if (each := outcome(seed)) is not None]
    in_time, ours, least = (sum(column) for column in zip(*found, strict=True))
    assert in_time >= 0.99 * len(found)
    assert ours <= 1.1 * least


@counts(40, 1000)
def test_a_plan_costs_hardly_more_than_the_best_of_all(count: int) -> None:
    ratios = []
    for seed in range(count):
        dice = random.Random(seed)
        graph = drawn(dice)
        seconds = durations(graph, dice)
        within = dice.uniform(0.5, 1.5) * end(graph, seconds, (1,) * len(graph.tokens))
        costs = [[price * tokens for price in COSTS] for tokens in graph.tokens]
        plan = DeadlinePlan(seconds, costs, graph.needs, [0.0] * len(costs))
        chosen = chosen_by(plan, within)
        least = brute_force(graph, seconds, within)
        if least is None:  # then it is as quick as can be
            assert plan.end(chosen) <= plan.end(plan.quickest()) * (1 + 1e-6)
        else:
            assert plan.end(chosen) <= within
            ratios.append(plan.cost(chosen) / least)
    ratios.sort()
    assert ratios[len(ratios) * 99 // 100] <= 1.25 and ratios[-1] <= 1.4
    assert sum(ratios) <= 1.01 * len(ratios)


def end_with_room(
    graph: DrawnGraph, seconds: list[list[float]], chosen: tuple[int, ...], room: int
) -> float:
    """When the last call ends if the first place answers so many at once, who is ready first."""
    ends: dict[int, float] = {}
    free = [0.0] * room
    waiting = set(range(len(chosen)))
    while waiting:
        begins = {
            call: max((ends[need] for need in graph.needs[call]), default=0.0)
            for call in waiting
            if ends.keys() >= {*graph.needs[call]}
        }
        call = min(begins, key=lambda each: (begins[each], each))
        begin, took = begins[call], seconds[call][chosen[call]]
        if chosen[call] == 0:
            begin = max(begin, heapq.heappop(free))
            heapq.heappush(free, begin + took)
        ends[call] = begin + took
        waiting.remove(call)
    return max(ends.values())


@counts(30, 150)
def test_with_little_room_nearly_all_end_in_time_for_little_more(count: int) -> None:
    for room in (1, 2):
        in_time, ours, least = list[bool](), 0.0, 0.0
        for seed in range(count):
            dice = random.Random(seed)
            graph = drawn(dice)
            seconds, calls = durations(graph, dice), len(graph.tokens)
            if calls > 7:
                continue
            ends = {
                chosen: end_with_room(graph, seconds, chosen, room)
                for chosen in product(range(3), repeat=calls)
            }
            quickest = min(ends.values())
            within = quickest + dice.uniform(0.05, 1.1) * (ends[(0,) * calls] - quickest)
            three = Three(graph, seconds, within, recorded(graph, dice), room=room)
            in_time.append(three.clock.now() <= within + 1e-9)
            ours += cost(graph, tuple(map(NAMES.index, three.chosen)))
            least += min(cost(graph, chosen) for chosen, end in ends.items() if end <= within)
        assert sum(in_time) >= 0.95 * len(in_time) and ours <= 1.15 * least


CHAIN = DrawnGraph([100] * 4, [[], [0], [1], [2]])
TAKES = [[7.0, 3.7, 1.4]] * 4


def past(graph: DrawnGraph = CHAIN, seconds: list[list[float]] = TAKES) -> Forecast:
    """What is known of *graph*, if it took exactly so many *seconds* on the slow backend."""
    calls = {
        f"/program.0/gen.{call}": ExpectedCall(
            graph.tokens[call], 5, seconds[call][0], "slow/m0",
            tuple(f"/program.0/gen.{need}" for need in needs), 0.0,
        )
        for call, needs in enumerate(graph.needs)
    }  # fmt: skip
    rows = [(f"{NAMES[k]}/m{k}", 100, seconds[0][k]) for k in range(3) for _ in range(50)]
    return Forecast(calls, rows)


def test_with_time_enough_all_calls_go_to_the_cheapest() -> None:
    assert Three(CHAIN, TAKES, 30.0, past()).chosen == ["slow"] * 4


def test_with_no_time_all_calls_on_the_path_go_to_the_quickest() -> None:
    assert Three(CHAIN, TAKES, 5.7, past()).chosen == ["quick"] * 4
    assert Three(CHAIN, TAKES, 0.1, past()).chosen == ["quick"] * 4  # the least too late


def test_a_call_off_the_path_goes_to_the_cheapest() -> None:
    graph = DrawnGraph([100] * 5, [[], [0], [1], [2], []])
    chosen = Three(graph, TAKES * 2, 7.5, past(graph, TAKES * 2)).chosen
    assert chosen[4] == "slow" and chosen[:4] == ["quick"] * 4


def test_time_that_was_lost_is_made_up_for() -> None:
    late = [[7.0, 3.7, 1.4], [20.0, 3.7, 1.4], [7.0, 3.7, 1.4], [7.0, 3.7, 1.4]]
    three = Three(CHAIN, late, 30.0, past())
    assert three.chosen == ["slow", "slow", "quick", "quick"]
    assert three.clock.now() == pytest.approx(29.8)


@pytest.mark.parametrize("room", [1, 2, 5])
@pytest.mark.parametrize("within", [4.0, 8.0, 15.0, 40.0])
def test_who_would_wait_too_long_for_room_goes_elsewhere(room: int, within: float) -> None:
    count = 12
    graph, seconds = DrawnGraph([100] * count, [[]] * count), [TAKES[0]] * count
    known = past(graph, seconds)
    three = Three(graph, seconds, within, known, room=room)
    assert three.clock.now() <= within
    most = min(int(within / seconds[0][0]) * room, count)  # so many have their turn in time
    assert most - room <= three.chosen.count("slow") <= most


def test_a_call_that_never_comes_is_not_waited_for() -> None:
    forecast = past(DrawnGraph([100] * 6, [[], [0], [1], [2], [], [4]]), TAKES * 2)
    skipped = {**forecast.calls}
    skipped["/program.0/gen.1"] = skipped["/program.0/gen.1"]._replace(
        needs=("/program.0/gen.0", "/program.0/other.0")
    )
    found = {"/program.0/other.0": skipped["/program.0/gen.0"], **skipped}
    assert Three(CHAIN, TAKES, 29.0, forecast._replace(calls=found)).chosen[1:] == ["slow"] * 3


def test_where_no_known_backend_is_quick_enough_an_unknown_one_is_tried() -> None:
    calls = past().calls
    three = Three(CHAIN, TAKES, 14.0, Forecast(calls))  # each was answered by the slow one
    assert three.clock.now() <= 14.0 and {"fair", "quick"} <= {*three.chosen}
    assert Three(CHAIN, TAKES, 40.0, Forecast(calls)).chosen == ["slow"] * 4


def test_a_server_that_counts_no_tokens_does_not_make_all_backends_free() -> None:
    calls = {
        address: call._replace(tokens=None, prompt_tokens=None)
        for address, call in past().calls.items()
    }
    rows = [(place, None, seconds) for place, _, seconds in past().answers]
    assert Three(CHAIN, TAKES, 60.0, Forecast(calls, rows)).chosen == ["slow"] * 4


def test_answers_from_a_record_are_not_waited_for(tmp_path: Path) -> None:
    graph = DrawnGraph([20_000, 100, 100, 100], CHAIN.needs)
    seconds = [[1400.0, 740.0, 280.0], *TAKES[1:]]
    rows = [(f"{NAMES[k]}/m{k}", 20_000, seconds[0][k]) for k in range(3) for _ in range(50)]
    known = past(graph, seconds)._replace(answers=[*rows, *past().answers])
    recorder = Recorder(tmp_path / "a.trace", {}, durability="process")
    Three(graph, seconds, 9.0, None, recorder)
    recorder.close()
    world = Rerunner(tmp_path / "a.trace")
    later = Three(graph, seconds, 9.0, known, world, world=world, edit="more")
    assert later.clock.now() <= 9.0 and len(later.log.of(CallDispatched)) == 3


@ppl
def chat() -> str:
    "One"
    first = str(gen())
    f"Two {first}"
    second = str(gen())
    f"Three {second}"
    return str(gen())


def test_without_an_earlier_run_the_graph_says_how_many_calls_follow() -> None:
    clock = VirtualClock()
    backends = [
        Late(lambda _: "x", clock, took, name=name, default_model=f"m{place}")
        for place, (name, took) in enumerate(zip(NAMES, (7.0, 3.7, 1.4), strict=True))
    ]
    policy = Policy(
        clock=clock, prices={f"m{place}": Price(0.0, each) for place, each in enumerate(COSTS)}
    )
    own, *others = backends
    default = Model(
        "slow",
        None,
        others=tuple(Model(n, None) for n in NAMES[1:]),
        prefer="deadline",
        within=10.5,
    )
    models = Models(
        own.profile, default, {}, "slow", {each.profile.name: each.profile for each in others}
    )
    log = Log()
    run = Run(
        own,
        policy=policy,
        models=models,
        instruments=[log],
        places={each.profile.name: BackendEndpoint(each, policy) for each in others},
    )
    answers = [
        (f"{NAMES[k]}/m{k}", 1, took) for k, took in enumerate((7.0, 3.7, 1.4)) for _ in range(50)
    ]
    run.dispatch.expect(Forecast({}, answers))
    run.dispatch.follow_routes()
    with run:
        chat()
    said = [each.response.model for each in log.of(CallEnded) if each.response]
    assert sorted(str(each).partition("/")[0] for each in said) == ["fair", "fair", "quick"]
    assert clock.now() <= 10.5


# -- what earlier runs say


@ppl(ctx="copy")
def aside(number: int) -> Any:
    f"Aside {number}"
    return gen(max_tokens=3)


@ppl
def talk() -> str:
    "Begin"
    first = gen(max_tokens=3)
    sides = [aside(number) for number in range(2)]
    f"{first}"
    second = gen(max_tokens=3)
    f"{second}"
    for side in sides:
        f"{side}"
    return str(gen(max_tokens=3))


SETTINGS = """
model = "both"

[models]
both = {model = ["embedded/embedded", "second/embedded"], prefer = "deadline", within = 60}

[backends.second]
type = "embedded"
"""


def test_the_latest_run_of_a_program_says_what_waits_for_what(tmp_path: Path) -> None:
    (tmp_path / "appl.toml").write_text(SETTINGS)
    config = load({"home": str(tmp_path / "home")}, directory=tmp_path, environ={})
    with open_run(config, say=lambda line: None) as session:
        talk()
    assert session.path is not None
    calls = forecast_of(Trace.open(session.path)).calls
    first, second, third = (f"/talk.0/gen.{number}" for number in range(3))
    sides = [f"/talk.0/aside.{number}/gen.0" for number in range(2)]
    assert set(calls) == {first, second, third, *sides}
    assert calls[first].needs == () and first in calls[second].needs
    assert set(calls[third].needs) >= {second, *sides}
    assert all(call.tokens > 0 and call.seconds >= 0 for call in calls.values())
    assert {call.place.partition("/")[0] for call in calls.values()} <= {"embedded", "second"}
    with open_run(config, say=lambda line: None) as later:
        placing = later.run.dispatch.scheduler
        assert isinstance(placing, Placing) and placing.forecast is not None
        assert placing.forecast.calls.keys() == calls.keys()
        talk()
    with open_run(config, say=lambda line: None) as third_run:
        placing = third_run.run.dispatch.scheduler
        assert isinstance(placing, Placing) and placing.forecast is not None
        assert len(placing.forecast.answers) == len(calls)


@ppl
def counted(most: int) -> None:
    "Count"
    for number in range(most):
        f"{number}"
        str(gen(max_tokens=1 if most == 3 else 2))
    if most < 3:
        raise ValueError("no more")


def test_a_run_that_failed_says_how_quick_backends_are_and_not_what_is_to_come(
    tmp_path: Path,
) -> None:
    (tmp_path / "appl.toml").write_text(SETTINGS)
    config = load({"home": str(tmp_path / "home")}, directory=tmp_path, environ={})
    for most in (3, 4, 2):
        with suppress(ValueError), open_run(config, say=lambda line: None):
            counted(most)
    with open_run(config, say=lambda line: None) as later:
        placing = later.run.dispatch.scheduler
        assert isinstance(placing, Placing) and placing.forecast is not None
        assert len(placing.forecast.calls) == 4
        tokens = [count for _, count, _ in placing.forecast.answers]
        assert tokens == [1, 1, 1, 2, 2]  # the oldest first, as the last ones count
    with suppress(ValueError), open_run(config, say=lambda line: None) as broken:
        counted(2)
    assert broken.path is not None
    world = Resumer(broken.path)
    gone_on = forecast_for(Entry("api"), tmp_path / "home", world)
    assert len(gone_on.calls) == 4  # of which it made two


def test_only_what_a_server_did_for_an_answer_is_its_duration(tmp_path: Path) -> None:
    asked = support.call("/p.0/gen.0", 0.0, 9.0, usage=None)
    asked.attempts = [Attempt(1, support.micro(1)), Attempt(2, support.micro(7))]
    kept = support.call("/p.0/gen.1", 9.0, 9.1)
    kept.source, kept.attempts = "reused", []
    cached = support.call("/p.0/gen.2", 9.1, 9.2)
    assert cached.response is not None
    cached.response = dataclasses.replace(cached.response, reused=1)
    found = forecast_of(support.trace(asked, kept, cached)).calls.values()
    assert [each.seconds for each in found] == [2.0, None, None]
    assert [each.tokens for each in found] == [None, 5, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{model = ["a", "b"], prefer = "deadline"}', "needs the seconds .* got none"),
        ('{model = ["a", "b"], prefer = "deadline", within = 0}', "needs the seconds"),
        ('{model = ["a", "b"], prefer = "deadline", within = true}', "needs the seconds"),
        ('{model = ["a", "b"], prefer = "deadline", within = nan}', "needs the seconds"),
        ('{model = ["a", "b"], prefer = "deadline", within = 1e300}', "needs the seconds"),
        ('{model = ["a", "b"], prefer = "cost", within = 5}', 'within is for prefer = "deadline"'),
        ('{model = "a", within = 5}', "within is for lists"),
    ],
)
def test_a_deadline_is_a_number_of_seconds(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "appl.toml").write_text(f"[models]\nboth = {text}\n")
    with pytest.raises(ConfigError, match=said):
        load({}, directory=tmp_path, environ={})


def test_the_deadline_goes_through_the_header_of_a_trace() -> None:
    own, other = Profile("slow", default_model="m0"), Profile("quick", default_model="m2")
    default = Model("slow", None, others=(Model("quick"),), prefer="deadline", within=12.5)
    models = Models(own, default, {}, "slow", {"quick": other})
    again = models_from(models.as_data(), own, "slow", {"quick": other})
    assert again is not None and again.default == models.default
    assert models.default.name == "slow/m0 | quick/m2 (deadline 12.5 s)"
