"""State: what ``resume`` functions remember, prompts held by hand, generators as agents."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import threading
import weakref

import pytest

from appl import (
    AIRole,
    PromptContext,
    SystemRole,
    call,
    convo,
    gen,
    grow,
    need_ctx,
    ppl,
    records,
    reset_context,
    traceable,
)
from appl.errors import DeadlockError, InvalidOption, RunError
from appl.testing import Echo, Log, ScopeEntered, Scripted, Seeded, running


def prompts(program, *args):
    with running(Echo()) as seen:
        program(*args)
    return list(seen.prompts.values())


def last(request):
    return list(request.messages)[-1].content.upper()


@ppl(ctx="resume")
def remember(word):
    f"{word}"
    _ = gen()


class Agent:
    @ppl(ctx="resume")
    def chat(self, word):
        f"{word}"
        _ = gen()

    @staticmethod
    @ppl(ctx="resume")
    def shared(word):
        f"{word}"
        _ = gen()


class Slotted:
    __slots__ = ()

    @ppl(ctx="resume")
    def chat(self, word):
        f"{word}"
        _ = gen()


# -- resume


def test_a_static_method_has_one_state_whatever_its_first_argument_is():
    def play():
        Agent.shared("a")
        Agent().shared("b")

    assert prompts(play) == ["user: a", "user: a\nb"]


def test_a_function_that_is_put_into_a_class_continues_for_its_objects():
    @ppl(ctx="resume")
    def chat(self, word):
        f"{word}"
        _ = gen()

    class Late:
        pass

    Late.chat = chat
    first, second = Late(), Late()

    def play():
        first.chat("a")
        second.chat("b")
        first.chat("c")

    assert prompts(play) == ["user: a", "user: b", "user: a\nc"]


def test_a_method_below_another_decorator_continues_for_its_object():
    def logged(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(*args)

        return wrapper

    class Decorated:
        @logged
        @ppl(ctx="resume")
        def chat(self, word):
            f"{word}"
            _ = gen()

    first, second = Decorated(), Decorated()

    def play():
        first.chat("a")
        second.chat("b")
        first.chat("c")

    assert prompts(play) == ["user: a", "user: b", "user: a\nc"]


def test_reset_forgets_a_function_an_object_or_all_objects():
    first, second = Agent(), Agent()

    def play():
        remember("1")
        first.chat("a")
        second.chat("b")
        reset_context(first.chat)
        reset_context(remember)
        remember("2")
        first.chat("c")
        second.chat("d")
        reset_context(Agent.chat)
        second.chat("e")

    assert sorted(prompts(play)) == [
        "user: 1", "user: 2", "user: a", "user: b", "user: b\nd", "user: c", "user: e",
    ]  # fmt: skip


def test_reset_takes_effect_for_the_calls_after_it():
    @ppl(ctx="resume")
    def slow(word):
        f"{word}"
        return str(gen())

    def play():
        early = [call(slow, "a"), call(slow, "b")]
        reset_context(slow)
        return [slow("c"), *map(str, early)]

    for seed in range(3):
        with running(Seeded(seed)) as seen:
            play()
        assert sorted(seen.prompts.values()) == ["user: a", "user: a\nb", "user: c"]


def test_only_a_prompt_function_can_be_reset():
    with pytest.raises(InvalidOption, match="len"):
        reset_context(len)


def test_two_functions_that_wait_for_each_other_are_found():
    @ppl(ctx="resume")
    def ping(n):
        return pong(n - 1) if n else None

    @ppl(ctx="resume")
    def pong(n):
        return ping(n - 1)

    with running(Echo()), pytest.raises(DeadlockError, match="ping"):
        ping(2)


def test_a_generator_whose_state_is_still_in_use_is_a_deadlock():
    @ppl(ctx="resume")
    def steps():
        "step"
        yield 1

    with running(Echo()), pytest.raises(DeadlockError):
        first, second = steps(), steps()
        next(first)
        next(second)


def test_activations_of_an_objects_state_queue_whoever_calls():
    @ppl
    def three(agent):
        return [call(agent.chat, word) for word in "abc"]

    for seed in range(3):
        with running(Seeded(seed)) as seen:
            for each in three(Agent()):
                each.result()
        assert list(seen.prompts.values()) == ["user: a", "user: a\nb", "user: a\nb\nc"]


def test_a_state_goes_with_its_object_and_with_its_function():
    with running(Echo()) as seen:
        agent = Agent()
        agent.chat("x")
        watched = weakref.ref(agent)

        def local():
            @ppl(ctx="resume")
            def once():
                "x"

            once()

        local()
        gc.collect()
        run = _run()
        assert len(run.states) == 1
        del agent
        gc.collect()
        assert watched() is None and len(run.states) == 0
    assert len(seen.requests) == 1


def test_objects_that_cannot_be_referred_to_weakly_are_let_go_of():
    with running(Echo()):
        for number in range(1000):
            Slotted().chat(number)
        assert len(_run().states) < 300
        kept = [Slotted() for _ in range(200)]
        for each in kept:
            each.chat("a")
        for each in kept:
            each.chat("b")
        assert len(_run().states) >= 200


def test_a_run_forgets_its_states_when_it_is_over():
    agent = Agent()
    with running(Echo()):
        agent.chat("x")
        run = _run()
    assert len(run.states) == 0
    assert weakref.getweakrefcount(agent) == 0


def _run():
    from appl.runtime.frame import current

    return current()


# -- prompts held by hand


def test_a_context_is_filled_by_hand_and_asked():
    p = PromptContext().grow("one").grow(["two", "three"])
    with running(Echo()) as seen:
        str(gen(_ctx=p))
    assert list(seen.prompts.values()) == ["user: one\ntwo\nthree"]
    assert str(p.messages) == "one\ntwo\nthree"
    assert [m.content for m in p.messages] == ["one\ntwo\nthree"]


def test_same_writes_into_a_given_context_and_copy_starts_from_it():
    @ppl(ctx="same")
    def setup(name):
        with SystemRole():
            f"You are {name}."

    @ppl(ctx="same")
    def chat(word):
        f"{word}"
        with AIRole():
            (reply := gen())
        return reply

    @ppl(ctx="copy")
    def aside():
        "aside"
        return gen()

    @ppl
    def fresh():
        "fresh"
        return gen()

    p = PromptContext()
    with running(Scripted(last)) as seen:
        setup("Ann", _ctx=p)
        assert chat("hi", _ctx=p) == "HI"
        assert aside(_ctx=p) == "ASIDE"
        assert fresh(_ctx=p) == "FRESH"
        assert chat("bye", _ctx=p) == "BYE"
    assert seen.prompts["/chat.1/gen.0"] == (
        "system: You are Ann.\nuser: hi\nassistant: HI\nuser: bye"
    )
    assert seen.prompts["/aside.0/gen.0"].endswith("user: aside")
    assert seen.prompts["/fresh.0/gen.0"] == "user: fresh"


def test_a_method_may_hold_its_context():
    class Actor:
        def __init__(self, name):
            self._ctx = PromptContext()
            self._setup(name, _ctx=self._ctx)

        @ppl(ctx="same")
        def _setup(self, name):
            f"I am {name}."

        @ppl(ctx="same")
        def _say(self, word):
            f"{word}"
            return gen()

        def say(self, *args):
            return self._say(*args, _ctx=self._ctx)

    with running(Echo()) as seen:
        actor = Actor("Bo")
        str(actor.say("a")), str(actor.say("b"))
    assert list(seen.prompts.values()) == ["user: I am Bo.\na", "user: I am Bo.\na\nb"]


def test_calls_beside_the_program_keep_their_places_in_a_given_context():
    @ppl(ctx="same")
    def say(word):
        f"{word}{gen(messages=word)}"

    def play():
        p = PromptContext()
        started = [call(say, word, _ctx=p) for word in "abc"]
        p.grow("end")
        for each in started:
            each.result()
        return str(p.messages)

    for seed in range(3):
        with running(Seeded(seed, last)):
            assert play() == "aA\nbB\ncC\nend"


def test_copies_and_inherited_contexts():
    p = PromptContext().grow("a")
    copied, inherited = p.copy().grow("b"), p.inherit().grow("c")
    assert str(p.messages) == "a\nc"
    assert str(copied.messages) == "a\nb"
    assert (str(inherited.records), str(copied.records)) == ("c", "b")
    assert str(records(p)) == "a\nc" and str(convo(p)) == "a\nc"


def test_a_context_from_a_function_of_ones_own():
    made = []

    def prepared():
        made.append(PromptContext().grow("Be brief."))
        return made[-1]

    @ppl(new_ctx_func=prepared)
    def ask(word):
        f"{word}"
        return gen()

    with running(Echo()) as seen:
        str(ask("a")), str(ask("b"))
    assert list(seen.prompts.values()) == ["user: Be brief.\na", "user: Be brief.\nb"]
    assert str(made[0].messages) == "Be brief.\na"


def test_what_is_no_context_is_refused_by_name():
    @ppl
    def ask():
        "x"

    with running(Echo()), pytest.raises(InvalidOption, match=r"ask: _ctx= takes a PromptContext"):
        ask(_ctx=3)


def test_a_parameter_of_that_name_is_the_functions_own():
    @ppl
    def ask(_ctx, ctx_method="mine"):
        f"{_ctx}{ctx_method}"
        return gen()

    with running(Echo()) as seen:
        str(ask(_ctx=1)), str(ask(2, ctx_method="b"))
    assert list(seen.prompts.values()) == ["user: 1mine", "user: 2b"]


def test_need_ctx_gives_the_callers_prompt():
    @need_ctx
    def add(word, _ctx=None):
        _ctx = _ctx or PromptContext()
        _ctx.grow(word)
        return gen(_ctx=_ctx)

    @ppl
    def program():
        "one"
        _ = add("two")
        return gen()

    with running(Echo()) as seen:
        str(program())
        str(add("alone"))
        grow("more", _ctx=(p := PromptContext()))
    assert list(seen.prompts.values()) == ["user: one\ntwo", "user: one\ntwo", "user: alone"]
    assert str(p.messages) == "more"


# -- generators as agents


@ppl(auto_prime=True)
def agent(name):
    f"You are {name}."
    reply = None
    while True:
        yield reply
        with AIRole():
            (reply := gen())


@ppl(auto_prime=True)
async def aagent(name):
    f"You are {name}."
    reply = None
    while True:
        yield reply
        with AIRole():
            (reply := gen())


def test_agents_talk_to_each_other_outside_of_any_prompt_function():
    with running(Scripted(last)) as seen:
        ann, bob = agent("Ann"), agent("Bob")
        word = "hi"
        for _ in range(2):
            word = str(ann.send(word))
            word = str(bob.send(word))
    assert seen.prompts["/agent.1/gen.1"] == (
        "user: You are Bob.\nYOU ARE ANN.\nHI\nassistant: YOU ARE BOB.\nYOU ARE ANN.\nHI"
        "\nuser: YOU ARE BOB.\nYOU ARE ANN.\nHI"
    )


def test_an_async_agent_is_primed_too():
    async def talk():
        made = aagent("Ann")
        first, second = await made.asend("hi"), await made.asend("bye")
        await made.aclose()
        return [str(first), str(second)]

    with running(Scripted(last)) as seen:
        assert asyncio.run(talk()) == ["YOU ARE ANN.\nHI", "BYE"]
    assert list(seen.prompts.values())[-1].endswith("user: bye")


def test_priming_what_never_yields_says_so():
    @ppl(auto_prime=True)
    def never():
        "x"
        if False:
            yield

    with running(Echo()), pytest.raises(RunError, match=r"never\(\) ended before its first"):
        never()


# -- traceable


def scopes(program, *args):
    log = Log()
    with running(Echo(), instruments=[log]) as seen:
        program(*args)
    return log.of(ScopeEntered), seen


def test_a_traced_function_has_a_place_and_works_on_its_callers_prompt():
    @traceable
    def helper(word):
        grow(word)
        return gen()

    @ppl
    def program():
        "one"
        helper("two")
        return gen()

    found, seen = scopes(program)
    assert [scope.address for scope in found] == ["/program.0", "/program.0/helper.0"]
    assert seen.prompts == {
        "/program.0/helper.0/gen.0": "user: one\ntwo",
        "/program.0/gen.0": "user: one\ntwo\n" + seen.requests[0].digest.hex()[:6],
    }
    assert found[1].file == __file__


def test_names_and_metadata_of_traced_functions():
    @traceable("step", metadata={"version": 2})
    def helper():
        return gen(messages="x")

    @traceable(metadata={"kind": "b"})
    async def later():
        return await gen(messages="y")

    @traceable
    def numbers():
        yield gen(messages="z")

    def program():
        helper()
        asyncio.run(later())
        list(numbers())

    found, seen = scopes(program)
    assert [(s.address, s.metadata) for s in found] == [
        ("/step.0", {"version": 2}), ("/later.0", {"kind": "b"}), ("/numbers.0", None),
    ]  # fmt: skip
    assert sorted(seen.prompts) == ["/later.0/gen.0", "/numbers.0/gen.0", "/step.0/gen.0"]
    assert helper.__name__ == "helper"
    assert asyncio.iscoroutinefunction(later) and inspect.isgeneratorfunction(
        inspect.unwrap(numbers)
    )


def test_a_traced_function_that_fails_leaves_its_place():
    @traceable
    def broken():
        raise KeyError("x")

    @ppl
    def program():
        try:
            broken()
        except KeyError:
            return gen(messages="after")

    _, seen = scopes(program)
    assert sorted(seen.prompts) == ["/program.0/gen.0"]


# -- wrappers


def test_a_wrapper_around_a_prompt_function_is_a_function_of_its_own():
    @ppl
    def ask(word):
        f"{word}"
        return gen()

    @functools.wraps(ask)
    def shouted(word):
        return ask(word + "!")

    @ppl
    def program():
        first = gen(messages="a")
        return str(call(shouted, "b")), type(kind_of(first))

    @functools.wraps(ask)
    def kind_of(value):
        return value

    with running(Scripted(last)) as seen:
        assert str(call(shouted, "x")) == "X!"
        answer, kind = program()
    assert answer == "B!" and issubclass(kind, str)
    assert "user: b!" in seen.prompts.values()


def test_a_traced_prompt_function_only_gains_metadata():
    @traceable(metadata={"a": 1})
    @ppl
    def program():
        return gen(messages="x")

    found, seen = scopes(program)
    assert [(s.address, s.metadata) for s in found] == [("/program.0", {"a": 1})]
    assert list(seen.prompts) == ["/program.0/gen.0"]


# -- the model of a function


def test_helpers_ask_the_model_of_their_function_however_they_are_started():
    def helper():
        return gen(messages="x")

    @traceable
    def traced():
        return gen(messages="x")

    @ppl
    def other():
        return gen(messages="x")

    @ppl(model="b")
    def program():
        return [gen(), helper(), call(helper), traced(), other()]

    with running(Echo(models=("a", "b"), default_model="a")) as seen:
        for each in program():
            each.result()
    assert sorted(r.model for r in seen.requests) == ["a", "b", "b", "b", "b"]


def test_threads_that_use_one_state_queue():
    agent = Agent()

    def play():
        threads = [threading.Thread(target=agent.chat, args=(n,)) for n in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    lengths = sorted(prompt.count("\n") for prompt in prompts(play))
    assert lengths == list(range(8))
