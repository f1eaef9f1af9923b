"""Runs of their own inside of another run, linked to it.

Invariant: the outer trace says where the inner run began and which trace it has, and the inner
header names the outer run. Whoever repeats the outer run repeats the inner one by its own trace.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from appl import config as settings
from appl.errors import DivergenceError
from appl.runtime.event import Observed
from appl.runtime.frame import FrameRun, frame_in
from appl.runtime.run import Run
from appl.runtime.world import Moment
from appl.session.entry import script
from appl.session.interrupted_run import RUN
from appl.session.ownership import is_own, require_own
from appl.session.replaying import checked, replay_session
from appl.session.rerunning import prediction_session, rerun_session
from appl.session.resume import resume_session
from appl.session.session import RunBlock, Session, block, make_session, settled
from appl.tracing.reading.runs import SUFFIX
from appl.tracing.reading.trace import Trace
from appl.tracing.recording.recorder import new_path
from appl.tracing.replaying.fuzzer import Fuzzer
from appl.tracing.replaying.predictor import Predictor
from appl.tracing.replaying.replayer import Replayer
from appl.tracing.replaying.rerunner import Rerunner
from appl.tracing.replaying.resumer import Resumer
from appl.tracing.replaying.sequencer import Sequencer

if TYPE_CHECKING:
    from appl.runtime.frame import Frame
    from appl.tracing.recording.privacy import Redact

OUTER = "outer"
"""The fact in the inner header: the name of the outer run, and the address where this one began."""
_SET = "set"
"""In that fact: the names of the settings that were given to the block."""


class _Link:
    """The place in the run *outer* where an inner run begins."""

    def __init__(self, outer: FrameRun) -> None:
        self.outer, self.world = outer, outer.outside.world
        self.frame: Frame = frame_in(outer, lambda: "record")
        ordinal = outer.outside.next_observation(self.frame)
        self.moment = Moment(self.frame.address, RUN, ordinal)

    def recorded(self) -> Trace | None:
        """The inner run that was recorded here, if the outer one goes by a record; else ``None``.

        One that asked nothing has no file, and is empty.
        """
        if not isinstance(self.world, Sequencer):
            return None
        observation = self.world.recorded(self.moment)
        return None if observation is None else self.opened(observation.value)

    def opened(self, name: object) -> Trace:
        """The trace of the inner run at *name*, which is relative to the outer one's folder."""
        assert isinstance(self.world, Sequencer)
        outer = self.world.trace.path
        is_ours = is_own(outer)
        if not isinstance(name, str) or not (is_ours or _is_below(name, outer.parent)):
            raise DivergenceError(
                f"the run at {self.moment.address} was not recorded when {outer.name} was: it "
                "cannot be repeated, and nobody is asked in its place"
            )
        path = outer.parent / name
        if not path.exists():
            return Trace(path, state="finished", reason="finished")
        require_own(path, not is_ours, f"`appl trace show {path}` shows it")
        return Trace.open(path, home=settings.load().home)

    def note(self, path: Path | None) -> None:
        """Record in the outer trace that the run begins here, whose trace is at *path*."""
        address, ordinal = self.moment.address, self.moment.ordinal
        outer = self.outer_path()
        beside = outer.parent if outer is not None else Path()
        name = os.path.relpath(path, beside) if path is not None else None
        at = time.monotonic_ns()
        self.outer.reporter.emit(Observed(address, ordinal, RUN, name, at))

    def outer_path(self) -> Path | None:
        """The trace of the outer run, which it has even if it asks nothing itself."""
        gate = self.outer.services.gate
        if gate is not None:
            gate()
        return self.outer.trace_path()

    def never(self) -> NoReturn:
        """Refuse a run that the record of the outer one does not have."""
        assert isinstance(self.world, Sequencer)
        if isinstance(self.world, Fuzzer):
            raise self.world.never_recorded(self.moment.address)
        where = self.moment.address or "the outermost level"
        around = "the run around them" if self.outer.nests else "a run of `appl run` around them"
        error = DivergenceError(
            f"a run of its own begins at {where}, and {self.world.trace.path.name} records none "
            "there: while a record answers, nobody else is asked\n  without own=True, and without "
            f"settings or a path, appl.run(f) and appl.record() are parts of {around}, and "
            "recorded in its trace"
        )
        raise self.world.noted(error)


def _is_below(name: str, folder: Path) -> bool:
    """True if the file *name*, relative to *folder*, lies in it or below."""
    return (folder / name).resolve().is_relative_to(folder.resolve())


