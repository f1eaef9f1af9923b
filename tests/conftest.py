"""What holds for all tests: no import is rewritten while one runs, and the time of each part is told.

pytest parses each module of the packages that bring it plugins when it is first imported. Before
CPython 3.11.8 a parse fails when the garbage collector runs a finalizer in its midst that formats a
traceback, so all of them are imported before the first test, where no test has left anything.

Examples of random tests are the same in each run, and other ones with ``--hypothesis-profile=random``.
They have no deadline: how long they take is the machine's.

The state of the user is that of the session: a folder of its own, which goes at the end. Settings
in the temporary folders of tests are trusted; ``tests/trust`` takes that back.

Tests that run side by side share the time: what each part took is divided by their processes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

hypothesis.settings.register_profile("random", deadline=None, derandomize=False)
hypothesis.settings.register_profile("appl", deadline=None, derandomize=True)
hypothesis.settings.load_profile("appl")

ROOT = Path(__file__).parent
BUDGET = {  # minutes
    "install": 3,
    "lint and types": 2,
    "unit": 3,
    "properties": 4,
    "kills and faults": 3,
    "examples": 2,
    "pythons": 5,
    "docs and browser": 2,
}
PARTS = {
    "edits": "properties",
    "engine": "properties",
    "evaluation": "properties",
    "equivalence": "properties",
    "rerun": "properties",
    "resume": "properties",
    "hostile": "properties",
    "batches": "kills and faults",
    "canaries": "kills and faults",
    "controls": "kills and faults",
    "tapes": "properties",
    "wire": "properties",
    "audit": "kills and faults",
    "kills": "kills and faults",
    "waits": "kills and faults",
    "faults": "kills and faults",
    "cluster": "kills and faults",
    "providers": "kills and faults",
    "servers": "kills and faults",
    "serving": "kills and faults",
    "served": "kills and faults",
    "sglang": "kills and faults",
    "examples": "examples",
    "terminal": "examples",
    "compat": "examples",
    "journeys": "examples",
    "pythons": "pythons",
    "docs": "docs and browser",
    "viewer": "docs and browser",
}
LONGEST = (
    "mixed", "kills", "waits/test_kills", "equivalence", "tracing/test_replay_programs", "hostile",
    "canaries", "edits",
    "tapes", "docs", "examples", "batches", "cluster", "audit", "resume", "servers", "serving", "served", "controls",
)  # fmt: skip
"""The folders and files whose tests take longest, and are begun first: so no process is left alone
with one of them in the end."""
WIDE = (
    "compiler/test_call_counts", "compiler/test_lint.py::test_a_large_file", "compiler/test_random_functions",
    "language/test_compositors_random", "rerun/test_reading_on", "rerun/test_rerun_programs",
    "resume/test_resume_programs", "runtime/test_call_path", "runtime/test_continuation",
    "runtime/test_hostile_answers", "runtime/test_idle_detection", "runtime/test_kept_calls",
    "runtime/test_loop_goes_on", "runtime/test_random_output", "runtime/test_recursion",
    "runtime/test_world.py::test_every_backend", "runtime/test_world.py::test_every_client",
    "tapes/test_tape.py", "tapes/test_tape_programs", "test_imports.py::test_what_the_suite_imports",
    "test_kernel.py::test_a_part_that_is_missing",
)  # fmt: skip
"""Tests of the quick suite's folders that are not in it: random suites, and what takes seconds."""
REWRITTEN = ("anyio", "appl", "hypothesis")
OPTIONAL = frozenset(["hypothesis.extra", "appl.parts.serving", "appl.parts.web"])
"""Packages whose modules load further libraries."""
_seconds: dict[str, float] = defaultdict(float)


