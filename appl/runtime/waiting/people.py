"""Questions to people: ``ask_person``, and who is asked.

Invariant: a question is recorded before anybody is asked, and its answer, with who gave it and
when, before the program goes on. One that was answered is not asked again.
"""

from __future__ import annotations

import contextlib
import datetime
import getpass
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appl.base import threads
from appl.base.moments import moment_of
from appl.errors import Awaited, InvalidOption, QuestionExpired, TraceCorrupt
from appl.prompt import digest_of
from appl.runtime.concurrency.clock import seconds
from appl.runtime.concurrency.fiber import arrive, in_coroutine, wait
from appl.runtime.frame import here
from appl.runtime.waiting import wall_clock
from appl.runtime.waiting.forms import Form, form_of
from appl.runtime.waiting.waits import Wait, waits_of
from appl.runtime.world import Moment

if TYPE_CHECKING:
    from appl.runtime.frame import Frame, FrameRun
    from appl.runtime.outside import Observer

ASKED, ANSWERED = "asked", "answered"
"""Kinds of observations: a question as data, and its answer with who gave it and when."""


class _Nothing:
    """No value was given."""


_NOTHING = _Nothing()


class Question:
    """A question to a person, as a host gets it: an approval, if ``tool`` is not empty.

    ``run`` is the name of the run, ``address`` the place in it. ``arguments`` are those with which
    the tool is to be called. ``due`` is when it expires, in seconds since 1970, or ``None``.
    """

    def __init__(self, wait: Wait, data: Mapping[str, Any]) -> None:
        self._wait = wait
        self.address, self.kind, self.text, self.due = wait.entry
        path = wait.run.trace_path()
        self.run = path.stem if path is not None else ""
        self.form = Form.of_data(data.get("form"), data.get("arguments"))
        self.tool = str(data.get("tool", ""))
        self.arguments: dict[str, Any] = dict(data.get("arguments") or {})

    @property
    def open(self) -> bool:
        """True if nobody has answered it, and it has not expired."""
        return not self._wait.done

    def answer(self, value: object, *, by: str = "", via: str = "host") -> bool:
        """Answer it; false if somebody was first. From any thread.

        *value* is of the asked type, or a text that says it, as on the command line; of an approval
        true, false, ``"no: REASON"``, or a dict of other arguments. Raises ``ValueError`` for
        anything else.
        """
        return self._wait.come(answer_data(self.form.checked(value), by, via))

    def __repr__(self) -> str:
        return f"<Question {self.address} {self.text!r:.60}>"


