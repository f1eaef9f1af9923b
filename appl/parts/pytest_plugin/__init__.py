"""The pytest plugin: marked tests run inside a recorded run, and ask no model.

``@pytest.mark.appl`` answers a test from its tape, ``tapes/<module>/<test>.jsonl`` beside it; a
call that the tape does not answer fails the test with the explained divergence. ``--appl-record``
says which calls may go live: ``none``, ``new`` or ``all``.

Invariant: loading this module costs pytest a millisecond; the code that answers tests is imported
when the first marked test runs. With ``--appl-record=none`` no marked test reaches a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from appl.parts.evaluation import Evaluation
    from appl.parts.pytest_plugin.running import TapedRun

MARK = "appl"
RECORD = ("none", "new", "all")
_PROPERTY, _FAILURES = "appl", "appl-failures"
_HANDLE = pytest.StashKey["TapedRun"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--appl-record``."""
    parser.getgroup("appl", "prompt programs, answered from tapes").addoption(
        "--appl-record",
        choices=RECORD,
        default="none",
        help="what tests marked with `appl` may ask live: none (the default: tapes answer, a "
        "missing tape is a failure), new (tapes that are missing, tests with mode='patch' as far "
        "as they were changed, tests with mode='live'), all (every tape is recorded anew)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line(
        "markers",
        "appl(tape='tapes/{module}/{test}.jsonl', mode='replay', network=False, **settings): run "
        "the test inside a recorded run that its tape answers. mode: replay (exactly the tape), "
        "patch (what was changed goes live with --appl-record=new), live (always live). settings "
        "are those of appl.record(), for what goes live.",
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Report, in one line, which calls may go live."""
    may = {
        "none": "tests marked with appl are answered from their tapes, nothing goes live",
        "new": "missing tapes are recorded, and what was changed where a test says mode='patch'",
        "all": "every tape is recorded anew, LIVE",
    }
    return f"appl: {may[config.getoption('--appl-record')]}"


@pytest.fixture
def appl_run(request: pytest.FixtureRequest) -> TapedRun:
    """The recorded run of a test marked with ``appl``: its prompts and their answers."""
    if request.node.get_closest_marker(MARK) is None:
        pytest.fail("the fixture appl_run is that of tests with @pytest.mark.appl", pytrace=False)
    return _handle(request.node)


@pytest.fixture
def appl_evaluate(request: pytest.FixtureRequest) -> Callable[..., Evaluation]:
    """``appl.evaluate`` with ``at_least=``: a mean that is lower fails the test, with the table.

    ``at_least`` is a number for every score, or numbers by the names of scores; a failure counts 0.
    The path of a data file is relative to that of the test.
    """
    from appl.parts.pytest_plugin.thresholds import evaluate_at_least  # few tests evaluate

    return partial(evaluate_at_least, request.path.parent)


def _handle(item: pytest.Item) -> TapedRun:
    handle = item.stash.get(_HANDLE, None)
    if handle is None:
        from appl.parts.pytest_plugin import (
            running,  # a session in which no test uses appl needs no run
        )

        handle = item.stash[_HANDLE] = running.taped_run(item)
    return handle


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a marked test inside its run."""
    if item.get_closest_marker(MARK) is None:
        return (yield)
    handle = _handle(item)
    with handle.around():
        result = yield
    item.user_properties.append((_PROPERTY, handle.done))
    if handle.failures:
        item.user_properties.append((_FAILURES, ", ".join(handle.failures)))
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[object]) -> None:
    """Show the user's frames of a failure."""
    if call.excinfo is not None:
        error = call.excinfo.value
        from appl.base.tracebacks import trim

        trim(error)
        if error.__traceback__ is not None:
            call.excinfo = pytest.ExceptionInfo.from_exception(error)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report how many tests were answered from tapes or recorded, and what fails on the tapes."""
    reports = [
        report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)
    ]
    results = [
        value for report in reports for name, value in report.user_properties if name == _PROPERTY
    ]
    if results:
        counts = ", ".join(f"{count} {word}" for word, count in Counter(map(str, results)).items())
        terminalreporter.write_line(f"appl: {counts}")
    for report in reports:
        for name, value in report.user_properties:
            if name == _FAILURES:
                terminalreporter.write_line(f"appl: {report.nodeid}, as on its tape: {value}")
