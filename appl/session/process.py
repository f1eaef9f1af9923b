"""The process's own run, for calls outside of every other run, and the end of the process.

Invariant: its first call opens it, and it is closed once, when the process exits. No key is in
the settings that other processes get.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from appl import config as settings
from appl.base import error_hooks, services, tracebacks
from appl.base.threads import process_lock
from appl.config import Config
from appl.errors import ConfigError, RunClosed
from appl.runtime.concurrency.fiber import rest_if_daemon
from appl.runtime.run import Run
from appl.session.deferred_close import at_exit, load_pools, users_threads
from appl.session.entry import PROGRAM
from appl.session.session import BUDGET_ACCOUNT, OUTER, RECORDED, Session, make_session, shown, tell
from appl.tracing.recording.writer import sync_before_exit

_lock = process_lock(threading.RLock)
_process: Session | None = None
_opener: Callable[[], Session] | None = None
_exports: contextlib.ExitStack | None = None  # what is undone when the hosted program has ended
_opening = False  # the opener runs, and may open nothing inside of what it opens
_is_announced = False
_others: list[threading.Thread] = []  # of the user's threads, those before the hosted program
_LOOK_S = 0.05
_LIMITS = ("concurrency", "home", "privacy", "trace")
_BUDGET = "APPL_BUDGET"


def process_session(script: Callable[[], Session] | None = None) -> Session:
    """The session of the process's own run.

    The first call opens it: that of the program that is ``hosted``, else that of the *script* that
    runs as the main program, which is closed when the process exits.
    """
    global _process
    with _lock:
        if _process is None and _opener is not None:
            _process = _opened(_opener)
            settings.settle(_refusing(_process.run, _users_place()))
        elif _process is None:
            assert script is not None, "no program is hosted"
            load_pools()
            _process = script()
            settings.settle(_refusing(_process.run, _users_place()))
            _process.run.on_late = rest_if_daemon
            # The run is closed after the main thread has ended but before Python stops the threads
            # that close it.
            at_exit(_close_process)
            # A Ctrl-C may break that end off before it reaches us. Python ignores the exception and
            # goes on with the functions of atexit.
            atexit.register(_close_broken_off)
            _forget_in_children()
            if "uvicorn" in sys.modules:
                from appl.session.served import outlive_server

                outlive_server()
        return _process


def open_run() -> Run | None:
    """The process's own run if it is open."""
    return _process.run if _process is not None else None


def _opened(opener: Callable[[], Session]) -> Session:
    global _opening
    _opening = True
    try:
        session = opener()
    finally:
        _opening = False
    if _exports is not None:
        _exports.enter_context(exported(session.config))
        budget = session.run.dispatch.policy.budget
        is_first = BUDGET_ACCOUNT not in os.environ  # else it draws on that of another process
        if budget and is_first and not session.run.answered_by and sys.platform != "win32":
            from appl.session import shared_budget  # only a program with a budget needs it

            _exports.enter_context(shared_budget.shared(session.run, budget))
    return session


def hosted_run() -> Run | None:
    """The run of the program that is ``hosted``, opened when it is needed; else ``None``."""
    return process_session().run if _opener is not None and not _opening else None


@contextlib.contextmanager
def hosted(opener: Callable[[], Session]) -> Iterator[None]:
    """A block in which *opener* makes the process's own run when it is needed.

    Calls that a module makes at import thus belong to the run of the function called afterwards.
    """
    global _process, _opener, _exports, _others
    before = _process, _opener, _exports, _others
    _process, _opener, _exports, _others = None, opener, contextlib.ExitStack(), users_threads()
    began = settings.settle(None)
    _forget_in_children()
    try:
        with _exports:
            yield
    except BaseException as error:
        _end_hosted(error)
        raise
    else:
        _end_hosted(None)
    finally:
        ended = _process
        _process, _opener, _exports, _others = before
        if services.is_command:  # what threads and functions of atexit still ask is not answered
            _process, _opener = ended, _over
        settings.settle(began)


def _over() -> NoReturn:
    raise RunClosed("the program is over: nothing can be started in it any more")


