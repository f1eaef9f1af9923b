"""The composition root: settings, backend, recorder and runtime become a run.

Invariant: nothing here happens at import; a trace is opened by the first call of a run, before that
call starts, and closed after everything in the run has ended.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import os
import platform
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, cast

from appl import config as settings
from appl.backend import Backend, Profile, installed, load
from appl.config import Config
from appl.errors import BackendNotFound, ConfigError, ModelNotFound, TraceWriteError, nearest
from appl.prompt import digest_of, tagged
from appl.runtime.crossing import io_thread
from appl.runtime.event import Event, Instrument
from appl.runtime.run import Run
from appl.tracing import Recorder, Replayer, Trace, new_path, profile_data

Tell = Callable[[str], None]
EMBEDDED = "embedded"
_UNINSTALLED = {EMBEDDED: "appl_backends.embedded:Embedded"}  # when run from a bare checkout
_CLOSING_S = 5.0
_OWN_MODULES = 200


def tell(line: str) -> None:
    """A line on stderr."""
    print(line, file=sys.stderr, flush=True)


# -- which program runs ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """How a program was started, so that a replay can start it again.

    ``cli`` is ``appl run`` with *argv* as typed; of a ``script`` only the number of its arguments
    is recorded, they may hold anything; an ``api`` run is a block inside a program.
    """

    kind: Literal["cli", "script", "api"]
    file: str | None = None
    function: str | None = None
    argv: tuple[str, ...] = ()
    argc: int = 0

    @property
    def program(self) -> str:
        """A short name: the function's, or the file's when that says more."""
        file = Path(self.file).stem if self.file else "run"
        return file if self.function in (None, "main") else str(self.function)

    def as_data(self) -> dict[str, Any]:
        """The entry for the header of a trace."""
        return {
            "kind": self.kind,
            "file": self.file,
            "function": self.function,
            "argv": list(self.argv),
            "argc": self.argc,
            "directory": str(Path.cwd()),
        }


def script(kind: Literal["script", "api"] = "script") -> Entry:
    """The program that Python was started with; without a file in a REPL, notebook or ``-c``."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    path = str(Path(file).resolve()) if file else None
    return Entry(kind, path, argc=max(len(sys.argv) - 1, 0))


def program_digests(entry: Entry) -> dict[str, str]:
    """Digests of the entry's file and of the modules that lie beside it."""
    if entry.file is None:
        return {}
    folder, files = Path(entry.file).parent, {entry.file}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).parent == folder and file.endswith(".py"):
            files.add(file)
    return {
        file: tagged(found) for file in sorted(files)[:_OWN_MODULES] if (found := _digest(file))
    }


def _digest(file: str) -> bytes | None:
    try:
        return digest_of(Path(file).read_bytes())
    except OSError:
        return None


def git_commit(start: Path) -> str | None:
    """The commit that is checked out where *start* lies, read from the files of git."""
    for folder in (start, *start.parents):
        git = folder / ".git"
        if git.exists():
            return _head(git)
    return None


