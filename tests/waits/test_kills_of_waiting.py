"""Programs that wait for people and days, killed at any moment: nothing is asked, paid or done twice.

The run by hand (`-m long`) writes benchmarks/results/waits-kills.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
import sys
from pathlib import Path
from tests.waits.lives import main
main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""


def killed(folder: Path, first: int, kills: int) -> dict[str, Any]:
    """What came of runs with so many kills, from seed *first* on."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder / "runs"), str(first), str(kills)],
        cwd=ROOT,
        env={**os.environ, "APPL_CTL": "off", "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_nothing_is_asked_paid_or_done_twice_whenever_the_program_is_killed(tmp_path: Path) -> None:
    found = killed(tmp_path, 0, 100)
    assert not found["wrong"]
    assert found["answers"] > 5 and found["edits"] > 2 and found["both"] > 2


@pytest.mark.long
def test_nothing_is_asked_paid_or_done_twice_in_2000_kills(tmp_path: Path) -> None:
    found = killed(tmp_path, 10_000, 2_000)
    results = ROOT / "benchmarks" / "results" / "waits-kills.json"
    results.write_text(json.dumps(found, indent=1) + "\n")
    assert not found["wrong"]
    assert found["doubts"] > 0
