"""A marked test, inside the run that its tape answers or that records it.

Invariant: a tape is replaced only by the whole tape of a test that passed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from appl import config as settings
from appl.config import KEYS
from appl.errors import TraceError, nearest
from appl.parts.pytest_plugin import network
from appl.prompt import digest_of
from appl.runtime.event import CallStarted, Event
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.run import Run
from appl.session.entry import Entry
from appl.session.replaying import checked, replay_session
from appl.session.rerunning import rerun_session
from appl.session.session import Session, make_session, settled
from appl.tracing import Replayer, Trace, tape
from appl.tracing.explaining.rerun_report import RerunReport
from appl.tracing.replaying.explain import SAME_CONTENT
from appl.tracing.replaying.rerunner import Rerunner

MODES = ("replay", "patch", "live")
_OWN = ("tape", "mode", "network")


@dataclass(slots=True)
class PromptLog:
    """An instrument that keeps the prompts of a test."""

    prompts: dict[str, str] = field(default_factory=dict)

    def on_event(self, event: Event) -> None:
        """Keep the prompt of each call that starts."""
        if isinstance(event, CallStarted):
            messages = event.request.messages or ()
            self.prompts[event.address] = "\n".join(map(str, messages))


@dataclass(slots=True)
class TapedRun:
    """The run of one marked test, which the fixture ``appl_run`` returns.

    ``path`` is its tape; ``session`` is open while the test runs; ``trace`` answers it, and is
    ``None`` while it is recorded. ``failures`` says what fails in it, as its tape has it.
    """

    item: pytest.Item
    path: Path
    mode: str
    record: str
    network: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: Session | None = None
    trace: Trace | None = None
    done: str = ""
    failures: list[str] = field(default_factory=list)
    _asked: PromptLog = field(default_factory=PromptLog)

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts so far, by address, as ``role: text`` lines."""
        return self._asked.prompts

    def value(self, value: Any) -> Any:
        """*value* with its answers waited for, and a generator as a list."""
        return resolve(list(value) if inspect.isgenerator(value) else value)

    async def avalue(self, value: object) -> Any:
        """The same as :meth:`value`, in a coroutine."""
        if inspect.isasyncgen(value):
            return await aresolve([item async for item in value])
        return await aresolve(await value if inspect.isawaitable(value) else value)

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Run the test inside; a difference from the tape, or an unused record, fails the test."""
        if self.record == "all" or (self.mode == "live" and self.record == "new"):
            inside = self._recorded()
        elif self.mode == "live":
            pytest.skip(f"goes live: {self._command('new')}")
        elif not self.path.exists():
            if self.record != "new":
                why = f"there is no tape {self._shown}; {self._command('new')} records it"
                pytest.fail(why, pytrace=False)
            inside = self._recorded()
        elif self.mode == "patch" and self.record == "new":
            inside = self._patched()
        else:
            inside = self._replayed()
        with inside:
            yield

    # -- from the tape

    @contextlib.contextmanager
    def _replayed(self) -> Iterator[None]:
        self.done = "answered from tapes"
        with _explained(self), self._guarded():
            self.trace = Trace.open(self.path)
            self.failures = self.trace.failure_counts().words()
            replayer = Replayer(self.trace)
            self.session = replay_session(replayer, instruments=[self._asked])
            with checked(replayer), self._entered(self.session.run):
                yield

    @contextlib.contextmanager
    def _entered(self, run: Run) -> Iterator[None]:
        """Enter *run*; a coroutine enters it itself, in the task that a plugin gives it."""
        test = getattr(self.item, "obj", None)
        if not inspect.iscoroutinefunction(test):
            with run:
                yield
            return

        @functools.wraps(test)
        async def inside(*args: object, **named: object) -> Any:
            async with run:
                return await test(*args, **named)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.item, "obj", inside)
            yield

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        if self.network:
            yield
            return
        with network.guarded() as guard:
            yield
        if guard.first is not None:
            raise guard.first

    # -- live

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """Let every call go live."""
        # The seed is the same for each recording of the test, so that its draws are too.
        seed = int.from_bytes(digest_of(self.path.stem)[:4], "big")
        config = settings.load(self._settings(seed=seed))
        self.session = make_session(
            config, entry=self._entry(), instruments=[self._asked], say=_unsaid
        )
        with self._kept(self.session):
            yield
        self.done = "recorded"
        self._keep(self.session.path)

    @contextlib.contextmanager
    def _patched(self) -> Iterator[None]:
        """Let calls that the tape does not answer go live, and make the tape of the new run."""
        self.trace = Trace.open(self.path)
        rerunner = Rerunner(self.trace)
        report = RerunReport(rerunner)
        self.session = rerun_session(
            rerunner,
            self._settings(),
            entry=self._entry(),
            instruments=[self._asked, report.tally],
            say=_unsaid,
        )
        with settled(rerunner), self._kept(self.session):
            yield
        self.item.add_report_section("call", "appl", "\n".join(report.lines()))
        if report.live or report.tools or report.removed or report.shifted or report.moved:
            self.done = "patched"
            self._keep(self.session.path)
            return
        self.done = "answered from tapes"
        if self.session.path is not None:
            self.session.path.unlink()

    def _settings(self, **more: object) -> dict[str, object]:
        """The mark's settings, with those that a tape needs. A private run fails the test."""
        merged = {**more, **self.settings, "trace": True}
        privacy = settings.load(merged).privacy
        if privacy != "full":
            _refuse(f"a tape is plain text, and privacy = {privacy!r}; write privacy='full'")
        return merged

    def _entry(self) -> Entry:
        return Entry("api", str(self.item.path), getattr(self.item, "originalname", None))

    @contextlib.contextmanager
    def _kept(self, session: Session) -> Iterator[None]:
        """Enter *session*; if the test fails, its run is kept, as it was paid for."""
        try:
            with self._entered(session.run):
                yield
        except BaseException as error:
            session.close()
            if session.path is not None:
                error.add_note(f"no tape is made of a test that fails; its run is {session.path}")
            raise
        session.close()

    def _keep(self, path: Path | None) -> None:
        """Make the tape of the run at *path*, and remove the run."""
        if path is None:  # it asked nothing
            tape.save(Trace(self.path, state="finished", reason="finished"), self.path)
            return
        tape.save(Trace.open(path), self.path)
        path.unlink()

    # -- words

    @property
    def _shown(self) -> str:
        try:
            return str(self.path.relative_to(self.item.config.rootpath))
        except ValueError:
            return str(self.path)

    def _command(self, record: str) -> str:
        """The command to type for it."""
        return f"`pytest '{self.item.nodeid}' --appl-record={record}`"

    def advice(self, error: TraceError) -> str:
        """The advice after *error*, a divergence from the tape."""
        shown = (
            f"the tape: {self._shown}; if the program was changed on purpose, "
            f"{self._command('all')} records it anew"
        )
        if SAME_CONTENT not in str(error):
            return shown
        moved = "mark the test with mode='patch', and"
        if self.mode == "patch":
            moved = "type"
        return (
            f"{shown}; to keep its answers where calls only moved, {moved} {self._command('new')}"
        )