def _head(git: Path) -> str | None:
    try:
        if git.is_file():  # a worktree: "gitdir: <path>"
            git = (git.parent / git.read_text().partition(":")[2].strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        name, shared = head[5:], git / "commondir"
        main = (git / shared.read_text().strip()) if shared.is_file() else git
        if (main / name).is_file():
            return (main / name).read_text().strip()
        lines = (main / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None


def versions() -> dict[str, str]:
    """What the run ran on."""
    return {
        "appl": version(),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
    }


def version() -> str:
    """The installed version of appl, ``source`` for a checkout that is not installed."""
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("appl"))
    except metadata.PackageNotFoundError:
        return "source"


# -- who answers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """Which backend and model answer, and whether somebody asked for them."""

    backend: str
    model: str | None
    asked: bool


def choose(config: Config) -> Choice:
    """The backend and model of *config*; ``backend/model`` as a model names both."""
    backend, model = config.backend, config.model
    asked = backend is not None or model is not None
    if backend is None and model is not None:
        head, _, rest = model.partition("/")
        if head in _names():
            backend, model = head, rest or None
    return Choice(backend or EMBEDDED, model, asked)


def _names() -> set[str]:
    return {*installed(), *_UNINSTALLED}


def make_backend(config: Config, choice: Choice, seed: int) -> Backend:
    """The backend of *choice* with its settings. Raises ``BackendError`` or ``ConfigError``."""
    arguments = config.settings_of(choice.backend)
    if choice.backend == EMBEDDED:
        arguments.setdefault("seed", seed)
    name = choice.backend
    if name not in installed():
        name = _UNINSTALLED.get(name, name)
    if ":" not in name and name not in _names():
        raise BackendNotFound(
            f"there is no backend {name!r}{nearest(name, _names())} (installed: "
            f"{', '.join(sorted(_names()))}; or write module:attribute)"
        )
    try:
        backend = load(name, arguments)
    except TypeError as error:
        if not arguments:
            raise
        raise ConfigError(f"[backends.{choice.backend}]: {error}") from error
    _check_model(backend.profile, choice)
    return backend


def _check_model(profile: Profile, choice: Choice) -> None:
    model = choice.model
    if model is None or not profile.models or model in profile.models:
        return
    others = sorted(_names() - {choice.backend})
    more = f"; other backends are chosen with --backend: {', '.join(others)}" if others else ""
    raise ModelNotFound(
        f"the backend {choice.backend!r} has no model {model!r}"
        f"{nearest(model, [*profile.models, *_names()])} "
        f"(its models: {', '.join(profile.models)}{more})"
    )


# -- recording ---------------------------------------------------------------------------------


class Recording:
    """The recorder of a run, which does not exist before the first call.

    What happens earlier is kept and handed over. ``gate`` opens the trace; when that fails, the
    call that would have been the first is refused, and so is every other.
    """

    def __init__(self, open_recorder: Callable[[], Recorder | None]) -> None:
        self._open = open_recorder
        self._early: list[Event] = []
        self._lock = threading.RLock()
        self._opened = False
        self.recorder: Recorder | None = None
        self.on_event: Callable[[Event], None] = self._keep

    def gate(self) -> None:
        """Let the next call start; the first one opens the trace."""
        if not self._opened:
            with self._lock:
                self._begin()
        if self.recorder is not None:
            self.recorder.gate()

    def _begin(self) -> None:
        if self._opened:
            return
        self.recorder = self._open()
        self._opened = True
        early, self._early = self._early, []
        if self.recorder is not None:
            for event in early:
                self.recorder.on_event(event)
        self.on_event = self.recorder.on_event if self.recorder is not None else _ignore

    def _keep(self, event: Event) -> None:
        with self._lock:
            if self._opened:
                self.on_event(event)
            else:
                self._early.append(event)

    def close(self, reason: str | None = None) -> None:
        """Close the trace, if there is one. Raises ``TraceWriteError``."""
        if self.recorder is not None:
            self.recorder.close(reason)


def _ignore(event: Event) -> None:
    return None


# -- sessions ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Session:
    """An open run with what belongs to it: settings, backend, and the recording if there is one."""

    config: Config
    choice: Choice
    entry: Entry
    seed: int
    run: Run
    backend: Backend
    recording: Recording | None = None
    _closed: bool = field(default=False, repr=False)

    @property
    def path(self) -> Path | None:
        """Where the trace lies; ``None`` before the first call and without recording."""
        recorder = self.recording.recorder if self.recording else None
        return recorder.path if recorder else None

    def close(self) -> None:
        """Close trace and backend, after the run has ended."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.recording is not None:
                self.recording.close()
        finally:
            _aclose(self.backend)


def _aclose(backend: Backend) -> None:
    io = io_thread()
    if io.here():
        return
    closing = asyncio.run_coroutine_threadsafe(backend.aclose(), io.loop)
    with contextlib.suppress(TimeoutError):
        closing.result(_CLOSING_S)


def make_session(
    config: Config | None = None,
    *,
    entry: Entry | None = None,
    instruments: Iterable[Instrument] = (),
    path: Path | None = None,
    say: Tell = tell,
) -> Session:
    """Backend, recorder and run, wired but not entered."""
    config = config or settings.load()
    choice, entry = choose(config), entry or script()
    seed = config.seed if config.seed is not None else secrets.randbits(48)
    backend = make_backend(config, choice, seed)
    recording = Recording(lambda: _begin(session, path, say))
    watching = [*instruments, cast(Instrument, recording)] if config.trace else list(instruments)
    run = Run(
        backend, instruments=watching, gate=recording.gate, model=choice.model,
        temperature=config.temperature, max_tokens=config.max_tokens, seed=seed,
        concurrency=config.concurrency,
    )  # fmt: skip
    run.tell = say
    session = Session(config, choice, entry, seed, run, backend, recording)
    return session


def _begin(session: Session, path: Path | None, say: Tell) -> Recorder | None:
    """At the first call of a run: say who answers and where the trace lies."""
    if not session.choice.asked and _first_time(session):
        say(
            "appl: no model is configured, so the embedded one answers (a small test model); "
            "`appl config` shows how to choose"
        )
    if not session.config.trace:
        return None
    try:
        recorder = _recorder(session, path, say)
    except TraceWriteError as error:
        if session.config.on_trace_error == "stop":
            raise
        say(f"appl: {error}; the run goes on unrecorded")
        return None
    say(f"appl: recording in {shown(recorder.path)}")
    return recorder


_told: set[str] = set()


def _first_time(session: Session) -> bool:
    """A program with many blocks is told once who answers."""
    seen = session.entry.kind == "api" and "embedded" in _told
    _told.add("embedded")
    return not seen


def _recorder(session: Session, path: Path | None, say: Tell) -> Recorder:
    config = session.config
    return Recorder(
        path or new_path(session.entry.program, config.home / "runs"),
        header(session),
        durability=cast(Any, config.durability),
        on_error=cast(Any, config.on_trace_error),
        notify=say,
    )


def header(session: Session) -> dict[str, Any]:
    """What a trace says about its run."""
    entry = session.entry
    return {
        "program": entry.program,
        "entry": entry.as_data(),
        "settings": {key: value for key, value, _ in session.config.shown()},
        "backend": session.choice.backend,
        "model": session.run.model,
        "programs": program_digests(entry),
        "git": git_commit(Path(entry.file).parent if entry.file else Path.cwd()),
        "versions": versions(),
        "seed": session.seed,
        "parent": None,
        "profile": profile_data(session.backend.profile),
    }


def shown(path: Path) -> str:
    """*path* from here when it lies below, else in full."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


@contextlib.contextmanager
def open_run(
    config: Config | None = None,
    *,
    entry: Entry | None = None,
    instruments: Iterable[Instrument] = (),
    path: Path | None = None,
    say: Tell = tell,
) -> Iterator[Session]:
    """A run with all that belongs to it; at its end it waits, raises and closes."""
    session = make_session(config, entry=entry, instruments=instruments, path=path, say=say)
    try:
        with session.run:
            yield session
    finally:
        session.close()


class record:
    """A block that is a run of its own, with its own trace: ``with appl.record() as session:``.

    *path* says where the trace lies, *overrides* are settings. ``session.path`` is known after the
    first call. Also usable with ``async with``.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, **overrides: Any) -> None:
        self._path = Path(path) if path is not None else None
        self._overrides: Mapping[str, Any] = overrides
        self._session: Session | None = None

    def _opened(self) -> Session:
        config = settings.load(self._overrides)
        self._session = make_session(config, entry=script("api"), path=self._path)
        return self._session

    def __enter__(self) -> Session:
        session = self._opened()
        session.run.__enter__()
        return session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = cast(Session, self._session)
        try:
            session.run.__exit__(kind, error, trace)
        finally:
            session.close()

    async def __aenter__(self) -> Session:
        session = self._opened()
        await session.run.__aenter__()
        return session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = cast(Session, self._session)
        try:
            await session.run.__aexit__(kind, error, trace)
        finally:
            await asyncio.to_thread(session.close)


def replay_session(replayer: Replayer, *, instruments: Iterable[Instrument] = ()) -> Session:
    """A run that *replayer* answers, with the recorded settings; nothing is recorded."""
    head = replayer.trace.header
    seed = _number(head.get("seed"))
    run = Run(
        replayer.backend, instruments=[*instruments, replayer], effects=replayer.effects,
        model=_word(head.get("model")), seed=seed,
        temperature=_recorded(head, "temperature"), max_tokens=_recorded(head, "max_tokens"),
    )  # fmt: skip
    choice = Choice(str(head.get("backend", "")), run.model, True)
    return Session(Config(), choice, script("api"), seed or 0, run, replayer.backend)


@contextlib.contextmanager
def replayed(
    trace: Trace | str | os.PathLike[str], *, instruments: Iterable[Instrument] = ()
) -> Iterator[Replayer]:
    """A block that is answered from *trace*; at its end, what differs is raised."""
    replayer = Replayer(trace)
    with checked(replayer), replay_session(replayer, instruments=instruments).run:
        yield replayer


@contextlib.contextmanager
def checked(replayer: Replayer) -> Iterator[None]:
    """Raises the divergence of *replayer*, also one that the program swallowed or failed of."""
    try:
        yield
    except Exception:
        if replayer.divergence is not None:
            raise replayer.divergence from None
        raise
    replayer.finish()


def _recorded(head: Mapping[str, Any], key: str) -> Any:
    table = head.get("settings")
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, int | float) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


# -- the process's own run ---------------------------------------------------------------------

_lock = threading.RLock()
_process: Session | None = None
_opener: Callable[[], Session] | None = None


def process_run() -> Run:
    """The run of what has no other: of a plain ``python file.py``, or of a hosted program.

    The first call opens it; a plain program's is closed when the process exits.
    """
    return process_session().run


def process_session() -> Session:
    """The session of :func:`process_run`."""
    global _process
    with _lock:
        if _process is None and _opener is not None:
            _process = _opener()
        elif _process is None:
            _process = make_session()
            importlib.import_module("concurrent.futures.thread")  # its own end must come after ours
            _at_exit(_close_process)
            os.register_at_fork(after_in_child=_forget)
        return _process


@contextlib.contextmanager
def hosted(opener: Callable[[], Session]) -> Iterator[None]:
    """Inside, the process's run is the one that *opener* makes when it is needed.

    So what a module does at import belongs to the run of the function that is then called.
    """
    global _process, _opener
    before, (_process, _opener) = (_process, _opener), (None, opener)
    try:
        yield
    except BaseException as error:
        _end_hosted(error)
        raise
    else:
        _end_hosted(None)
    finally:
        _process, _opener = before


def _end_hosted(error: BaseException | None) -> None:
    if _process is None:
        return
    if error is None:
        _finish(_process, None)
        return
    with contextlib.suppress(Exception):  # the program's own error is the one to show
        _finish(_process, error)


def _forget() -> None:
    """A forked child has no part in its parent's run."""
    global _process
    _process = None


def _at_exit(action: Callable[[], None]) -> None:
    """Have *action* called when the main thread is done, while threads can still be used."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(action)


def _close_process() -> None:
    """Wait for everything; what nobody looked at is shown and makes the exit code 1."""
    session = _process
    if session is None:
        return
    failed = _unhandled()
    try:
        _finish(session, failed)
    except BaseException as error:
        if failed is None:
            _die(error)


def _finish(session: Session, failed: BaseException | None) -> None:
    try:
        session.run.finish(failed)
    finally:
        session.close()


def _unhandled() -> BaseException | None:
    """The exception that ends the program, if one does."""
    if hasattr(sys, "ps1"):  # a REPL remembers its last error, which ended nothing
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def _die(error: BaseException) -> None:
    """Show *error* and exit with 1 (130 after Ctrl-C), after all that Python does at its end."""
    tell("appl: what the program started did not end well:")
    traceback.print_exception(error)
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(130 if isinstance(error, KeyboardInterrupt) else 1)