def _refusing(run: Run, began: str) -> settings.TooLate:
    """Return a function that refuses settings for *run*, which began with others.

    In a plain program they may be meant for a later run with an ``appl.record()`` of its own, so
    the next call of this run is refused. A hosted program has no other run and is refused at once.
    """
    hosted = _opener is not None

    def refuse(call: str | None) -> None:
        if call is None:
            run.refusal = ""
            return
        from appl.session.notebook import kernel_shell  # few settings come too late

        at = "" if hosted else f" {_users_place()}"
        remedy = "write it above that, at the top of the file"
        if kernel_shell() is not None:
            remedy = (
                "restart the kernel and run it before the first call, or put the calls that it is "
                "for into a block `with appl.record():`"
            )
        message = (
            f"{call}{at} comes too late: this run began {began}, with the settings of then; "
            f"{remedy}"
        )
        if hosted:
            raise ConfigError(message)
        run.refusal = message

    return refuse


def _users_place() -> str:
    """The place in the user's code from which this call came."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and (name := frame.f_globals.get("__name__", "")).startswith("appl."):
        if name.startswith("appl.cli."):
            return "when `appl run` called the function"
        frame = frame.f_back
    return f"at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "earlier"


def _end_hosted(error: BaseException | None) -> None:
    if _process is None:
        return
    if error is None:
        _finish(_process, None)
        return
    with contextlib.suppress(Exception):  # the program's own error is the one to show
        _finish(_process, error)


@functools.cache
def _forget_in_children() -> None:
    """Have forked children begin runs of their own.

    A child that went on with this run would write into its parent's trace.
    """
    os.register_at_fork(after_in_child=_forget)


def _forget() -> None:
    """Forget the parent's run in a forked child, which has no part in it."""
    global _process, _opener, _exports
    _process = _opener = _exports = None
    settings.settle(None)


def _close_process() -> None:
    """Wait for everything; show errors that nobody handled and exit with 1 because of them."""
    session = _process
    if session is None:
        return
    failed = late = None
    try:
        failed = _unhandled()
        if failed is None:
            join_threads()
    except BaseException as error:  # a Ctrl-C: the run is closed all the same
        late = error
    try:
        _finish(session, failed or late)
        if isinstance(failed or late, KeyboardInterrupt):
            _tell_next(session.resume_line())
            if late is None:
                _stay_interrupted()
        if late is not None:
            raise late
    except BaseException as error:
        if session.run.waiting is not None:
            _exit_as_waiting(session)
        if failed is None:
            _die(error)
    else:
        if session.run.waiting is not None:
            _exit_as_waiting(session)
        for line in _last_lines(session) if failed is None else ():
            tell(line)
    if "uvicorn" in sys.modules:
        from appl.session.served import die_of_signal  # only a program with uvicorn needs it

        die_of_signal()


def threads_left() -> list[threading.Thread]:
    """The threads of the program's code that Python waits for before it exits.

    Those of libraries, such as those of executors, may themselves wait for the end.
    """
    return [thread for thread in users_threads() if thread not in _others]


def join_threads() -> None:
    """Wait for the threads of the program's code, as Python does before it exits."""
    while running := threads_left():
        running[0].join(_LOOK_S)


def abandon_threads() -> None:
    """End a command at once whose program was cut short, if threads of the program's code go on.

    What they wait for may never come, and Python waits for them.
    """
    if services.is_command and threads_left():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)


def _stay_interrupted() -> None:
    """Let Python end as after any Ctrl-C that nobody caught, by the signal.

    It does so if the last text that it ran ended with one, and a module that was loaded since then
    may have run others: ``dataclass`` makes its methods from text.
    """
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")


def _close_broken_off() -> None:
    """Close the run as interrupted if its end was broken off before it could begin."""
    if _process is not None and not _process.closed:
        _finish(_process, KeyboardInterrupt())
        _tell_next(_process.resume_line())


def _tell_next(line: str | None) -> None:
    """Name the command that goes on with an interrupted run, once."""
    global _is_announced
    if line is not None and not _is_announced:
        _is_announced = True
        tell(line)


