"""Programs that run again after an edit: a new trace, for which only differing calls are asked.

Invariant: the earlier trace is only read. The new one names it, and does not need it.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import io
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from appl.config import Config
from appl.runtime.answers.models import Elsewhere, Find, Models
from appl.runtime.event import Instrument
from appl.runtime.isolated import RECORD
from appl.runtime.run import Run
from appl.runtime.world import Nobody
from appl.session.backend_setup import Choice
from appl.session.entry import Entry, script
from appl.session.ownership import is_foreign
from appl.session.replaying import (
    models_in,
    names_in,
    nests,
    opened,
)
from appl.session.resume import recorded_config
from appl.session.session import Session, Tell, block, make_session, settled, tell
from appl.tracing.explaining.prediction import (
    Prediction,
    Rehearsed,
    prediction_of,
    rehearsed_by,
)
from appl.tracing.explaining.rerun_report import RerunReport
from appl.tracing.format.record import profile_from
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.predictor import BrokenOff, Predictor
from appl.tracing.replaying.rerunner import Rerunner


@block
def rerun(
    trace: Trace | str | os.PathLike[str],
    *,
    pins: Mapping[str, str] | None = None,
    sets: Mapping[str, object] | None = None,
    anew: Iterable[str] = (),
    keep_failures: bool = False,
    into: str | os.PathLike[str] | None = None,
    trust: bool = False,
    instruments: Iterable[Instrument] = (),
    say: Tell = tell,
    **overrides: object,
) -> Iterator[tuple[Run, RerunReport]]:
    """A block, also with ``async with``, that asks only what the run of *trace* does not answer.

    It is recorded as a run of its own, at *into* or among the others. *pins* are answers by address
    or pattern of addresses; *sets* are options by ``CALL.option``; the calls in *anew* are always
    asked; *trust* allows a run that is not the user's own; *overrides* are settings. The report is
    complete when the block is over. Raises ``UntrustedTrace``.
    """
    rerunner = Rerunner(
        opened(trace, overrides, trust),
        pins=pins,
        sets=sets,
        anew=anew,
        keep_failures=keep_failures,
    )
    path = Path(into) if into is not None else None
    report = RerunReport(rerunner)
    watching = (*instruments, report.tally)
    session = rerun_session(rerunner, overrides, path=path, instruments=watching, say=say)
    with settled(rerunner):
        try:
            yield session.run, report
        finally:
            session.close()
            report.path = session.path


def rerun_session(
    rerunner: Rerunner,
    overrides: Mapping[str, object] | None = None,
    *,
    entry: Entry | None = None,
    path: Path | None = None,
    instruments: Iterable[Instrument] = (),
    say: Tell = tell,
    present: Collection[str] = (),
) -> Session:
    """A session with a trace of its own, which *rerunner* answers first; not entered.

    It has the recorded settings, but for *overrides* and those in *present*.
    """
    rerunner.is_foreign = is_foreign(rerunner.trace)
    session = make_session(
        recorded_config(rerunner.trace, overrides, present),
        entry=entry or script("api"),
        path=path,
        instruments=instruments,
        say=say,
        world=rerunner,
        names=names_in(rerunner.trace),
    )
    session.origin, session.hints = _origin(rerunner), False
    session.run.nests = nests(rerunner.trace.header)
    return session


def _origin(rerunner: Rerunner) -> dict[str, object]:
    """The facts in a trace's header about the trace that it comes from."""
    path, sets = rerunner.trace.path, rerunner.sets
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32))
    origin: dict[str, object] = {"parent": {"run": path.stem, "digest": f"b2:{digest.hexdigest()}"}}
    return origin | ({"sets": sets} if sets else {})


def predicted(
    trace: Trace | str | os.PathLike[str],
    program: Callable[[], object],
    *,
    pins: Mapping[str, str] | None = None,
    sets: Mapping[str, object] | None = None,
    anew: Iterable[str] = (),
    keep_failures: bool = False,
    instruments: Iterable[Instrument] = (),
    **overrides: object,
) -> Prediction:
    """The calls that :func:`rerun` would ask of *program*; nobody is asked.

    The program, a function without arguments, runs several times: with recorded answers, then with
    made-up ones, silently and in a process that meanwhile changes nothing outside of itself. A
    coroutine function runs in a loop of its own, as in ``async with rerun(...)``: in a coroutine,
    call this with ``asyncio.to_thread``.
    An error of the program ends the prediction, and is part of it. *instruments* watch the first
    run.
    """
    earlier = opened(trace, overrides, trust=True)

    def performed(number: int) -> tuple[Predictor, BaseException | None]:
        predictor = Predictor(
            earlier,
            rehearsal=number,
            pins=pins,
            sets=sets,
            anew=anew,
            keep_failures=keep_failures,
        )
        watching = () if number else instruments
        try:
            _perform(prediction_session(predictor, overrides, instruments=watching).run, program)
        except (Exception, BrokenOff) as stopped:
            return predictor, stopped
        return predictor, None

    return foreseen(performed)


