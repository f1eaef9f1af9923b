"""Self-consistency: ask the same question N times in parallel, and take the majority.

    appl run examples/self_consistency.py
    appl run examples/self_consistency.py --n 20 --problems 40 --temperature 0.7

Neither the numbers nor the phrasings of these problems were in the model's training data:

    python backends/training/generator.py --skill arithmetic --held-out --seed 2026 --number 40 \
        > examples/problems.jsonl
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appl import Generation, gen, ppl

PROBLEMS = Path(__file__).with_name("problems.jsonl")
ANSWER = re.compile(r"Answer: *(-?\d+)")


@dataclass
class Problem:
    question: str
    right: str


@ppl
def solve(question: str) -> Generation:
    f"{question}"
    return gen()


def final_answer(text: str) -> str:
    """The number on the last line that says `Answer:`, if there is one."""
    found = ANSWER.findall(text)
    return found[-1] if found else "none"


def shortened(text: str, width: int = 58) -> str:
    """The beginning of *text*, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def read(path: Path, number: int) -> list[Problem]:
    """The first *number* problems of the file."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()[:number]]
    return [Problem(_question(row["messages"]), str(row["check"]["value"])) for row in rows]


def _question(messages: list[list[str]]) -> str:
    return next(text for role, text in messages if role == "user")


def main(n: int = 10, problems: int = 30) -> Iterator[str]:
    """Ask each of *problems* questions *n* times, and compare one sample with the majority."""
    asked = read(PROBLEMS, problems)
    samples = [[solve(problem.question) for _ in range(n)] for problem in asked]
    alone = voted = 0.0
    for problem, answers in zip(asked, samples, strict=True):
        votes = Counter(final_answer(str(answer)) for answer in answers)
        winner, count = votes.most_common(1)[0]
        alone += votes[problem.right] / n
        voted += winner == problem.right
        mark = "right" if winner == problem.right else f"wrong, it is {problem.right}"
        yield f"{shortened(problem.question):60} {winner:>5}  {count} of {n}: {mark}"
    yield ""
    yield f"one sample is right in {alone / len(asked):.0%} of the cases"
    yield f"the vote of {n} is right in {voted / len(asked):.0%}"


if __name__ == "__main__":
    print(*main(), sep="\n")