def _last_lines(session: Session) -> Iterator[str]:
    """The cost of the run, and after the first run in a folder the next command."""
    recorder = session.recording.recorder if session.recording else None
    if recorder is not None and (recorder.totals.cost or recorder.totals.cost_unknown):
        from appl.backend.price import total  # few runs cost something

        sums = recorder.totals
        calls = "1 call" if sums.calls == 1 else f"{sums.calls} calls"
        yield f"appl: {calls}, cost {total(sums.cost, sums.cost_unknown)}"
    failures = session.failures_line()
    if failures is not None:
        yield failures
    is_program = session.entry.file is not None and "pytest" not in sys.modules
    after = session.next_line() if is_program else None
    if after is not None:
        yield after


def _finish(session: Session, failed: BaseException | None) -> None:
    try:
        session.run.finish(failed)
    finally:
        session.close()
    # Here a Ctrl-C still ends the program; Python ignores one that comes in its own last steps.
    sync_before_exit()


def _unhandled() -> BaseException | None:
    """The exception that ends the program, if there is one."""
    if hasattr(sys, "ps1"):  # a REPL remembers its last error, which ended nothing
        return None
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def _die(error: BaseException) -> None:
    """Show *error* and exit with 1 (130 after Ctrl-C), after everything Python does at its end."""
    tell("appl: what the program started did not end well:")
    tracebacks.trim(error)
    traceback.print_exception(error)
    _exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _exit_as_waiting(session: Session) -> NoReturn:
    """Say what the run of *session* waits for, and exit with a code of its own."""
    from appl.session import next_steps  # only a run that waits needs it

    assert session.run.waiting is not None
    waits, name = session.run.waiting.waits, session.run_name()
    for line in next_steps.lines(waits, name, by_command=False):
        tell(line)
    _exit(next_steps.EXIT_CODE)


def _exit(code: int) -> NoReturn:
    """End the process with *code*, late in its end."""
    # os._exit below skips everything that Python does at its end, and a SystemExit raised this late
    # would not change the exit code. So the same steps are done here, in Python's order: executors,
    # other threads, atexit functions, open streams.
    from concurrent.futures.thread import _python_exit  # its end at the exit has to come after ours

    _python_exit()  # or its threads never end
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


@contextlib.contextmanager
def exported(config: Config) -> Iterator[None]:
    """A block in which processes that are started have the settings of *config*, but no keys.

    These are the ones that affect requests, and those that were given on the command line.
    """
    named = (name for name in _LIMITS if config.origin(name).startswith("--"))
    values = {name: getattr(config, name) for name in (*RECORDED, "seed", *named)}
    present = {f"APPL_{name.upper()}": _written(v) for name, v in values.items() if v is not None}
    if budget := config.schedule.get("budget"):
        present[_BUDGET] = " ".join(f"{name}={amount}" for name, amount in budget.items())
    before = {name: os.environ.get(name) for name in (*present, OUTER, PROGRAM)}
    os.environ.update(present)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _written(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def process_run() -> Run:
    """The process's own run: that of a plain ``python file.py``, or of a hosted program.

    The first call opens it; a plain program's is closed when the process exits.
    """
    return process_session(_script_session).run


def _script_session() -> Session:
    """A new run, or the one that the setting ``resume`` (``APPL_RESUME``) names."""
    error_hooks.install()
    config = settings.load()
    if not isinstance(config.resume, str):
        return make_session(config)
    from appl.session.entry import script  # few programs go on with an earlier run
    from appl.session.ownership import require_own
    from appl.session.resume import resume_session
    from appl.tracing.reading.runs import resolve
    from appl.tracing.reading.trace import Trace
    from appl.tracing.replaying.resumer import Resumer

    path = resolve(config.resume, config.home)
    require_own(path, False, f"write `appl trace resume {config.resume} --trust`")
    session = resume_session(Resumer(Trace.open(path, home=config.home)), entry=script())
    tell(f"appl: going on with {shown(path)}")
    return session
