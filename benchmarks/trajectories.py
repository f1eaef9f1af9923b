"""Do the trajectories of a tree of branches equal what an SGLang server had, by the server's log?

Usage: trajectories.py URL LOG BRANCHES TOKENS [TRACE]. LOG is the folder of the server's own log of
requests: start it with ``--log-requests --log-requests-level 3 --log-requests-format json
--log-requests-target LOG``. Each branch goes on from one of a few answers, in a second turn; some
answers have a form, tools or several samples. It also says how large the trace is with token ids,
with log-probabilities in the usual form, and with neither.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import appl
from appl import AIRole, SystemMessage, gen, ppl
from appl.tracing import Trace
from appl.tracing.exporting.trajectories import Trajectory, read, row_lines, tree_lines

Row = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
SIZED = 500
"""The branches of the runs whose traces are compared by size."""
RULES = "You answer questions about numbers. Answer in one sentence, and give a reason. " * 4


def program(branches: int, tokens: int, logprobs: int | None) -> None:
    """Ask for first answers, and go on from each of them in many branches."""
    roots = max(1, branches // 100)

    @ppl
    def first(number: int) -> appl.Generation:
        SystemMessage(RULES)
        f"What is special about the number {number}?"
        return gen(max_tokens=tokens, temperature=1.0, logprobs=logprobs)

    @ppl
    def branch(number: int, answer: str, way: int) -> appl.Generation:
        SystemMessage(RULES)
        f"What is special about the number {number}?"
        with AIRole():
            f"{answer}"
        f"Say it in another way, number {way}."
        options: dict[str, object] = {"max_tokens": tokens, "temperature": 1.0}
        if logprobs is not None:
            options["logprobs"] = logprobs
        if way % 50 == 1:
            options["regex"] = r"The number is [0-9]{1,4}\."
        if way % 50 == 2:
            options["n"] = 2
        if way % 50 == 3:
            options["stop"] = ["a", "e"]
        return gen(**options)  # type: ignore[arg-type]

    answers = [str(each) for each in appl.map(first, range(roots))]
    items = [(n, answers[n % roots], n // roots) for n in range(branches)]
    for answer in appl.map(lambda item: branch(item[0] % roots, item[1], item[2]), items):
        str(answer)


def recorded(url: str, path: Path, branches: int, tokens: int, kept: str | None) -> float:
    """Run the program, and return the seconds that it took."""
    began = time.perf_counter()
    settings = {"url": url} | ({"tokens": kept} if kept in ("ids", "logprobs") else {})
    with appl.record(path, backend="sglang", backends={"sglang": settings}):
        program(branches, tokens, 0 if kept == "gen(logprobs=0)" else None)
    return time.perf_counter() - began


def rebuilt(lines: Iterator[str], path: Path) -> Iterator[Trajectory]:
    """The rows of a tree that is written to *path*."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    return read(path)


def row(prompt: list[int], answer: list[int], logprobs: list[float] | None) -> Row:
    return tuple(prompt), tuple(answer), tuple(logprobs or ())


def logged(folder: Path, offsets: dict[Path, int]) -> Iterator[Row]:
    """What the server says that it has answered, after the *offsets* of its files."""
    for path in sorted(folder.iterdir()):
        with path.open(encoding="utf-8") as file:
            file.seek(offsets.get(path, 0))
            for line in file:
                told = json.loads(line[line.index("{") :])
                if told.get("event") != "request.finished":
                    continue
                prompt = told["obj"]["input_ids"]
                for out in told["out"] if isinstance(told["out"], list) else [told["out"]]:
                    if not out["output_ids"]:
                        continue  # a prompt that was computed ahead, by us or by the server
                    scores = out["meta_info"].get("output_token_logprobs") or ()
                    ids = prompt[0] if isinstance(prompt[0], list) else prompt
                    yield row(ids, out["output_ids"], [score for score, *_ in scores])


def main() -> None:
    url, log = sys.argv[1], Path(sys.argv[2])
    branches, tokens = int(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sizes = {}
        for kept in (None, "ids", "logprobs", "gen(logprobs=0)"):
            path = folder / f"{str(kept)[:8]}.trace"
            recorded(url, path, SIZED, tokens, kept)
            sizes[kept] = path.stat().st_size
        whole = Path(sys.argv[5]) if len(sys.argv) > 5 else folder / "whole.trace"
        offsets = {path: path.stat().st_size for path in log.iterdir()}
        seconds = recorded(url, whole, branches, tokens, "logprobs")
        trace = Trace.open(whole)
        began = time.perf_counter()
        rows = Counter(
            row(each.prompt_ids, each.completion_ids, each.logprobs)
            for each in rebuilt(tree_lines(trace), folder / "tree.jsonl")
        )
        exported = time.perf_counter() - began
        with (folder / "rows.jsonl").open("w") as file:
            file.writelines(f"{line}\n" for line in row_lines(trace))
        server = Counter(logged(log, offsets))
        right = sum((rows & server).values())
        print(
            f"{sum(rows.values())} answers rebuilt, {sum(server.values())} in the log of the server"
        )
        print(f"equal in prompt ids, answer ids and log-probabilities: {right}")
        print(f"run {seconds:.0f} s, export and reading {exported:.1f} s")
        generated = sum(len(answer) * n for (_, answer, _), n in rows.items())
        print(f"generated tokens: {generated}; bytes of the trace: {whole.stat().st_size}")
        for kept, size in sizes.items():
            print(
                f"trace of {SIZED} branches, tokens={kept}: {size} bytes, {size / sizes[None]:.2f}"
            )
        for name in ("tree", "rows"):
            print(f"{name}.jsonl: {(folder / f'{name}.jsonl').stat().st_size} bytes")
        if not right == sum(rows.values()) == sum(server.values()):
            sys.exit("not equal")


if __name__ == "__main__":
    main()
