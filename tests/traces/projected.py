"""What is recorded, without the clock: ``python -m tests.traces.projected COUNT [BEFORE]``.

Prints a line for each golden program and each of COUNT random ones: digests of its records without
times and ids, in whatever order they were written. A program whose calls race may have several. With
the lines of another version in the file BEFORE it tells which programs now record something else.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

from appl.tracing import records
from appl.tracing.format import KINDS, codec, table
from appl.tracing.format.table import Micros, Nanos

from ..equivalence.backends import Hurried
from ..equivalence.compare import backend, compiled, run_recorded
from ..equivalence.programs import program
from . import make

TRIES = 8
TIMES = {"elapsed_us", "first"}
IDS = (table.Id, table.OptionalId, table.Reference)


def _digest(path: Path) -> str:
    """The digest of all records at *path*, in whatever order they were written."""
    known: dict[int, str] = {}
    timeless = [_timeless(fields, known) for fields in records(path)]
    lines = sorted(_hashed(each) for each in timeless if each[0] in "XSEFRZ!$")
    return _hashed(lines)


def _hashed(value: Any) -> str:
    return hashlib.blake2b(codec.pack(value), digest_size=8).hexdigest()


def _timeless(fields: Any, known: dict[int, str]) -> list[Any]:
    """The record without times, with digests of records in place of their ids."""
    tag, *rest = fields
    if tag in (table.MASKED, table.SEALED):
        *others, inner = rest
        return [tag, *others, _timeless(inner, known)]
    if tag == "I":
        known.clear()  # ids begin anew
    if tag in "HI":
        return [tag]
    kind = KINDS[tag]
    hints = get_type_hints(kind, include_extras=True)
    named = zip(kind._fields[1:], rest, strict=False)
    kept = [_known(hints[name], name, value, known) for name, value in named]
    if tag == "N":
        known[rest[0]] = kept[3].hex()  # covers what came before
    elif "id" in kind._fields and tag != "B":
        known[rest[0]] = _hashed([tag, *kept[1:]])
        kept[0] = 0
    return [tag, *kept]


def _known(hint: Any, name: str, value: Any, known: dict[int, str]) -> Any:
    if hint in (Micros, Nanos) or name in ("waited", "origins"):
        return 0
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key not in TIMES}
    if hint in IDS or (name in ("content", "value", "parameters") and isinstance(value, int)):
        return known.get(value, value)
    return [known.get(each, each) for each in value] if name == "edges" else value


def digests(count: int) -> Iterator[tuple[str, Callable[[Path], str]]]:
    """The golden programs and *count* random ones; each records itself and gives its digest."""
    for name in sorted({*make.names()} - {*make.PRIVATE, "shared"}):  # those have keys of their own
        yield f"golden {name}", functools.partial(_golden, name)
    for seed in range(count):
        yield f"program {seed}", functools.partial(_random, seed)


def _golden(name: str, path: Path) -> str:
    make.made(name, path)
    return _digest(path)


def _random(seed: int, path: Path) -> str:
    made = program(seed)
    run_recorded(compiled(made), made, backend(Hurried, made, seed), path)
    return _digest(path)


def main(count: int, before: Path | None) -> int:
    """Print the digests, or count those that *before* does not have in some tries."""
    lines = before.read_text("ascii").splitlines() if before else []
    known = {name: rest.split() for name, _, rest in (line.partition(": ") for line in lines)}
    unlike = 0
    with tempfile.TemporaryDirectory() as work:
        for number, (name, made) in enumerate(digests(count)):
            path = Path(work, f"{number}.trace")
            found = set[str]()
            for again in range(TRIES if before else 3):
                found.add(made(path.with_suffix(f".{again}.trace")))
                if found & {*known.get(name, ())}:
                    break
            if before is None:
                print(f"{name}:", *sorted(found), flush=True)
            elif not found & {*known.get(name, ())}:
                unlike += 1
                print(f"{name}: {sorted(found)} is not {known.get(name)}", flush=True)
    if before:
        print(f"{unlike} of {len(known)} differ")
    return min(unlike, 1)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    status = main(int(arguments[0]), Path(arguments[1]) if arguments[1:] else None)
    sys.stdout.flush()
    os._exit(status)
