"""Four real tasks by appl and by its peers, against one scripted server: lines, CPU, results.

    python -m venv benchmarks/peers/.venv
    benchmarks/peers/.venv/bin/pip install "pydantic-ai-slim[openai]" pydantic-evals numpy \
        langchain langchain-openai langgraph langgraph-checkpoint-sqlite
    python benchmarks/peers/compare.py --python benchmarks/peers/.venv/bin/python [--out FILE]

Each program runs in a process of its own, in an empty folder, in turn with the others; that which
waits for a person ends, and goes on in another process once it has the answer. CPU is that
of these processes, user and system, without the server's; the median of the runs is shown. Both are
formatted by ruff; blank lines do not count. `appl` records its runs, as it does by default.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
TASKS = {
    "extraction": ("1,000 typed records, 20 of which fail", "pydantic_ai_"),
    "retrieval": ("200 questions with checked citations from 1,000 passages", "pydantic_ai_"),
    "approval": ("a support agent that ends until a person has agreed", "langgraph_"),
    "evaluation": ("two prompts on 200 cases", "pydantic_evals_"),
}


_WAITS = 75
"""The exit code of a run that waits for a person."""


def lines(path: Path) -> int:
    """The lines of a program that are not blank."""
    return sum(1 for line in path.read_text("utf-8").splitlines() if line.strip())


def run(path: Path, python: str) -> tuple[float, float, str, int]:
    """CPU and wall seconds of a program, what it prints, and how often it asks the server."""
    words = [sys.executable, str(HERE / "server.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(words, **pipes)  # type: ignore[call-overload]
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(HERE),
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "sk-none",
        "APPL_MODEL": "openai/m",
    }
    ours = path.name == "appl_.py"
    commands = [[python, str(path)]]
    if ours:
        commands = [[sys.executable, "-m", "appl", "run", f"{path}:main"]]
    if path.parent.name == "approval":
        appl = [sys.executable, "-m", "appl", "trace"]
        answer = [[*appl, "answer", "last", "refund.0=yes"], [*appl, "resume", "last"]]
        commands += answer if ours else [[python, str(path), "yes"]]
    with tempfile.TemporaryDirectory() as folder:
        environment["HOME"] = folder
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        for command in commands:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode not in ((0,) if command is commands[-1] else (0, _WAITS)):
                raise SystemExit(f"{path}: {done.stderr}")
        wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    asked, _ = server.communicate("")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu, wall, done.stdout, sum(json.loads(asked).values())


def summary(task: str, said: str) -> str:
    """What a program found, in a form that does not depend on who shows it."""
    if task != "evaluation":
        return said.strip().splitlines()[-1]
    shown = re.sub(r"\x1b\[[0-9;]*m", "", said)
    found = re.search(r"exact\s+(0\.\d+)", shown) or re.search(r"→\s*([\d.]+)% ✔", shown)
    rate = float(found[1]) if found else -1.0
    return f"{rate if rate <= 1 else rate / 100:.3f} of the answers are right"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one with the peers")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.python = str(Path(given.python).absolute())  # the programs run in other folders
    subprocess.run([sys.executable, "-m", "ruff", "format", "--check", "-q", HERE], check=True)
    asks = "import importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in"
    names = "('pydantic-ai-slim', 'pydantic-evals', 'openai', 'langgraph', 'langchain')), sep=', ')"
    versions = subprocess.run(
        [given.python, "-c", f"{asks} {names}"], capture_output=True, text=True
    )
    out = [f"$ python {' '.join(sys.argv)}", f"{versions.stdout.strip()}; {given.runs} runs each"]
    for task in given.tasks.split(","):
        about, peer = TASKS[task]
        paths = [HERE / task / "appl_.py", HERE / task / f"{peer}.py"]
        runs = [[run(path, given.python) for path in paths] for _ in range(given.runs)]
        out.append(f"{task}: {about}")
        medians = []
        for at, path in enumerate(paths):
            cpu, wall = (statistics.median(each[at][n] for each in runs) for n in (0, 1))
            medians.append((lines(path), cpu))
            found = {summary(task, each[at][2]) for each in runs}
            asked = {each[at][3] for each in runs}
            out.append(
                f"  {path.stem:<16} {lines(path):>3} lines  {cpu:>5.2f} s CPU  {wall:>5.2f} s wall"
                f"  {'/'.join(map(str, sorted(asked)))} requests  {' | '.join(sorted(found))}"
            )
        (own_lines, own_cpu), (their_lines, their_cpu) = medians
        out.append(f"  lines {own_lines} to {their_lines}, CPU {own_cpu / their_cpu:.2f} of theirs")
    text = "\n".join(out) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
