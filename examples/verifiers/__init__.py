"""Tasks for models that write programs, each with a verifier: tests, a clock and a profiler.

A verifier believes nothing that a program says of itself. Each verdict uses inputs that no model
has seen, so that a program that knows the published answers by heart is told from one that is
right; the answers of the timed calls are checked too, so that a program that stops working when it
is timed gains nothing. The clock runs in the program's own process: a program written to deceive
it could.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from appl import SandboxLimits, observe, run_code

FENCE = re.compile(r"```[\w+]*[ \t\r]*\n(.*?)```", re.DOTALL)
SHELL = "/bin/sh"
MOST_OUTPUT = 4 << 20
"""The most bytes that a program may write into a file or to its output."""


class Ended(NamedTuple):
    """The end of a process: its exit code (``None``: it took too long), output and errors."""

    code: int | None
    out: str
    err: str

    @property
    def last_error(self) -> str:
        """The last line of its errors, or what else is known."""
        lines = self.err.strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.code} and without a word"


def run_limited(
    command: Sequence[str], text: str, folder: Path, seconds: float, memory_mb: int | None = None
) -> Ended:
    """Run *command* in *folder* with *text* as its input, and end it when a limit is reached.

    *seconds* limit its time, *memory_mb* its address space; its files stay below 4 MiB. It has no
    variables of the environment but ``PATH``. It may read files and use the network: run programs
    of strangers in a container, or replace this function by one that does.
    """
    limits = f"ulimit -t {int(seconds) + 1}; ulimit -f {MOST_OUTPUT // 512}"
    if memory_mb is not None:
        limits += f"; ulimit -v {memory_mb << 10}"
    words = [*command]
    if Path(SHELL).exists():
        words = [SHELL, "-c", f'{limits}; exec "$@"', SHELL, *command]
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "TMPDIR": str(folder)}
    late = False
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as err:
        process = subprocess.Popen(
            words, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate(text.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            late = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(MOST_OUTPUT).decode(errors="replace"))
    if late:
        return Ended(None, "", f"it did not end within {seconds:g} seconds")
    return Ended(process.returncode, *texts)


@dataclass(frozen=True)
class Verdict:
    """What a verifier found: the time of a right program, or the reason for its rejection.

    ``profile`` is what the profiler or the compiler says of it.
    """

    seconds: float | None
    problem: str = ""
    profile: str = ""

    def __str__(self) -> str:
        if self.seconds is None:
            return f"It was rejected: {self.problem}"
        return f"All tests pass in {1e3 * self.seconds:.3g} ms. {self.profile}".rstrip()


@dataclass(frozen=True)
class Task:
    """A task for a model, with a plain program that is right and slow, and the verifier.

    ``verify`` takes a program and a seed for the inputs; it returns the fields of a ``Verdict``, as
    data that a record can hold.
    """

    text: str
    plain: str
    marker: str
    """What each program for it contains; an answer without it is none."""
    verify: Callable[[str, int], list[Any]]

    def verdict(self, code: str, seed: int) -> Verdict:
        """The verdict on *code*, from the record in a replay."""
        seconds, problem, profile = observe(self.verify, code, seed)
        return Verdict(seconds, problem, profile)


def program_in(answer: object) -> str:
    """The program in a model's answer: its last block of code, or all of it."""
    found = FENCE.findall(str(answer))
    return found[-1] if found else str(answer)


# -- the largest sum of neighbours, in Python and in C

Cases = tuple[list[list[int]], list[list[int]]]
TEXT = """
Write {language} that returns the largest sum of neighbours among the values: of one or more of
them that stand side by side. For 1 -2 3 4 -1 it is 7, for -5 -2 it is -2, for 8 it is 8.
"""
PUBLISHED = [[1, -2, 3, 4, -1], [-5, -2], [8]]
SIZE = 800


def largest_sum(values: Sequence[int]) -> int:
    """The right answer."""
    best = here = values[0]
    for value in values[1:]:
        here = max(value, here + value)
        best = max(best, here)
    return best


