"""try and with: what is waited for, and what is raised."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import appl
from appl import call, gen, ppl
from appl.errors import BackendError
from appl.testing import Held, Scripted, Seeded, Streamed, running


def failing(*numbers):
    def answer(request):
        number = request.address[-1]
        return BackendError(f"gen {number}") if number in numbers else f"answer {number}"

    return answer


def test_a_try_body_waits_and_its_handler_sees_the_failure():
    @ppl
    def body():
        try:
            g = gen()
        except BackendError:
            return "handled"
        return g

    with running(Scripted(failing("0"))):
        assert body() == "handled"


def test_the_earliest_failure_in_program_order_is_raised():
    @ppl
    def body():
        try:
            gen(), gen(), gen()
        except BackendError as error:
            return str(error)

    for seed in range(5):
        with running(Seeded(seed, failing("1", "2"))):
            assert body() == "gen 1"


def test_a_failed_call_comes_before_a_later_exception():
    @ppl
    def body():
        try:
            gen()
            raise KeyError("later")
        except BackendError:
            return "call"
        except KeyError:
            return "later"

    with running(Scripted(failing("0"))):
        assert body() == "call"
    with running(Scripted(failing())):
        assert body() == "later"


def test_calls_of_callees_are_waited_for():
    @ppl
    def inner():
        return gen()

    @ppl
    def body():
        try:
            inner()
        except BackendError:
            return "handled"

    with running(Scripted(failing("0"))):
        assert body() == "handled"


def test_a_program_started_inside_is_waited_for():
    @ppl
    def inner():
        raise ValueError("inside")

    @ppl
    def body():
        try:
            call(inner)
        except ValueError:
            return "handled"

    with running(Scripted(failing())):
        assert body() == "handled"


def test_a_foreign_with_block_is_a_region():
    @ppl
    def body():
        with contextlib.suppress(BackendError):
            gen()
        return "goes on"

    with running(Scripted(failing("0"))):
        assert body() == "goes on"


def test_a_failed_answer_leaves_the_prompt():
    @ppl
    def body():
        "before"
        try:
            f"said {gen()}"
            "after"
        except BackendError:
            "It failed."
        return gen()

    with running(Scripted(failing("0"))) as seen:
        assert body() == "answer 1"
    assert seen.prompts["/body.0/gen.1"] == "user: before\nsaid \nIt failed."


def test_an_inner_region_settles_its_failures():
    @ppl
    def body():
        try:
            try:
                gen()
            except BackendError:
                inner = "fine"
            return inner
        except BackendError:
            return "again"

    with running(Scripted(failing("0"))):
        assert body() == "fine"


def test_an_exception_cancels_what_nobody_else_holds():
    backend = Held()
    kept = []

    @ppl
    def body():
        kept.append(gen())
        gen()
        raise ValueError

    with running(backend):
        with pytest.raises(ValueError):
            body()
        while "/body.0/gen.0" not in backend.waiting:
            pass
        backend.release()
        assert str(kept[0])
    assert "/body.0/gen.1" not in [
        r.address for r in backend.requests if r.address in backend.waiting
    ]


def test_the_prompt_goes_back_to_before_the_part_that_failed():
    @ppl
    def body():
        try:
            f"risky {gen()}"
            gen()
        except BackendError:
            pass
        return gen()

    with running(Scripted(failing("0"))):
        assert body() == "answer 1"


@ppl
def ask(question):
    f"{question}"
    return gen()


def refusing(*words):
    def answer(request):
        said = list(request.messages)[-1].content
        return BackendError(f"no {said}") if said.endswith(words) else f"yes {said}"

    return answer


@pytest.mark.parametrize("sequential", [False, True])
def test_a_failed_answer_is_not_stored(sequential):
    @ppl
    def body():
        out = []
        for word in "abc":
            try:
                out.append(ask(word))
                out.append("after")
            except BackendError:
                out.append("n/a")
        return [str(each) for each in out]

    with running(Scripted(refusing("b")), sequential=sequential):
        assert body() == ["yes a", "after", "n/a", "yes c", "after"]


def test_the_calls_of_one_statement_run_side_by_side():
    backend = Held()

    @ppl
    def body():
        try:
            return [ask(word) for word in "abc"]
        except BackendError:
            return []

    @ppl
    def meanwhile():
        while len(backend.waiting) < 3:
            appl.sleep(0.001)
        backend.release()

    with running(backend):
        freed = call(meanwhile)
        assert len([str(each) for each in body()]) == 3
        freed.result()


async def test_a_statement_does_not_wait_for_the_calls_of_other_tasks():
    backend = Held()

    @ppl
    async def slowly(word):
        f"{word}"
        return str(await gen())

    @ppl
    async def body():
        try:
            tasks = [asyncio.create_task(slowly(word)) for word in "ab"]
            while len(backend.waiting) < 2:
                await asyncio.sleep(0)
            backend.release("/body.0/slowly.0/gen.0")
            done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            return len(done)
        except BackendError:
            return 0

    async with appl.runtime.run.Run(backend):
        assert await body() == 1


@pytest.mark.parametrize("sequential", [False, True])
def test_a_generator_catches_its_own_failures_wherever_it_is_resumed(sequential):
    @ppl
    def steps():
        for number in range(4):
            try:
                f"step {number}"
                yield gen()
            except BackendError:
                yield f"n/a {number}"

    @ppl
    def body():
        it, out = steps(), []
        try:
            out.append(next(it))
        except ValueError:
            out.append("never")
        out.append(next(it))
        try:
            out.append(next(it))
            out.append(next(it))
        finally:
            out.append("finally")
        return [str(each)[:5] for each in out]

    with running(Scripted(refusing("step 0", "step 2")), sequential=sequential):
        assert body() == ["n/a 0", "yes s", "n/a 2", "yes s", "final"]


def test_a_streamed_answer_is_read_piece_by_piece_in_a_try():
    @ppl
    def body():
        pieces = []
        try:
            answer = gen(stream=True)
            pieces.append("begun")
            pieces += list(answer.text_stream)
        except BackendError:
            pieces.append("failed")
        return pieces

    with running(Scripted([Streamed(["one ", "two"])])):
        assert body() == ["begun", "one ", "two"]
