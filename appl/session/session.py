"""The construction of a session, an open run, from settings, backend, recorder and runtime.

Invariant: the first call of a run opens its trace before it starts, and the trace is closed after
everything in the run has ended.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from appl import config as settings
from appl.backend import Backend, installed
from appl.base import error_hooks, services
from appl.base.shield import shielded
from appl.config import Config
from appl.errors import DivergenceError, TraceWriteError
from appl.runtime import isolated
from appl.runtime.concurrency.fiber import loop_here
from appl.runtime.event import Instrument, wants_chunks
from appl.runtime.frame import enclosing_run, isolated_run
from appl.runtime.run import Run
from appl.runtime.scheduling.dispatcher import BackendEndpoint
from appl.runtime.world import Live, Nobody, World
from appl.session.backend_setup import (
    Choice,
    check_sampling,
    choose,
    close_backend,
    make_backend,
    make_others,
    memoized,
    models_of,
    profiles_of,
)
from appl.session.entry import (
    Entry,
    git_commit,
    program_digests,
    script,
    tell_copies,
    versions,
)
from appl.session.late_backends import LateBackends, Names, names_now
from appl.session.ownership import recording_owner
from appl.session.recording import Recording
from appl.session.scheduling import policy_of, traffic_of
from appl.tracing.format.codec import Plain, plain
from appl.tracing.format.record import profile_data
from appl.tracing.recording.recorder import Recorder, new_path

if TYPE_CHECKING:
    from appl.parts.batching.gathering import Gathering
    from appl.parts.control.server import ControlServer
    from appl.runtime.tools.offers import ToolMemory
    from appl.runtime.world import World
    from appl.session.batched import BatchedBackends
    from appl.tracing.recording.privacy import Redact
    from appl.tracing.replaying.tally import Tally

Tell = Callable[[str], None]
T = TypeVar("T")
P = ParamSpec("P")
_NAME_TRIES = 9
_MANY = ("api", "served")
"""Kinds of entries of which one process may have many runs."""
_reported: set[str] = set()
RECORDED = (
    "model",
    "backend",
    "temperature",
    "max_tokens",
    "top_p",
    "stop",
    "backend_options",
    "batch",
)
"""Settings that affect requests: the first run's values hold unless new ones are given."""

_INSTEAD = (
    "what is asked outside of the run is not in its record: have it return through "
    "appl.observe(f, …) or a tool, whose results are recorded, or ask in the run itself"
)
OUTER = "APPL_OUTER"
"""Set in the environment of the processes of a hosted program: the name of its run."""
BUDGET_ACCOUNT = "APPL_BUDGET_ACCOUNT"
"""Set in the environment of a hosted program's processes: the file with its budget's account."""


def tell(line: str) -> None:
    """Write a line to stderr."""
    print(f"{line}\n", end="", file=sys.stderr, flush=True)  # one write in place of two


