"""Errors: one tree, and messages that say what to write."""

from __future__ import annotations

import inspect

import pytest

from appl import errors, ppl
from appl.errors import ApplError, PromptSyntaxError, RunWaiting


def test_every_error_is_in_the_drawn_tree():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    for kind in kinds:
        if kind.__module__ == errors.__name__ and issubclass(kind, BaseException):
            # A run that ends as waiting passes the handlers of a program's errors, as Ctrl-C does.
            assert issubclass(kind, ApplError) or kind is RunWaiting
            assert kind.__name__ in (errors.__doc__ or "")


def test_a_refusal_has_file_line_and_caret():
    with pytest.raises(PromptSyntaxError, match="write ") as caught:

        @ppl(ctx="same", parallel=True)
        def refused():
            pass

    error = caught.value
    assert isinstance(error, SyntaxError) and error.filename == __file__
    assert error.lineno and error.offset and error.text


def test_a_context_that_does_not_exist_names_those_that_do():
    with pytest.raises(ValueError, match="new, copy, same, resume"):
        ppl(ctx="copyy")
