"""Coder and critic: one agent writes Python, the other judges the result of running it.

appl run examples/coder_critic.py --model openai/gpt-5-mini
appl run examples/coder_critic.py --model openai/gpt-5-mini --rounds 2

After CudaForge (arXiv 2511.01884), with Python instead of CUDA: the code runs in its own process,
which tests it and measures its time. The critic sees the measurement, and not the coder's opinion.
The measurement is recorded, so that a replay shows it again and runs nothing.

This example needs a model that writes code. The embedded one does not, and the example says so.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from appl import AIRole, Generation, SystemMessage, gen, observe, ppl

TASK = "Write a Python function solve(n) that returns the sum of the squares of 1 to n."
TESTS = {0: 0, 1: 1, 10: 385, 1000: 333833500}
FENCE = re.compile(r"```(?:python)?\n(.*?)```", re.DOTALL)
HARNESS = """
import json, sys, time
program, tests = json.load(sys.stdin)
space = {}
exec(compile(program, "answer.py", "exec"), space)
for n, wanted in tests:
    got = space["solve"](n)
    assert got == wanted, f"solve({n}) is {got!r} and not {wanted}"
began = time.perf_counter()
space["solve"](300_000)
print(time.perf_counter() - began)
"""


@dataclass
class Measured:
    """The result of running the code: its time, or its error."""

    seconds: float | None
    problem: str = ""

    def __str__(self) -> str:
        if self.seconds is None:
            return f"It failed: {self.problem}"
        return f"All tests pass; solve(300000) takes {1e3 * self.seconds:.2f} ms."


def run(code: str) -> list[str]:
    """Standard output and the last line of standard error of the code under its tests."""
    given = json.dumps([code, list(TESTS.items())])
    command = [sys.executable, "-I", "-c", HARNESS]
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=10)
    except subprocess.TimeoutExpired:
        return ["", "it did not end within 10 seconds"]
    return [done.stdout, (done.stderr.strip().splitlines() or [""])[-1]]


def measured(code: str) -> Measured:
    """The measurement of one run of the code, from the record in a replay."""
    out, problem = observe(run, code)
    return Measured(float(out)) if out else Measured(None, problem)


def code_of(answer: object) -> str:
    found = FENCE.findall(str(answer))
    return found[-1] if found else str(answer)


@ppl(ctx="resume")  # the coder remembers its programs and the critic's words
def coder(request: object) -> Generation:
    f"{request}"
    with AIRole():
        (answer := gen())
    return answer


@ppl
def critic(code: str, result: Measured) -> Generation:
    SystemMessage("You review Python code. Say in one sentence what to change, and nothing else.")
    TASK
    "The code:"
    f"{code}"
    f"{result}"
    return gen(max_tokens=60)


def main(rounds: int = 3) -> Iterator[str]:
    """A line for every program: the measurement and the criticism."""
    request: object = f"{TASK} Answer with the code only."
    best: Measured | None = None
    for number in range(1, rounds + 1):
        code = code_of(coder(request))
        if best is None and "def solve" not in code:
            yield "The model wrote no function: name one that writes code, with --model."
            return
        result = measured(code)
        if result.seconds is not None and (
            best is None or best.seconds is None or result.seconds < best.seconds
        ):
            best = result
        request = critic(code, result)
        yield f"program {number}: {result}"
        yield f"  critic: {request}"
    yield f"best: {best}" if best else "no program passed"


if __name__ == "__main__":
    print(*main(), sep="\n")
