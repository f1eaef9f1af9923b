"""Makes the golden traces of the present format: ``python -m tests.traces.make [NAME…]``.

They lie in a folder named after their format, each ``NAME.trace`` beside ``NAME.json``: what reading
it gives, and what its program returns. Until a format is released its traces may be made again when
records gain something; afterwards they are never touched, and this program refuses to.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appl.testing import Policy, Retries, Run
from appl.tracing import Recorder, Rerunner, Trace, profile_data, records
from appl.tracing.format import MASKED, SEALED, block, block_file, codec, keys, record
from appl.tracing.keeping import share

from .programs import EDITS, PROGRAMS, SECRET, SECRET_NAME, Answering

FOLDER = Path(__file__).parent
RELEASED: tuple[int, ...] = ()
"""The formats that a released version has written."""

BROKEN = {"crashed": "tree", "torn": "tree", "resumed": "tree"}
"""Traces of runs that did not end as they should, and the program of each."""
PRIVATE: dict[str, Any] = {"redacted": "tools", "digests": "tools"}
"""Traces of private runs, by their mode; their keys lie beside them."""
OTHERS = {**BROKEN, **PRIVATE, "shared": "tools", "rerun": "edited"}
"""The programs of all traces that are not named after theirs."""
PINNED = "/ask.3/gen.0"
"""The call of the program ``edited`` whose answer is given by hand."""

_ROOT = str(FOLDER.parents[1])
_LONG = 400


@contextmanager
def environment() -> Iterator[None]:
    """The environment of the recorded runs: a secret, and a value that is looked at."""
    before = dict(os.environ)
    os.environ.update({SECRET_NAME: SECRET, "GOLDEN_HOME": "/home/golden"})
    yield
    os.environ.clear()
    os.environ.update(before)


def recorded(
    name: str,
    path: Path,
    *,
    append: bool = False,
    close: bool = True,
    rerunner: Rerunner | None = None,
    **options: Any,
) -> Any:
    """Run program *name* and record it at *path*, with *options* of the recorder; its value.

    With a *rerunner* it answers what it can.
    """
    backend = Answering()
    head = {"program": name, "profile": profile_data(backend.profile), "seed": 7}
    reason = "resume" if append else "run"
    recorder = Recorder(path, head, append=append, reason=reason, durability="process", **options)
    retries = Retries(attempts=2, base_s=0, spare=1000)
    with Run(
        backend, instruments=[*([rerunner] if rerunner else []), recorder], gate=recorder.gate,
        barrier=recorder.barrier, seed=7, policy=Policy(retries=retries, circuit=None),
        world=rerunner,
    ) as run:  # fmt: skip
        run.reporter.tell = lambda line: None
        value = {**PROGRAMS, **EDITS}[name]()
        run.reporter.warn("/warned.0", "a warning about \u202enothing")
    recorder.barrier()
    if close:
        recorder.close()
    else:
        recorder.writer.abandon()  # as a process does that dies
    return plain(value)


def plain(value: Any) -> Any:
    """*value* as JSON gives it back; a long text as its length and digest."""
    if isinstance(value, str) and len(value) > _LONG:
        digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16)
        return {"length": len(value), "blake2b": digest.hexdigest()}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def read(path: Path) -> dict[str, Any]:
    """What reading the trace at *path* gives, as JSON, without where it lies."""
    data = Trace.open(path).as_data()
    del data["path"]
    found: dict[str, Any] = plain(data)
    return found


def blocks(path: Path) -> list[list[Any]]:
    """The raw records of the trace at *path*, block by block."""
    with path.open("rb") as file:
        return [list(codec.unpack(raw)) for raw in block.scan(file, block.Scan())]


def rewritten(path: Path, groups: list[list[Any]]) -> None:
    """Write *groups* of raw records to *path*, one block each."""
    encoder = block_file.Encoder()
    written = [encoder.block(b"".join(map(codec.pack, group))) for group in groups]
    path.write_bytes(block.MAGIC + b"".join(written))


def anonymous(fields: Any) -> Any:
    """A record without the machine that it was written on."""
    tag, *rest = fields
    if tag == MASKED:
        return [tag, rest[0], anonymous(rest[1])]
    if tag == "I":
        number, _, _, reason, _, _ = rest
        return [tag, number, 1000 + number, "golden.example", reason, 1_800_000_000_000_000_000, 0]
    if tag == "T":
        return [tag, rest[0], rest[1].removeprefix(_ROOT + "/")]
    return _placeless(fields)


def _placeless(value: Any, root: str = _ROOT) -> Any:
    """*value* without the folder that the sources lie in, which messages of errors name."""
    if isinstance(value, str):
        return value.replace(root + "/", "")
    if isinstance(value, list):
        return [_placeless(each, root) for each in value]
    if isinstance(value, dict):
        return {key: _placeless(each, root) for key, each in value.items()}
    return value


def made(name: str, path: Path) -> Any:
    """Record the golden trace *name* at *path*; what its program returned."""
    with environment():
        value = _made(name, path)
    groups = [[anonymous(each) for each in group] for group in blocks(path)]
    rewritten(path, groups)
    if name == "torn":
        whole = path.read_bytes()
        path.write_bytes(whole + whole[8:40])
    return value


def _made(name: str, path: Path) -> Any:
    program = OTHERS.get(name, name)
    first = path.with_suffix(".first")
    if name in BROKEN:
        value = recorded(program, path, close=False)
        if name == "resumed":
            recorded(program, path, append=True)
    elif name in PRIVATE:
        value = recorded(program, path, privacy=name, home=path.parent)
    elif name == "shared":
        value = recorded(program, first)
        share(first, path)
    elif name == "rerun":
        recorded("original", first)
        rerunner = Rerunner(first, pins={PINNED: "an answer of the user"})
        value = recorded(program, path, rerunner=rerunner)
    else:
        value = recorded(program, path)
    first.unlink(missing_ok=True)
    return value


def names() -> list[str]:
    """All golden traces of the present format."""
    return [*PROGRAMS, *OTHERS]


def key_file(path: Path) -> Path:
    """Where the run key of the private trace at *path* lies, beside it."""
    return path.parent / keys.FOLDER / f"{keys.identity(path)}.key"


def shapes(path: Path) -> set[str]:
    """The forms that records of the trace at *path* have: kinds, and types of their fields."""
    return {json.dumps(_shape_of(each)) for each in records(path)}


def _shape_of(fields: Any) -> list[Any]:
    tag, *rest = fields
    if tag in (MASKED, SEALED):
        *others, inner = rest
        return [tag, *map(_shape, others), _shape_of(inner)]
    return [tag, *map(_shape, rest)]


def _shape(value: Any) -> Any:
    """The type of *value*; of what follows one another and is alike, once."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in sorted(value.items())}
    if not isinstance(value, list | tuple):
        return type(value).__name__
    found: list[Any] = []
    for each in map(_shape, value):
        if not found or found[-1] != each:
            found.append(each)
    return found


def main(chosen: list[str]) -> None:
    """Make the *chosen* golden traces again, or all."""
    if record.FORMAT in RELEASED:
        raise SystemExit(f"format {record.FORMAT} is released: its golden traces stay as they are")
    folder = FOLDER / str(record.FORMAT)
    folder.mkdir(exist_ok=True)
    for name in chosen or names():
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / f"{name}.trace"
            value = made(name, path)
            golden = folder / path.name
            if name in PRIVATE:
                if golden.exists():
                    key_file(golden).unlink(missing_ok=True)
                (folder / keys.FOLDER).mkdir(exist_ok=True)
                (folder / keys.FOLDER / key_file(path).name).write_bytes(
                    key_file(path).read_bytes()
                )
            golden.write_bytes(path.read_bytes())
        found = {"value": value, "trace": read(golden)}
        text = json.dumps(found, indent=1, sort_keys=True) + "\n"
        golden.with_suffix(".json").write_text(text, "ascii")
        print(f"{golden.relative_to(FOLDER)}: {golden.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
