"""The prompts of a program before any call: holes for answers, and where it needs one."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import weakref

import pytest

import appl
from appl import (
    AIRole,
    Image,
    ToolMessage,
    UserMessage,
    call,
    gen,
    ppl,
    records,
    render,
    select,
)
from appl.compositor import NumberedList
from appl.prompt import Message
from appl.testing import Echo, Log, running


def rendering(f, *args, backend=None, **kwargs):
    """What ``f.render`` shows; nothing is asked, and nothing happens in the run around it."""
    log = Log()
    with running(backend or Echo(), instruments=[log]) as seen:
        found = render(f, *args, **kwargs)
    assert not seen.requests
    assert [type(event).__name__ for event in log.events] == ["RunEnded"]
    return found


def prompts(found):
    return {each.address: list(map(str, each.messages)) for each in found}


@ppl(ctx="copy")
def answer(question):
    f"{question}"
    return gen(temperature=0.5)


@ppl
def interview(quote, questions):
    "Name the author."
    f"{quote}"
    with AIRole():
        f"It is {gen(stop='.')}"
    return [answer(question) for question in questions]


def test_every_call_that_is_reached_is_shown_with_holes_for_answers():
    found = rendering(interview, "To be", ["Who?", "When?"])
    asked = "user: Name the author.\nTo be"
    assert prompts(found) == {
        "/interview.0/gen.0": [asked, "assistant: It is "],
        "/interview.0/answer.0/gen.0": [asked, "assistant: It is ‹/interview.0/gen.0›", "user: Who?"],
        "/interview.0/answer.1/gen.0": [asked, "assistant: It is ‹/interview.0/gen.0›", "user: When?"],
    }  # fmt: skip
    assert found[1].holes == ("/interview.0/gen.0",)
    assert (found[0].options, found[1].options) == ({"stop": ["."]}, {"temperature": 0.5})
    assert not found.needs


def test_the_prompts_are_those_that_are_sent():
    with running(Echo()) as seen:
        shown = interview.render("To be", ["Who?"])
        interview("To be", ["Who?"])
    answers = {r.address: r.digest.hex()[:6] for r in seen.requests}
    for request, each in zip(seen.requests, shown, strict=True):
        filled = [
            Message(m.role, re.sub("‹(.*?)›", lambda hole: answers[hole[1]], m.content))
            for m in each.messages
        ]
        assert filled == list(request.messages)


def test_a_program_ends_where_it_needs_an_answer():
    @ppl
    def deciding():
        "a"
        first = gen()
        f"{first!r:>9}"
        second = gen()
        if second == "yes":
            "never"
        gen()

    found = rendering(deciding)
    assert prompts(found)["/deciding.0/gen.1"] == ["user: a\n‹/deciding.0/gen.0!r:>9›"]
    (need,) = found.needs
    line = deciding.__wrapped__.__code__.co_firstlineno + 6
    assert str(need) == (
        f"/deciding.0 needs the answer of /deciding.0/gen.1 at {__file__}:{line}: "
        "what follows is not known"
    )


def test_what_runs_beside_goes_as_far_as_it_can():
    @ppl(parallel=True)
    def beside(x):
        f"p {x}"
        if gen() == "x":
            gen()
        return "said"

    def plain(text):
        return text

    @ppl
    def outer():
        beside(1)
        "a"
        call(plain, "late")
        call(beside, 2)
        gen()

    found = rendering(outer)
    assert prompts(found) == {
        "/outer.0/beside.0/gen.0": ["user: p 1"],
        "/outer.0/beside.1/gen.0": ["user: p 2"],
        "/outer.0/gen.0": ["user: ‹/outer.0/beside.0›\na\nlate\n‹/outer.0/beside.1›"],
    }
    assert {need.program for need in found.needs} == {"/outer.0/beside.0", "/outer.0/beside.1"}


def test_formats_and_whole_messages_are_shown_as_they_will_be():
    @ppl
    def listed():
        with NumberedList():
            "one"
            f"two {gen()}"
            "three"
        [Message("assistant", gen(messages="x"))]
        gen()

    assert prompts(rendering(listed))["/listed.0/gen.2"] == [
        "user: 1. one\n2. two ‹/listed.0/gen.0›\n3. three",
        "assistant: ‹/listed.0/gen.1›",
    ]


def test_explicit_messages_and_choices_are_shown_as_they_are_asked():
    @ppl
    def choosing():
        "a or b?"
        select(["a", "b"])
        result = {"role": "tool", "content": gen(messages="y"), "tool_call_id": "c"}
        gen(messages=[UserMessage("x"), result])

    shown = prompts(rendering(choosing))
    assert shown["/choosing.0/select.0"][0].startswith("user: a or b?\nChoose one of these options")
    given = rendering(choosing)[-1]
    assert given.messages[1] == ToolMessage("‹/choosing.0/gen.0›", tool_call_id="c")
    assert given.holes == ("/choosing.0/gen.0",)


@pytest.mark.parametrize("inside", [False, True])
def test_coroutines_and_async_generators_are_rendered(inside):
    @ppl
    async def later(x):
        f"{x}"
        first = gen()
        f"{first}"
        await gen()
        await gen()

    @ppl
    async def parts():
        for i in range(2):
            f"{i}"
            yield gen()

    async def all_inside():
        return rendering(later, 1), rendering(parts)

    one, two = asyncio.run(all_inside()) if inside else (rendering(later, 1), rendering(parts))
    assert prompts(one) == {
        "/later.0/gen.0": ["user: 1"],
        "/later.0/gen.1": ["user: 1\n‹/later.0/gen.0›"],
    }
    assert [need.what for need in one.needs] == ["the answer of /later.0/gen.1"]
    assert list(prompts(two)) == ["/parts.0/gen.0", "/parts.0/gen.1"]
    assert not two.needs


def test_a_generator_is_taken_to_its_end_with_nothing_sent_in():
    @ppl
    def chat():
        for i in range(2):
            f"{i}"
            yield gen()

    assert list(prompts(rendering(chat)).values()) == [["user: 0"], ["user: 0\n1"]]


def test_handlers_of_errors_do_not_hide_that_an_answer_is_needed():
    cleaned = []

    @ppl
    def careful():
        "a"
        try:
            str(gen())
        except Exception:
            cleaned.append("wrong")
        finally:
            cleaned.append("right")
        gen()

    found = rendering(careful)
    assert cleaned == ["right"]
    assert list(prompts(found)) == ["/careful.0/gen.0"]
    assert [need.what for need in found.needs] == ["the answer of /careful.0/gen.0"]


def test_what_comes_after_the_need_is_not_shown():
    @ppl
    def stubborn():
        try:
            str(gen())
        except BaseException:
            "after"
            str(gen())

    assert list(prompts(rendering(stubborn))) == ["/stubborn.0/gen.0"]


def test_an_error_of_the_program_is_an_error():
    @ppl
    def wrong():
        gen()
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        render(wrong)
    with pytest.raises(TypeError, match="unexpected keyword"):
        wrong.render(x=1)


def test_nobody_is_asked_for_input_and_time_does_not_pass():
    @ppl
    def asking():
        appl.sleep(3600)
        "a"
        answer = gen()
        while not answer.done():
            appl.sleep(10)

    @ppl
    def typing():
        gen()
        f"{appl.input('?')}"
        gen()

    @ppl
    def measuring():
        f"{appl.observe(print)}"
        gen()

    def polls(found):
        return [(need.what, need.program) for need in found.needs]

    assert polls(rendering(asking)) == [("time to pass", "/asking.0")]
    assert polls(rendering(typing)) == [("what input() gives", "/typing.0")]
    assert polls(rendering(measuring)) == [("what observe() gives", "/measuring.0")]


def test_a_program_that_polls_with_its_loop_is_cut():
    @ppl
    def said():
        "a"
        return gen()

    async def answered():
        return str(await said())

    async def polling():
        task = asyncio.create_task(answered())
        while not task.done():
            await asyncio.sleep(0.01)

    async def limited():
        task = asyncio.create_task(answered())
        while not (await asyncio.wait({task}, timeout=0.01))[0]:
            pass

    for program in (polling, limited):
        found = rendering(program)
        assert len(found) == 1
        assert [need.what for need in found.needs] == ["time to pass"]


def test_timers_of_a_loop_that_is_blocked_are_not_waited_for():
    @ppl
    def said():
        "a"
        return gen()

    async def blocking():
        asyncio.get_running_loop().call_later(3600, print)
        return str(said())

    assert [need.what for need in rendering(blocking).needs] == ["the answer of /said.0/gen.0"]


def test_a_program_without_end_is_cut():
    @ppl
    def endless():
        while True:
            "x"
            gen()

    found = rendering(endless)
    assert len(found) == 1000
    assert [need.what for need in found.needs] == ["more than 1000 calls"]


def test_a_limit_of_time_is_not_waited_for():
    @ppl
    def hurried():
        with appl.timeout(3600):
            "a"
            gen().result(timeout=3600)

    assert [need.what for need in rendering(hurried).needs] == ["the answer of /hurried.0/gen.0"]


def test_a_program_may_render_another():
    shown = []

    @ppl
    def outer():
        "outer"
        shown.append(interview.render("q", ["w"]))
        return str(gen())

    with running(Echo()) as seen:
        outer()
    assert [request.address for request in seen.requests] == ["/outer.0/gen.0"]
    assert list(prompts(shown[0])) == ["/interview.0/gen.0", "/interview.0/answer.0/gen.0"]


def test_tasks_that_need_answers_end_a_group_and_the_rendering():
    @ppl
    async def child(x):
        f"{x}"
        return str(await gen())

    @ppl
    async def grouping():
        async with asyncio.TaskGroup() as group:
            group.create_task(child(1))
            group.create_task(child(2))

    found = rendering(grouping)
    assert list(prompts(found)) == ["/grouping.0/child.0/gen.0", "/grouping.0/child.1/gen.0"]
    assert "/grouping.0/child.0" in {need.program for need in found.needs}


def test_images_are_shown_as_placeholders():
    @ppl
    def looking():
        f"see {Image('https://example.com/cat.png')}"
        gen()

    found = rendering(looking, backend=Echo(features=("images",)))
    assert "see [image https://example.com/cat.png]" in str(found)


def test_a_rendering_is_text_and_data():
    @ppl
    def nothing():
        "a"
        return records()

    found = rendering(interview, "To be", [])
    assert str(found).splitlines()[0].startswith(f"/interview.0/gen.0  {__file__}:")
    assert str(found).splitlines()[2:5] == ["[user]", "Name the author.", "To be"]
    data = json.loads(json.dumps(found.as_data()))
    assert data["calls"][0]["messages"][1] == {"role": "assistant", "content": "It is "}
    assert str(rendering(nothing)) == "no call is made before an answer is needed"


def test_a_function_is_freed_when_nobody_holds_it():
    def made():
        @ppl
        def local():
            "x"
            return gen()

        with running(Echo()):
            str(local())
        assert len(local.render()) == 1
        return weakref.ref(local)

    gc.collect()
    gc.disable()
    try:
        assert made()() is None
    finally:
        gc.enable()
