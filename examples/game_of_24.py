"""Tree of thoughts on the Game of 24: use four numbers once each to reach 24.

appl run examples/game_of_24.py
appl run examples/game_of_24.py --numbers "4 9 10 13" --model openai/gpt-5

After Yao et al., "Tree of Thoughts" (arXiv 2305.10601): thoughts are single steps, a model says of
each state whether 24 can still be reached, and the best states are kept. All states of a level are
judged at once, and share the beginning of their prompts.

The embedded model does not know the game. With the easy numbers that are the default, the search
reaches 24 anyway. Harder numbers need a large instruction-tuned model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

from appl import Generation, ppl, select

RULES = """
Can these numbers reach 24? Each number is used once, with + - * and /.
10 14: 10 + 14 = 24. sure
4 4 10: (10 - 4) * 4 = 24. sure
11 11: 11 + 11 = 22, 11 * 11 = 121. impossible
1 3 3: 1 * 3 * 3 = 9. impossible
"""
WORDS = ["sure", "likely", "impossible"]
WORTH = {"sure": 20.0, "likely": 1.0, "impossible": 0.0}


@dataclass(frozen=True)
class State:
    """The numbers that are left, and the steps so far."""

    left: tuple[Fraction, ...]
    steps: tuple[str, ...] = ()

    @property
    def solved(self) -> bool:
        return self.left == (Fraction(24),)

    def next(self) -> Iterator["State"]:
        """Every state that is one step away."""
        for i, j in permutations(range(len(self.left)), 2):
            a, b = self.left[i], self.left[j]
            rest = [each for k, each in enumerate(self.left) if k not in (i, j)]
            results = {"-": a - b} | ({"+": a + b, "*": a * b} if i < j else {})
            if b:
                results["/"] = a / b
            for sign, value in results.items():
                yield State(
                    tuple(sorted([*rest, value])), (*self.steps, f"{a} {sign} {b} = {value}")
                )

    def __str__(self) -> str:
        return " ".join(map(str, self.left))


@ppl
def judge(state: State) -> Generation:
    f"{RULES.strip()}"
    f"{state}:"
    return select(WORDS)


def worth(state: State, verdict: object) -> float:
    """The model's rating of a state; a solved state gets the highest one without a model."""
    return 1000.0 if state.solved else WORTH[str(verdict)]


def search(numbers: list[int], beam: int) -> Iterator[tuple[int, list[State]]]:
    """The best states of each level."""
    kept = [State(tuple(sorted(map(Fraction, numbers))))]
    for _ in range(len(numbers) - 1):
        found = list({state.left: state for each in kept for state in each.next()}.values())
        verdicts = [judge(state) for state in found]
        ranked = sorted(zip(found, verdicts, strict=True), key=lambda pair: -worth(*pair))
        kept = [state for state, _ in ranked[:beam]]
        yield len(found), kept


def main(numbers: str = "1 1 4 6", beam: int = 5) -> Iterator[str]:
    """The best states of each level, and whether they led to 24."""
    kept: list[State] = []
    for level, (count, kept) in enumerate(search([int(n) for n in numbers.split()], beam), 1):
        yield f"step {level}: {count} states judged, kept {', '.join(f'({each})' for each in kept)}"
    solved = next((state for state in kept if state.solved), None)
    if solved is None:
        yield "24 was not reached; a larger model keeps better states (--model)"
    else:
        yield "; ".join(solved.steps)


if __name__ == "__main__":
    print(*main(), sep="\n")
