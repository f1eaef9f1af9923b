"""``appl.observe``: what a function of the user's returns is recorded and shown again."""

from __future__ import annotations

from pathlib import Path

import appl
from appl.session import replayed


def test_the_value_is_recorded_and_the_function_not_called_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure(factor: int, *, plus: int) -> list[int]:
        calls.append(factor)
        return [factor * len(calls) + plus]

    @appl.ppl
    def program() -> list[int]:
        return appl.observe(measure, 10, plus=1) + appl.observe(measure, 20, plus=2)

    with appl.record(tmp_path / "one.trace", backend="appl.testing:Echo"):
        first = program()
        _ = str(appl.gen(messages="x"))
    assert first == [11, 42] and calls == [10, 20]
    with replayed(tmp_path / "one.trace"):
        assert program() == first
        _ = str(appl.gen(messages="x"))
    assert calls == [10, 20]
