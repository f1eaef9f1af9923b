"""Futures: call, parallel functions, and functions that return futures."""

from __future__ import annotations

from typing import assert_type

from appl import Future, Generation, Text, call, gen, ppl


@ppl
def started(question: str) -> Generation:
    f"{question}"
    return gen()


@ppl(parallel=True)
def beside(question: str) -> str:
    f"{question}"
    return gen()


def fetch(url: str, timeout: float = 3) -> bytes:
    return url.encode()


assert_type(call(started, "x"), Future[Text])
assert_type(call(fetch, "x", timeout=1).result(), bytes)
assert_type(beside("x"), str)
assert_type(started("x").result(timeout=3), Text)
call(fetch, 3)  # type: ignore[call-overload]
call(fetch, "x", timeoot=3)  # type: ignore[arg-type, call-arg]
