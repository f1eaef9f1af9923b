"""Judges programs in several processes: most of their time those of own threads wait for rest."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .census import (
    Found,
    against_plain,
    chosen,
    edited_and_rerun,
    gone_on,
    killed_and_gone_on,
)

PROCESSES = 3
BLOCK = 25


@dataclass
class Judged:
    """What each way of judging found."""

    parts: dict[str, Found]

    @property
    def plain(self) -> Found:
        """The comparison with plain Python."""
        return self.parts["plain Python"]

    @property
    def faults(self) -> list[str]:
        """All that is wrong."""
        return [f"{name}: {fault}" for name, part in self.parts.items() for fault in part.faults]


def judged(
    first: int, last: int, folder: Path, most: tuple[int | None, ...] = (None,) * 4
) -> Judged:
    """The programs of these seeds in every way.

    At *most* so many are replayed, cut off, killed, and edited.
    """
    seeds = chosen(first, last)
    replays, cuts, kills, edits = most
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:

        def spread(
            judge: Callable[[Path, list[int]], Found], every: list[int], where: Path = folder
        ) -> Found:
            blocks = [every[at : at + BLOCK] for at in range(0, len(every), BLOCK)]
            return Found.of(list(pool.map(judge, [where] * len(blocks), blocks)))

        plain = spread(recorded_plain, list(range(first, last + 1)))
        return Judged({
            "plain Python": plain,
            "replayed in another process": replayed_elsewhere(folder, seeds[:replays]),
            "cut off and gone on with": spread(gone_on, seeds[:cuts]),
            "killed and gone on with": spread(
                killed_and_gone_on, killed_elsewhere(folder, seeds[:kills]), folder / "killed"
            ),
            "edited and rerun": spread(edited_and_rerun, seeds[:edits]),
        })  # fmt: skip


def recorded_plain(folder: Path, seeds: list[int]) -> Found:
    """As ``against_plain``, recorded."""
    return against_plain(seeds[0], seeds[-1], folder)


def replayed_elsewhere(folder: Path, seeds: list[int], processes: int = PROCESSES) -> Found:
    """Replayed by processes with other hash seeds than this one's, answered in another order."""
    with ThreadPoolExecutor(processes) as pool:
        parts = [seeds[at::processes] for at in range(processes)]
        found = pool.map(_elsewhere, [folder] * processes, parts, range(processes))
        return Found.of(list(found))


def killed_elsewhere(folder: Path, seeds: list[int]) -> list[int]:
    """Have the processes of these programs killed; their traces lie in ``killed`` in *folder*."""
    (folder / "killed").mkdir()
    return list(_said("killed", folder / "killed", seeds))


def _elsewhere(folder: Path, seeds: list[int], number: int) -> Found:
    return Found(**_said("elsewhere", folder, seeds, number))


def _said(task: str, folder: Path, seeds: list[int], number: int = 0) -> Any:
    """What another process says of *task*, as JSON."""
    environment = {
        **os.environ, "PYTHONHASHSEED": str(31337 + number),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.mixed", task, str(folder), *map(str, seeds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