@dataclass(slots=True)
class Session:
    """An open run with its settings, backend and, if it is recorded, its recording.

    ``others`` are further backends that names for models lead to; ``late`` makes backends at their
    first use. ``origin`` is the part of its trace's header about the earlier run of which this one
    is a rerun, ``tally`` counts the calls of one that is resumed. Without ``hints`` the user gets
    no suggestion at the end. ``gathering`` gathers calls for batches.
    """

    config: Config
    choice: Choice
    entry: Entry
    seed: int
    run: Run
    backend: Backend
    recording: Recording | None = None
    redact: Redact | None = None
    others: Mapping[str, Backend] = field(default_factory=dict)
    origin: Mapping[str, object] = field(default_factory=lambda: {"parent": None})
    tally: Tally | None = None
    hints: bool = True
    late: LateBackends | None = None
    gathering: Gathering | None = field(default=None, repr=False)
    closed: bool = field(default=False, repr=False)
    control_server: ControlServer | None = field(default=None, repr=False)

    @property
    def path(self) -> Path | None:
        """The path of the trace; ``None`` before the first call and without recording."""
        recorder = self.recording.recorder if self.recording else None
        return recorder.path if recorder else None

    def next_line(self) -> str | None:
        """The suggestion after the first run in a folder; ``None`` after a resumed run."""
        from appl.session.next_steps import after_run  # only the command line shows it

        return after_run(self.path, self.config.home) if self.hints else None

    def failures_line(self) -> str | None:
        """A line about what failed in the recorded run, with the command that asks it again.

        ``None`` if nothing did.
        """
        recorder = self.recording.recorder if self.recording else None
        counts = recorder.encoder.failure_counts() if recorder else None
        if recorder is None or counts is None or not counts.has_retriable:
            return None
        command = f"`appl trace rerun {recorder.path.stem} --anew failed`"
        return f"appl: {', '.join(counts.words())}; {command} asks only those again"

    def resume_line(self) -> str | None:
        """The command that goes on with the recorded run; ``None`` if it is not recorded."""
        name = self.run_name()
        return None if name is None else f"appl: `appl trace resume {name}` goes on with it"

    def run_name(self) -> str | None:
        """The name by which commands know the recorded run; ``None`` if it is not recorded."""
        path = self.path
        if path is None:
            return None
        return path.stem if path.parent == self.config.home / "runs" else shown(path)

    def start_control(self, say: Tell, recorder: Recorder | None) -> None:
        """Start the control server if the settings say so; by default, if the run is recorded."""
        config = self.config
        if config.ctl and (config.trace or config.origin("ctl") != "default"):
            from appl.session import control_server as starting

            self.control_server = starting.start_server(self, say, recorder)

    def end(self) -> None:
        """Call :meth:`close` now, or once the stream that the run returned has ended."""
        if self.run.over:
            self.close()
        else:
            from appl.session.deferred_close import close_when_over  # few runs outlive their block

            close_when_over(self)

    def close(self) -> None:
        """Close trace and backends after the run has ended."""
        if self.closed:
            return
        try:
            # A Ctrl-C waits: a trace that is closed in part would seem to be that of a crash. One
            # that comes before leaves the session open, and whoever handles it closes it.
            with shielded():
                self.closed = True
                if self.control_server is not None:
                    self.control_server.close()
                    self.control_server = None
                if self.gathering is not None:
                    self.gathering.close()
                if self.recording is not None:
                    self.recording.close()
        finally:
            late = {}
            if self.late is not None:
                self.late.place = None  # the run is over, and let go
                late = self.late.instances
            for backend in (self.backend, *self.others.values(), *late.values()):
                close_backend(backend)
        is_program = self.entry.kind not in _MANY and "pytest" not in sys.modules
        if is_program and "serial" in vars(self.run):  # calls have waited for one another
            line = self.run.serial.line(time.monotonic() - self.run.began)
            if line:
                self.run.reporter.tell(f"appl: {line}")
        if self.config.otel is not None and self.path is not None:
            from appl.session import span_export

            span_export.send_spans(
                self.path, self.config.otel, self.config.home, self.run.reporter.tell
            )
        if self.config.gc and self.path is not None:
            from appl.tracing.keeping.automatic_removal import tidy

            tidy(self.config)


