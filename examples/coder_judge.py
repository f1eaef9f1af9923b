"""Coder and judge: one model writes a program, another says what to change, from measurements.

appl run examples/coder_judge.py --model openai/gpt-5-mini
appl run examples/coder_judge.py --coder openai/gpt-5 --judge openai/gpt-5-mini --task c
cd examples && appl run --backend coder_judge:scripted coder_judge.py

After CudaForge (arXiv 2511.01884): a coder and a judge, two models that share no conversation, for
at most ten rounds. The judge reads what the verifier and the profiler say, never the coder's
opinion: of a rejected program it says what to correct, of a right one what to make faster. The
task is a function in Python or C, or, where nvcc and a GPU are there, a CUDA kernel
(`--task cuda`). Measurements are recorded: a replay shows them again, and runs nothing.

This example needs a model that writes code. The embedded one does not, and the example says so;
`scripted` plays one for Python and CUDA.
"""

from collections.abc import Iterator
from typing import Literal

from verifiers import TASKS, Task, Verdict, program_in

from appl import AIRole, Generation, SystemMessage, gen, ppl
from appl.backend import Request
from appl.testing import Scripted

MOST_ROUNDS = 10
DONE = "Nothing to change."
MANY = "A block has at most 1024 threads: let each take several columns of its row."


@ppl(ctx="resume")  # the coder remembers its programs and the judge's words
def write(model: str, request: object) -> Generation:
    f"{request}"
    with AIRole():
        (answer := gen(model))
    return answer


@ppl
def review(model: str, task: Task, code: str, verdict: Verdict) -> Generation:
    SystemMessage(
        "You judge a program by what was measured. Name the one change that matters most, in one "
        f"sentence. If it is right and cannot be made faster, say: {DONE}"
    )
    f"The task: {task.text.strip()}"
    "The program:"
    f"{code}"
    f"{verdict}"
    if verdict.seconds is None:
        "What must be corrected?"
    else:
        "What limits its speed, and what should be changed?"
    return gen(model, max_tokens=100)


def main(
    task: Literal["python", "c", "cuda"] = "python",
    rounds: int = MOST_ROUNDS,
    coder: str = "large",
    judge: str = "small",
) -> Iterator[str]:
    """A line for every program and every judgement, and the best program at the end."""
    chosen = TASKS[task]
    plain = best = chosen.verdict(chosen.plain, 0)
    if plain.seconds is None:
        yield f"The task {task!r} cannot be measured here: {plain.problem}"
        return
    yield f"the plain program: {plain}"
    request: object = (
        f"{chosen.text.strip()} Answer with the code only. Begin with this one, which is slow:\n"
        f"{chosen.plain}"
    )
    for number in range(1, min(rounds, MOST_ROUNDS) + 1):
        code = program_in(write(coder, request))
        if number == 1 and chosen.marker not in code:
            yield "The model wrote no function: name one that writes code, with --model."
            return
        verdict = chosen.verdict(code, number)
        if verdict.seconds is not None and verdict.seconds < (best.seconds or 0.0):
            best = verdict
        yield f"program {number}: {verdict}"
        request = review(judge, chosen, code, verdict)
        yield f"  judge: {request}"
        if verdict.seconds is not None and str(request).strip() == DONE:
            break
    assert best.seconds is not None
    yield f"best: {plain.seconds / best.seconds:.1f} times as fast as the plain program. {best}"


FIRST = """
def solve(values):
    best = 0
    total = 0
    for value in values:
        total = max(0, total + value)
        best = max(best, total)
    return best
"""
SECOND = """
def solve(values):
    best = total = values[0]
    for value in values[1:]:
        total = value if total < 0 else total + value
        if total > best:
            best = total
    return best
"""
FIRST_KERNEL = """
__global__ void softmax(const float *x, float *y, int columns) {
    extern __shared__ float part[];
    const long at = (long)blockIdx.x * columns + threadIdx.x;
    part[threadIdx.x] = expf(x[at]);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < columns; k++) sum += part[k];
    y[at] = part[threadIdx.x] / sum;
}
void solve(const float *x, float *y, int rows, int columns) {
    softmax<<<rows, columns, columns * sizeof(float)>>>(x, y, columns);
}
"""
SECOND_KERNEL = """
__device__ float combined(float value, float *part, bool largest) {
    part[threadIdx.x] = value;
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            float other = part[threadIdx.x + half];
            float mine = part[threadIdx.x];
            part[threadIdx.x] = largest ? fmaxf(mine, other) : mine + other;
        }
    }
    __syncthreads();
    float found = part[0];
    __syncthreads();
    return found;
}
__global__ void softmax(const float *x, float *y, int columns) {
    __shared__ float part[256];
    const float *in = x + (long)blockIdx.x * columns;
    float *out = y + (long)blockIdx.x * columns;
    float most = -INFINITY, sum = 0;
    for (int k = threadIdx.x; k < columns; k += 256) most = fmaxf(most, in[k]);
    most = combined(most, part, true);
    for (int k = threadIdx.x; k < columns; k += 256) sum += expf(in[k] - most);
    sum = combined(sum, part, false);
    for (int k = threadIdx.x; k < columns; k += 256) out[k] = expf(in[k] - most) / sum;
}
void solve(const float *x, float *y, int rows, int columns) {
    softmax<<<rows, 256>>>(x, y, columns);
}
"""


def scripted(**_: object) -> Scripted:
    """A script in place of both models: a wrong program, a right one, and what a judge says."""

    def answer(request: Request) -> str:
        said = [message.content for message in request.messages or ()]
        if "judge" in said[0]:
            if "rejected" in said[-1]:
                return "All values may be negative." if "def " in said[-1] else MANY
            return DONE
        kernel = "CUDA" in said[0]
        first, second = (FIRST_KERNEL, SECOND_KERNEL) if kernel else (FIRST, SECOND)
        return f"```\n{(first if len(said) == 1 else second).strip()}\n```"

    return Scripted(answer)


if __name__ == "__main__":
    print(*main(), sep="\n")
