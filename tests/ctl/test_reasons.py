"""Why a call is not answered yet: every reason is told, with where and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from appl.backend import Emit, Request, Response
from appl.errors import BackendBusy, BackendUnavailable
from appl.parts.control import words
from appl.runtime.scheduling import PrefixOrder, loads
from appl.testing import Allowance, Limits, Policy, Retries, Streamed, VirtualClock

from . import programs
from .live import Going, Watched, control, eventually, going, pause, resume


def policy(**options: Any) -> Policy:
    """One whose time stands still: what waits for it waits."""
    return Policy(clock=VirtualClock(), **options)


def named(made: Going, address: str) -> Any:
    """What the scheduler holds at *address*."""
    return made.look(lambda run: next(h for h in run.holdings() if h.call.address == address))


def sentence(made: Going, address: str) -> str:
    """The same in words."""
    shown = made.look(lambda run: control(run, "show"))
    call = next(each for each in shown["calls"] if each["call"] == address)
    return words.reason(call, shown["backends"])


def lines(made: Going) -> list[str]:
    """The first lines about the run, with one for each backend."""
    return words.head(made.look(lambda run: control(run, "show")))


def test_with_the_backend_since_when_and_how_much_has_come() -> None:
    backend = Watched(lambda request: Streamed(("one ", "two ", "three")))
    backend.release("/spoken.0/gen.0")
    with going(backend, lambda: str(programs.spoken("x"))) as made:
        backend.has("/spoken.0/gen.0")
        holding = eventually(lambda: (h := named(made, "/spoken.0/gen.0")).call.emit.chunks and h)
        assert (holding.stage, holding.why, holding.attempt) == ("worker", "asked", 1)
        assert holding.backend == "watched" and holding.since_s >= 0
        assert "with watched for 0." in (said := sentence(made, "/spoken.0/gen.0"))
        assert said.endswith("1 pieces (4 characters) so far")


def test_a_part_of_the_prompt_is_not_there() -> None:
    backend = Watched()
    with going(backend, lambda: str(programs.twice("x"))) as made:
        backend.has("/twice.0/answer.0/gen.0")
        at = "/twice.0/gen.0"
        eventually(lambda: made.why().get(at) == ("prompt", "part"))
        assert sentence(made, at) == "waits for a part of its prompt: /twice.0/answer.0/gen.0"
        backend.release()
        backend.has(at)
        assert made.why() == {at: ("worker", "asked")}


def test_the_queue_its_places_and_what_its_first_waits_for() -> None:
    backend = Watched(concurrency=1)
    with going(backend, programs.three) as made:
        backend.has("/answer.0/gen.0")
        eventually(lambda: len(made.why()) == 3)
        assert made.why() == {
            "/answer.0/gen.0": ("worker", "asked"),
            "/answer.1/gen.0": ("queue", "slot"),
            "/answer.2/gen.0": ("queue", "turn"),
        }
        said = "number 1 in the queue: 1 of at most 1 are on their way"
        assert sentence(made, "/answer.1/gen.0") == said
        assert sentence(made, "/answer.2/gen.0") == "number 2 in the queue: others go first"


@pytest.mark.parametrize("order", ["program", "fifo"])
def test_the_place_in_the_queue_is_the_order_of_being_sent(order: Any) -> None:
    backend = Watched(concurrency=1)
    questions = [("a", 0), ("b", 2), ("c", 1), ("d", 2), ("e", 0)]

    def program() -> list[str]:
        first = programs.answer("first")
        backend.has("/answer.0/gen.0")
        return [str(each) for each in [first, *(programs.urgent(*q) for q in questions)]]

    with going(backend, program, policy=Policy(order=order)) as made:
        backend.has("/answer.0/gen.0")
        eventually(lambda: len(made.why()) == 6)
        queued = made.look(lambda run: [h for h in run.holdings() if h.stage == "queue"])
        assert [h.number for h in queued] == [1, 2, 3, 4, 5]
        expected = [h.call.address for h in queued]
        for address in ("/answer.0/gen.0", *expected):
            backend.has(address)
            backend.release(address)
        made.over()
        assert backend.came[1:] == expected


def test_priority_is_said() -> None:
    backend = Watched(concurrency=1)

    def program() -> str:
        first = programs.answer("x")
        backend.has("/answer.0/gen.0")
        second = programs.urgent("y", 7)
        return f"{first} {second}"

    with going(backend, program) as made:
        backend.has("/answer.0/gen.0")
        eventually(lambda: len(made.why()) == 2)
        assert sentence(made, "/urgent.0/gen.0").startswith("number 1 in the queue, priority 7: ")


def test_the_budget_is_waited_for() -> None:
    backend = Watched()
    budget = policy(budget=Allowance(calls=2))
    with going(backend, programs.budgeted, policy=budget) as made:
        backend.has("/answer.0/gen.0", "/answer.1/gen.0")
        eventually(lambda: made.why().get("/answer.2/gen.0") == ("worker", "budget"))
        assert sentence(made, "/answer.2/gen.0").startswith("waits for the budget: ")


def test_the_rate_is_waited_for_until_when() -> None:
    backend = Watched()
    rate = policy(limits=Limits(requests=1, period_s=60))
    with going(backend, programs.three, policy=rate) as made:
        backend.has("/answer.0/gen.0")
        eventually(lambda: made.why().get("/answer.1/gen.0") == ("worker", "rate"))
        assert named(made, "/answer.1/gen.0").next_s == 60
        assert sentence(made, "/answer.1/gen.0").endswith("; goes on in 1 min 0 s")
        assert made.why()["/answer.2/gen.0"][1] == "rate"


class Busy(Watched):
    """Wants to be left alone for 30 seconds by whoever comes."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        with self._news:
            self.came.append(request.address)
            self._news.notify_all()
        raise BackendBusy("too many requests", retry_after=30.0)


