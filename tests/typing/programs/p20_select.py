"""Select, and votes counted by ordinary code."""

from __future__ import annotations

from collections import Counter
from typing import assert_type

from appl import Generation, map as side_by_side, ppl, select


@ppl
def vote(question: str) -> str:
    f"{question}"
    return select(["yes", "no"])


votes = Counter(side_by_side(vote, ["Is it?"] * 5))
assert_type(votes.most_common(1)[0][0], str)
assert_type(select(["yes", "no"]), Generation)
select("yes", 3)  # type: ignore[arg-type]
