"""``sys.exit()`` in a function beside the program ends the program, where its value is needed."""

from __future__ import annotations

import sys

import pytest

from appl import call, gen, map, ppl
from appl.testing import Echo, running


@ppl
def calls(code):
    "x"
    answer = call(sys.exit, code)
    said = str(gen())
    return said, answer.result()


@ppl
def maps(code):
    "x"
    return map(sys.exit, [code, 9], on_error="collect")


@ppl
def leaves(code):
    "x"
    call(sys.exit, code)
    return str(gen())


@pytest.mark.parametrize("program", [calls, maps, leaves])
@pytest.mark.parametrize("sequential", [False, True])
def test_an_exit_is_the_programs_own(program, sequential):
    with pytest.raises(SystemExit) as ended, running(Echo(), sequential=sequential):
        program(3)
    assert ended.value.code == 3


def test_an_exit_can_be_caught_as_in_sequence():
    @ppl
    def caught():
        "x"
        try:
            call(sys.exit, 3).result()
        except SystemExit as stop:
            return stop.code

    with running(Echo()):
        assert caught() == 3
