"""Notebooks in a real kernel: what the last value of a cell shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ANSWER = "[0-9a-f]{6}"  # of the backend Echo
SETUP = """
import appl
from dataclasses import dataclass
from appl import gen, ppl, Generation
from appl.testing import Scripted
appl.init(backend="appl.testing:Echo")

@dataclass
class Ticket:
    priority: int

@ppl
def answer(question: str) -> str:
    f"{question}"
    return gen()

@ppl
def started(question: str) -> Generation:
    f"{question}"
    return gen()
"""


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs cells in one kernel; their outputs, each as data by media type."""

    def run(*sources: str) -> list[list[dict[str, Any]]]:
        book = nbformat.v4.new_notebook()
        book.cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *sources)]
        client = NotebookClient(
            book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute()
        return [
            [output["data"] for output in cell.outputs if "data" in output]
            for cell in book.cells[1:]
        ]

    return run


def test_the_last_value_of_a_cell_is_its_answer(cells: Any) -> None:
    value, future, many = cells(
        "answer('Which?')",
        "started('Which?')",
        "await appl.map(answer, ['a', 'b'], progress=False)",
    )
    assert re.fullmatch(f"'{ANSWER}'", value[0]["text/plain"])
    assert re.fullmatch(rf"{ANSWER}\n\[/.*started.0/gen.0\]", future[0]["text/plain"])
    assert re.fullmatch(rf"\['{ANSWER}', '{ANSWER}'\]", many[0]["text/plain"])


def test_the_trace_of_a_cell_is_one_click_away(cells: Any) -> None:
    asked, plain = cells("answer('Which?')", "1 + 1")
    assert "appl trace view" in asked[-1]["text/html"] and ".trace" in asked[-1]["text/html"]
    assert len(plain) == 1


def test_a_program_of_its_own_is_awaited(cells: Any) -> None:
    (ran,) = cells("await appl.run(answer, 'Which?')")
    assert re.fullmatch(f"'{ANSWER}'", ran[0]["text/plain"])


def test_a_map_or_a_program_that_is_not_awaited_is_run_to_be_shown(cells: Any) -> None:
    many, ran, typed = cells(
        "appl.map(answer, ['a', 'b'], progress=False)",
        "appl.run(answer, 'Which?')",
        "appl.run(lambda: Ticket(priority=3))",
    )
    assert re.fullmatch(rf"\['{ANSWER}', '{ANSWER}'\]", many[0]["text/plain"])
    assert re.fullmatch(f"'{ANSWER}'", ran[0]["text/plain"])
    assert typed[0]["text/plain"] == "Ticket(priority=3)"


LATE = """
from traceback import extract_tb
appl.init(temperature=0.5)
told = []
for _ in range(2):
    try:
        answer("a")
    except appl.ConfigError as error:
        told.append((str(error), len(extract_tb(error.__traceback__))))
told
"""


def test_settings_that_come_too_late_say_what_to_do_in_a_notebook(cells: Any) -> None:
    _, told, own = cells(
        "answer('Which?')", LATE, "with appl.record():\n    said = answer('a')\nsaid"
    )
    (first, depth), (_, again) = eval(told[0]["text/plain"])
    assert "restart the kernel" in first and "with appl.record():" in first
    assert depth == again  # each refusal is an error of its own
    assert re.fullmatch(f"'{ANSWER}'", own[0]["text/plain"])
