"""Two prompts for one task, on the same cases: means with intervals, and the cases that changed.

appl run examples/evaluation.py
appl eval examples/evaluation.py:short examples/reviews.jsonl --score contains

Both prompts choose between two words. The difference is taken case by case, so that what makes a
review hard for both falls out. A second run of the same evaluation asks nothing.
"""

from pathlib import Path

from appl import evaluate, ppl, select

REVIEWS = Path(__file__).with_name("reviews.jsonl")


@ppl
def short(review: str) -> str:
    f"Review: {review} The mood is"
    return select(["good", "bad"])


@ppl
def careful(review: str) -> str:
    f"Somebody writes: {review}\nAre they happy (good) or not (bad)? They feel"
    return select(["good", "bad"])


def is_good(answer: str) -> bool:
    """How often the answer is "good": a prompt may favour one of the words."""
    return answer == "good"


def main() -> str:
    """The table of both prompts."""
    result = evaluate(short, REVIEWS, scores=["exact", is_good], against=careful)
    return "\n".join([result.title(), *result.table()])
