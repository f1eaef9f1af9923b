"""What RUN means on a command line.

Invariant: only reads.
"""

from __future__ import annotations

from pathlib import Path

from appl.config import load
from appl.tracing import resolve


def run_path(name: str) -> Path:
    """The trace that RUN means, in the configured home. Raises ``NotATrace``."""
    return resolve(name, load().home)