def this_user() -> str:
    """The name of the user of this system; empty if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def answer_data(value: object, by: str, via: str) -> dict[str, Any]:
    """An answer as it is recorded: *value*, who gave it, when, and by which way."""
    return {"value": value, "by": by, "via": via, "at": wall_clock.now()}


# -- who is asked

Host = Callable[[Question], object]
_hosts: list[Host] = []


def on_question(host: Host) -> contextlib.AbstractContextManager[None]:
    """Have ``host(question)`` called for each question of the programs of this process.

    It is called on a thread of its own, and may keep the question: ``question.answer(value,
    by=name)`` answers it, now or later, from any thread; until then the process waits. If *host*
    returns ``False``, nobody can be asked now, and the run ends as waiting once nothing else in it
    can go on. As a context manager it holds for the block.
    """
    if not callable(host):
        raise InvalidOption(f"on_question(host) takes a function of a question, got {host!r:.80}")
    _hosts.append(host)
    return _removed(host)


@contextlib.contextmanager
def _removed(host: Host) -> Iterator[None]:
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            _hosts.remove(host)


# -- a question


def put(
    run: FrameRun,
    observer: Observer,
    text: str,
    form: Form,
    *,
    expires: float | None = None,
    tool: str = "",
    arguments: Mapping[str, object] | None = None,
    unasked: Callable[[int], None] | None = None,
) -> Wait:
    """Ask *text* at the address of *observer*; the wait for the answer, which has begun.

    *unasked* is called with the number of the question before it is asked for the first time.
    """
    data: dict[str, Any] = {"question": text, "form": form.as_data()}
    if tool:
        data |= {"tool": tool, "arguments": dict(arguments or {})}
    about = digest_of(json.dumps(data, sort_keys=True, default=str)).hex()[:16]
    ordinal = run.outside.next_observation(observer)
    run.check_open()
    if run.services.gate is not None:
        run.services.gate()

    def new() -> dict[str, Any]:
        due = None if expires is None else wall_clock.now() + expires
        return {**data, "about": about, "due": due}

    moment = Moment(observer.address, ASKED, ordinal, about=about)
    question = run.outside.world.see(moment, new)
    if not isinstance(question, Mapping):
        raise TraceCorrupt(f"a recorded question at {observer.address} is none: {question!r:.80}")
    entry = Awaited(
        observer.address,
        "approval" if tool else "question",
        text,
        moment_of(question.get("due")),
    )

    def live(wait: Wait) -> None:
        if unasked is not None:
            unasked(ordinal)
        _ask(wait, Question(wait, data))

    begun = Wait(run, observer, ANSWERED, ordinal, entry, live)
    begun.begin()
    return begun


def _ask(wait: Wait, question: Question) -> None:
    """Have somebody in this process asked, if there is one."""
    due = wait.entry.due
    if due is not None:
        wall_clock.clock.at(due, lambda: _expire(wait))
    if wait.run.answered_by and not _hosts:
        return
    if _hosts:
        host, attended = _hosts[-1], [True]
        wait.attended = lambda: attended[0]
        threads.work(lambda: _tell(wait, question, host, attended))
        return
    from appl.runtime.waiting import terminal  # few programs ask at one

    terminal.attend(waits_of(wait.run), wait, question)


def _expire(wait: Wait) -> None:
    if not wait.done:
        wait.come({**answer_data(None, "", "time"), "expired": True})


def _tell(wait: Wait, question: Question, host: Host, attended: list[bool]) -> None:
    try:
        attended[0] = host(question) is not False
    except Exception as error:
        attended[0] = False
        wait.run.reporter.warn(
            question.address,
            f"on_question: the host failed on this question, which is open: {error!r}",
        )
    if not attended[0]:
        wait.run.outside.look_soon()


def answer_of(wait: Wait) -> Mapping[str, Any]:
    """The recorded answer that *wait* has got. Raises ``TraceCorrupt``, ``RunWaiting``."""
    answer = wait.value()
    if not isinstance(answer, Mapping) or "value" not in answer:
        raise TraceCorrupt(f"a recorded answer at {wait.address} is none: {answer!r:.80}")
    return answer


# -- for programs


def ask_person(
    question: str,
    response_format: Any = str,
    *,
    choices: Iterable[object] | None = None,
    expires: float | datetime.timedelta | None = None,
    default: Any = _NOTHING,
) -> Any:
    """The answer of a person to *question*; ``await`` it in a coroutine.

    On a terminal it is asked there, in a server by the host that :func:`on_question` names;
    elsewhere the run ends as waiting once nothing else in it can go on, and ``appl trace answer``
    answers it.

    response_format: The type of the answer: ``bool`` for yes or no, ``str`` (the default), numbers,
        ``Literal`` or an ``Enum`` for a choice, a pydantic model, and all else that ``gen`` takes.
    choices: The values from which one is chosen, in place of a type.
    expires: Seconds, or a ``timedelta``, after which nobody need answer any more. Then the answer
        is *default*, or without one ``QuestionExpired`` is raised.
    """
    if not isinstance(question, str) or not question.strip():
        raise InvalidOption(f"ask_person(question) takes a text, got {question!r:.80}")
    if isinstance(response_format, list | tuple):
        raise InvalidOption(
            f"ask_person() takes a type; of values, write choices={response_format!r:.80}"
        )
    options = None if choices is None else list(choices)
    if options is not None and not options:
        raise InvalidOption("ask_person(choices=[]): there is nothing to choose from")
    form, shape = form_of(response_format, options)
    limit = limit_of("ask_person(expires=...)", expires)
    frame = here(lambda: question, call=False)
    asking = _Asking(frame, question, form, shape, options, limit, default)
    return asking.awaited() if in_coroutine() else asking.waited()


def limit_of(where: str, expires: float | datetime.timedelta | None) -> float | None:
    """*expires* in seconds. Raises ``InvalidOption``."""
    if isinstance(expires, datetime.timedelta):
        return expires.total_seconds()
    return None if expires is None else seconds(where, expires)


class _Place:
    """The place of a question: it has an address of its own, as a call has."""

    def __init__(self, address: str) -> None:
        self.address = address


class _Asking:
    """One ``ask_person``: asks once more where the program's own type refuses an answer."""

    def __init__(
        self,
        frame: Frame,
        text: str,
        form: Form,
        shape: Any,
        options: list[object] | None,
        expires: float | None,
        default: Any,
    ) -> None:
        self._frame, self._text, self._form, self._shape = frame, text, form, shape
        self._options, self._expires, self._default = options, expires, default
        self._refused = ""
        self._place = _Place(frame.address)

    def waited(self) -> Any:
        """The answer, in a synchronous program."""
        while True:
            question = self._put()
            try:
                wait(question)
            finally:
                question.left()
            read, value = self._read(question)
            if read:
                return value

    async def awaited(self) -> Any:
        """The answer, in a coroutine."""
        while True:
            question = self._put()
            try:
                await arrive(question)
            finally:
                question.left()
            read, value = self._read(question)
            if read:
                return value

    def _put(self) -> Wait:
        text = self._text if not self._refused else f"{self._text}\n{self._refused}"
        frame = self._frame
        self._place = _Place(frame.issue("ask_person"))
        return put(
            frame.run, self._place, text, self._form, expires=self._expires, unasked=self._note
        )

    def _note(self, ordinal: int) -> None:
        """Record that a tool with effects has done nothing yet but ask."""
        from appl.runtime.tools.asking import running, tell_asking  # few tools ask

        if self._frame in running:
            tell_asking(self._frame, ordinal, self._place.address)

    def _read(self, question: Wait) -> tuple[bool, Any]:
        """The answer, if it is of the type."""
        answer = answer_of(question)
        if answer.get("expired"):
            if self._default is _NOTHING:
                raise QuestionExpired(f"nobody answered in time: {self._text} ({question.address})")
            return True, self._default
        value = answer["value"]
        if self._options is not None:
            if value in self._form.options:
                return True, self._options[self._form.options.index(value)]
            self._refused = f"(The last answer was none of the choices: {value!r:.80}.)"
            return False, None
        if self._shape is None:
            kind = bool if self._form.kind == "yes or no" else str
            if isinstance(value, kind):
                return True, value
            raise TraceCorrupt(f"a recorded answer at {question.address} is none: {value!r:.80}")
        try:
            return True, self._shape.object_of(json.dumps(value))
        except ValueError as error:
            self._refused = f"(The last answer was refused: {error}.)"
            return False, None
