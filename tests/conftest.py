"""The seconds that each part of the suite took, against its budget, before pytest's closing line.

Tests that run side by side share the time: what each took is divided by the number of processes.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
BUDGET = {  # minutes
    "install": 3,
    "lint and types": 2,
    "unit": 3,
    "properties": 4,
    "kills and faults": 3,
    "examples": 2,
    "docs and browser": 2,
}
PARTS = {
    "edits": "properties",
    "engine": "properties",
    "equivalence": "properties",
    "rerun": "properties",
    "resume": "properties",
    "hostile": "properties",
    "canaries": "kills and faults",
    "controls": "kills and faults",
    "tapes": "properties",
    "audit": "kills and faults",
    "kills": "kills and faults",
    "faults": "kills and faults",
    "cluster": "kills and faults",
    "providers": "kills and faults",
    "serving": "kills and faults",
    "sglang": "kills and faults",
    "examples": "examples",
    "compat": "examples",
    "docs": "docs and browser",
    "viewer": "docs and browser",
}
_seconds: dict[str, float] = defaultdict(float)


def part_of(path: str) -> str:
    """The part of the budget that the tests of a file belong to."""
    return PARTS.get(Path(path).parts[1] if len(Path(path).parts) > 1 else "", "unit")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[part_of(report.nodeid.split("::")[0])] += report.duration


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
