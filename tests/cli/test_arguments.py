from __future__ import annotations

from collections.abc import Callable
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

from appl.cli import arguments
from appl.cli.run_options import options
from appl.cli.target import Target, UsageError, parse


def bound(function: Callable[..., Any], *argv: str) -> dict[str, Any]:
    values, _ = arguments.bind(function, list(argv), options(), "prog")
    return values


def test_simple_types_are_converted() -> None:
    def f(a: int, b: float, c: str, d: bool): ...

    assert bound(f, "--a", "3", "--b", "2.5", "--c", "3", "--d", "no") == {
        "a": 3, "b": 2.5, "c": "3", "d": False,
    }  # fmt: skip


def test_switches_can_be_given_in_three_ways() -> None:
    def f(deep: bool, flat: bool = True): ...

    assert bound(f, "--deep", "--no-flat") == {"deep": True, "flat": False}
    assert bound(f, "--deep", "off") == {"deep": False}


def test_what_is_not_given_keeps_the_default_of_the_function() -> None:
    def f(a: int = 3): ...

    assert bound(f) == {}


def test_lists_are_repeated_or_json() -> None:
    def f(words: list[str], numbers: tuple[int, ...] = ()): ...

    assert bound(f, "--words", "a", "--words", "b", "--numbers", "1") == {
        "words": ["a", "b"], "numbers": (1,),
    }  # fmt: skip
    assert bound(f, "--words", '["a, b", "c"]')["words"] == ["a, b", "c"]


class Colour(Enum):
    RED = "red"


def test_other_annotations_are_left_to_pydantic() -> None:
    def f(
        table: dict[str, int] | None = None,
        path: Path = Path(),
        when: date | None = None,
        kind: Literal["a", "b"] = "a",
        colour: Colour = Colour.RED,
    ): ...

    found = bound(
        f, "--table", '{"x": 1}', "--path", "p/q", "--when", "2026-01-02", "--kind", "b",
        "--colour", "red",
    )  # fmt: skip
    assert found == {
        "table": {"x": 1}, "path": Path("p/q"), "when": date(2026, 1, 2), "kind": "b",
        "colour": Colour.RED,
    }  # fmt: skip


def test_a_wrong_value_says_which_type_is_needed() -> None:
    def f(n: int = 1, kind: Literal["a", "b"] = "a"): ...

    with pytest.raises(UsageError, match="--n needs int, got 'many'"):
        bound(f, "--n", "many")
    with pytest.raises(UsageError, match=r"--kind needs a\|b, got 'c' \(Input should be"):
        bound(f, "--kind", "c")


def test_an_underscore_may_be_written_as_a_dash() -> None:
    def f(two_words: int): ...

    assert bound(f, "--two-words", "1") == bound(f, "--two_words", "1") == {"two_words": 1}


def test_a_parameter_wins_over_an_option_of_the_same_name() -> None:
    def f(model: str, seed: int = 0): ...

    values, given = arguments.bind(f, ["--model", "m", "--backend", "b"], options(), "prog")
    assert values == {"model": "m"}
    assert given.backend == "b"


def test_a_missing_or_unknown_name_is_told() -> None:
    def f(question: str): ...

    for argv, said in (
        ([], "f needs --question"),
        (["--question", "q", "--x"], "f has no parameter --x"),
        (["--qestion", "q", "--question", "q"], "did you mean '--question'?"),
        (["stray"], "give arguments by name"),
        (["two words"], "write --question 'two words'"),
        (["--question"], "--question needs a value"),
    ):
        with pytest.raises(UsageError) as wrong:
            bound(f, *argv)
        assert said in str(wrong.value)


def test_two_dashes_may_stand_before_the_arguments_of_the_program() -> None:
    def f(question: str): ...

    assert bound(f, "--", "--question", "q") == {"question": "q"}


def test_help_shows_the_parameters() -> None:
    def f(question: str, n: int = 3):
        """Ask n times."""

    shown = arguments.help_text(f, options(), "prog")
    assert "Ask n times." in shown
    assert "--n int" in shown
    assert "default: 3" in shown


def test_targets_are_a_place_and_a_function() -> None:
    assert parse("a/b.py:f") == Target("a/b.py", "f")
    assert parse("b.py") == Target("b.py", "main")
    assert parse("pack.mod:C.method") == Target("pack.mod", "C.method")
    with pytest.raises(UsageError, match=r"file.py:function"):
        parse("b.py:not a name")
