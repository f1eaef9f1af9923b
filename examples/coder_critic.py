"""Coder and critic: one agent writes Python, the other judges the result of running it.

appl run examples/coder_critic.py --model openai/gpt-5-mini
appl run examples/coder_critic.py --model openai/gpt-5-mini --rounds 2

After CudaForge (arXiv 2511.01884), with Python instead of CUDA: the code runs in a sandbox without
network and files of yours, where it is tested and its time measured. The critic sees the
measurement, and not the coder's opinion. The measurement is recorded, so that a replay shows it
again and runs nothing.

This example needs a model that writes code. The embedded one does not, and the example says so.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from appl import AIRole, Generation, SandboxLimits, SystemMessage, gen, ppl, run_code

TASK = "Write a Python function solve(n) that returns the sum of the squares of 1 to n."
TESTS = {0: 0, 1: 1, 10: 385, 1000: 333833500}
FENCE = re.compile(r"```(?:python)?\n(.*?)```", re.DOTALL)
HARNESS = """
import json, sys, time
from answer import solve
for n, wanted in json.load(sys.stdin):
    got = solve(n)
    assert got == wanted, f"solve({n}) is {got!r} and not {wanted}"
began = time.perf_counter()
solve(300_000)
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


def measured(code: str) -> Measured:
    """The measurement of one run of the code, from the record in a replay."""
    done = run_code(
        HARNESS,
        files={"answer.py": code},
        stdin=json.dumps(list(TESTS.items())),
        limits=SandboxLimits(seconds=10, memory_mb=512),
    )
    if done.ended == "seconds":
        return Measured(None, "it did not end within 10 seconds")
    last = (done.stdout if done.ok else done.stderr).strip().splitlines()[-1:]
    try:
        return Measured(float(last[0])) if done.ok else Measured(None, *last)
    except (IndexError, ValueError):
        return Measured(None, "it ended the program that tests it")


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
