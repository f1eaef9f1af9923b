"""Roles."""

from __future__ import annotations

import pytest

from appl import AIRole, SystemRole, ToolRole, UserRole, gen, grow, map as appl_map, ppl
from appl.errors import RunError
from appl.testing import Echo, Seeded, running


def prompts(program, *args):
    with running(Echo()) as seen:
        program(*args)
    return list(seen.prompts.values())


def test_every_role_has_its_block():
    @ppl
    def roles():
        with SystemRole():
            "s"
        "u"
        with AIRole():
            "a"
        with ToolRole():
            "t"
        gen()

    assert prompts(roles) == ["system: s\nuser: u\nassistant: a\ntool: t"]


def test_the_innermost_role_speaks():
    @ppl
    def nested():
        with AIRole(), UserRole():
            "inner"
        "outer"
        gen()

    assert prompts(nested) == ["user: inner\nouter"]


def test_one_role_object_serves_programs_that_wait_in_its_block():
    role = AIRole()

    @ppl
    def program(number):
        with role:
            f"{number}"
            str(gen())
        f"after {number}"
        gen()

    for seed in range(4):
        with running(Seeded(seed)) as seen:
            appl_map(program, range(4))
        last = [text.splitlines()[-1] for at, text in seen.prompts.items() if at.endswith("gen.1")]
        assert sorted(last) == [f"user: after {number}" for number in range(4)]


def test_one_role_object_nests_in_itself():
    role = AIRole()

    @ppl
    def program():
        with role:
            "a"
            with role:
                "b"
        "c"
        gen()

    assert prompts(program) == ["assistant: a\nb\nuser: c"]


def test_a_plain_helper_may_set_a_role():
    def helper():
        with AIRole():
            grow("helped")

    @ppl
    def program():
        "u"
        helper()
        gen()

    assert prompts(program) == ["user: u\nassistant: helped"]


def test_a_role_needs_a_program():
    with pytest.raises(RunError, match="AIRole"), AIRole():
        pass


def test_a_function_on_the_callers_prompt_speaks_in_the_callers_role():
    @ppl(ctx="same")
    def same():
        "same"

    @ppl
    def program():
        with AIRole():
            same()
        gen()

    assert prompts(program) == ["assistant: same"]