def test_a_backend_that_wants_to_be_left_alone() -> None:
    backend = Busy(concurrency=1)
    with going(backend, programs.three, policy=policy()) as made:
        at = "/answer.0/gen.0"
        eventually(lambda: made.why().get(at) == ("worker", "retry"))
        holding = named(made, at)
        assert holding.attempt == 1 and isinstance(holding.error, BackendBusy)
        assert 30 <= holding.next_s <= 31
        said = sentence(made, at)
        assert said.startswith("rests after a failure; goes on in 3")
        assert said.endswith("attempt 1; last error: BackendBusy: too many requests")
        other = "/answer.1/gen.0"
        eventually(lambda: made.why().get(other) == ("worker", "circuit"))
        assert named(made, other).next_s == 30
        assert made.why()["/answer.2/gen.0"] == ("queue", "circuit")
        assert sentence(made, other) == (
            "watched is left alone after what it said; goes on in 30 s; "
            "last error: BackendBusy: too many requests"
        )
        assert lines(made)[2].endswith("; refused last, asked again in 30 s: too many requests")


class Dead(Watched):
    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        raise BackendUnavailable("nobody there")


def test_a_dead_backend_what_it_said_how_often_and_until_when() -> None:
    dead = policy(retries=Retries(attempts=9, base_s=2))
    clock = dead.clock
    assert isinstance(clock, VirtualClock)
    with going(Dead(), programs.three, policy=dead) as made:

        def waiting() -> list[str]:
            found = [a for a, why in made.why().items() if why == ("worker", "circuit")]
            if not found:
                made.look(lambda run: clock.advance())
            return found

        at = eventually(waiting)[0]
        assert 0 < named(made, at).next_s <= 4  # twice the base
        said = sentence(made, at)
        assert said.startswith("watched is left alone after what it said; goes on in ")
        assert "; refused 5 times in a row; last error: BackendUnavailable: nobody there" in said
        load = lines(made)[2]
        assert "; refused 5 times in a row, asked again in " in load
        assert load.endswith(" s: nobody there")


class Slow(Watched):
    """Connecting takes until it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.connected: asyncio.Future[None] | None = None

    async def connect(self) -> None:
        self.connected = asyncio.get_running_loop().create_future()
        await self.connected


def test_connecting() -> None:
    backend = Slow()
    with going(backend, lambda: str(programs.answer("x"))) as made:
        eventually(lambda: made.why() == {"/answer.0/gen.0": ("worker", "connect")})
        assert sentence(made, "/answer.0/gen.0") == "connects with watched"
        made.look(lambda run: backend.connected and backend.connected.set_result(None))
        backend.has("/answer.0/gen.0")


def test_a_paused_run_in_the_queue_and_on_the_way() -> None:
    backend = Watched(concurrency=1)
    with going(backend, programs.three) as made:
        backend.has("/answer.0/gen.0")
        eventually(lambda: len(made.why()) == 3)
        made.look(pause)
        assert made.why() == {
            "/answer.0/gen.0": ("worker", "asked"),
            "/answer.1/gen.0": ("queue", "paused"),
            "/answer.2/gen.0": ("queue", "paused"),
        }
        assert sentence(made, "/answer.1/gen.0") == "number 1 in the queue: the run is paused"
        backend.release()
        eventually(lambda: "/answer.0/gen.0" not in made.why())
        assert backend.came == ["/answer.0/gen.0"]


class Failing(Watched):
    """The first attempt is over when it is told, and has failed."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        response = await super().complete(request, emit)
        if len(self.came) == 1:
            raise BackendUnavailable("once")
        return response


