"""Functions that are decorated on several threads at once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from appl.compiler.trees import expression_tree, module_tree

THREADS, FUNCTIONS = 4, 30


@pytest.fixture
def collections_yield() -> Iterator[None]:
    """The garbage collector runs often, also while a tree is built, and lets other threads go on."""

    here = Path()

    def goes_on(phase: str, info: dict[str, int]) -> None:
        here.stat()  # which gives up the interpreter's lock

    before = gc.get_threshold()
    gc.set_threshold(20, *before[1:])
    gc.callbacks.append(goes_on)
    try:
        yield
    finally:
        gc.callbacks.remove(goes_on)
        gc.set_threshold(*before)


def written(folder: Path, number: int) -> Path:
    one = '@appl.ppl\ndef ask{0}(q):\n    "Say {0}."\n    f"{{q}} {{[[[q]]]}}"\n    return appl.gen()\n\n'
    file = folder / f"made_{number}.py"
    file.write_text("import appl\n" + "".join(one.format(each) for each in range(FUNCTIONS)))
    return file


@pytest.mark.usefixtures("collections_yield")
def test_threads_decorate_at_once(tmp_path: Path) -> None:
    files = [written(tmp_path, number) for number in range(THREADS)]
    together = threading.Barrier(THREADS)

    def load(file: Path) -> int:
        code = compile(file.read_text(), str(file), "exec")
        together.wait()
        space: dict[str, Any] = {}
        exec(code, space)
        return sum(name.startswith("ask") for name in space)

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(load, files)) == [FUNCTIONS] * THREADS


@pytest.mark.usefixtures("collections_yield")
def test_a_finalizer_that_parses_does_not_wait_for_itself() -> None:
    parsed = []

    class Late:
        def __del__(self) -> None:
            parsed.append(expression_tree("1 + 1"))

    def litter() -> None:
        late: Any = Late()
        late.itself = late

    for _ in range(20):
        litter()
        module_tree("x = [[1, 2], [3, 4]]\n" * 40, "made.py")
    assert parsed