def modules(package: ModuleType) -> Iterator[str]:
    """The names of all modules below *package*, which are imported on the way."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name in OPTIONAL:
            continue
        with contextlib.suppress(ImportError):  # for a library that is not installed
            module = importlib.import_module(found.name)
            yield found.name
            if found.ispkg:
                yield from modules(module)


def pytest_configure(config: pytest.Config) -> None:
    """Give the session, its workers and their processes a state folder, and trust in its tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reports(config))
        config.option.loadscopereorder = False  # xdist would begin with the files of most tests
        folders = (tempfile.gettempdir(), ROOT, config.option.basetemp or ROOT)
        os.environ["APPL_TRUST"] = os.pathsep.join(str(Path(each).absolute()) for each in folders)
        os.environ["XDG_STATE_HOME"] = os.environ["LOCALAPPDATA"] = tempfile.mkdtemp("-appl-state")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


@pytest.hookimpl(trylast=True)  # hypothesis complains before it has begun the session itself
def pytest_sessionstart() -> None:
    """Import what pytest would otherwise rewrite in the middle of a test."""
    for name in REWRITTEN:
        list(modules(importlib.import_module(name)))


@pytest.fixture(scope="session")
def warm() -> Iterator[Path]:
    """The folder of a ``python`` and an ``appl`` that have loaded the package already."""
    # This folder is on the path of tests, not of those who import this file.
    from warm import warm_python

    with (
        tempfile.TemporaryDirectory(prefix="appl-") as folder,
        warm_python(Path(folder)) as programs,
    ):
        yield programs


@pytest.fixture(autouse=True)
def _forgotten_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test imports from a temporary folder, and their places.

    A command that runs a program in this process leaves them, as it may: a test of another folder
    would import the program of that name.
    """
    folder, path, before = str(tmp_path_factory.getbasetemp()), set(sys.path), set(sys.modules)
    yield
    sys.path[:] = [each for each in sys.path if each in path or not each.startswith(folder)]
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]


@pytest.hookimpl(tryfirst=True)  # marks are looked at behind it
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, and mark what is not in the quick suite."""

    def rank(item: pytest.Item) -> int:
        name = item.nodeid.removeprefix("tests/")
        return next((at for at, each in enumerate(LONGEST) if name.startswith(each)), len(LONGEST))

    items.sort(key=rank)
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(WIDE):
            item.add_marker(pytest.mark.wide)


def pytest_collection_finish() -> None:
    _leave_to_no_collection()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Leave what the tests of a file have left behind, once the last one is over."""
    yield
    if nextitem is None or nextitem.path != item.path:
        _leave_to_no_collection()


def _leave_to_no_collection() -> None:
    """Have the garbage collector pass over all that is there now.

    Tests collect garbage often, and what pytest, the libraries and earlier tests hold, a million
    objects in the end, would be gone through each time.
    """
    gc.collect()
    gc.freeze()


def part_of(path: str) -> str:
    """The part of the budget that the tests of a file belong to."""
    return PARTS.get(Path(path).parts[1] if len(Path(path).parts) > 1 else "", "unit")


class Reports:
    """Adds up the time of tests, and names each that fails at once: a run may be ended before its end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _seconds[part_of(report.nodeid.split("::")[0])] += report.duration
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None and "CI_SECONDS" in os.environ:
            terminal.write_line(f" {report.nodeid} {report.when}\n{report.longreprtext[-1500:]}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The table, only where CI says what it spent before the tests: ``name=seconds,…``."""
    given = os.environ.get("CI_SECONDS")
    if given is None:
        return
    processes = getattr(config.option, "numprocesses", None) or 1
    for name in _seconds:
        _seconds[name] /= processes
    for pair in filter(None, given.split(",")):
        name, _, spent = pair.partition("=")
        _seconds[name] += float(spent)
    terminalreporter.section("time by part")
    for name, minutes in BUDGET.items():
        spent = _seconds[name]
        over = "OVER ITS BUDGET" if spent > 60 * minutes else ""
        terminalreporter.line(f"{name:18} {spent:6.0f} s of {60 * minutes:4} s  {over}".rstrip())
    total = sum(_seconds.values())
    terminalreporter.line(f"{'total':18} {total:6.0f} s of {60 * sum(BUDGET.values()):4} s")
