"""Runs a program in a process of its own whose clock, random numbers and hashes are chosen.

Invariant: in the same environment, everything that a program can read of clock, random numbers and
hashes is the same.

``Environment`` is one choice of these. ``spawned`` runs a program in it, recorded or answered from
a trace, and returns its outcome. The process runs ``appl.cli.perturbed_child``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appl.config import load as load_config

if TYPE_CHECKING:
    from appl.cli.trace.recorded_program import RecordedProgram


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a program, as far as the program did not declare it.

    ``hashes`` is the seed of hashes, ``dice`` that of random numbers. The clock is ``shift``
    seconds ahead, and stands still if it is ``frozen``. ``lag`` seeds the delays of answers; at
    most ``slots`` calls are answered at once; ``switch`` is the switch interval of threads in
    seconds. ``real`` leaves clock and random numbers alone.
    """

    hashes: int = 1
    dice: int = 1
    shift: float = 0.0
    frozen: bool = False
    lag: int = 0
    slots: int | None = None
    switch: float = 0.005
    real: bool = False


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """The outcome of the process: the value as JSON text, or an error as data."""

    value: str | None
    error: dict[str, object] | None
    calls: int
    diverged: bool = False


def spawned(
    program: RecordedProgram,
    world: Environment,
    trace: Path,
    *,
    record: str | None = None,
    seconds: float = 120,
    folder: Path | None = None,
    moved: tuple[Path, Path] | None = None,
) -> ProcessOutcome:
    """Run *program* in *world*: answered from *trace*, or by the backend *record* into *trace*.

    It runs in *folder*. Modules below the first folder of *moved* are imported from below the
    second. After *seconds* the process is ended.
    """
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "result.json"
        order = {
            "program": {name: v for name, v in asdict(program).items() if name != "ending"},
            "world": asdict(world),
            "trace": str(trace),
            "record": record,
            "result": str(result),
            "moved": [str(module) for module in moved or ()],
        }
        command = [sys.executable, "-m", "appl.cli.perturbed_child", json.dumps(order)]
        # The folders of appl and its backends stand before those that the environment names.
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        folders = [str(Path(__file__).parents[2])]
        folders += [str(Path(entry).resolve()) for entry in named if entry]
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(world.hashes),
            "PYTHONPATH": os.pathsep.join(folders),
            "PYTHONDONTWRITEBYTECODE": "1",
            "APPL_HOME": str(load_config().home.resolve()),
        }
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=folder,
                capture_output=True,
                timeout=seconds,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return _lost("Timeout", f"it had not ended after {seconds:g} s")
        if not result.exists():
            output = done.stderr.decode("utf-8", "replace")[-2000:]
            return _lost("ProcessDied", f"its process ended with {done.returncode}: {output}")
        return ProcessOutcome(**json.loads(result.read_text("utf-8")))


def _lost(kind: str, message: str) -> ProcessOutcome:
    return ProcessOutcome(None, {"type": kind, "message": message, "notes": [], "traceback": []}, 0)
