"""Evolution of programs: models change the best ones, and measurements decide which live on.

appl run examples/evolution.py
appl run examples/evolution.py --model openai/gpt-5-mini --task c --generations 5 --children 8
cd examples && appl run --backend evolution:scripted evolution.py

After robust-kbench (arXiv 2509.14279) and CUDA-LLM (arXiv 2506.09092): a population of programs;
each generation, the model is shown two parents with their measurements, and proposes children, all
at once. A verifier rejects children that are wrong, or right on the published examples only; the
quickest live on. Children that were seen before are not measured again. Tasks are those of
`coder_judge`: a function in Python or C, or a CUDA kernel (`--task cuda`).

The embedded model writes no code: all of its children are rejected, and the plain program is the
best one. `scripted` plays a model whose Python is wrong, lucky, slow and quick, and CUDA likewise.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from coder_judge import FIRST_KERNEL, SECOND as BEST, SECOND_KERNEL
from verifiers import CUDA_PLAIN, TASKS, Task, Verdict, program_in

from appl import Generation, gen, ppl
from appl.backend import Request
from appl.testing import Scripted

HINTS = (
    "Use another algorithm.",
    "Keep the idea of the first program and make it faster.",
    "Combine the ideas of both programs.",
    "Do less work for each value.",
)


@dataclass(frozen=True)
class Program:
    """A program that is right, and what was measured."""

    code: str
    verdict: Verdict

    @property
    def seconds(self) -> float:
        return self.verdict.seconds or 0.0


@ppl
def child(task: Task, parents: list[Program], hint: str, number: int) -> Generation:
    f"{task.text.strip()}"
    for place, parent in enumerate(parents, 1):
        f"Program {place}:"
        f"{parent.code.strip()}"
        f"{parent.verdict}"
    f"{hint} Answer with one program, and with the code only."
    return gen(max_tokens=1000, seed=number)


def parents_of(population: list[Program], dice: random.Random) -> list[Program]:
    """Two programs, quick ones more often, the quickest first."""
    picked = dice.choices(population, [2.0**-place for place in range(len(population))], k=2)
    return sorted(dict.fromkeys(picked), key=lambda program: program.seconds)


def main(
    task: Literal["python", "c", "cuda"] = "python",
    generations: int = 3,
    children: int = 4,
    survivors: int = 3,
) -> Iterator[str]:
    """A line for each generation, the reasons for rejections, and the best program."""
    chosen, dice = TASKS[task], random.Random(7)
    plain = chosen.verdict(chosen.plain, 0)
    if plain.seconds is None:
        yield f"The task {task!r} cannot be measured here: {plain.problem}"
        return
    yield f"the plain program: {plain}"
    population = [Program(chosen.plain, plain)]
    seen = {chosen.plain.strip()}
    for number in range(1, generations + 1):
        asked = [
            child(chosen, parents_of(population, dice), HINTS[place % len(HINTS)], place)
            for place in range(children)
        ]
        # All are written at once, and measured one after the other: clocks want a quiet machine.
        codes = dict.fromkeys(program_in(answer).strip() for answer in asked)
        fresh = [code for code in codes if code not in seen]
        seen.update(fresh)
        verdicts = [chosen.verdict(code, number) for code in fresh]
        born = [
            Program(code, verdict)
            for code, verdict in zip(fresh, verdicts, strict=True)
            if verdict.seconds is not None
        ]
        population = sorted([*population, *born], key=lambda each: each.seconds)[:survivors]
        yield f"generation {number}: {len(fresh)} new of {children}, {len(born)} right"
        yield from dict.fromkeys(f"  {each.problem}" for each in verdicts if each.seconds is None)
    best = population[0]
    yield f"best: {plain.seconds / best.seconds:.1f} times as fast as the plain program"
    yield best.code.strip()


LUCKY = """
def solve(values):
    return {(1, -2, 3, 4, -1): 7, (-5, -2): -2, (8,): 8}.get(tuple(values), 0)
"""
WRONG = """
def solve(values):
    return sum(value for value in values if value > 0)
"""
BETTER = """
def solve(values):
    best = values[0]
    for first in range(len(values)):
        total = 0
        for value in values[first:]:
            total += value
            if total > best:
                best = total
    return best
"""


def scripted(**_: object) -> Scripted:
    """A script in place of a model: the quickest program comes only after its parent."""

    def answer(request: Request) -> str:
        said = next(iter(request.messages or ())).content
        if "CUDA" in said:
            children = ["none", FIRST_KERNEL, SECOND_KERNEL, CUDA_PLAIN]
        else:
            children = [BEST if "if total > best" in said else LUCKY, WRONG, BETTER, "none"]
        return f"```\n{children[(request.sampling.seed or 0) % 4]}```"

    return Scripted(answer)


if __name__ == "__main__":
    print(*main(), sep="\n")
