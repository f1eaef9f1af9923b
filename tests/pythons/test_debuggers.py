"""Where debuggers stop in a prompt function: at the user's next line, on every Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import pdb
from pdb import set_trace
from appl import gen, ppl

@ppl
def ask(word):
    f"{word}"
    try:
        STOP
        "more text"
        f"and {word}"
        answer = gen()
    finally:
        pass
    return answer

print(ask("hi"))
"""


@pytest.mark.parametrize("stop", ["breakpoint()", "pdb.set_trace()", "set_trace()"])
def test_a_debugger_stops_at_the_users_line_and_next_goes_on_by_lines(
    tmp_path: Path, stop: str
) -> None:
    (tmp_path / "stops.py").write_text(PROGRAM.replace("STOP", stop), "utf-8")
    environment = {
        **os.environ,
        "PYTHONBREAKPOINT": "",
        "APPL_BACKEND": "appl.testing:Echo",
        "APPL_TRACE": "off",
    }
    done = subprocess.run(
        [sys.executable, "stops.py"], cwd=tmp_path, input="p word\nn\nn\nc\n", env=environment,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    places = [int(line) for line in re.findall(r"stops\.py\((\d+)\)ask\(\)", done.stdout)]
    first = places[0]
    assert first in (9, 10) and places == [first, first + 1, first + 2]  # since 3.13 at the call
    assert "'hi'" in done.stdout and "appl/" not in done.stdout
