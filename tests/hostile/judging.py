"""What is right of reading a file, whatever it holds: a true beginning, or an error of ours."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from appl.cli import invoked
from appl.errors import TraceError
from appl.tracing import Recorder, Replayer, Trace, salvage
from appl.tracing.keeping import row_of
from appl.tracing.reading import Following

from .damage import DAMAGE, drawn
from .samples import GOLDEN, Sample, told, told_of

MEMORY = 300 << 20
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@dataclass
class Verdict:
    """Counts over many files, and what was wrong, each with the number that makes it again."""

    files: int = 0
    opened: int = 0
    refused: int = 0
    readings: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)
    peak: int = 0

    @property
    def clean(self) -> bool:
        return not (self.wrong or self.untyped or self.escapes) and self.peak < MEMORY

    def add(self, other: Verdict) -> None:
        self.files += other.files
        self.opened += other.opened
        self.refused += other.refused
        self.readings += other.readings
        self.ways += other.ways
        self.wrong += other.wrong
        self.untyped += other.untyped
        self.escapes += other.escapes
        self.peak = max(self.peak, other.peak)

    def as_json(self) -> str:
        return json.dumps(vars(self))

    def __str__(self) -> str:
        return (
            f"{self.files:,} files ({self.opened:,} opened, {self.refused:,} refused), "
            f"{self.readings.total():,} readings: {len(self.wrong)} wrong records, "
            f"{len(self.untyped)} untyped errors, {len(self.escapes)} escapes printed, "
            f"at most {self.peak >> 20} MB"
        )


def _reopened(path: Path) -> None:
    """Go on recording there: a torn end is cut first."""
    Recorder(path, {}, append=True, reason="hostile", durability="process").close()
    Trace.open(path)


def _salvaged(path: Path) -> None:
    copy = path.with_name("salvaged.trace")
    copy.unlink(missing_ok=True)
    salvage(path, copy)
    Trace.open(copy)


def _followed(path: Path) -> None:
    with Following(path) as following:
        following.poll()


READERS: dict[str, Callable[[Path], object]] = {
    "row": row_of,
    "replayer": Replayer,
    "open, salvaging": lambda path: Trace.open(path, salvage=True),
    "salvage": _salvaged,
    "following": _followed,
    "reopening": _reopened,
}
OTHER = str(GOLDEN / "tree.trace")
COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "show": lambda path: ["show", path],
    "show --json": lambda path: ["show", path, "--json"],
    "show CALL": lambda path: ["show", path, "CALL"],
    "diff": lambda path: ["diff", path, OTHER],
    "diff, the other way": lambda path: ["diff", OTHER, path, "--all"],
    "verify": lambda path: ["verify", path],
    "cost": lambda path: ["cost", path, "--by", "scope"],
    "critical": lambda path: ["critical", path],
}


class Tail(io.StringIO):
    """The last that was written: what a small file makes a command print may be gigabytes."""

    def write(self, text: str) -> int:
        if self.tell() > 1 << 20:
            self.seek(0)
            self.truncate()
        return super().write(text)


def command(words: list[str], out: io.StringIO | None = None) -> tuple[int, str]:
    """What ``appl trace WORDS`` returns, and prints, or the last of it that *out* keeps."""
    out = out or io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = invoked(["trace", *words])
    return code, out.getvalue()


class Judge:
    """Reads files in a folder of its own, each in several ways."""

    def __init__(self, folder: Path) -> None:
        self.verdict = Verdict()
        self._path = folder / "a.trace"

    def judge(self, seed: int) -> None:
        """Make file number *seed*, and read it; an error of the judge's own names it."""
        try:
            self._judge(seed)
        except BaseException as error:
            error.add_note(f"at file number {seed}")
            raise

    def _judge(self, seed: int) -> None:
        sample, way, data = drawn(seed)
        name = f"{seed} ({way.__name__.strip('_')} of {sample.name})"
        self.verdict.files += 1
        self.verdict.ways[way.__name__] += 1
        self._path.write_bytes(data)
        trace = self._opened(name, told_of(data, sample) if way in DAMAGE else None)
        dice = random.Random(-1 - seed)
        reader, printer = dice.choice(list(READERS)), dice.choice(list(COMMANDS))
        self._read(name, reader, trace)
        if seed % 5 == 0:
            self._print(name, printer, trace, dice)

    def _fails(self, kind: list[str], what: str) -> None:
        kind.append(what)
        print(what, file=sys.stderr, flush=True)

    def _opened(self, name: str, sample: Sample | None) -> Trace | None:
        self.verdict.readings["open"] += 1
        try:
            trace = Trace.open(self._path)
            found = told(trace) if sample is not None else trace.as_data()
        except TraceError:
            self.verdict.refused += 1
            return None
        except Exception as error:
            self._fails(self.verdict.untyped, f"{name}: open: {error!r:.200}")
            return None
        self.verdict.opened += 1
        if sample is not None and sample.truths.get(trace.records) != found:
            self._fails(self.verdict.wrong, f"{name}: {trace.records} records are not as they were")
        return trace

    def _read(self, name: str, reader: str, trace: Trace | None) -> None:
        self.verdict.readings[reader] += 1
        try:
            READERS[reader](self._path)
        except TraceError:
            if trace is not None and reader in ("open, salvaging", "following", "salvage"):
                self._fails(self.verdict.wrong, f"{name}: {reader} refuses what opens")
        except Exception as error:
            self._fails(self.verdict.untyped, f"{name}: {reader}: {error!r:.200}")

    def _print(self, name: str, printer: str, trace: Trace | None, dice: random.Random) -> None:
        words = COMMANDS[printer](str(self._path))
        if "CALL" in words:
            calls = [each.address for each in (trace.calls if trace else ())]
            if not calls:
                return
            words[words.index("CALL")] = dice.choice(calls)
        self.verdict.readings[printer] += 1
        try:
            code, said = command(words)
        except (Exception, SystemExit) as error:
            self._fails(self.verdict.untyped, f"{name}: {printer}: {error!r:.200}")
            return
        allowed = {0, 1, 2} if printer.startswith("diff") else {0, 3, 4}
        if code not in allowed or "Traceback" in said:
            self._fails(self.verdict.untyped, f"{name}: {printer} gives {code}: {said[-200:]!r}")
        if _UNSAFE.search(said):
            self._fails(self.verdict.escapes, f"{name}: {printer}: {_UNSAFE.findall(said)[:5]}")


def peak() -> int:
    """The most memory this process had, in bytes; ru_maxrss would begin with what its parent has."""
    status = Path("/proc/self/status")
    if not status.exists():
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    return next(1024 * int(x.split()[1]) for x in status.read_text().splitlines() if "VmHWM" in x)


def judged(seeds: range, folder: Path) -> Verdict:
    """The verdict over all files of *seeds*."""
    judge = Judge(folder)
    for seed in seeds:
        judge.judge(seed)
    judge.verdict.peak = peak()
    return judge.verdict


def merged(said: Iterable[str]) -> Verdict:
    """The verdict of several processes, from what each printed last."""
    whole = Verdict()
    for text in said:
        data = json.loads(text.splitlines()[-1])
        counted = {name: Counter(data.pop(name)) for name in ("readings", "ways")}
        whole.add(Verdict(**data, **counted))
    return whole


def parts(seeds: range, count: int) -> Iterator[range]:
    """*seeds* in *count* ranges."""
    bounds = [seeds.start + len(seeds) * i // count for i in range(count + 1)]
    return (range(a, b) for a, b in itertools.pairwise(bounds))
