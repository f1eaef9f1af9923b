"""A decorator of one's own above @ppl keeps the type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar, assert_type

from appl import gen, ppl

P = ParamSpec("P")
R = TypeVar("R")


def logged(f: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(f)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return f(*args, **kwargs)

    return wrapper


@logged
@ppl
def answer(question: str) -> str:
    f"{question}"
    return gen()


assert_type(answer("Why?"), str)
answer(3)  # type: ignore[arg-type]
ppl(ctx="other")  # type: ignore[call-overload]
ppl(modell="x")  # type: ignore[call-overload]
