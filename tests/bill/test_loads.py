"""What is loaded: a program on a backend without a rule for caches loads nothing of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from appl import gen, ppl
from appl.testing import Echo, running

@ppl
def ask():
    "word " * 4000
    return gen()

with running({backend}):
    str(ask())
print(sorted(name for name in [*sys.modules] if "prompt_cache" in name or "prompt_reuse" in name))
"""


@pytest.mark.parametrize("backend", ["Echo()"])
def test_a_program_without_a_rule_loads_none(tmp_path: Path, backend: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(backend=backend), "utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
