"""Candidates of a tree search: good scores, shared prompts and different meanings, as the integer
program has it, which is solved here by trying every choice."""

from __future__ import annotations

import random
from array import array
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, combinations
from typing import Any

import numpy
import pytest

from appl import PromptContext, gen, keep, ppl
from appl.errors import InvalidOption
from appl.testing import Scripted, running
from tests.drawn import counts

Steps = tuple[Hashable, ...]


def value(
    kept: Iterable[int],
    scores: Sequence[float],
    steps: Sequence[Steps],
    kinds: Sequence[Hashable],
    share: float,
    cover: float,
) -> float:
    """The sum that the paper's program maximizes, by its definition."""
    places = list(kept)
    above = [score - min(scores) for score in scores]
    total = sum(above) or len(above)
    every = {each[:size] for each in steps for size in range(1, len(each) + 1)}
    needed = {steps[p][:size] for p in places for size in range(1, len(steps[p]) + 1)}
    score = sum(above[p] if any(above) else 1.0 for p in places) / total
    covered = len({kinds[p] for p in places}) / len(set(kinds))
    return score - share * len(needed) / len(every) + cover * covered


def choices(count: int, width: int) -> Iterable[tuple[int, ...]]:
    return chain.from_iterable(combinations(range(count), size) for size in range(1, width + 1))


@counts(12, 500)
def test_what_is_kept_is_what_the_integer_program_keeps(count: int) -> None:
    for seed in range(count):
        dice = random.Random(seed)
        steps = [
            (*(dice.randrange(2) for _ in range(dice.randint(1, 4))), f"leaf {place}")
            for place in range(12)
        ]
        scores = [dice.uniform(-3, 1) for _ in steps]
        kinds = [dice.randrange(6) for _ in steps]
        width = dice.randint(1, 12)
        share, cover = dice.choice([0.5, 1.0, 1.5, 2.0, 4.0]), dice.choice([0.0, 0.5, 1.0, 1.5])
        kept = keep(
            range(12), scores, width, share=share, cover=cover,
            alike=lambda place, k=kinds: k[place], path=lambda place, s=steps: s[place],  # type: ignore[misc]
        )  # fmt: skip
        told = (scores, steps, kinds, share, cover)
        best = max(value(each, *told) for each in choices(12, width))
        assert 1 <= len(kept) <= width
        assert value(kept, *told) >= best - 1e-9, seed


def test_without_share_the_best_scores_are_kept() -> None:
    assert keep(["a", "b", "c", "d"], [1, 4, 2, 3], 2) == ["b", "d"]
    assert keep(["a", "b"], [1, 1], 5) == ["a", "b"]
    assert keep([], [], 3) == []


TREE = [("x", "x1"), ("x", "x2"), ("y", "z", "w", "y1"), ("x", "x3")]
SCORES = [0.50, 0.45, 0.52, 0.40]


def test_a_branch_of_its_own_must_be_worth_its_prompt() -> None:
    assert keep(TREE, SCORES, 2) == [TREE[2], TREE[0]]
    assert keep(TREE, SCORES, 2, share=2.0, cover=0.5) == [TREE[0], TREE[1]]


def test_candidates_that_mean_the_same_count_once() -> None:
    same = {"x1": "one", "x2": "one", "x3": "three", "y1": "one"}
    kept = keep(TREE, SCORES, 2, share=2.0, cover=2.0, alike=lambda steps: same[steps[-1]])
    assert kept == [TREE[0], TREE[3]]
    vectors = [array("f", each) for each in ([1.0, 0.0], [2.0, 0.01], [3.0, 0.1], [0.0, 1.0])]
    assert keep(TREE, SCORES, 2, share=2.0, cover=2.0, alike=vectors) == kept
    stacked = numpy.array(vectors)
    for each in (stacked, stacked.astype("d"), [[1, 0], [2, 0], [3, 0], [0, 1]]):
        assert keep(TREE, SCORES, 2, share=2.0, cover=2.0, alike=each) == kept


def test_the_largest_scores_have_differences() -> None:
    assert keep(TREE, [1e308, 1.7e308, -1.7e308, 1e308], 1, share=0.1) == [TREE[1]]


def test_steps_and_kinds_may_be_any_values() -> None:
    nested = [(("x", [each[0]]), *each[1:]) for each in TREE]
    kept = keep(nested, SCORES, 2, share=2.0, cover=0.5, alike=lambda steps: [steps[-1]])
    assert kept == [nested[0], nested[1]]


def test_texts_share_their_first_lines() -> None:
    texts = ["a\nb\nc", "a\nb\nd", "e\nf\ng\nh", "z"]
    assert keep(texts, [1.0, 0.95, 1.05, 0.0], 2, share=0.8, cover=0.0) == texts[:2]
    assert keep(texts, [1.0, 0.95, 1.05, 0.0], 2) == [texts[2], texts[0]]


def test_prompts_share_the_beginning_that_they_have_in_common() -> None:
    with running(Scripted([])):
        trunk = PromptContext().grow("question").grow("thought")
        near = [trunk.copy().grow("left"), PromptContext().grow("question").grow("thought")]
        far = PromptContext().grow("other").grow("another").grow("thing").grow("far")
        low = PromptContext().grow("nothing")
        kept = keep([far, *near, low], [1.05, 1.0, 0.95, 0.0], 2, share=0.8, cover=0.0)
    assert all(one is other for one, other in zip(kept, near, strict=True))


@ppl
def scored() -> list[Any]:
    "Say"
    answers = [gen() for _ in range(3)]
    return keep(answers, [gen() for _ in answers], 2, share=0.1)


def test_answers_and_scores_may_still_be_on_their_way() -> None:
    with running(Scripted(["one", "two", "three", "1", "3", "2"])):
        assert [str(each) for each in scored()] == ["two", "three"]


def test_the_order_of_candidates_changes_nothing_but_ties() -> None:
    dice = random.Random(5)
    steps = [(*(dice.randrange(3) for _ in range(3)), place) for place in range(40)]
    scores = {each: dice.random() for each in steps}
    kept = keep(steps, [scores[each] for each in steps], 12, share=1.5)
    dice.shuffle(steps)
    assert keep(steps, [scores[each] for each in steps], 12, share=1.5) == kept


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scores": [1]}, "2 candidates have 1 scores"),
        ({"scores": [1, "high"]}, "scores are numbers"),
        ({"scores": [1, float("nan")]}, "no finite number"),
        ({"width": 0}, "at least 1"),
        ({"width": True}, "at least 1"),
        ({"share": -1}, "not negative"),
        ({"cover": float("inf")}, "not negative"),
        ({"share": 1, "candidates": [1, 2]}, r"keep\(path=...\)"),
        ({"share": 1, "alike": [[1.0]]}, "2 candidates have 1 vectors"),
        ({"share": 1, "alike": [[1.0], [1.0, 0.0]]}, "all of one length"),
        ({"share": 1, "alike": [[1.0], [float("nan")]]}, "finite numbers"),
        ({"share": 1, "alike": ["x", "y"]}, "vector of finite numbers"),
    ],
)
def test_what_cannot_be_meant_is_an_error(given: dict[str, Any], said: str) -> None:
    options: dict[str, Any] = {"candidates": ["a", "b"], "scores": [1, 2], "width": 1, **given}
    with pytest.raises(InvalidOption, match=said):
        keep(options.pop("candidates"), options.pop("scores"), options.pop("width"), **options)