def _unsaid(line: str) -> None:
    """Show nothing: a run's lines are not shown in a test."""


@contextlib.contextmanager
def _explained(run: TapedRun) -> Iterator[None]:
    """Turn a divergence into a failure with its explanation, without the frames of appl."""
    try:
        yield
    except TraceError as error:
        text = f"{type(error).__name__}: {error}\n  {run.advice(error)}"
        raise pytest.fail.Exception(text, pytrace=False) from None


def taped_run(item: pytest.Item) -> TapedRun:
    """The run that the marks of *item* ask for; the nearest wins. A wrong mark fails the test."""
    arguments: dict[str, Any] = {}
    for mark in item.iter_markers("appl"):
        if mark.args:
            _refuse(f"it takes names only: write @pytest.mark.appl(tape={mark.args[0]!r:.80})")
        arguments = {**mark.kwargs, **arguments}
    mode = arguments.pop("mode", "replay")
    if mode not in MODES:
        _refuse(f"mode is one of {', '.join(MODES)}, got {mode!r:.80}")
    where, online = arguments.pop("tape", tape.BESIDE), arguments.pop("network", False)
    for name in arguments:
        if name not in KEYS:
            keywords = (*_OWN, *KEYS)
            _refuse(f"there is no {name!r}{nearest(name, keywords)}")
    test = ".".join(item.nodeid.split("::")[1:]) or item.name  # TestClass.test[parameter]
    path = tape.beside(item.path, test, str(where))
    record = item.config.getoption("--appl-record")
    return TapedRun(item, path, mode, record, bool(online), arguments)


def _refuse(text: str) -> NoReturn:
    pytest.fail(f"@pytest.mark.appl: {text}", pytrace=False)