def make_session(
    config: Config | None = None,
    *,
    entry: Entry | None = None,
    instruments: Iterable[Instrument] = (),
    path: Path | None = None,
    say: Tell = tell,
    redact: Redact | None = None,
    world: World | None = None,
    recorder: Callable[[Session], Recorder] | None = None,
    names: Names | None = None,
) -> Session:
    """A session with backend, recorder and run, wired but not entered.

    *world* supplies its programs with outside events, such as those of an earlier run. *recorder*
    makes the recorder of its trace. *redact* changes each message before it is stored; otherwise
    the settings may name it. *names* resolve names for models, by default those of the settings.
    """
    config = config or settings.load()
    for note in config.notes:  # settings that have no effect, once in a process
        if note not in _reported:
            _reported.add(note)
            say(f"appl: {note}")
    if "fastapi.encoders" in sys.modules:
        from appl.session.web_answers import register  # only a program with FastAPI needs it

        register()
    check_sampling(config)
    installed_backends, entry = installed(), entry or script()
    seed = config.seed if config.seed is not None else secrets.randbits(48)
    answering = answering_run()
    if answering is not None:  # a test's backend, whatever the settings say
        backend, instances = answering.services.backend, {}
        choice = Choice(backend.profile.name, answering.services.model or None, True)
    else:
        choice = choose(config, installed_backends)
        if choice.note is not None:
            say(f"appl: {choice.note}")
        backend = make_backend(config, choice, seed, installed_backends)
        instances = make_others(config, choice, seed)
    others = {
        name: backend for name, backend in instances.items() if not isinstance(backend, Exception)
    }
    batched, scheduled = None, config
    if config.batch and answering is None:
        from appl.session.batched import BatchedBackends  # only a run with batches needs it

        batched = BatchedBackends(config, say)
        backend = batched.own(choice.backend, backend)
        others = {name: batched.other(name, other) for name, other in others.items()}
        scheduled = batched.config
    names = names or names_now(config, installed_backends)
    late = LateBackends(config, choice, seed, say, names)
    recording = Recording(
        lambda: _begin(session, path, say, recorder),
        records=config.trace,
        wants_arguments=config.arguments,
    )
    watching = list(instruments)
    if config.stream and not any(map(wants_chunks, watching)):
        watching.append(services.answer_printer())
    if config.trace:
        watching.append(cast(Instrument, recording))
    policy = policy_of(config, choice.backend)
    traffic = traffic_of(config, choice.backend, backend.profile, policy)
    if batched is not None:
        policy = batched.policy(policy)
        traffic = traffic_of(scheduled, choice.backend, backend.profile, policy)
    places = {name: _place(scheduled, name, other, batched) for name, other in others.items()}
    models = models_of(
        config,
        choice,
        backend.profile,
        profiles_of(instances),
        find=late.find,
        reserved=names.backends,
    )
    if answering is not None:
        models = copy(answering.dispatch.models)
    run = Run(
        backend,
        instruments=watching,
        prepare=recording.prepare,
        gate=recording.gate,
        enter=recording.enter,
        barrier=recording.barrier,
        models=models,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        sampling=config.sampling,
        seed=seed,
        concurrency=scheduled.concurrency,
        policy=policy,
        traffic=traffic,
        places=places,
        world=world,
    )
    if BUDGET_ACCOUNT in os.environ:
        from appl.session.shared_budget import join  # only a program with a budget needs it

        join(run)
    late.world, late.own = run.outside.world, backend
    late.place = partial(_placed, scheduled, run, batched)
    if any(model.within is not None for model in (*config.models.values(), choice.placed) if model):
        from appl.session.forecast import forecast_for  # few runs have a deadline

        run.dispatch.expect(forecast_for(entry, config.home, world))
    run.dispatch.follow_routes()
    run.reporter.tell = say
    run.longest_wait = config.longest_wait
    run.trace_path = recording.path
    run.nests = entry.kind != "script"
    run.open_tool_memory = partial(_tool_memory, config.home)
    if redact is None and config.redact is not None and config.trace:
        from appl.session.redacting import function_named

        redact = function_named(config.redact)
    if answering is not None:
        backend = Nobody(backend.profile)  # whoever has lent it closes it
    session = Session(
        config, choice, entry, seed, run, backend, recording, redact, others, late=late
    )
    if batched is not None:
        session.gathering = batched.gathering
        batched.gathering.serve(run, run.reporter.emit, recording.barrier)
    if name := os.environ.get(OUTER):  # the run whose program has started this process
        session.origin = {**session.origin, "outer": {"run": name, "address": None}}
    return session


