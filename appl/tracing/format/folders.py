"""The folders of recorded runs."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The folder ``.appl`` of the working directory, or what ``APPL_HOME`` says."""
    return Path(os.environ.get("APPL_HOME") or ".appl")


def runs_folder(at: Path | None = None) -> Path:
    """The folder of one's own runs: ``runs`` below *at*, by default below ``home``."""
    return (at or home()) / "runs"


def imported_folder(at: Path | None = None) -> Path:
    """The folder of foreign traces, beside that of one's own runs."""
    return (at or home()) / "imported"
