"""Definitions: a class names a concept, an instance states it."""

from __future__ import annotations

import gc
import weakref

import pytest

from appl import (
    BracketedDefinition,
    Definition,
    define,
    define_bracketed,
    empty_line,
    gen,
    ppl,
    records,
)
from appl.compositor import DashList, LineSeparated, NumberedList
from appl.errors import PromptTypeError
from appl.testing import Echo, Scripted, running


class InputReq(BracketedDefinition):
    name = "Input Requirement"


class OutputReq(BracketedDefinition):
    """Output Requirement

    What this class is about is no part of its name.
    """


class Plain(Definition):
    name = "Plain"
    desc = "as the class says"


def text(program, *args):
    with running(Echo()):
        return str(program(*args))


def test_the_class_refers_to_its_concept():
    assert (
        f"{InputReq}, {OutputReq} and {Plain}"
        == "[Input Requirement], [Output Requirement] and Plain"
    )
    assert str(InputReq) == "[Input Requirement]"
    assert f"{InputReq!r}" == repr(InputReq) == "Input Requirement"
    assert f"{Plain:>7}" == "  Plain"


def test_an_instance_states_the_concept_and_refers_to_it():
    stated = InputReq(desc="two numbers")
    assert f"{stated}" == str(stated) == "[Input Requirement]"
    assert repr(stated) == "Input Requirement: two numbers"
    assert repr(Plain(details="d")) == "Plain: as the class says\nd"


def test_a_statement_says_name_description_and_details():
    class Own(BracketedDefinition):
        name = "A"
        fstr = "({})"

    B, D = define_bracketed("B"), define("D")

    @ppl
    def program():
        Own(desc="This is A.")
        B(details="This is B.")
        (c := BracketedDefinition("C", "This is C."))
        D(desc="This is D.", sep=":: ")
        Plain()
        f"{Own}{B}{c}{D}"
        return records()

    assert text(program) == (
        "A: This is A.\nB: \nThis is B.\nC: This is C.\nD:: This is D.\n"
        "Plain: as the class says\n(A)[B][C]D"
    )


def test_the_name_may_be_given_to_the_instance():
    again = InputReq("Other", "x", fstr="<{}>", var_name="other")
    assert (str(again), again.name, again.var_name) == ("<Other>", "Other", "other")
    assert (InputReq(desc="x").var_name, f"{InputReq}") == (
        "Input Requirement",
        "[Input Requirement]",
    )


def test_a_subclass_inherits_the_name():
    class Narrower(InputReq):
        fstr = "{}!"

    assert f"{Narrower}" == "Input Requirement!"


def test_a_definition_without_a_name_is_refused():
    class Nameless(Definition):
        pass

    with pytest.raises(ValueError, match=r'write Nameless\("...", desc="..."\)'):
        Nameless(desc="x")
    with pytest.raises(ValueError, match="no name"):
        Definition()
    assert f"{Nameless} {Definition}" == "Nameless Definition"


def test_a_class_is_no_statement_of_its_concept():
    @ppl
    def program():
        InputReq

    with running(Echo()), pytest.raises(PromptTypeError, match=r'write f"\{InputReq\}" to say it'):
        program()


def test_defined_classes_belong_to_who_defines_them():
    gen_class = define("gen", "<{}>")
    assert (gen_class.__name__, gen_class.__module__) == ("gen", __name__)
    assert f"{gen_class}" == "<gen>"
    assert issubclass(define_bracketed("x y"), BracketedDefinition)


def test_definitions_are_formatted_as_items_and_their_details_too():
    @ppl(compositor=DashList(indent=4))
    def details():
        Definition("Name", "John")
        Definition("Email", "john@example.org")
        return records()

    @ppl
    def program():
        with DashList():
            InputReq(desc=f"what the {OutputReq} needs:", details=details())
            OutputReq(desc="now", details=["x", "y"])
        return records()

    assert text(program) == (
        "- Input Requirement: what the [Output Requirement] needs:\n"
        "    - Name: John\n    - Email: john@example.org\n"
        "- Output Requirement: now\n- x\n- y"
    )


def test_a_description_may_come_from_a_model():
    @ppl
    def program():
        answer = gen()
        InputReq(desc=answer)
        return records()

    with running(Scripted(["two numbers"])):
        assert str(program()) == "Input Requirement: two numbers"


def test_no_instance_is_kept_alive():
    stated = InputReq(desc="x")
    seen = weakref.ref(stated)
    del stated
    gc.collect()
    assert seen() is None


def test_a_prompt_in_parts_with_definitions():
    @ppl
    def requirements(operation):
        "Requirements"
        with NumberedList():
            InputReq(desc="The input should be two numbers.")
            OutputReq(desc=f"The output should be the {operation} of the two numbers.")
        return records()

    @ppl
    def instruction(language):
        "Instruction"
        with LineSeparated():
            f"Write a function in {language} that satisfies the {InputReq} and {OutputReq}."
        return records()

    @ppl
    def prompt(operation, language):
        with LineSeparated(indexing="##"):
            requirements(operation)
            empty_line()
            instruction(language)
        return records()

    assert text(prompt, "sum", "Python") == (
        "## Requirements\n"
        "1. Input Requirement: The input should be two numbers.\n"
        "2. Output Requirement: The output should be the sum of the two numbers.\n"
        "\n"
        "## Instruction\n"
        "Write a function in Python that satisfies the [Input Requirement] and "
        "[Output Requirement]."
    )
