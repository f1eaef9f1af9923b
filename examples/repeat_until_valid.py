"""Repeat until valid: several topics at once, each asked again until its answer passes the checks.

appl run examples/repeat_until_valid.py
appl run examples/repeat_until_valid.py --points 5 --tries 12

The prompt says what is wrong, so that the next answer can do better. The loops of the topics run in
parallel, although each waits for its own answers.
"""

import re
from collections.abc import Iterator

from appl import AIRole, Generation, gen, ppl

TOPICS = ["gardens", "night trains", "elephants", "school uniforms", "bread", "old maps"]
HEADING = re.compile(r"^\d+\. *(.+)$", re.MULTILINE)


def wrong_with(text: str, topic: str, points: int) -> str | None:
    """The fault of an outline, in a sentence; nothing if it is good."""
    headings = HEADING.findall(text)
    if len(headings) != points:
        return f"There are {len(headings)} points and not {points}."
    twice = next((each for each in headings if headings.count(each) > 1), None)
    if twice is not None:
        return f"The point {twice!r} is there twice."
    without = next((each for each in headings if topic.lower() not in each.lower()), None)
    if without is not None:
        return f"The point {without!r} does not name {topic}."
    long = next((each for each in headings if len(each.split()) > 6), None)
    return f"The point {long!r} is longer than six words." if long else None


@ppl(parallel=True)  # a call starts at once, also while the loop of another one waits
def outline(topic: str, points: int, tries: int) -> tuple[Generation | None, list[str]]:
    """The outline, or nothing, and the fault of each answer before it."""
    wrong: list[str] = []
    for _ in range(tries):
        if wrong:
            f"{wrong[-1]} Write it again."
        f"Write an outline about {topic} with {points} points."
        with AIRole():
            (text := gen())
        found = wrong_with(str(text), topic, points)
        if found is None:
            return text, wrong
        wrong.append(found)
    return None, wrong


@ppl
def all_of_them(points: int, tries: int) -> list[tuple[Generation | None, list[str]]]:
    return [outline(topic, points, tries) for topic in TOPICS]


def main(points: int = 4, tries: int = 8) -> Iterator[str]:
    """Each topic with its outline and the number of tries."""
    for topic, (text, wrong) in zip(TOPICS, all_of_them(points, tries), strict=True):
        yield f"{topic}, try {len(wrong) + (text is not None)}:"
        for each in wrong:
            yield f"  not valid: {each}"
        yield f"{text}" if text is not None else "  given up"


if __name__ == "__main__":
    print(*main(), sep="\n")
