"""The recorded runs: names, the sums of finished ones, and the meaning of RUN on a command line.

Invariant: reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from appl.errors import NotATrace, nearest
from appl.tracing.format import block, codec
from appl.tracing.format.folders import imported_folder, runs_folder
from appl.tracing.format.keys import first_record
from appl.tracing.format.record import FORMAT, checked
from appl.tracing.format.store import regular_file
from appl.tracing.format.table import CloseRecord, HeaderRecord, ProcessRecord, as_record
from appl.tracing.format.totals import Totals, with_null_cost

SUFFIX = ".trace"
_MOST_NAMES = 4
_NESTED = 100  # runs inside of one another


def paths(at: Path | None = None) -> list[Path]:
    """The traces of *at*, oldest first; their names begin with the time."""
    return _traces(runs_folder(at))


def foreign(at: Path | None = None) -> list[Path]:
    """The traces of others that were imported into *at*."""
    return _traces(imported_folder(at))


def _traces(runs: Path) -> list[Path]:
    return sorted(runs.glob("*" + SUFFIX)) if runs.is_dir() else []


def resolve(name: str = "last", at: Path | None = None) -> Path:
    """The trace that *name* means: a path, ``last``, or the beginning of one run's name.

    The part after the time stamp will do as well (``interview``, ``interview-1a2b``) where it is
    unique. Imported ones go by their names too; ``last`` is one's own. Raises ``NotATrace``.
    """
    traces = paths(at)
    if name == "last":
        if not traces:
            raise NotATrace(
                f"no run is recorded in {runs_folder(at)}; `appl run file.py:f` records one"
            )
        return _outermost(traces[-1])
    if Path(name).is_file():
        return Path(name)
    traces = [*traces, *foreign(at)]
    by_prefix = [path for path in traces if path.name.startswith(name)]
    by_word = [path for path in traces if path.stem.partition("-")[2].startswith(name)]
    for matches in (by_prefix, by_word):
        if len(matches) == 1:
            return matches[0]
        if matches:
            some = ", ".join(path.stem for path in matches[-_MOST_NAMES:])
            which = "the latest are " if len(matches) > _MOST_NAMES else ""
            raise NotATrace(
                f"{name!r} is the beginning of {len(matches)} runs: {which}{some}; write more of "
                "one's name"
            )
    raise NotATrace(
        f"there is no run {name!r} in {runs_folder(at)}{nearest(name, [p.stem for p in traces])}; "
        "`appl trace ls` lists them"
    )


def _outermost(path: Path) -> Path:
    """The run that *path* is, or is inside of: programs open runs of their own inside of a run."""
    for _ in range(_NESTED):
        place = (first_record(path) or {}).get("outer")
        name = place.get("run") if isinstance(place, dict) else None
        outer = path.with_name(f"{name}{SUFFIX}")
        if not isinstance(name, str) or Path(name).name != name or not outer.is_file():
            return path
        path = outer
    return path


@dataclass(slots=True)
class RunSummary:
    """The contents of the first and the last record of a finished run.

    ``totals`` is as ``Totals.as_data``; ``models`` are those of each model, if the record has them.
    """

    reason: str
    began: str
    seconds: float
    header: dict[str, Any]
    totals: dict[str, Any]
    models: dict[str, Totals] | None = None


def finished(path: Path) -> RunSummary | None:
    """The summary of a run whose last record closes it, from the first and the last block.

    ``None`` for another one. Raises ``TraceError`` or ``OSError``.
    """
    with regular_file(path) as file:
        blocks = _ends(file)
    if blocks is None:
        return None
    try:
        first, last = list(codec.unpack(blocks[0])), list(codec.unpack(blocks[-1]))
        head, process, close = map(as_record, (first[0], first[1], last[-1]))
        if not isinstance(head, HeaderRecord) or not isinstance(process, ProcessRecord):
            return None
        if not isinstance(close, CloseRecord):
            return None
        began, at = checked(int, process.wall_ns), close.at
        header = checked(dict, codec.revive(head.facts, lambda _: ""))
        if checked(int, header["format"]) > FORMAT:
            return None
        stamp = datetime.fromtimestamp(began / 1e9, UTC).isoformat()
        reason, totals = checked(str, close.reason), with_null_cost(checked(dict, close.totals))
        summary = RunSummary(reason, stamp, at / 1e6, header, totals)
        if close.sums is not None:
            sums = checked(dict, close.sums)
            models = checked(dict, sums["models"]).items()
            summary.models = {checked(str, name): Totals.of_numbers(each) for name, each in models}
            summary.seconds = checked(int, sums["elapsed_us"]) / 1e6
        return summary
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _ends(file: BinaryIO) -> tuple[bytes, bytes] | None:
    """The payloads of the first and the last block, ``None`` when the file does not end with a good
    block; reads only the heads of those between."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(block.MAGIC)) != block.MAGIC:
        return None
    first, last = block.Scan(good=len(block.MAGIC)), block.Scan()
    while first.good < size:
        file.seek(first.good)
        head = file.read(block.HEAD.size)
        if len(head) < block.HEAD.size:
            return None
        length, crc, number, previous, _, _ = block.HEAD.unpack(head)
        if (number, previous) != (first.blocks, first.last):
            return None
        last = block.Scan(first.good, first.blocks, first.last)
        first.last = crc
        first.good += block.HEAD.size + length
        first.blocks += 1
    if first.good != size or not first.blocks:
        return None
    return block.payload(file, block.Scan(len(block.MAGIC)), size), block.payload(file, last, size)
