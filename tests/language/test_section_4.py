"""Contexts: which prompt a function works on."""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
import threading

import pytest

from appl import call, convo, gen, grow, ppl, records
from appl.testing import Echo, running


def prompts(program, *args):
    with running(Echo()) as seen:
        program(*args)
    return sorted(seen.prompts.values())


class Slotted:
    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    @ppl(ctx="resume")
    def talk(self, word):
        f"{self.name}{word}"
        _ = gen()


class Actor:
    @classmethod
    @ppl(ctx="resume")
    def cast(cls, word):
        f"{word}"
        _ = gen()

    @property
    @ppl(ctx="resume")
    def line(self):
        "line"
        _ = gen()
        return 1


def test_slotted_objects_have_a_state_each():
    a, b = Slotted("a"), Slotted("b")

    def both():
        a.talk(1)
        b.talk(1)
        a.talk(2)

    assert prompts(both) == ["user: a1", "user: a1\na2", "user: b1"]


def test_a_new_object_at_an_old_place_starts_anew():
    def one_after_the_other():
        for number in range(5):
            Slotted("x").talk(number)

    assert prompts(one_after_the_other) == [f"user: x{number}" for number in range(5)]


def test_a_class_method_continues_for_its_class_and_a_property_for_its_object():
    class Other(Actor):
        pass

    def play():
        Actor.cast(1)
        Actor.cast(2)
        Other.cast(3)
        actor = Actor()
        _ = actor.line, actor.line

    assert prompts(play) == ["user: 1", "user: 1\n2", "user: 3", "user: line", "user: line\nline"]


def test_the_first_call_of_resume_copies_the_callers_prompt():
    @ppl(ctx="resume")
    def resumed(word):
        f"{word}"
        _ = gen()

    @ppl
    def program():
        "one"
        resumed("a")
        "two"
        resumed("b")

    assert prompts(program) == ["user: one\na", "user: one\na\nb"]


def test_the_context_follows_through_partial_sorted_map_and_properties():
    class Thing:
        @property
        def told(self):
            grow("property")
            return 1

    @ppl(ctx="same")
    def key(number):
        f"{number}"
        return number

    @ppl
    def program():
        _ = sorted([2, 1], key=key), functools.partial(key, 3)(), list(map(key, [4])), Thing().told
        gen()

    assert prompts(program) == ["user: 2\n1\n3\n4\nproperty"]


def test_a_thread_that_call_starts_sees_the_callers_prompt():
    def helper():
        return str(convo())

    @ppl
    def program():
        "x"
        return str(call(helper))

    with running(Echo()):
        assert program() == "x"


def test_a_thread_started_in_a_copied_context_sees_it_too():
    answers = []

    @ppl
    def program():
        "x"
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(lambda: answers.append(str(gen())),))
        thread.start()
        thread.join()

    assert prompts(program) == ["user: x"] and len(answers) == 1


def test_records_are_what_was_added_and_convo_is_all():
    @ppl(ctx="copy")
    def inner():
        "in"
        return str(records()), str(convo())

    @ppl
    def outer():
        "out"
        return inner()

    with running(Echo()):
        assert outer() == ("in", "out\nin")


@dataclasses.dataclass(slots=True, frozen=True)
class Frozen:
    word: str

    @ppl(ctx="resume")
    def talk(self):
        f"{self.word}"
        _ = gen()


@dataclasses.dataclass
class Unhashable:
    word: str

    @ppl(ctx="resume")
    def talk(self):
        f"{self.word}"
        _ = gen()


class Kind(enum.Enum):
    ONE = "one"

    @ppl(ctx="resume")
    def talk(self):
        f"{self.value}"
        _ = gen()


@pytest.mark.parametrize("owner", [Frozen("one"), Unhashable("one"), Kind.ONE])
def test_any_object_may_have_a_state(owner):
    def twice():
        owner.talk()
        owner.talk()

    assert prompts(twice) == ["user: one", "user: one\none"]
    assert prompts(twice) == ["user: one", "user: one\none"]  # another run starts anew
