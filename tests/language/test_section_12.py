"""The details: resume, generators, addresses."""

from __future__ import annotations

import asyncio

from appl import call, gen, ppl, select
from appl.testing import Echo, Held, Scripted, Seeded, running


def test_activations_of_an_async_state_go_in_the_order_of_their_calls():
    @ppl(ctx="resume")
    async def talk(word):
        f"{word}"
        return await gen()

    async def all_at_once():
        await asyncio.gather(talk("a"), talk("b"), talk("c"))

    with running(Seeded(5)) as seen:
        asyncio.run(all_at_once())
    assert list(seen.prompts.values()) == ["user: a", "user: a\nb", "user: a\nb\nc"]


def test_each_kind_of_call_is_counted_by_name():
    @ppl
    def program():
        gen()
        select(["a"])
        gen()

    with running(Scripted(lambda request: "a", features=["choices"])) as seen:
        program()
    assert sorted(seen.prompts) == ["/program.0/gen.0", "/program.0/gen.1", "/program.0/select.0"]


def test_plain_helpers_add_no_component():
    def helper():
        return gen(messages="x")

    @ppl
    def program():
        return helper(), (lambda: helper())()

    with running(Echo()) as seen:
        program()
    assert sorted(seen.prompts) == ["/program.0/gen.0", "/program.0/gen.1"]


def test_an_async_address_is_taken_when_it_is_called():
    @ppl
    async def ask(word):
        f"{word}"
        return await gen()

    @ppl
    async def backwards():
        first, second = ask("a"), ask("b")
        await second
        await first

    with running(Echo()) as seen:
        asyncio.run(backwards())
    assert seen.prompts == {
        "/backwards.0/ask.1/gen.0": "user: b",
        "/backwards.0/ask.0/gen.0": "user: a",
    }


def test_a_generator_copies_the_prompt_at_its_call():
    @ppl(ctx="copy")
    def inner():
        "in"
        yield str(gen())

    @ppl
    def outer():
        "before"
        made = inner()
        "after"
        return next(made)

    with running(Echo()) as seen:
        outer()
    assert seen.prompts == {"/outer.0/inner.0/gen.0": "user: before\nin"}


def test_a_dropped_generator_cancels_what_nobody_read():
    @ppl
    def asking():
        while True:
            unread = gen(messages="x")
            yield
            del unread

    backend = Held()
    with running(backend):
        for _ in asking():
            break
    assert len(backend.requests) == len(backend.aborted)


def test_a_same_function_that_runs_beside_keeps_its_place():
    @ppl(ctx="same")
    def beside():
        _ = str(gen(messages="first"))
        "beside"

    @ppl
    def program():
        "before"
        call(beside)
        "after"
        gen()

    with running(Seeded(0)) as seen:
        program()
    assert seen.prompts["/program.0/gen.0"] == "user: before\nbeside\nafter"


def test_an_iterator_of_a_call_statement_is_left_unread():
    read = []

    def source():
        return map(read.append, "ab")

    @ppl
    def program():
        source()

    with running(Echo()):
        program()
    assert read == []
