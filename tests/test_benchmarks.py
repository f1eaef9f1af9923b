"""The benchmarks, which are run by hand: what they use is still there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


FILES = [
    file
    for file in sorted(FOLDER.rglob("*.py"))
    if not any(part.startswith(".") for part in file.relative_to(FOLDER).parts)  # .venv of peers
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_all_that_a_benchmark_imports_from_us_is_there(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("appl"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
