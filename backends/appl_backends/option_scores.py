"""Choices by log-probability: from the tokens' log-probabilities to scores, and the best of them.

Invariant: of choices that are equally good within a tolerance, the first one is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from appl.backend import GREEDY, UNCONDITIONAL

Entries = Sequence[float]
"""The log-probabilities of the tokens of one choice, the end of the answer included."""


def scored(
    method: str | None, choices: Sequence[Entries], alone: Sequence[Entries], tie: float
) -> tuple[tuple[float, ...], int]:
    """The score of each choice, and which one is chosen.

    *alone* are the entries of the choices without the prompt, which one method needs. With the
    greedy one, the score does not decide.
    """
    if method == "token":
        scores = tuple(map(_mean, choices))
    elif method == UNCONDITIONAL:
        scores = tuple(_mean(each) - _mean(by) for each, by in zip(choices, alone, strict=True))
    else:
        scores = tuple(map(sum, choices))
    if method == GREEDY:
        return scores, _greedy(choices, tie)
    return scores, _first(scores, range(len(scores)), tie)[0]


def _mean(entries: Entries) -> float:
    return sum(entries) / len(entries)


def _first(scores: Sequence[float], among: Sequence[int], tie: float) -> list[int]:
    """Those *among* the choices whose score is the best one, within *tie*."""
    most = max(scores[at] for at in among)
    return [at for at in among if scores[at] >= most - tie]


def _greedy(choices: Sequence[Entries], tie: float) -> int:
    """The choice whose first token is the best one, among equals the second one, and so on.

    A choice that is over has its mean in place of further tokens.
    """
    left = list(range(len(choices)))
    for place in range(max(map(len, choices))):
        column = [each[place] if place < len(each) else _mean(each) for each in choices]
        left = _first(column, left, tie)
    return left[0]