def cases(seed: int) -> Cases:
    """Inputs to test with, the published ones first, and inputs to measure with: half, and all."""
    dice = random.Random(f"sums/{seed}")
    tests = [[dice.randint(-99, 99) for _ in range(dice.randint(1, 40))] for _ in range(20)]
    tests += [[dice.randint(-99, -1) for _ in range(dice.randint(1, 9))] for _ in range(3)]
    sizes = [SIZE // 2] * 3 + [SIZE] * 3
    return PUBLISHED + tests, [[dice.randint(-99, 99) for _ in range(size)] for size in sizes]


def checked(given: Cases, ended: Ended) -> list[Any]:
    """The verdict on answers and times that a program's process has printed."""
    tests, timed = given
    if ended.code != 0:
        return [None, ended.last_error, ""]
    try:
        answers, times, profile = json.loads(ended.out)
        asked = [*zip(tests + timed, answers, strict=True)]
        half, full = min(map(float, times[:3])), min(map(float, times[3:]))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return [None, f"it printed what no answer is: {ended.out!r:.60}", ""]
    for place, (values, answer) in enumerate(asked):
        if (wanted := largest_sum(values)) != answer:
            said = f"for {' '.join(map(str, values[:12]))}{' …' * (len(values) > 12)} it says "
            lucky = "" if place < len(PUBLISHED) else "the published examples pass by luck: "
            return [None, f"{lucky}{said}{answer!r:.20}, which is {wanted}", ""]
    growth = f"Twice the values take {full / max(half, 1e-9):.1f} times as long."
    return [full, "", f"{growth} {profile}".rstrip()]


PYTHON_HARNESS = """
import cProfile, json, sys, time
program, tests, timed = json.load(sys.stdin)
out, sys.stdout, clock = sys.stdout, sys.stderr, time.perf_counter
space, answers, times = {}, [], []
exec(compile(program, "program.py", "exec"), space)
solve = space["solve"]
for values in tests:
    answers.append(solve(list(values)))
for values in timed:
    own = list(values)
    began = clock()
    answers.append(solve(own))
    times.append(clock() - began)
profile = cProfile.Profile()
profile.runcall(solve, list(timed[-1]))
rows = [row for row in profile.getstats() if "disable" not in str(row.code)]
rows = sorted(rows, key=lambda row: -row.inlinetime)[:3]
names = [getattr(row.code, "co_name", row.code) for row in rows]
words = [
    f"{name}: {row.callcount} calls, {1e3 * row.inlinetime:.2f} ms"
    for name, row in zip(names, rows)
]
json.dump([answers, times, "Profile: " + "; ".join(words) + "."], out)
"""
PYTHON_PLAIN = """
def solve(values):
    best = values[0]
    for first in range(len(values)):
        total = 0
        for value in values[first:]:
            total += value
            best = max(best, total)
    return best
"""


def verify_python(code: str, seed: int) -> list[Any]:
    """The verdict on ``solve(values)`` in Python."""
    given = cases(seed)
    limits = SandboxLimits(seconds=10, memory_mb=2048)
    ran = run_code(PYTHON_HARNESS, stdin=json.dumps([code, *given]), limits=limits)
    ends = {"seconds": f"it did not end within {limits.seconds:g} seconds"}
    ends["output"] = f"it wrote more than {limits.output_kb} KiB"
    return checked(given, Ended(ran.exit_code, ran.stdout, ends.get(ran.ended, ran.stderr)))


C_HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
long solve(const int *values, int count);
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + 1e-9 * at.tv_nsec;
}
int main(void) {
    int inputs, tests;
    if (scanf("%d %d", &inputs, &tests) != 2) return 2;
    double times[64];
    printf("[[");
    for (int at = 0; at < inputs; at++) {
        int count;
        if (scanf("%d", &count) != 1) return 2;
        int *values = malloc(count * sizeof(int));
        for (int k = 0; k < count; k++)
            if (scanf("%d", values + k) != 1) return 2;
        double began = now();
        long answer = solve(values, count);
        double took = now() - began;
        if (at >= tests) times[at - tests] = took;
        printf("%s%ld", at ? "," : "", answer);
    }
    printf("],[");
    for (int k = 0; k < inputs - tests; k++) printf("%s%.9f", k ? "," : "", times[k]);
    printf("],\"\"]");
    return 0;
}
"""
C_PLAIN = """
long solve(const int *values, int count) {
    long best = values[0];
    for (int first = 0; first < count; first++) {
        long total = 0;
        for (int last = first; last < count; last++) {
            total += values[last];
            if (total > best) best = total;
        }
    }
    return best;
}
"""


def verify_c(code: str, seed: int) -> list[Any]:
    """The verdict on ``long solve(const int *values, int count)`` in C."""
    given = cases(seed)
    tests, timed = given
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"harness.c": C_HARNESS, "program.c": code}
        built = compiled(["cc", "-O2", "-Wall", "-o", "program", *files], files, folder)
        if built.code != 0:
            return [None, first_error(built), ""]
        numbers = [len(tests) + len(timed), len(tests)]
        for values in tests + timed:
            numbers += [len(values), *values]
        text = " ".join(map(str, numbers))
        seconds, problem, profile = checked(
            given, run_limited(["./program"], text, folder, 10, 512)
        )
    warned = [line for line in built.err.splitlines() if "warning:" in line]
    return [seconds, problem, " ".join([str(profile), *warned[:3]]).strip()]


def compiled(command: list[str], files: Mapping[str, str], folder: Path) -> Ended:
    """The end of the compiler *command* on *files*, which are written into *folder*."""
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8", "replace")
    compiler = shutil.which(command[0])
    if compiler is None:
        return Ended(127, "", f"error: {command[0]} is not on the PATH; install that compiler")
    return run_limited([compiler, *command[1:]], "", folder, 120)


def first_error(ended: Ended) -> str:
    """The compiler's first error."""
    errors = [line for line in ended.err.splitlines() if "error" in line]
    return errors[0].partition("error")[2].lstrip(": ") if errors else ended.last_error