def linked(
    outer: FrameRun,
    path: Path | None,
    redact: Redact | None,
    overrides: dict[str, object],
) -> RunBlock[Session]:
    """A block that is a run of its own at this place of *outer*."""
    link = _Link(outer)
    world = link.world
    world.begins_run()
    if outer.answered_by and isinstance(world, Sequencer):
        trace = link.recorded()
        return _repeated(link.never() if trace is None else trace, world, link, overrides)
    if isinstance(world, Resumer) and (trace := link.recorded()) is not None:
        if trace.path.exists():
            return _resumed(trace, overrides)
        return _recorded(link, trace.path, redact, overrides, noted=False)
    config = settings.load(overrides)
    if path is None and config.trace:
        # A name that is known before the first call, and that no other run takes meanwhile.
        path = new_path(script("api").program, config.home / "runs")
        path = path.with_name(f"{path.stem}{secrets.token_hex(4)}{SUFFIX}")
    if isinstance(world, Rerunner) and (trace := link.recorded()) is not None:
        return _rerun(link, trace, path, overrides, world)
    return _recorded(link, path if config.trace else None, redact, overrides)


@block
def _recorded(
    link: _Link,
    path: Path | None,
    redact: Redact | None,
    overrides: dict[str, object],
    noted: bool = True,
) -> Iterator[tuple[Run, Session]]:
    session = make_session(settings.load(overrides), entry=script("api"), path=path, redact=redact)
    _begin(session, link, overrides)
    if noted:
        link.note(path)
    try:
        yield session.run, session
    finally:
        session.end()


def _begin(session: Session, link: _Link, overrides: Mapping[str, object]) -> None:
    """Have the header of *session*'s trace name the outer run, and what was set for this one."""
    outer = link.outer_path()
    place = {"run": outer.stem if outer is not None else None, "address": link.moment.address}
    session.origin = {**session.origin, OUTER: {**place, _SET: sorted(overrides)}}


def _set_then(trace: Trace) -> Collection[str]:
    """The settings that the block of *trace* had of its own: in a rerun it has those of now."""
    outer = trace.header.get(OUTER)
    names = outer.get(_SET) if isinstance(outer, Mapping) else None
    return names if isinstance(names, list) else ()


@block
def _resumed(trace: Trace, overrides: Mapping[str, object]) -> Iterator[tuple[Run, Session]]:
    resumer = Resumer(trace)
    session = resume_session(resumer, overrides)
    with settled(resumer):
        try:
            yield session.run, session
        finally:
            session.close()


@block
def _rerun(
    link: _Link,
    trace: Trace,
    path: Path | None,
    overrides: Mapping[str, object],
    outer: Rerunner,
) -> Iterator[tuple[Run, Session]]:
    rerunner = Rerunner(trace) if trace.path.exists() else None
    if rerunner is None:
        session = make_session(settings.load(overrides), entry=script("api"), path=path)
    else:
        present = _set_then(trace)
        session = rerun_session(rerunner, overrides, path=path, present=present)
    _begin(session, link, overrides)
    link.note(path)
    with settled(session.run.outside.world):
        try:
            yield session.run, session
        finally:
            session.end()
            if rerunner is not None:
                outer.inner.append(rerunner)


def _repeated(
    trace: Trace, outer: Sequencer, link: _Link, overrides: Mapping[str, object]
) -> RunBlock[Session]:
    """The inner run, answered by its own trace as the outer one is by its."""
    if isinstance(outer, Predictor):
        return _predicted(trace, outer, overrides)
    if isinstance(outer, Fuzzer):
        return _fuzzed(trace, outer, link.moment.address)
    return _replayed(trace)


@block
def _replayed(trace: Trace) -> Iterator[tuple[Run, Session]]:
    replayer = Replayer(trace)
    session = replay_session(replayer)
    with checked(replayer):
        yield session.run, session


@block
def _predicted(
    trace: Trace, outer: Predictor, overrides: Mapping[str, object]
) -> Iterator[tuple[Run, Session]]:
    predictor = outer.for_inner(trace)
    try:
        session = prediction_session(predictor, overrides, present=_set_then(trace))
        yield session.run, session
    finally:
        outer.inner.append(predictor)


@block
def _fuzzed(trace: Trace, outer: Fuzzer, address: str) -> Iterator[tuple[Run, Session]]:
    session = replay_session(outer.for_inner(trace, address))
    yield session.run, session
