"""Commands that end at once, with a line that says why."""

from __future__ import annotations

import subprocess
import sys

from .conftest import Home


def refused(home: Home, *words: str) -> str:
    """What `appl serve` with *words* says when it refuses to start."""
    done = subprocess.run(
        [sys.executable, "-m", "appl", "serve", *words],
        cwd=home.folder,
        env=home.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr
