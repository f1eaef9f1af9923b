"""A program whose code was changed without changing its meaning has the same calls and values."""

from __future__ import annotations

from collections import Counter

from tests.drawn import counts

from .programs import program
from .transformed import CHANGES, LAYOUT, judge_transformed


@counts(40, 5_000)
def test_changes_that_keep_the_meaning_keep_the_calls(count: int) -> None:
    used: Counter[str] = Counter()
    wrong, calls = [], 0
    for seed in range(30_001, 30_001 + count):
        verdict, names, source = judge_transformed(program(seed))
        used.update(names)
        calls += verdict.calls
        if verdict.problem is not None:
            wrong.append(f"seed {seed}, {', '.join(names)}: {verdict.problem}\n\n{source}")
    print(f"{count} programs, {calls} calls, {len(wrong)} different; {dict(used)}")
    assert not wrong, wrong[0]
    assert used.keys() == {*CHANGES, LAYOUT}
