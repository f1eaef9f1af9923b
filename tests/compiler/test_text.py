"""Which strings are prompt text, which are documentation, and how they are dedented."""

from __future__ import annotations

import pytest

from appl.compiler.dedent import cleaned
from appl.compiler.passes import CompilerOptions, translate

from .support import NOTES, define, ppl, said


@ppl
def documented() -> None:
    """Documentation."""
    "prompt"


@ppl
def single_quoted() -> None:
    "prompt"


@ppl(docstring_as="system")
def included() -> None:
    "told by the runtime"
    "prompt"


@ppl
def triple() -> None:
    """
    Documentation
      of two lines.
    """
    """
    One
      two

    three
    """


@ppl
def triple_with_holes(a: object) -> None:
    pass
    f"""
    First {a}
      second {a!r:>4}
    """


@ppl
def data() -> str:
    text = """
    untouched
    """
    return text


@ppl
def nested() -> None:
    def helper() -> None:
        """Documentation of the helper."""
        "helper says"

    def quoted() -> None:
        "quoted says"

    helper()
    quoted()
    NOTES.say(helper.__doc__)
    NOTES.say(quoted.__doc__)


def test_a_docstring_in_three_quotes_is_not_said() -> None:
    assert said(documented) == [("text", "prompt")]
    assert documented.__doc__ == "Documentation."


def test_a_first_string_in_single_quotes_is_said() -> None:
    assert said(single_quoted) == [("text", "prompt")]
    assert single_quoted.__doc__ == "prompt"


def test_docstring_as_leaves_either_kind_to_the_runtime() -> None:
    assert said(included) == [("text", "prompt")]


@pytest.mark.parametrize(
    ("first", "option", "docstring"),
    [
        ('"""\n    Doc\n      more\n    """', None, "Doc\n  more"),
        ('"""Doc."""', "user", "Doc."),
        ("'Doc.'", None, None),
        ("'Doc.'", "user", "Doc."),
        ("r'''Doc\\d'''", None, "Doc\\d"),
        ("f'''Doc'''", "user", None),
        ("pass", "user", None),
    ],
)
def test_the_docstring_is_reported(first: str, option: str | None, docstring: str | None) -> None:
    f = define(f"def f():\n    {first}\n    pass")
    assert translate(f, CompilerOptions(docstring_as=option)).docstring == docstring


def test_triple_quoted_text_loses_its_margin() -> None:
    assert said(triple) == [("text", "One\n  two\n\nthree")]


def test_triple_quoted_f_strings_lose_their_margin_around_the_holes() -> None:
    assert said(triple_with_holes, "A\n    B") == [
        ("begin",),
        ("piece", "First "),
        ("hole", "A\n    B", "", ""),
        ("piece", "\n  second "),
        ("hole", "A\n    B", "r", ">4"),
    ]


def test_triple_quoted_data_stays_as_it_is() -> None:
    assert data() == "\n    untouched\n    "


def test_docstrings_of_nested_functions_follow_the_same_rule() -> None:
    assert said(nested) == [
        ("text", "helper says"),
        ("text", "quoted says"),
        ("say", "Documentation of the helper."),
        ("say", "quoted says"),
    ]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("one", "one"),
        ("  one  ", "one  "),
        ("\n  a\n    b\n", "a\n  b"),
        ("a\n  b\n    c", "a\nb\n  c"),
        ("\n\n  a\n\n  b\n\n", "a\n\nb"),
        ("\n\ta\tb\n\t\tc", "a\tb\n        c"),
        ("a\n   \nb", "a\n\nb"),
        ("", ""),
        ("\n", ""),
    ],
)
def test_only_the_margin_goes(text: str, clean: str) -> None:
    assert cleaned(text) == clean


def test_a_hole_counts_as_text_when_the_margin_is_measured() -> None:
    f = define('def f(x):\n    pass\n    f"""\n  {x}\n    b {x}\n  """')
    hole = ("hole", "one", "", "")
    assert said(ppl(f), "one") == [("begin",), hole, ("piece", "\n  b "), hole]


def test_a_mark_that_the_text_holds_itself_is_not_taken_for_a_hole() -> None:
    f = define('def f(x):\n    pass\n    f"""\\x01a{x}\\x02b"""')
    parts = [("piece", "\x01a"), ("hole", "one", "", ""), ("piece", "\x02b")]
    assert said(ppl(f), "one") == [("begin",), *parts]


def test_parts_of_an_f_string_are_told_before_the_next_is_evaluated() -> None:
    def noting(name: str) -> str:
        NOTES.text(f"during {name}")
        return name

    f = define('def f(n):\n    pass\n    f\'A{n("x")}B{n("y"):{n("2")}}\'')
    assert said(ppl(f), noting) == [
        ("begin",),
        ("piece", "A"),
        ("text", "during x"),
        ("hole", "x", "", ""),
        ("piece", "B"),
        ("text", "during y"),
        ("text", "during 2"),
        ("hole", "y", "", "2"),
    ]
