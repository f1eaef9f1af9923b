"""What decorating costs: milliseconds of CPU a function, in files of many functions and of one.

    python benchmarks/decorate.py [--functions 200] [--rounds 7]

The bar is 2 ms a function. A file is parsed once, so its functions share that cost.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from appl.compiler import trees
from appl.compiler.passes import rebuild, translate

SMALL = """
def small{n}(question: str):
    f"{{question}}"
    return gen()
"""
TYPICAL = '''
def typical{n}(question: str, items: list[str], *, depth: int = 2) -> list[str]:
    """Documentation of function {n}."""
    "You are careful."
    f"Question: {{question}}"
    answers = []
    for index, item in enumerate(items):
        f"{{index}}. {{item.strip()!r:>10}}"
        with AIRole():
            f"The answer is {{(answer := gen(item, stop='.'))}}"
        if len(answer) > 3 and answer not in answers:
            answers.append(answer)
    try:
        best = max(answers, key=lambda text: score(text, question))
    except ValueError:
        best = None
    for k in range(depth):
        answers += [gen(item, k) for item in items if item]
    return [best, *answers]
'''


def written(folder: Path, template: str, count: int) -> ModuleType:
    """A module of *count* functions, imported without decorators."""
    path = folder / f"module_{id(template)}_{count}_{time.perf_counter_ns()}.py"
    path.write_text("".join(template.format(n=n) for n in range(count)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decorate(module: ModuleType) -> int:
    """Compile every function of *module*; how many they are."""
    functions = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    hooks: Any = object()
    for f in functions:
        rebuild(f, translate(f), hooks)
    return len(functions)


def cost(folder: Path, template: str, count: int, rounds: int) -> list[float]:
    """Milliseconds of CPU a function, one figure a round, each on a fresh file."""
    figures = []
    for _ in range(rounds):
        module = written(folder, template, count)
        start = time.process_time()
        done = decorate(module)
        figures.append((time.process_time() - start) * 1e3 / done)
    return figures


def parses(folder: Path, count: int) -> int:
    """How often a file of *count* functions is parsed while all are decorated."""
    module, seen = written(folder, SMALL, count), 0
    parse: Callable[..., Any] = ast.parse

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(ast, name)

        def parse(self, *args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            seen += 1
            return parse(*args, **kwargs)

    vars(trees)["ast"] = Counting()
    try:
        decorate(module)
    finally:
        vars(trees)["ast"] = ast
    return seen


def again(folder: Path) -> float:
    """Microseconds to decorate a nested function again, as each call of its outer one does."""
    module = written(folder, TYPICAL, 1)
    decorate(module)
    start = time.process_time()
    for _ in range(1000):
        decorate(module)
    return (time.process_time() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, median of {given.rounds}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for label, template in (("4 lines", SMALL), ("19 lines", TYPICAL)):
            for count in (1, given.functions):
                figures = cost(folder, template, count, given.rounds)
                middle = f"{statistics.median(figures):.2f} ms of CPU a function"
                print(f"{label:>9}, {count:>4} a file: {middle} (worst {max(figures):.2f})")
        print(f"parses of a file of {given.functions} functions: {parses(folder, given.functions)}")
        print(f"the same code object again: {again(folder):.1f} µs")


if __name__ == "__main__":
    main()
