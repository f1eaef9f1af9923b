"""Concurrency: what runs beside what, on which loop and thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from appl import Lock, Text, call, gen, init, map as appl_map, ppl, run
from appl.errors import BackendError, CallCancelled, DeadlockError, InvalidOption
from appl.runtime.entry import asynchronously
from appl.testing import Echo, Held, Run, Scripted, Seeded, running


@ppl
def ask(word):
    f"{word}"
    return str(gen())


@ppl
async def aask(word):
    f"{word}"
    return await gen()


@pytest.fixture
def echo():
    """Every `appl.run` answers with the echo, and records nothing."""
    init(backend="appl.testing:Echo", trace=False)
    yield
    init(backend=None, trace=None)


def echoed(word):
    with running(Echo()):
        return ask(word)


def test_gathering_calls_does_not_need_tasks():
    @ppl
    async def program():
        "x"
        return await asyncio.gather(gen(), *[gen() for _ in "ab"])

    with running(Seeded(1)):
        assert [type(each) for each in asyncio.run(program())] == [Text] * 3


def test_gathering_may_collect_failures():
    @ppl
    async def program():
        return await asyncio.gather(gen(), return_exceptions=True)

    with running(Scripted([BackendError("no")])):
        (error,) = asyncio.run(program())
    assert isinstance(error, BackendError)


def test_a_call_that_is_late_for_wait_for_is_aborted():
    @ppl
    async def program():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gen(), 0.01)

    backend = Held()
    with running(backend):
        asyncio.run(program())
    assert backend.aborted == ["/program.0/gen.0"]


def test_calls_can_be_taken_as_they_complete():
    @ppl
    async def program():
        calls = [gen(messages="a"), gen(messages="b")]
        return sorted([await each for each in asyncio.as_completed(calls)])

    with running(Scripted(lambda request: next(iter(request.messages)).content)):
        assert asyncio.run(program()) == ["a", "b"]


def test_task_groups_start_async_programs():
    @ppl
    async def program():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(aask(word)) for word in "ab"]
        return [task.result() for task in tasks]

    with running(Seeded(2)) as seen:
        asyncio.run(program())
    assert sorted(seen.prompts) == ["/program.0/aask.0/gen.0", "/program.0/aask.1/gen.0"]


def test_one_run_may_see_several_loops():
    with running(Echo()) as seen:
        assert asyncio.run(aask("a")) == asyncio.run(aask("a"))
    assert sorted(seen.prompts) == ["/aask.0/gen.0", "/aask.1/gen.0"]


def test_an_answer_may_be_read_in_another_loop_than_it_was_asked_in():
    async def asking():
        return gen(messages="x")

    async def reading(answer):
        return await answer

    with running(Seeded(0)):
        answer = asyncio.run(asking())
        assert asyncio.run(reading(answer)) == str(answer)


def test_requests_of_a_server_have_a_run_each():
    async def handle(word):
        backend = Seeded(1)
        with Run(backend):
            await asynchronously(ask, word)
        return list(backend.prompts.items())

    async def server():
        return await asyncio.gather(*(handle(word) for word in "abc"))

    assert asyncio.run(server()) == [[("/ask.0/gen.0", f"user: {word}")] for word in "abc"]


def test_programs_run_side_by_side_in_one_loop(echo):
    async def server():
        return await asyncio.gather(run(ask, "a"), run(aask, "b"), run(ask, "c"))

    assert asyncio.run(server()) == [echoed(word) for word in "abc"]


def test_a_failing_request_leaves_the_others_alone(echo):
    @ppl
    def failing():
        raise ValueError("mine")

    async def server():
        programs = run(ask, "a"), run(failing), run(ask, "c")
        return await asyncio.gather(*programs, return_exceptions=True)

    first, error, last = asyncio.run(server())
    assert isinstance(error, ValueError) and (first, last) == (echoed("a"), echoed("c"))


def test_runs_may_follow_and_hold_each_other(echo):
    @ppl
    def outer():
        return run(ask, "a")

    assert run(ask, "a") == run(ask, "a") == run(outer) == echoed("a")


def test_runs_in_threads_of_a_server(echo):
    async def server():
        return await asyncio.gather(*(asyncio.to_thread(run, ask, word) for word in "ab"))

    assert asyncio.run(server()) == [echoed("a"), echoed("b")]


def test_threads_started_by_hand_wait_on_their_own():
    answers = {}

    def work(word):
        answers[word] = ask(word)

    with running(Seeded(3)):
        threads = [threading.Thread(target=work, args=(word,)) for word in "abc"]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert answers == {word: echoed(word) for word in "abc"}


def test_a_pool_of_threads_may_run_programs():
    with running(Seeded(3)), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, "abcd")) == [echoed(word) for word in "abcd"]


def test_a_lock_keeps_async_programs_apart():
    lock, order = Lock(), []

    @ppl
    async def critical(number):
        async with lock:
            order.append(number)
            await gen()
            order.append(number)

    async def all_at_once():
        await asyncio.gather(*(critical(number) for number in range(4)))

    with running(Seeded(3)):
        asyncio.run(all_at_once())
    assert order == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_lock_keeps_worker_threads_apart():
    lock, inside = Lock(), []

    def work(number):
        with lock:
            inside.append(number)
            assert inside == [number]
            str(gen(messages=f"{number}"))
            inside.pop()

    with running(Seeded(3)):
        appl_map(work, range(4))


def test_taking_a_lock_twice_is_a_deadlock():
    lock = Lock()

    @ppl
    def twice():
        with lock, lock:
            pass

    with running(Echo()), pytest.raises(DeadlockError, match="lock"):
        twice()


def test_map_collects_failures_in_their_places():
    def even(number):
        if number % 2:
            raise ValueError(number)
        return number

    with running(Echo()):
        zero, one, two = appl_map(even, range(3), on_error="collect")
    assert (zero, two) == (0, 2) and one.args == (1,)


def test_map_collects_failures_of_answers_too():
    @ppl
    def lazy(word):
        f"{word}"
        return gen()

    with running(Scripted({"/lazy.0/gen.0": "a", "/lazy.2/gen.0": "c"})):
        a, b, c = appl_map(lazy, "abc", on_error="collect")
    assert (a, c) == ("a", "c") and isinstance(b, BackendError)


def test_map_takes_any_function_and_several_lists():
    class Asker:
        @ppl
        def ask(self, word, more=""):
            f"{word}{more}"
            return str(gen())

    asker = Asker()
    with running(Scripted(lambda request: next(iter(request.messages)).content)):
        assert appl_map(asker.ask, "ab", "cd") == ["ac", "bd"]
        assert appl_map(functools.partial(asker.ask, more="!"), "ab") == ["a!", "b!"]
        assert appl_map(lambda word: word * 2, iter("ab")) == ["aa", "bb"]
        assert appl_map(asker.ask, []) == []


@pytest.mark.parametrize("option", [{"on_error": "ignore"}, {"concurrency": 0}])
def test_map_refuses_impossible_options(option):
    with running(Echo()), pytest.raises(InvalidOption):
        appl_map(ask, "a", **option)


def test_a_coroutine_awaits_map():
    @ppl
    async def program():
        return await appl_map(ask, "ab")

    with running(Seeded(1)):
        assert asyncio.run(program()) == [echoed("a"), echoed("b")]


def test_a_cancelled_future_says_so():
    with running(Held()):
        future = call(ask, "a")
        future.cancel()
        with pytest.raises(CallCancelled, match=r"/ask\.0"):
            str(future)
        assert future.done()


def test_everything_has_ended_when_the_run_is_over():
    ended = []

    def work():
        ended.append(str(gen(messages="x")))

    with running(Seeded(0)):
        call(work)
    assert len(ended) == 1