# -- a kernel in CUDA

CUDA_HARNESS = r"""
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
void solve(const float *x, float *y, int rows, int columns);
__global__ void fill(float *x, long count, unsigned seed) {
    for (long k = blockIdx.x * (long)blockDim.x + threadIdx.x; k < count;
         k += (long)gridDim.x * blockDim.x) {
        unsigned h = (unsigned)k * 2654435761u ^ seed * 2246822519u;
        h ^= h >> 15; h *= 2246822519u; h ^= h >> 13; h *= 3266489917u; h ^= h >> 16;
        x[k] = (h >> 8) * (16.0f / 16777216.0f) - 8.0f;
    }
}
__global__ void compare(const float *x, const float *y, int rows, int columns, int *wrong) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float *in = x + (long)row * columns, *out = y + (long)row * columns;
    double most = -1e30, sum = 0;
    for (int k = 0; k < columns; k++) most = in[k] > most ? in[k] : most;
    for (int k = 0; k < columns; k++) sum += exp(in[k] - most);
    for (int k = 0; k < columns; k++) {
        double wanted = exp(in[k] - most) / sum;
        if (!(fabs(out[k] - wanted) <= 1e-7 + 1e-3 * wanted)) { atomicMin(wrong, row); return; }
    }
}
static void stop(const char *words) { printf("{\"problem\": \"%s\"}", words); exit(0); }
static void check(cudaError_t error) { if (error != cudaSuccess) stop(cudaGetErrorString(error)); }
int main(int, char **words) {
    const int shapes[][2] = {{1, 1}, {7, 33}, {64, 1000}, {3, 4097}, {129, 2048},
                             {4096, 4096}, {4096, 4096}, {4096, 4096}, {4096, 4096}};
    const int count = sizeof(shapes) / sizeof(shapes[0]), warm = count - 3;
    float *x, *y, best = 1e30f;
    int *wrong, found;
    check(cudaMalloc(&x, 4096l * 4096 * sizeof(float)));
    check(cudaMalloc(&y, 4096l * 4096 * sizeof(float)));
    check(cudaMalloc(&wrong, sizeof(int)));
    cudaEvent_t began, ended;
    check(cudaEventCreate(&began));
    check(cudaEventCreate(&ended));
    for (int at = 0; at < count; at++) {
        int rows = shapes[at][0], columns = shapes[at][1];
        fill<<<1024, 256>>>(x, (long)rows * columns, atoi(words[1]) * 64 + at);
        check(cudaMemset(y, 255, (long)rows * columns * sizeof(float)));
        check(cudaMemset(wrong, 127, sizeof(int)));
        check(cudaDeviceSynchronize());
        check(cudaEventRecord(began));
        solve(x, y, rows, columns);
        check(cudaGetLastError());
        check(cudaEventRecord(ended));
        check(cudaDeviceSynchronize());
        float took;
        check(cudaEventElapsedTime(&took, began, ended));
        if (at >= warm && took < best) best = took;
        compare<<<(rows + 63) / 64, 64>>>(x, y, rows, columns, wrong);
        check(cudaMemcpy(&found, wrong, sizeof(int), cudaMemcpyDeviceToHost));
        if (found < rows) {
            char text[99];
            snprintf(text, sizeof text, "of %d x %d values, row %d is wrong", rows, columns,
                     found);
            stop(text);
        }
    }
    printf("{\"problem\": \"\", \"ms\": %.6f, \"gb\": %.3f}", best, 2 * 4096e0 * 4096 * 4 / 1e9);
    return 0;
}
"""
CUDA_PLAIN = """
__global__ void softmax(const float *x, float *y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float *in = x + (long)row * columns;
    float *out = y + (long)row * columns;
    float most = in[0], sum = 0;
    for (int k = 1; k < columns; k++) most = fmaxf(most, in[k]);
    for (int k = 0; k < columns; k++) sum += expf(in[k] - most);
    for (int k = 0; k < columns; k++) out[k] = expf(in[k] - most) / sum;
}
void solve(const float *x, float *y, int rows, int columns) {
    softmax<<<(rows + 63) / 64, 64>>>(x, y, rows, columns);
}
"""