def _perform(run: Run, program: Callable[[], object]) -> None:
    """Run *program* inside *run*."""
    if inspect.iscoroutinefunction(program):
        asyncio.run(_awaited(run, program))
        return
    with run:
        program()


async def _awaited(run: Run, program: Callable[[], Awaitable[object]]) -> None:
    async with run:
        await program()


def foreseen(
    performed: Callable[[int], tuple[Predictor, BaseException | None]],
) -> Prediction:
    """The prediction for a program that *performed* runs, with 0 or the number of a rehearsal.

    It returns who predicts, and the error that has ended the program.
    """

    def rehearsal(number: int) -> Rehearsed:
        with sealed() as seal:
            predictor, error = performed(number)
        return rehearsed_by(predictor, error, seal.touched)

    prediction = prediction_of(*performed(0))
    prediction.rehearse(rehearsal)
    return prediction


def prediction_session(
    predictor: Predictor,
    overrides: Mapping[str, object] | None = None,
    *,
    instruments: Iterable[Instrument] = (),
    present: Collection[str] = (),
) -> Session:
    """A run that only *predictor* answers; nothing is recorded. It has the settings of a rerun."""
    trace = predictor.trace
    config: Config = recorded_config(trace, overrides, present)
    nobody = Nobody(profile_from(trace.header.get("profile")))
    models: Models | None = models_in(trace, nobody.profile, _predicted_find(trace, config))
    run = Run(
        nobody,
        instruments=instruments,
        models=models,
        model=config.model,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        sampling=config.sampling,
        seed=config.seed,
        world=predictor,
    )
    run.answered_by, run.nests = RECORD, nests(trace.header)
    run.trace_path = lambda: trace.path
    choice = Choice(str(trace.header.get("backend", "")), run.services.model, True)
    return Session(config, choice, script("api"), config.seed or 0, run, nobody)


def _predicted_find(trace: Trace, config: Config) -> Find:
    """Finds what names meant in the run of *trace*, and what a new one would mean with *config*."""
    from appl.session.naming import locate

    meanings = names_in(trace).meanings

    def find(name: str, has_key: bool = False) -> Elsewhere | None:
        location = None if name in meanings else locate(name, config)
        if location is None:
            return meanings.get(name)
        return Elsewhere(location.backend, location.model or "", profile_from(None))

    return find


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TOUCHING = {
    *("os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.link", "os.mkdir"),
    *("os.posix_spawn", "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink"),
    *("os.system", "os.truncate", "os.utime", "socket.connect", "socket.sendmsg", "socket.sendto"),
    *("sqlite3.connect", "subprocess.Popen"),
}


class _Seal:
    """``closed`` while the process is sealed; ``touched`` is what the program tried to, or ""."""

    def __init__(self) -> None:
        self.closed, self.touched = False, ""
        self._hooked = False

    def close(self) -> None:
        """Seal the process. Python has no way to take a hook back."""
        if not self._hooked:
            sys.addaudithook(self._hook)
        self._hooked, self.closed, self.touched = True, True, ""

    def _hook(self, event: str, values: tuple[Any, ...]) -> None:
        touches = event in _TOUCHING
        if self.closed and event == "open":
            path, mode, flags = values  # descriptors are open already
            named = not isinstance(path, int) and os.fsdecode(str(path)) != os.devnull
            touches = named and (flags & _WRITING or not {*"wax+"}.isdisjoint(mode or ""))
        if self.closed and touches:
            self.touched = self.touched or f"what comes after {event} {values[0]!r:.60}"
            raise BrokenOff(self.touched)


_seal = _Seal()


@contextmanager
def sealed() -> Iterator[_Seal]:
    """Inside, a program is silent, reads no terminal, and changes nothing outside of itself."""
    stdin, cached = sys.stdin, sys.dont_write_bytecode
    sys.stdin, sys.dont_write_bytecode = io.StringIO(), True
    _seal.close()
    try:
        with ExitStack() as silent:
            silent.enter_context(redirect_stdout(io.StringIO()))
            silent.enter_context(redirect_stderr(io.StringIO()))
            yield _seal
    finally:
        _seal.closed = False
        sys.stdin, sys.dont_write_bytecode = stdin, cached


@contextmanager
def imported_anew() -> Iterator[None]:
    """Inside, modules of the user's own are imported anew; afterwards those of before are there."""
    before = _forget_modules()
    try:
        yield
    finally:
        _forget_modules()
        sys.modules |= before


def _forget_modules() -> dict[str, ModuleType]:
    """Forget the modules of the user's own, which may hold what an earlier rehearsal left."""
    every = tuple(sys.modules.items())
    own = {name: module for name, module in every if name != "__main__" and _is_own(module)}
    for name in own:
        del sys.modules[name]
    return own


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or ""
    ours = (str(Path(__file__).parents[1]), sys.prefix, sys.base_prefix)
    return file.endswith(".py") and "site-packages" not in file and not file.startswith(ours)
