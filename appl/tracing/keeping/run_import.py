"""Imports a trace from elsewhere.

Invariant: the whole file is read with the limits for foreign traces before a byte of it is kept; no
name in it or of it decides where the copy lies. The copy is trusted only if the user says so.
"""

from __future__ import annotations

from pathlib import Path

from appl.errors import TraceCorrupt
from appl.tracing.format import repair, trust
from appl.tracing.format.folders import imported_folder, runs_folder
from appl.tracing.format.signing import Owner
from appl.tracing.reading.trace import Trace
from appl.tracing.recording.recorder import new_path


def take_in(source: Path, home: Path, *, owner: Owner | None = None, salvage: bool = False) -> Path:
    """Copies the trace *source* to *home* and returns the path of the copy.

    With *owner* it is signed and put among the owner's runs, else it stays foreign. With *salvage*,
    the copy of a damaged trace holds the part before the damage. Raises ``TraceError``.
    """
    trace = Trace.open(source, salvage=salvage)
    if trace.state == "running":
        raise TraceCorrupt(f"{source} is being written; import it when its run is over")
    folder = imported_folder(home) if owner is None else runs_folder(home)
    target = new_path(str(trace.header.get("program") or "run"), folder)
    if owner is None:
        repair.salvage(source, target)
    else:
        trust.signed_copy(source, target, owner)
    return target
