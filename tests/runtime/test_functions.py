"""What decoration must not break; generators; resume."""

from __future__ import annotations

import abc
import dataclasses
import functools
import gc
import inspect
import pickle
import traceback

import pytest

from appl import AIRole, SystemRole, call, gen, grow, ppl
from appl.errors import CallCancelled, DeadlockError, RunClosed
from appl.runtime.frame import FRAME
from appl.testing import Echo, Held, Scripted, Seeded, running


def last(request):
    return list(request.messages)[-1].content.upper()


@ppl
def module_level(x: int, *, y: str = "d") -> str:
    """Documented."""
    f"{x}{y}"
    return gen()


def test_names_signature_and_pickling():
    assert module_level.__name__ == "module_level" and module_level.__doc__ == "Documented."
    assert str(inspect.signature(module_level)) == "(x: 'int', *, y: 'str' = 'd') -> 'str'"
    assert pickle.loads(pickle.dumps(module_level)) is module_level


def test_a_function_is_known_by_its_calls_after_it_has_returned_but_not_held():
    """Its turns are counted by it, also where a call is asked when it has returned."""
    with running(Echo()):

        def local():
            @ppl
            def asks():
                "x"
                frames.append(FRAME.get())
                return gen()

            str(asks())
            assert frames[0].ended and frames[0].body().qualname == asks.__qualname__

        frames = []
        local()
        gc.collect()
        assert frames[0].body() is None


class Base:
    def __init__(self, name):
        self.name = name
        self.__secret = "s"

    @ppl
    def hello(self):
        f"{self.name}{self.__secret}"
        return gen()

    @classmethod
    @ppl
    def made(cls):
        f"{cls.__name__}"
        return gen()

    @staticmethod
    @ppl
    def free(x):
        f"{x}"
        return gen()

    @property
    @ppl
    def shown(self):
        f"{self.name}"
        return gen()


class Derived(Base):
    @ppl(ctx="same")
    def hello(self):
        return super().hello() + "!"


def test_methods():
    with running(Scripted(last)):
        assert Base("a").hello() == "AS"
        assert Base.made() == "BASE" and Base.free("z") == "Z" and Base("p").shown == "P"
        assert Derived("b").hello() == "BS!"


def test_abstract_methods_stay_abstract():
    class Abstract(abc.ABC):
        @abc.abstractmethod
        @ppl
        def do(self):
            "x"

    with pytest.raises(TypeError):
        Abstract()


def test_closures_and_nested_programs():
    def factory(word):
        count = 0

        @ppl
        def program():
            nonlocal count
            count += 1
            f"{word}{count}"
            return gen()

        return program

    with running(Scripted(last)):
        program = factory("w")
        assert [str(program()), str(program())] == ["W1", "W2"]


def test_exceptions_show_the_users_line():
    @ppl
    def broken():
        "text"
        raise KeyError("here")

    with running(Echo()), pytest.raises(KeyError) as caught:
        broken()
    assert any(
        frame.filename == __file__ and "raise KeyError" in (frame.line or "")
        for frame in traceback.extract_tb(caught.value.__traceback__)
    )


def test_partial_and_builtin_map_keep_the_context():
    @ppl(ctx="copy")
    def ask(word):
        f"{word}"
        return gen()

    @ppl
    def outer():
        "prefix"
        return list(map(functools.partial(ask), "ab")) + sorted("b", key=ask)

    with running(Echo()) as seen:
        outer()
    assert set(seen.prompts.values()) == {"user: prefix\na", "user: prefix\nb"}


# -- generators


@ppl
def chat():
    with SystemRole():
        "You chat."
    reply = None
    while True:
        yield reply
        with AIRole():
            (reply := gen())


@ppl(auto_prime=True)
def primed():
    reply = None
    while True:
        yield reply
        with AIRole():
            (reply := gen())


def test_a_generator_keeps_its_prompt_between_resumes():
    with running(Scripted(last)) as seen:
        bot = chat()
        assert inspect.isgenerator(bot)
        next(bot)
        assert bot.send("hi") == "HI"
        assert bot.send("bye") == "BYE"
        bot.close()
    assert seen.prompts["/chat.0/gen.1"] == (
        "system: You chat.\nuser: hi\nassistant: HI\nuser: bye"
    )


def test_a_primed_generator_can_be_sent_to():
    with running(Scripted(last)):
        bot = primed()
        assert bot.send("hi") == "HI"


