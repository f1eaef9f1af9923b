"""What decoration must not break, for programs that really run."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import doctest
import functools
import linecache
import pickle
import subprocess
import sys
import types

import pytest

from appl import gen, ppl
from appl.testing import Echo, Held, Scripted, running


@ppl
def documented(word="x"):
    """Answers.

    >>> from appl.testing import Scripted, running
    >>> with running(Scripted(["fine"])):
    ...     documented("a")
    'fine'
    """
    f"{word}"
    return str(gen())


class Owner:
    @ppl
    def method(self):
        "m"
        return str(gen())

    @staticmethod
    @ppl
    def static():
        "s"
        return str(gen())


@pytest.mark.parametrize("f", [documented, Owner.method, Owner.static])
def test_functions_are_pickled_and_copied_by_name(f):
    assert pickle.loads(pickle.dumps(f)) is f
    assert copy.copy(f) is copy.deepcopy(f) is f


def test_a_bound_method_is_pickled_with_its_object():
    with running(Scripted(["a"])):
        assert pickle.loads(pickle.dumps(Owner().method))() == "a"


def test_the_examples_in_a_docstring_are_found_and_run():
    finder = doctest.DocTestFinder()
    (found,) = finder.find(documented, "documented", globs=globals())
    assert doctest.DocTestRunner().run(found) == (0, 2)


PROGRAM = '''
from appl import gen, ppl
from appl.testing import Echo, running

@ppl
def program(word):
    """Documentation."""
    f"{word}"
    assert word, "kept out by -O"
    "said"
    return str(gen())

with running(Echo()) as seen:
    program("")if not __debug__ else program("x")
print(seen.prompts["/program.0/gen.0"].split(), program.__doc__)
'''


@pytest.mark.parametrize(
    "flags, printed",
    [
        ((), "['user:', 'x', 'said'] Documentation.\n"),
        (("-O",), "['user:', 'said'] Documentation.\n"),
        (("-OO",), "['user:', 'said'] None\n"),
    ],
)
def test_a_program_runs_under_optimisation(tmp_path, flags, printed):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *flags, file], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed


def cell(number, source):
    file = f"<ipython-input-{number}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"__name__": "__main__", "ppl": ppl, "gen": gen}
    exec(compile(source, file, "exec"), space)
    return space["program"]


def test_a_cell_that_is_run_again_has_its_new_text():
    source = '@ppl\ndef program():\n    "{}"\n    return str(gen())\n'
    prompts = []
    for number, word in enumerate(("old", "new")):
        with running(Echo()) as seen:
            cell(number, source.format(word))()
        prompts += seen.prompts.values()
    assert prompts == ["user: old", "user: new"]


def test_a_generator_stays_one():
    @ppl
    def counting(most):
        for number in range(most):
            f"{number}"
            yield str(gen())

    with running(Echo()) as seen:
        program = counting(2)
        assert isinstance(program, types.GeneratorType) and len(list(program)) == 2
    assert list(seen.prompts.values()) == ["user: 0", "user: 0\n1"]


def test_finally_runs_when_a_call_fails():
    order = []

    @ppl
    def program():
        try:
            str(gen())
        finally:
            order.append("finally")

    with running(Scripted([ValueError("no")])), pytest.raises(ValueError, match="no"):
        program()
    assert order == ["finally"]


def test_what_other_decorators_make_of_a_program_works():
    @functools.lru_cache
    @ppl
    def cached(word):
        f"{word}"
        return str(gen())

    class Thing:
        @functools.cached_property
        @ppl
        def told(self):
            "told"
            return str(gen())

    thing = Thing()
    with running(Echo()) as seen:
        assert cached("a") == cached("a") and thing.told == thing.told
    assert len(seen.requests) == 2


def test_context_managers_are_made_of_generators():
    @contextlib.contextmanager
    @ppl
    def opened():
        "in"
        yield str(gen())
        "out"

    @contextlib.asynccontextmanager
    @ppl
    async def aopened():
        "in"
        yield await gen()

    @ppl
    async def program():
        async with aopened() as answer:
            return str(answer)

    with running(Echo()), opened() as answer:
        assert asyncio.run(program()) == answer


def test_an_answer_that_is_returned_from_a_try_body_is_looked_at_there():
    @ppl
    def program():
        try:
            return gen()
        except ValueError:
            return "handled"

    with running(Scripted([ValueError("no")])):
        assert program() == "handled"


def test_a_suppressed_failure_leaves_no_text():
    @ppl
    def program():
        with contextlib.suppress(ValueError):
            "before the call"
            f"{gen()} and after it"
        "then"
        return gen()

    with running(Scripted([ValueError("no"), "ok"])) as seen:
        assert program() == "ok"
    assert seen.prompts["/program.0/gen.1"] == "user: before the call\nthen"


def test_every_failure_of_a_group_of_tasks_is_handled():
    groups = []

    @ppl
    async def failing():
        await gen()

    @ppl
    async def program():
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(failing())
        except* ValueError as group:
            groups.append(group)

    with running(Scripted([ValueError("no")])):
        asyncio.run(program())
    assert [str(error) for error in groups[0].exceptions] == ["no"]


def test_leaving_the_interpreter_aborts_what_is_below():
    @ppl
    def program():
        _ = gen()
        sys.exit(3)

    backend = Held()
    with pytest.raises(SystemExit), running(backend):
        program()
    assert len(backend.requests) == len(backend.aborted)
