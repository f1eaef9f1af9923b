"""What ``appl trace critical`` advises where calls of one function began one after another."""

from __future__ import annotations

import pytest

from appl.cli.trace.critical import advice
from appl.tracing.explaining import Critical
from appl.tracing.explaining.critical import OrderWait


def waits(*pairs: tuple[str, str]) -> Critical:
    return Critical(
        1_000_000, [], {}, [OrderWait(a, "f.py:7", b, "f.py:7", 800_000) for a, b in pairs]
    )


def test_calls_of_one_function_are_one_group() -> None:
    found = waits(("/main.0/think.2/gen.0", "/main.0/think.1/gen.0"),
                  ("/main.0/think.1/gen.0", "/main.0/think.0/gen.0"))  # fmt: skip
    (line,) = advice(found)
    assert "3 calls of think began one after another" in line and "up to 0.40 s less" in line
    assert "write appl.map(think, items), or @ppl(parallel=True) above think" in line


@pytest.mark.parametrize(
    "pair", [("/a.0/gen.1", "/a.0/gen.0"), ("/a.0/gen.0", "/b.0/gen.0"), ("/gen.1", "/gen.0")]
)
def test_calls_of_different_functions_are_none(pair: tuple[str, str]) -> None:
    assert list(advice(waits(pair))) == []