def answering_run() -> Run | None:
    """The run whose backend answers runs that are opened inside of it, if such a run is open.

    Raises ``DivergenceError`` where nobody may be asked: while a record answers.
    """
    run = cast("Run | None", isolated_run() or services.sessions().hosted_run())
    if run is None or not run.answered_by:
        if (answerer := isolated.inherited()) is not None:
            raise DivergenceError(
                f"process {os.getpid()} was started by a program that {answerer} answers, and may "
                f"ask nobody\n  {_INSTEAD}"
            )
        return None
    if type(run.outside.world) is not Live:
        raise DivergenceError(
            f"{run.answered_by} answers the program of this process, and another run may ask "
            f"nobody\n  {_INSTEAD}"
        )
    return run


def _tool_memory(home: Path) -> ToolMemory:
    from appl.session.tool_memory import StoredToolMemory  # few programs use tools of servers

    return StoredToolMemory(home)


def _placed(
    config: Config, run: Run, batched: BatchedBackends | None, name: str, backend: Backend
) -> None:
    """Make *run* send calls to *backend*, which was made at its first use."""
    if batched is not None:
        backend = batched.other(name, backend)
    run.dispatch.add_place(name, _place(config, name, backend, batched))
    run.outside.ask_for_waits(run, backend)


def _place(
    config: Config, name: str, backend: Backend, batched: BatchedBackends | None
) -> BackendEndpoint:
    policy = policy_of(config, name)
    if batched is not None:
        policy = batched.policy(policy)
    return BackendEndpoint(backend, policy, traffic_of(config, name, backend.profile, policy))


def _begin(
    session: Session,
    path: Path | None,
    say: Tell,
    make: Callable[[Session], Recorder] | None,
) -> Recorder | None:
    """Begin a run at its first call: report the answering model and the path of the trace."""
    late_backends = session.late is not None and session.late.instances  # named in the first call
    if make is None and not (session.choice.is_chosen or late_backends):
        is_reported = session.entry.kind in _MANY and "embedded" in _reported
        _reported.add("embedded")
        if not is_reported:  # a program with many blocks is told once
            say(
                "appl: no model is configured, so the embedded one answers (a small test model); "
                "`appl config` shows how to choose"
            )
    if not session.config.trace:
        session.start_control(say, None)
        return None
    try:
        recorder = _recorder(session, path, say) if make is None else make(session)
    except TraceWriteError as error:
        if session.config.on_trace_error == "stop":
            raise
        say(f"appl: {error}; the run goes on unrecorded")
        return None
    session.start_control(say, recorder)
    if session.entry.kind == "cli":
        os.environ[OUTER] = recorder.path.stem
        tell_copies(session.entry)
    if "IPython" in sys.modules:
        from appl.session import notebook  # only a notebook needs it

        notebook.show_trace_below_cells(session.run, recorder.path)
    if make is None:
        say(f"appl: recording in {shown(recorder.path)}")
    return recorder


def _recorder(session: Session, path: Path | None, say: Tell, tries: int = _NAME_TRIES) -> Recorder:
    config = session.config
    try:
        return Recorder(
            path or new_path(session.entry.program, config.home / "runs"),
            header(session),
            durability=cast(Any, config.durability),
            on_error=cast(Any, config.on_trace_error),
            notify=say,
            redact=session.redact,
            privacy=cast(Any, config.privacy),
            shapes=config.mask_shapes,
            arguments=config.arguments,
            home=config.home,
            owner=recording_owner(),
        )
    except TraceWriteError as error:
        # Of many runs that begin in the same millisecond, two may have got the same name.
        name_exists = path is None and isinstance(error.__cause__, FileExistsError)
        if not (name_exists and tries):
            raise
        return _recorder(session, path, say, tries - 1)


def header(session: Session) -> dict[str, object]:
    """The header of the trace of *session*'s run."""
    entry = session.entry
    places = {name: profile_data(backend.profile) for name, backend in session.others.items()}
    return {
        "program": entry.program,
        "entry": Plain(entry.as_data()),
        "settings": shown_settings(session.config),
        "backend": session.choice.backend,
        "model": session.run.services.model,
        "models": session.run.dispatch.models.as_data(),
        "programs": program_digests(entry),
        "git": git_commit(os.path.dirname(entry.file) if entry.file else os.getcwd()),
        "versions": versions(),
        "seed": session.seed,
        "timers": True,
        **session.origin,
        "profile": profile_data(session.backend.profile),
        **({"places": places} if places else {}),
        "backends": sorted(session.run.dispatch.models.reserved),
    }