def test_a_paused_run_begins_no_second_attempt() -> None:
    backend = Failing()
    retries = Policy(retries=Retries(base_s=0), circuit=None)
    with going(backend, lambda: str(programs.answer("x")), policy=retries) as made:
        backend.has("/answer.0/gen.0")
        made.look(pause)
        backend.release("/answer.0/gen.0", "/answer.0/gen.0")
        eventually(lambda: made.why() == {"/answer.0/gen.0": ("worker", "paused")})
        assert sentence(made, "/answer.0/gen.0").startswith("the run is paused; attempt 1; last ")
        assert backend.came == ["/answer.0/gen.0"]
        made.look(resume)
        made.over()
        assert backend.came == ["/answer.0/gen.0"] * 2


def test_a_call_that_had_its_slot_gives_it_back_when_the_run_is_paused() -> None:
    backend, still = Busy(), policy()
    clock = still.clock
    assert isinstance(clock, VirtualClock)
    with going(backend, programs.three, policy=still) as made:
        eventually(lambda: ("worker", "circuit") in made.why().values())
        made.look(pause)

        def all_pause() -> bool:
            made.look(lambda run: clock.advance())
            return {why for _, why in made.why().values()} == {"paused"}

        eventually(all_pause)
        assert made.look(lambda run: loads(run.dispatch.scheduler))[0].taken == 0


class Caching(Watched):
    """Caches prefixes, a token a character; what is sent ahead takes until it is told."""

    cache_tokens = None

    def __init__(self) -> None:
        super().__init__(features={"prefix_cache"}, concurrency=8)
        self.warming: asyncio.Future[None] | None = None

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        return [ord(c) for message in request.messages or () for c in message.content]

    def order(self, queue: Any) -> PrefixOrder:
        return PrefixOrder(self, queue)

    async def warm(self, request: Request, tokens: int) -> None:
        self.warming = asyncio.get_running_loop().create_future()
        await self.warming


def test_a_beginning_that_is_being_computed() -> None:
    backend = Caching()

    def program() -> list[str]:
        return [str(each) for each in [programs.longer("a"), programs.longer("b")]]

    still = policy()
    clock = still.clock
    assert isinstance(clock, VirtualClock)
    with going(backend, program, policy=still) as made:
        held = {f"/longer.{i}/gen.0": ("queue", "prefix") for i in range(2)}
        eventually(lambda: made.why().keys() == held.keys())

        def all_wait() -> bool:
            made.look(lambda run: clock.advance())
            return made.why() == held

        eventually(all_wait)
        said = "the beginning of its prompt is being computed, once for all"
        assert sentence(made, "/longer.1/gen.0") == said
        made.look(lambda run: backend.warming and backend.warming.set_result(None))
        backend.has(*held)


def test_another_asks_the_same_question() -> None:
    from appl import gen

    backend = Watched()

    def program() -> list[str]:
        asked = [{"role": "user", "content": "same"}]
        return [str(each) for each in [gen(messages=asked, cache="run") for _ in range(2)]]

    with going(backend, program) as made:
        eventually(
            lambda: sorted(made.why().values()) == [("worker", "asked"), ("worker", "sample")]
        )
        assert sentence(made, "/gen.1") == "waits for an answer to the same question"


def test_several_backends_each_with_its_queue() -> None:
    from appl.testing import BackendEndpoint, Model, Models

    first, second = Watched(concurrency=1), Watched(name="other", concurrency=1)
    names = {"small": Model("other", None)}
    models = Models(first.profile, Model(), names, "watched", {"other": second.profile})

    def program() -> list[str]:
        from appl import gen

        asked = [{"role": "user", "content": "x"}]
        several = [gen(messages=asked), *(gen("small", messages=asked) for _ in range(2))]
        return [str(each) for each in several]

    with going(first, program, models=models, places={"other": BackendEndpoint(second)}) as made:
        first.has("/gen.0")
        second.has("/gen.1")
        eventually(lambda: len(made.why()) == 3)
        assert made.why() == {
            "/gen.0": ("worker", "asked"),
            "/gen.1": ("worker", "asked"),
            "/gen.2": ("queue", "slot"),
        }
        assert [load.backend for load in made.look(lambda run: loads(run.dispatch.scheduler))] == [
            "watched",
            "other",
        ]
        made.look(pause)
        assert made.why()["/gen.2"] == ("queue", "paused")
