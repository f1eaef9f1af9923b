"""Skeleton of thought: write an outline first, then expand all of its points at once.

appl run examples/skeleton_of_thought.py
appl run examples/skeleton_of_thought.py --topic "night trains" --points 5

After Ning et al., "Skeleton-of-Thought" (arXiv 2307.15337): the answer is as long as one that is
written in one piece, but takes only the time of the outline and of its longest point.
"""

import re
from collections.abc import Iterator

from appl import AIRole, Generation, gen, ppl

POINT = re.compile(r"^\d+\. *(.+)$", re.MULTILINE)


@ppl(ctx="copy")  # every point sees the outline, and not the other points
def expand(number: int) -> Generation:
    f"Expand point {number} of this outline in two sentences."
    return gen(temperature=0)


@ppl
def article(topic: str, points: int) -> tuple[list[str], list[Generation]]:
    f"Write an outline about {topic} with {points} points."
    with AIRole():
        (outline := gen(seed=1))
    headings = POINT.findall(str(outline))
    return headings, [expand(number) for number, _ in enumerate(headings, 1)]


def main(topic: str = "gardens", points: int = 4) -> Iterator[str]:
    """The headings, each with its paragraph; all paragraphs are written in parallel."""
    headings, paragraphs = article(topic, points)
    for number, (heading, paragraph) in enumerate(zip(headings, paragraphs, strict=True), 1):
        yield f"{number}. {heading}"
        yield f"   {paragraph}"


if __name__ == "__main__":
    print(*main(), sep="\n")