@memoized
def shown_settings(config: Config) -> dict[str, object]:
    """The settings as the header shows them."""
    return Plain(plain({key: value for key, value, _ in config.shown()}))


def shown(path: Path) -> str:
    """*path* relative to the working directory if it lies below it, otherwise in full."""
    if not path.is_absolute():
        return str(path)
    return str(path).removeprefix(f"{os.getcwd()}{os.sep}")


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    redact: Redact | str | None = None,
    own: bool = False,
    **overrides: object,
) -> RunBlock[Session]:
    """A block that is a run, with its own trace: ``with appl.record() as session:``.

    *path* is the path of the trace, *overrides* are settings. *redact* is called with each message,
    including answers, and its return value is stored instead. ``session.path`` is known after the
    first call. Also usable with ``async with``.

    Inside of another run the block is a part of that, with its settings, budgets and trace. It is a
    run of its own there if it has any argument: *own* asks for just that.
    """
    error_hooks.install()
    around = enclosing_run()
    is_part = not (own or path is not None or redact is not None or overrides)
    if is_part and around is not None and around.nests:
        from appl.runtime import nested  # only a run inside a run needs it

        return cast("RunBlock[Session]", nested.NestedRun(cast("Run", around), lambda: "record"))
    outer = around or cast("Run | None", services.sessions().open_run())
    if isinstance(redact, str):
        overrides["redact"], redact = redact, None
    where = Path(path) if path is not None else None
    if outer is not None:
        linked = services.sessions().linked(outer, where, redact, overrides)
        return cast("RunBlock[Session]", linked)
    return _recorded(where, redact, overrides)


class RunBlock(Generic[T]):
    """A context manager for a run and its surroundings, to be used once."""

    def __init__(self, around: AbstractContextManager[tuple[Run, T]]) -> None:
        self._around = around
        self._stack, self._later = ExitStack(), AsyncExitStack()

    def __enter__(self) -> T:
        with ExitStack() as stack:
            run, value = stack.enter_context(self._around)
            stack.enter_context(run)
            self._stack = stack.pop_all()
        return value

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    async def __aenter__(self) -> T:
        loop_here()
        async with AsyncExitStack() as stack:
            run, value = self._around.__enter__()
            stack.push_async_exit(self._leave)
            await stack.enter_async_context(run)
            self._later = stack.pop_all()
        return value

    async def __aexit__(self, *error: Any) -> None:
        await self._later.__aexit__(*error)

    async def _leave(self, *error: Any) -> None:
        await asyncio.to_thread(self._around.__exit__, *error)


def block(around: Callable[P, Iterator[tuple[Run, T]]]) -> Callable[P, RunBlock[T]]:
    """Turn a generator of a run and the block's value into a function that makes blocks."""
    manager = contextmanager(around)

    @functools.wraps(around)
    def made(*args: P.args, **options: P.kwargs) -> RunBlock[T]:
        return RunBlock(manager(*args, **options))

    return made


@contextmanager
def settled(world: World) -> Iterator[None]:
    """Raise the divergence of *world*, even if the program swallowed it or failed of it."""
    try:
        yield
    except Exception:
        if (difference := world.difference()) is not None:
            raise difference from None
        raise
    if (difference := world.difference()) is not None:
        raise difference


@block
def _recorded(
    path: Path | None,
    redact: Redact | None,
    overrides: dict[str, object],
) -> Iterator[tuple[Run, Session]]:
    """A block that is a run of its own."""
    session = make_session(settings.load(overrides), entry=script("api"), path=path, redact=redact)
    try:
        yield session.run, session
    finally:
        session.end()
