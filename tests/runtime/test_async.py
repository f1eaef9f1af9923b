"""async programs: native on the caller's loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import weakref
from typing import Any

import pytest

from appl import call, gen, map as appl_map, ppl, sleep as appl_sleep
from appl.errors import BackendError, CallCancelled
from appl.runtime.entry import asynchronously
from appl.testing import Echo, Held, Instant, Run, Scripted, Seeded, on_backend_loop, running


@ppl
async def ask(word):
    f"{word}"
    return await gen()


def test_an_async_program_waits_on_its_loop():
    with running(Scripted(["x"])) as seen:
        assert asyncio.run(ask("a")) == "x"
    assert seen.prompts == {"/ask.0/gen.0": "user: a"}


def test_it_is_recognised_as_a_coroutine_function():
    assert inspect.iscoroutinefunction(ask) or asyncio.iscoroutinefunction(ask)


async def test_addresses_are_taken_when_called():
    @ppl
    async def outer():
        first, second = ask("1"), ask("2")
        return await asyncio.gather(second, first)

    async with Run(backend := Seeded(0)):
        await outer()
    assert sorted(backend.prompts.items()) == [
        ("/outer.0/ask.0/gen.0", "user: 1"), ("/outer.0/ask.1/gen.0", "user: 2"),
    ]  # fmt: skip


async def test_tasks_of_other_coroutines_are_scopes():
    async def helper(word):
        return await gen(messages=word)

    @ppl
    async def outer():
        async with asyncio.TaskGroup() as group:
            group.create_task(helper("a"))
            group.create_task(helper("b"))

    for seed in range(3):
        async with Run(backend := Seeded(seed)):
            await outer()
        name = "test_tasks_of_other_coroutines_are_scopes.<locals>.helper"
        assert backend.prompts == {
            f"/outer.0/{name}.0/gen.0": "user: a", f"/outer.0/{name}.1/gen.0": "user: b",
        }  # fmt: skip


def asked_twice(way):
    """The addresses and prompts of a program that *way* has wait for five coroutines."""

    async def twice(word):
        first = await ask(word)
        return await ask(f"{word} {first}")

    @ppl
    async def main():
        return await way([twice(word) for word in "edcba"])

    return main


async def in_their_order(coroutines):
    return await asyncio.gather(*coroutines)


async def as_they_end(coroutines):
    return [await each for each in asyncio.as_completed(coroutines)]


@pytest.mark.parametrize("way", [in_their_order, as_they_end])
def test_addresses_do_not_follow_the_order_of_answers(way):
    found = []
    for seed in range(4):
        backend = Seeded(seed)
        with running(backend):
            asyncio.run(asked_twice(way)())
        asked = [(each.address, list(each.messages)[-1].content[0]) for each in backend.requests]
        found.append(sorted(asked))
    assert all(each == found[0] for each in found) and len(set(found[0])) == 10


async def test_the_loop_keeps_its_own_task_factory():
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    async with Run(Echo()):
        await ask("a")
        assert loop.get_task_factory() is not before
    assert loop.get_task_factory() is before


async def test_conditions_and_operands_do_not_block_the_loop():
    ticks = []

    @ppl
    async def thinks():
        g = gen()
        if g:
            return g.upper() + "!"

    async def ticker():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    class Slow(Held):
        def on_idle(self, final=True):
            waits = bool(self.waiting)
            self.release()
            return waits

    async with Run(Slow(lambda r: "yes")):
        task = asyncio.create_task(ticker())
        assert await thinks() == "YES!"
        task.cancel()
    assert len(ticks) > 1


async def test_try_bodies_are_regions():
    @ppl
    async def body():
        try:
            gen()
        except BackendError:
            return "handled"

    async with Run(Scripted([BackendError("x")])):
        assert await body() == "handled"


async def test_a_sync_program_can_be_awaited():
    @ppl
    def program(word):
        f"{word}"
        return str(gen()) + str(gen())

    async with Run(Seeded(1, lambda r: r.address[-1])):
        both = await asyncio.gather(asynchronously(program, "a"), asynchronously(program, "b"))
    assert both == ["01", "01"]


async def test_cancelling_the_task_cancels_its_calls():
    backend = Held()

    async with Run(backend):
        task = asyncio.create_task(ask("a"))
        while not backend.waiting:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert backend.aborted and not backend.waiting


async def test_cancelling_an_awaited_sync_program_unwinds_it():
    backend, steps = Held(), []

    @ppl
    def program():
        try:
            str(gen())
        finally:
            steps.append("unwound")

    async with Run(backend):
        task = asyncio.create_task(asynchronously(program))
        while not backend.waiting:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["unwound"]
    assert backend.aborted


async def test_call_and_map_in_a_loop():
    @ppl
    def sync_program(word):
        f"{word}"
        return str(gen())

    async with Run(Seeded(5, lambda r: next(iter(r.messages)).content.upper())):
        assert await call(ask, "a") == "A"
        assert await call(sync_program, "b") == "B"
        assert await appl_map(ask, "cd") == ["C", "D"]
        assert await appl_map(sync_program, "ef") == ["E", "F"]
        await appl_sleep(0.001)


async def test_async_generators():
    @ppl
    async def chat():
        for _ in range(2):
            f"{(yield (await gen()))}"

    async with Run(Scripted(lambda r: r.address[-1])) as _:
        said = []
        async for each in chat():
            said.append(each)
        assert said == ["0", "1"]


async def test_the_first_of_several_finishers_is_the_first_delivered():
    @ppl
    async def race():
        tasks = [asyncio.ensure_future(ask(word)) for word in "abc"]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        return len(done)

    for seed in range(3):
        async with Run(Seeded(seed)):
            assert await race() == 1


def test_sync_waits_under_a_running_loop_still_work():
    @ppl
    def program():
        return str(gen())

    async def main():
        return program()

    with running(Scripted(["x"])):
        assert asyncio.run(main()) == "x"


def test_a_sync_wait_under_a_running_loop_is_not_cancelled_for_what_a_task_group_left() -> None:
    """A group that fails while it is left cancels the task around it, and Python 3.11 keeps count.

    The answer comes after the blocked program has looked twice whether its task was cancelled.
    """
    backend, looks = Held(lambda _: "answered"), []

    class Watched(asyncio.Task[Any]):
        def cancelling(self) -> int:
            looks.append(super().cancelling())
            if len(looks) >= 3:
                backend.release()
            return looks[-1]

    @ppl
    def told() -> str:
        return str(gen())

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def main() -> str:
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        looks.clear()
        return str(told())

    with running(backend), asyncio.Runner() as runner:
        runner.get_loop().set_task_factory(lambda loop, coro, **k: Watched(coro, loop=loop, **k))
        assert runner.run(main()) == "answered"


def test_many_tasks():
    @ppl
    async def many(n):
        return len(await asyncio.gather(*(ask(i) for i in range(n))))

    with running(Seeded(0)):
        assert asyncio.run(many(200)) == 200


def test_call_cancelled_is_a_run_error():
    assert issubclass(CallCancelled, Exception)


async def test_an_async_program_can_be_run_like_a_sync_one():
    async with Run(Scripted(["x"])):
        assert await asynchronously(ask, "a") == "x"


async def test_a_synchronous_program_on_a_loop_waits_for_a_task_of_that_loop():
    async def later():
        await asyncio.sleep(0)
        return "later"

    @ppl(parallel=True)
    def inner():
        return str(call(later))

    @ppl
    def outer():
        return inner()

    with running(Echo()):
        async with asyncio.timeout(20):
            assert await call(outer) == "later"


def test_a_loop_that_is_over_is_collected() -> None:
    loops = []

    async def program() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await gen(messages="x")
        await asyncio.gather(ask("a"), asynchronously(plain))

    @ppl
    def plain() -> str:
        "x"
        return str(gen())

    with running(Instant()):
        for _ in range(3):
            asyncio.run(program())
    on_backend_loop(lambda: None)
    gc.collect()
    assert not any(loop() for loop in loops)


async def test_an_answer_that_ordinary_code_has_finished_may_still_be_awaited() -> None:
    @ppl
    async def program() -> list[object]:
        "x"
        answers = [gen() for _ in range(2)]
        len_of(answers)  # an ordinary function gets finished values, also inside its lists
        assert answers[0].done() and answers[1].cancel() is None
        return [await answers[0], answers[1].result(), answers[1].call_id]

    with running(Echo()):
        first, second, address = await program()
    assert first == second and address == "/program.0/gen.1"


def len_of(items: list[object]) -> int:
    return len(items)
