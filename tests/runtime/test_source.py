"""Where a call stands in the user's code, whichever module of the package it went through."""

from __future__ import annotations

import inspect
import types
from typing import Any

from appl import gen, ppl
from appl.testing import CallStarted, Echo, Log, running


def test_a_call_stands_at_the_innermost_line_outside_of_the_package() -> None:
    def ask() -> Any:
        return gen()

    helper = types.FunctionType(ask.__code__, {"__name__": "appl.helper", "gen": gen})
    line = (inspect.currentframe() or inspect.stack()[0].frame).f_lineno + 5

    @ppl
    def program() -> str:
        "Hello"
        return str(helper())

    log = Log()
    with running(Echo(), instruments=[log]):
        program()
    (started,) = log.of(CallStarted)
    assert (started.file, started.line) == (__file__, line)
