"""What the compiler refuses, where it points, and what it says to write instead."""

from __future__ import annotations

import functools
import math
import traceback
from typing import Any

import pytest

from appl.compiler.passes import CompilerOptions, translate
from appl.compiler.refusals import require_function
from appl.errors import PromptSyntaxError, SourceUnavailable

from .support import define, module, ppl


def refusal(source: str, **names: Any) -> PromptSyntaxError:
    with pytest.raises(PromptSyntaxError) as caught:
        module(source, **names)
    return caught.value


def underlined(error: SyntaxError) -> str:
    assert error.text is not None and error.offset is not None and error.end_offset is not None
    end = error.end_offset if error.end_lineno == error.lineno else None
    return error.text[error.offset - 1 : end - 1 if end else None]


def test_a_refusal_is_a_syntax_error_with_a_caret() -> None:
    error = refusal("def g(): pass\nf = ppl(lambda: 'text')")
    assert isinstance(error, SyntaxError)
    assert error.lineno == 2 and underlined(error) == "lambda"
    shown = "".join(traceback.format_exception_only(error))
    assert "    f = ppl(lambda: 'text')\n            ^^^^^^\n" in shown


def test_a_lambda_has_no_statements() -> None:
    assert "write a def" in str(refusal("f = ppl(lambda: 'text')"))


@pytest.mark.parametrize(
    ("string", "name", "instead"),
    [
        ("f'{x:=5}'", "x", "{(x := 5)}"),
        ("f'{answer:=gen()}'", "answer", "{(answer := gen())}"),
        ("f'é {x:=5}'", "x", "{x: =5}"),
    ],
)
def test_what_looks_like_a_walrus_in_an_f_string(string: str, name: str, instead: str) -> None:
    error = refusal(f"@ppl\ndef f(x):\n    if x:\n        {string}")
    assert instead in str(error)
    assert error.lineno == 4 and underlined(error) == name


def test_it_is_left_alone_where_it_is_no_statement() -> None:
    assert ppl(define("def f(x):\n    return f'{x:=5}'"))(3) == "    3"
    ppl(define("def f(x):\n    pass\n    f'{x:5}{x.y:=5}{(x := 5)}'"))


@pytest.mark.parametrize("ctx", ["same", "resume"])
def test_parallel_calls_cannot_continue_one_prompt(ctx: str) -> None:
    error = refusal(f"@ppl(ctx='{ctx}', parallel=True)\ndef f():\n    'text'")
    assert f'ctx="{ctx}"' in str(error) and 'write ctx="copy"' in str(error)
    assert underlined(error) == f"ppl(ctx='{ctx}', parallel=True)"


@pytest.mark.parametrize("ctx", ["new", "copy"])
def test_other_contexts_may_be_parallel(ctx: str) -> None:
    translate(define("def f():\n    'text'"), CompilerOptions(ctx=ctx, parallel=True))


@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_generator_cannot_be_parallel(word: str) -> None:
    f = define(f"{word} f():\n    yield 'text'")
    with pytest.raises(PromptSyntaxError, match="returns a list") as caught:
        translate(f, CompilerOptions(parallel=True))
    assert underlined(caught.value) == f"{word} f"


def test_a_decorator_that_wraps_must_stand_above() -> None:
    def twice(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper() -> Any:
            return f(), f()

        return wrapper

    error = refusal("@ppl\n@twice\ndef f():\n    'text'", twice=twice)
    assert "right above `def f`" in str(error)
    assert error.lineno == 3 and underlined(error) == "def f"
    module("@twice\n@ppl\ndef f():\n    'text'", twice=twice)


def test_decorating_twice_is_refused() -> None:
    def fake(f: Any) -> Any:
        return functools.wraps(f)(lambda *args: f(*args))

    with pytest.raises(PromptSyntaxError):
        module("@ppl\n@fake\n@ppl\ndef f():\n    'text'", fake=fake)


def test_a_prompt_function_may_be_a_wrapper_itself() -> None:
    space = module("""
        import functools
        def plain(a): "plain"
        @ppl
        @functools.wraps(plain)
        def f(*args):
            "text"
            return args
    """)
    assert space["f"](1) == (1,) and space["f"].__name__ == "plain"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (staticmethod(lambda: None), "@staticmethod above"),
        (classmethod(lambda cls: None), "@classmethod above"),
        (property(lambda self: None), "@property above"),
        (functools.partial(print), "functools.partial"),
        (len, "len(), which is written in C"),
        (str.upper, "upper(), which is written in C"),
        (int, "the class int"),
        (math, "type module"),
        (None, "type NoneType"),
        (OSError().__str__, "written in C"),
    ],
)
def test_what_is_no_function(value: object, words: str) -> None:
    with pytest.raises(TypeError, match=r"^@ppl ") as caught:
        require_function(value)
    assert words in str(caught.value) or words.partition(",")[0] in str(caught.value)


def test_a_bound_method_is_no_function() -> None:
    class Thing:
        def m(self) -> None: ...

    with pytest.raises(TypeError, match="the bound method m; decorate the def"):
        require_function(Thing().m)


def test_too_many_nested_blocks() -> None:
    source = "def f():\n"
    for depth in range(1, 12):
        source += "    " * depth + "try:\n"
    source += "    " * 12 + "pass\n"
    for depth in range(11, 0, -1):
        source += "    " * depth + "finally: pass\n"
    with pytest.raises(PromptSyntaxError, match="into a function of their own"):
        ppl(define(source))


def test_expressions_nested_too_deeply() -> None:
    source = "def f(x):\n    return " + "x(" * 90 + "x" + ")" * 90
    ppl(define(source))
    source = "def f(x):\n    return x" + "\\\n + x" * 2000
    with pytest.raises(PromptSyntaxError, match="split it"):
        ppl(define(source))


def test_a_long_chain_of_elifs() -> None:
    source = "def f(x):\n    if x == 0: return 0\n"
    source += "".join(f"    elif x == {n}: return {n}\n" for n in range(1, 150))
    assert ppl(define(source))(149) == 149


def test_other_failures_name_the_function() -> None:
    space: dict[str, Any] = {}
    exec("def f(): 'text'", space)
    with pytest.raises(SourceUnavailable, match=r"f\(\) of <string>"):
        translate(space["f"])