def verify_cuda(code: str, seed: int) -> list[Any]:
    """The verdict on ``void solve(const float *x, float *y, int rows, int columns)`` in CUDA."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {"harness.cu": CUDA_HARNESS, "program.cu": code}
        flags = ["-O3", "-arch=native", "-Xptxas", "-v", "-o", "program"]
        built = compiled(["nvcc", *flags, *files], files, folder)
        if built.code != 0:
            return [None, first_error(built), ""]
        ended = run_limited(["./program", str(seed % 10_000)], "", folder, 60)
    if ended.code != 0:
        return [None, ended.last_error, ""]
    try:
        told = json.loads(ended.out)
        if told["problem"]:
            return [None, told["problem"], ""]
        took, moved = told["ms"] / 1e3, told["gb"]
    except (ValueError, KeyError, TypeError):
        return [None, f"it printed what no verdict is: {ended.out!r:.60}", ""]
    words = f"{moved / took:.0f} GB/s of the memory. {registers(built.out + built.err)}"
    return [took, "", words.rstrip()]


def registers(words: str) -> str:
    """What the assembler says of the program's own kernels: registers, spills, shared memory."""
    parts = words.split("Compiling entry function")[1:]
    own = [part for part in parts if not re.search(r"'_Z\d+(fill|compare)P", part)]
    found = [line for part in own for line in re.findall(r"Used .*|\d+ bytes stack.*", part)]
    return " ".join(f"{line.strip()}." for line in found)


TASKS = {
    "python": Task(
        TEXT.format(language="a Python function solve(values)"), PYTHON_PLAIN, "def solve",
        verify_python,
    ),
    "c": Task(
        TEXT.format(language="a C function `long solve(const int *values, int count)`"), C_PLAIN,
        "solve(", verify_c,
    ),
    "cuda": Task(
        "Write CUDA: a function `void solve(const float *x, float *y, int rows, int columns)` that "
        "launches your kernels and writes the softmax of each row of x to y. Both lie in the GPU's "
        "memory, row by row; all sizes from 1 on are possible, and 4096 x 4096 is measured.",
        CUDA_PLAIN, "solve(", verify_cuda,
    ),
}  # fmt: skip
"""The tasks by name."""
