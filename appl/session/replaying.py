"""Runs that a recorded run answers.

Invariant: nothing is recorded, no backend is made, and a difference raises.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appl import config as settings
from appl.config import Config
from appl.runtime.event import Instrument
from appl.runtime.run import Run
from appl.runtime.scheduling.policy import Policy
from appl.session.backend_setup import Choice
from appl.session.blocks import block, settled
from appl.session.entry import script
from appl.session.recorded_run import models_in, nests, recorded_text, sampling_in
from appl.session.session import Session
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.replayer import Replayer

if TYPE_CHECKING:
    from appl.tracing.replaying.fuzzer import Fuzzer


def replay_run(
    replayer: Replayer | Fuzzer,
    *,
    instruments: Iterable[Instrument] = (),
    policy: Policy | None = None,
) -> Run:
    """A run that *replayer* answers, with the recorded settings."""
    head, backend = replayer.trace.header, replayer.backend
    run = Run(
        backend,
        instruments=instruments,
        world=replayer,
        model=recorded_text(head.get("model")),
        models=models_in(replayer.trace, backend.profile),
        seed=_number(head.get("seed")),
        temperature=_recorded(head, "temperature"),
        max_tokens=_recorded(head, "max_tokens"),
        sampling=sampling_in(head),
        policy=policy,
    )
    run.is_isolated, run.nests = True, nests(head)
    path = replayer.trace.path
    run.trace_path = lambda: path
    return run


def replay_session(
    replayer: Replayer | Fuzzer,
    *,
    instruments: Iterable[Instrument] = (),
    policy: Policy | None = None,
) -> Session:
    """The session of such a run; nothing is recorded."""
    run = replay_run(replayer, instruments=instruments, policy=policy)
    services, name = run.services, str(replayer.trace.header.get("backend", ""))
    choice = Choice(name, services.model, True)
    return Session(Config(), choice, script("api"), services.seed or 0, run, services.backend)


@block
def replayed(
    trace: Trace | str | os.PathLike[str], *, instruments: Iterable[Instrument] = ()
) -> Iterator[tuple[Run, Replayer]]:
    """A block that *trace* answers; at its end, a difference raises.

    Also usable with ``async with``.
    """
    if not isinstance(trace, Trace):
        trace = Trace.open(trace, home=lambda: settings.load().home)
    replayer = Replayer(trace)
    with checked(replayer):
        yield replay_run(replayer, instruments=instruments), replayer


@contextlib.contextmanager
def checked(replayer: Replayer) -> Iterator[None]:
    """Raise the divergence of *replayer*, even if the program swallowed it or failed of it."""
    with settled(replayer):
        yield
    replayer.finish()


def _recorded(head: Mapping[str, object], key: str) -> Any:
    table = head.get("settings")
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, int | float) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
