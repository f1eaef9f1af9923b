"""Generations in sets and dicts: on a running loop by identity, elsewhere by their text.

The oracle on a loop is Python: generations in containers behave as plain ``object()`` do.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from appl import StringFuture, as_completed, call, gen, map as appl_map, ppl
from appl.errors import RunError
from appl.runtime.entry import asynchronously
from appl.testing import Held, Scripted, running


@ppl
def ask(word: object):
    f"{word}"
    return gen()


@dataclass(frozen=True)
class Word:
    text: str


@ppl
def typed(word: object):
    f"{word}"
    return gen(response_format=list[str])


@ppl
async def later(word: object) -> Any:
    f"{word}"
    return await gen()


def yes(_: object) -> str:
    return "yes"


def on_a_loop(program: Callable[[], Any], backend: Any = None) -> Any:
    """What *program*, plain code, returns on a running loop."""

    async def main() -> Any:
        return program()

    with running(backend or Scripted(yes)):
        return asyncio.run(main())


# -- plain code on a running loop


def test_unfinished_ones_are_different_keys_on_a_loop_and_nothing_waits() -> None:
    backend = Held(yes)  # which nobody releases before the sets are there

    async def main() -> None:
        a, b = ask(1), ask(2)
        assert len({a, b}) == len({a: 1, b: 2}) == len(dict.fromkeys([a, b, a])) == 2
        assert a == a and a != b and not a == b and b in [a, b] and {a: 1}[a] == 1  # noqa: SIM201
        backend.release(a.call_id, b.call_id)
        await a, await b

    with running(backend):
        asyncio.run(main())


def test_a_finished_one_is_hashed_as_an_unfinished_one_on_a_loop() -> None:
    async def main() -> None:
        a, b = ask(1), ask(2)
        assert await a == await b == "yes"
        assert len({a, b}) == 2 and a != b and a == "yes" and "yes" == a  # noqa: SIM300

    with running(Scripted(yes)):
        asyncio.run(main())


def test_a_comparison_of_an_unfinished_one_with_a_text_says_what_to_write() -> None:
    def compare() -> None:
        answer, other = ask(1), ask(2)
        for wrong in (
            lambda: answer == "yes",
            lambda: "yes" == answer,  # noqa: SIM300
            lambda: answer != "yes",
            lambda: answer in ["yes"],
            lambda: answer == None,  # noqa: E711
            lambda: answer < "z",
            lambda: sorted([answer, other]),
        ):
            with pytest.raises(RunError, match=r"/ask\.\d/gen\.0 is compared .* write `await g`"):
                wrong()
        answer.cancel(), other.cancel()

    on_a_loop(compare, Held(yes))


def test_futures_of_any_kind_are_told_apart_on_a_loop() -> None:
    def plain() -> str:
        return "yes"

    async def main() -> None:
        futures = [
            ask(0),
            typed(0),
            call(ask, 0),
            call(plain),
            call(later, 0),
            StringFuture(ask(0)),
        ]
        assert len(set(futures)) == len(Counter(futures)) == 6
        assert [futures.index(future) for future in futures] == list(range(6))
        for future in futures:
            await future

    with running(Scripted(lambda request: '["a"]' if "typed" in request.address else "yes")):
        asyncio.run(main())


def test_a_typed_answer_that_cannot_be_hashed_can_be_gathered() -> None:
    async def main() -> Any:
        return await asyncio.gather(typed(1), typed(1))

    with running(Scripted(lambda _: '["a"]')):
        assert asyncio.run(main()) == [["a"], ["a"]]


def test_copies_pickles_and_caches_on_a_loop() -> None:
    @functools.lru_cache
    def first(answer: Any) -> Any:
        return answer

    async def main() -> None:
        a, b = ask(1), ask(2)
        assert copy.copy(a) is copy.deepcopy([a])[0] is a
        assert first(a) is a and first(b) is b and first.cache_info().misses == 2
        assert first(copy.copy(a)) is a and first.cache_info().hits == 1
        await a
        assert pickle.loads(pickle.dumps(a)) == "yes"

    with running(Scripted(yes)):
        asyncio.run(main())


# -- bodies of prompt functions, and plain code where a wait blocks no loop


def program() -> tuple[object, ...]:
    """Written as plain Python and decorated below: what it gives where a generation is text."""
    a, b, table = ask(1), ask(2), {"yes": 1}
    members, by = {a, b}, {a: 1, b: 2}
    return len(members), len(by), a == b, a == "yes", a in members, a in table, table[b], by["yes"]


@ppl
def in_a_body() -> tuple[object, ...]:
    a, b, table = ask(1), ask(2), {"yes": 1}
    members, by = {a, b}, {a: 1, b: 2}
    return len(members), len(by), a == b, a == "yes", a in members, a in table, table[b], by["yes"]


@ppl
async def in_an_async_body() -> tuple[object, ...]:
    a, b, table = ask(1), ask(2), {"yes": 1}
    members, by = {a, b}, {a: 1, b: 2}
    return len(members), len(by), a == b, a == "yes", a in members, a in table, table[b], by["yes"]


BY_TEXT = (1, 1, True, True, True, True, 1, 2)


async def called(f: Callable[[], Any]) -> Any:
    return f()


async def awaited(f: Callable[[], Any]) -> Any:
    return await f()


@pytest.mark.parametrize(
    "run",
    [
        program,
        in_a_body,
        lambda: asyncio.run(called(in_a_body)),
        lambda: asyncio.run(awaited(in_an_async_body)),
        lambda: asyncio.run(asynchronously(in_a_body)),
        lambda: asyncio.run(asynchronously(program)),
    ],
    ids=["no loop", "body", "body on a loop", "async body", "body in a fiber", "fiber of a loop"],
)
def test_generations_are_texts_where_a_wait_blocks_no_loop_and_in_every_body(run: Any) -> None:
    with running(Scripted(yes)):
        assert run() == BY_TEXT


def test_functions_inside_a_body_are_of_the_body() -> None:
    @ppl
    def body():
        a, b = ask(1), ask(2)

        def inner() -> object:
            return a == b, len({a, b})

        return inner(), (lambda: a == b)(), [a == x for x in (b,)]

    assert on_a_loop(body) == ((True, 1), True, [True])


def test_a_key_that_was_hashed_on_a_loop_is_its_text_in_a_body() -> None:
    @ppl
    def look(table, answer):
        return table[answer], answer in table, answer in {"yes"}, table.get(answer), {answer: 1}

    async def main() -> Any:
        answer = ask(1)
        await asyncio.gather(answer)  # which hashes it
        assert len({answer}) == 1
        there = look({"yes": 5}, answer)
        return there, await asynchronously(look, {"yes": 5}, answer)

    with running(Scripted(yes)):
        assert asyncio.run(main()) == ((5, True, True, 5, {"yes": 1}),) * 2


# -- a hash that was fixed in one world, looked up in another


def test_what_was_hashed_by_text_stays_so_on_a_loop() -> None:
    with running(Scripted(yes)):
        a, b = ask(1), ask(2)
        before = hash(a), hash(b)
        table = {a: "a"}
        assert before == (hash("yes"),) * 2

        async def main() -> None:
            assert (hash(a), hash(b)) == before and table[a] == "a"
            assert b not in table and len({a, b}) == 2 and a in {"yes"}
            assert await asyncio.gather(a, b) == ["yes", "yes"]

        asyncio.run(main())
        assert b in table and len({a, b}) == 1


def test_what_was_hashed_on_a_loop_stays_so_after_it() -> None:
    async def main() -> Any:
        a, b = ask(1), ask(2)
        table = {a: "a", b: "b"}
        await asyncio.gather(a, b)
        return a, b, table, hash(a)

    with running(Scripted(yes)):
        a, b, table, fixed = asyncio.run(main())
        assert hash(a) == fixed and table[a] == "a" and table[b] == "b" and a == b == "yes"


WORLDS = {
    "plain": lambda answer: hash(answer),
    "loop": lambda answer: asyncio.run(called(lambda: hash(answer))),
    "gather": lambda answer: [asyncio.run(gathered(answer)), hash(answer)][1],
    "fiber": lambda answer: asyncio.run(asynchronously(lambda: hash(answer))),
    "thread": lambda answer: asyncio.run(asyncio.to_thread(lambda: hash(answer))),
}


async def gathered(answer: Any) -> object:
    return await asyncio.gather(answer, answer)


@given(st.lists(st.sampled_from(sorted(WORLDS)), min_size=2, max_size=5), st.booleans())
@settings(max_examples=40)
def test_a_hash_never_changes(worlds: list[str], finished: bool) -> None:
    with running(Scripted(yes)):
        answer = ask(1)
        if finished:
            str(answer)
        assert len({WORLDS[world](answer) for world in worlds}) == 1


# -- against plain objects


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "add",
                "discard",
                "in set",
                "put",
                "get",
                "in list",
                "index",
                "count",
                "equal",
                "arrive",
            ]
        ),
        st.integers(0, 4),
        st.integers(0, 4),
    ),
    max_size=25,
)


def stepped(things: list[Any], steps: list[tuple[str, int, int]], arrive: Any) -> Any:
    """What a program sees that uses *things* as members, keys and elements."""
    members: set[Any] = set()
    table: dict[Any, int] = {}
    listed = [*things, things[0]]
    seen: list[object] = []
    for step, i, j in steps:
        a, b = things[i], things[j]
        match step:
            case "add":
                members.add(a)
            case "discard":
                members.discard(a)
            case "in set":
                seen.append(a in members)
            case "put":
                table[a] = j
            case "get":
                seen.append(table.get(a))
            case "in list":
                seen.append(a in listed[j:])
            case "index":
                seen.append(listed.index(a))
            case "count":
                seen.append(listed.count(a))
            case "equal":
                seen.append((a == b, a != b, (a, 1) == (b, 1)))
            case "arrive":
                arrive(i)
    return seen, len(members), list(table.values())


@given(STEPS)
@settings(max_examples=60)
def test_on_a_loop_they_are_told_apart_as_plain_objects_are(steps: Any) -> None:
    backend = Held(yes)

    async def main() -> Any:
        things = [ask(number) for number in range(5)]
        found = stepped(things, steps, lambda i: backend.release(things[i].call_id))
        for thing in things:
            thing.cancel()
        return found

    with running(backend):
        found = asyncio.run(main())
    assert found == stepped([object() for _ in range(5)], steps, lambda _: None)


# -- what asyncio does with them, while every answer waits for the loop to go on


def test_answers_of_a_map_and_of_as_completed_are_told_apart() -> None:
    async def main() -> Any:
        mapped = await appl_map(ask, [1, 2])
        completed = [answer async for answer in as_completed(ask, [1, 2])]
        return [str(answer) for answer in (*mapped, *completed)]

    with running(Scripted(yes)):
        assert asyncio.run(main()) == ["yes"] * 4


def test_asyncio_wait_takes_tasks_and_says_so_at_once() -> None:
    async def main() -> int:
        with pytest.raises(AttributeError, match=r"write asyncio\.wait\(\[asyncio\.ensure_future"):
            await asyncio.wait([answer := ask(1)])  # type: ignore[type-var]
        answer.cancel()
        backend.release()
        done, _ = await asyncio.wait([asyncio.ensure_future(ask(2)) for _ in range(2)])
        return len(done)

    class Late(Held):
        def on_idle(self, final: bool = True) -> bool:
            waits = bool(self.waiting)
            self.release()
            return waits

    with running(backend := Late(yes)):
        assert asyncio.run(main()) == 2


def test_a_cancelled_gather_cancels_what_nobody_else_holds() -> None:
    backend = Held(yes)

    async def gathering(kept: Any) -> None:
        await asyncio.gather(ask(1), kept)

    async def main() -> None:
        kept = ask(2)
        task = asyncio.ensure_future(gathering(kept))
        for _ in range(5):  # until all of gather's own tasks wait
            await asyncio.sleep(0)
        while len(backend.waiting) < 2:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        del task  # whose error holds its variables
        backend.release(kept.call_id)
        assert await kept == "yes"

    with running(backend):
        asyncio.run(main())
    assert len(backend.aborted) == 1