def test_two_generators_do_not_mix():
    @ppl
    def pair():
        first, second = primed(), primed()
        return first.send("a"), second.send("b"), first.send("c")

    with running(Echo()) as seen:
        pair()
    assert seen.prompts["/pair.0/primed.1/gen.0"] == "user: b"


def test_exceptions_can_be_thrown_in():
    @ppl
    def resilient():
        try:
            yield "first"
        except KeyError:
            yield "caught"

    with running(Echo()):
        g = resilient()
        assert next(g) == "first" and g.throw(KeyError()) == "caught"
        assert list(g) == []


def test_closing_a_generator_cancels_what_nobody_read():
    backend = Held()

    @ppl
    def lazy():
        gen()
        yield 1

    with running(backend):
        g = lazy()
        next(g)
        g.close()
    assert backend.waiting == {}


# -- resume


@ppl(ctx="resume")
def remember(word):
    f"{word}"
    with AIRole():
        (reply := gen())
    return str(reply)


def test_resume_continues_where_it_left_off_in_this_run():
    for _ in range(2):
        with running(Scripted(last)) as seen:
            remember("a")
            remember("b")
        assert seen.prompts["/remember.1/gen.0"] == "user: a\nassistant: A\nuser: b"


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    name: str

    @ppl(ctx="resume")
    def tell(self, word):
        f"{word}"
        return str(gen())


def test_resume_of_a_method_is_per_object():
    with running(Echo()) as seen:
        first, second = Agent("x"), Agent("x")
        first.tell("a"), second.tell("b"), first.tell("c")
    assert seen.prompts["/tell.1/gen.0"] == "user: b"
    assert seen.prompts["/tell.2/gen.0"] == "user: a\nc"


def test_activations_of_one_state_queue_in_issue_order():
    @ppl
    def three():
        return [call(remember, word) for word in "abc"]

    with running(Seeded(4, last)) as seen:
        assert [str(each) for each in three()] == ["A", "B", "C"]
    assert seen.prompts["/three.0/remember.2/gen.0"].startswith("user: a\nassistant: A\nuser: b")


def test_resuming_oneself_is_a_deadlock():
    @ppl(ctx="resume")
    def inside(n):
        "x"
        return inside(n - 1) if n else None

    with running(Echo()), pytest.raises(DeadlockError, match="inside"):
        inside(1)


def test_nothing_starts_after_the_run():
    with running(Echo()):
        g = primed()
    with pytest.raises(RunClosed):
        g.send("late")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_spellings():
    @ppl(ctx="copy_ctx")
    def old():
        "x"
        return gen()

    with running(Echo()) as seen:
        old(ctx_method="new")
    assert seen.prompts == {"/old.0/gen.0": "user: x"}
    with pytest.raises(ValueError, match="ctx"):
        ppl(ctx="other")
    with pytest.raises(TypeError):
        ppl(3)


def test_cancelled_is_what_a_reader_gets():
    with running(Held()):
        g = gen(messages="x")
        g.cancel()
        with pytest.raises(CallCancelled):
            str(g)


def test_a_yielded_call_that_the_consumer_said_survives_the_generator():
    @ppl
    def series():
        while True:
            yield gen()

    @ppl
    def consumer():
        for word in series():
            f"{word}"
            return gen()

    with running(Seeded(0, lambda r: "x")) as seen:
        assert consumer() == "x"
    assert seen.prompts["/consumer.0/gen.0"] == "user: x"


def test_what_two_agents_said_to_each_other_survives_them():
    @ppl(auto_prime=True)
    def speaker(name):
        f"You are {name}."
        said = yield
        while True:
            f"{said}"
            with AIRole():
                (answer := gen())
            said = yield answer

    def talk(one, two):
        said = "hello"
        for _ in range(2):
            said = two.send(one.send(said))
        return said

    @ppl
    def conversation():
        f"{talk(speaker('Ann'), speaker('Bob'))}"
        return gen()

    with running(Seeded(0, lambda r: "x")) as seen:
        assert conversation() == "x"
    assert len(seen.prompts) == 5


def test_grow_does_not_wait():
    @ppl
    def grows():
        grow([gen(), "a"])
        return gen()

    with running(Seeded(0, lambda r: "x")) as seen:
        assert grows() == "x"
    assert seen.prompts["/grows.0/gen.1"] == "user: x\na"
