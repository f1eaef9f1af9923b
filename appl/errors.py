"""Every exception of appl, in one tree; nothing else of the package is imported here.

ApplError
├── PromptSyntaxError        (SyntaxError)   the compiler refuses a construct
├── SourceUnavailable        (OSError)       the decorator cannot find the function's source
├── PromptTypeError          (TypeError)     a bare expression has a value that is no prompt text
├── UnknownOption            (TypeError)     an option that gen() and the backend do not know
├── InvalidOption            (ValueError)    a known option with an impossible value
├── ConfigError              (ValueError)    a configuration file, variable or key is wrong
├── ChoiceError              (ValueError)    no choice could be made
├── OutputError              (ValueError)    no answer was of the requested type
├── ToolError                (TypeError)     the value cannot be a tool
├── ExportError              (OSError)       spans of a run could not be sent
├── ConversationError        (ValueError)    a file or database holds no such conversation
│   └── ConversationChanged                  somebody else has saved it since it was loaded
├── MissingExtra             (ImportError)   a library that an extra installs is missing
├── MissingPart              (ModuleNotFoundError)  a part of this package is not installed
├── SandboxUnavailable       (OSError)       this machine allows no sandbox for code
├── RunError                                 the runtime refuses a call, or a run failed
│   ├── DeadlockError                        a program waits for itself
│   ├── CallCancelled                        the call was cancelled before it had an answer
│   ├── ToolLoopError                        a model still called tools at the last step
│   ├── ToolServerError                      an MCP server cannot be started or does not answer
│   ├── BudgetExceeded                       a call could cost more than the rest of a budget
│   ├── QuestionExpired      (TimeoutError)  no person answered a question in time
│   ├── WorkerLost                           the processes that worked on an item have died
│   └── RunClosed                            the run is over; nothing can be started in it
├── BackendError                             a backend could not answer
│   ├── BackendNotFound      (LookupError)   no backend of that name is installed
│   │   └── MissingBackendExtra (MissingExtra)  a library that a backend needs is missing
│   ├── ModelNotFound        (LookupError)   the backend has no such model
│   ├── Unsupported          (TypeError)     the backend cannot do what was requested
│   ├── PromptTooLong        (ValueError)    the prompt does not fit in the model's context
│   ├── BackendRefused       (ValueError)    the backend does not take this request
│   ├── AuthenticationFailed (PermissionError)  the key is missing, wrong, or may not do this
│   ├── BackendBusy                          the backend has no room now
│   ├── BackendTimeout       (TimeoutError)  a deadline passed
│   ├── BackendUnavailable   (ConnectionError)  it cannot be reached, broke off or failed inside
│   └── MalformedResponse                    the answer breaks the backend's own protocol
├── ControlError                             a live run cannot be reached, or refuses
└── TraceError                               a recorded run cannot be read or replayed
    ├── NotATrace                            the file is something else
    ├── TraceCorrupt                         a damaged block is followed by good ones
    ├── NoSuchQuestion       (LookupError)   the run asks nothing there
    ├── TraceLocked                          another process writes this trace
    ├── TraceTooNew                          written by a newer format
    ├── TraceWriteError      (OSError)       recording failed; no further call is started
    ├── UntrustedTrace                       the run is not one of your own
    ├── SecretInRecord                       a masked record cannot be replayed
    ├── InDoubtEffect                        a tool may have run before the run broke off
    ├── InDoubtBatch                         a batch may have been sent before the run broke off
    └── DivergenceError                      the program asks for something not recorded
        ├── ProgramChanged                   files of the program have changed
        ├── UnusedRecords                    recorded calls were never asked for
        └── ReplayStuck                      every program waits and nothing can be released

RunWaiting                   (BaseException) the run ends, and goes on when it may
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ApplError(Exception):
    """Base of every error that appl raises on purpose."""


class PromptSyntaxError(ApplError, SyntaxError):
    """The compiler refuses a construct; carries file, line, column and the correction."""


class SourceUnavailable(ApplError, OSError):
    """The source of a decorated function cannot be found."""


class PromptTypeError(ApplError, TypeError):
    """A bare expression has a value that is not prompt text."""


class UnknownOption(ApplError, TypeError):
    """An option name that neither ``gen`` nor the backend declares."""


class InvalidOption(ApplError, ValueError):
    """A known option with an impossible value."""


class ConfigError(ApplError, ValueError):
    """A configuration file, environment variable or key is wrong."""


class ChoiceError(ApplError, ValueError):
    """No choice could be made among the given options."""


class OutputError(ApplError, ValueError):
    """No answer was of the requested type.

    ``text`` is the last answer as the model gave it, ``problem`` the reason why it did not fit.
    """

    def __init__(self, message: str = "", text: str = "", problem: str = "") -> None:
        super().__init__(message)
        self.text, self.problem = text, problem


class ToolError(ApplError, TypeError):
    """The value cannot be a tool: it has nothing that a model could be told how to call."""


class ExportError(ApplError, OSError):
    """The spans of a run could not be sent, or were refused."""


class ConversationError(ApplError, ValueError):
    """A file or database holds no such conversation, is damaged, or was written by a newer appl."""


class ConversationChanged(ConversationError):
    """Somebody else has saved the conversation since it was loaded."""


class MissingExtra(ApplError, ImportError):
    """A library is missing that an extra of this package installs; ``extra`` is its name."""

    def __init__(self, *args: object, extra: str = "") -> None:
        super().__init__(*args)
        self.extra = extra


class MissingPart(ApplError, ModuleNotFoundError):
    """A part of this package that is needed is not in this installation."""


class SandboxUnavailable(ApplError, OSError):
    """This machine allows no sandbox, so the code was not run."""


class Awaited(NamedTuple):
    """Something outside of the process that a run waits for.

    ``address`` is where the program waits, ``kind`` what for: ``question``, ``approval``, ``time``,
    or a word of a backend such as ``batch``. ``text`` says it in words. ``due`` is when it comes
    or expires at the latest, in seconds since 1970; ``None`` if nobody knows.
    """

    address: str
    kind: str
    text: str
    due: float | None = None


class RunWaiting(BaseException):
    """The run ends as waiting: nothing in it can go on before something outside has come.

    ``waits`` are what it waits for. It is no ``Exception``: like Ctrl-C it passes
    ``except Exception``, and ends the program wherever it waits. The same command goes on later.
    """

    def __init__(self, waits: Iterable[Awaited] = ()) -> None:
        self.waits = tuple(waits)
        some = "; ".join(f"{wait.text} ({wait.address})" for wait in self.waits[:3])
        more = f"; and {len(self.waits) - 3} more" if len(self.waits) > 3 else ""
        super().__init__(f"the run waits: {some or 'for something outside'}{more}")


class RunError(ApplError):
    """The runtime refuses a call, or a run failed; the subclasses say how."""


class DeadlockError(RunError):
    """A program waits, directly or through others, for itself."""


class CallCancelled(RunError):
    """The call was cancelled before it had an answer.

    ``outside`` is true if somebody cancelled it with ``appl ctl``, and not the program.
    """

    def __init__(self, *args: object, outside: bool = False) -> None:
        super().__init__(*args)
        self.outside = outside


class ToolLoopError(RunError):
    """A model still called tools at its last permitted step."""


class ToolServerError(RunError):
    """An MCP server cannot be started, or does not answer."""


class BudgetExceeded(RunError):
    """A call was not sent because it could cost more than the rest of a budget.

    ``limit`` is its name (``cost``, ``tokens`` or ``calls``), ``most`` its size, ``spent`` the used
    amount, ``reserved`` the amount that calls in progress may still use, and ``asked`` the amount
    that this call may use: all in tokens, calls, or millionths of the currency unit.
    """

    def __init__(
        self,
        message: str = "",
        *,
        limit: str = "",
        most: int = 0,
        spent: int = 0,
        reserved: int = 0,
        asked: int = 0,
    ) -> None:
        super().__init__(message)
        self.limit, self.most = limit, most
        self.spent, self.reserved, self.asked = spent, reserved, asked


class QuestionExpired(RunError, TimeoutError):
    """No person answered a question before it expired."""


class WorkerLost(RunError):
    """The processes that worked on an item of a ``map`` died; their reports are recorded."""


class RunClosed(RunError):
    """The run is over; nothing can be started in it."""


class BackendError(ApplError):
    """A backend could not answer.

    ``retriable`` says whether the same question may be answered later. ``retry_after`` is the
    number of seconds that the server asked its clients to wait, ``status`` its HTTP status, if it
    gave one. ``usage`` is what must be paid all the same: tokens of the prompt, of the answer, and
    of the cached part of the prompt, each ``None`` if unknown. ``worked`` says whether a model may
    have worked on the request: no if it was never sent, yes if a part of an answer came. If it is
    ``None``, the class of the error decides (see ``UNWORKED``).
    """

    retriable: bool = False

    def __init__(
        self,
        *args: object,
        retry_after: float | None = None,
        status: int | None = None,
        usage: Iterable[int | None] | None = None,
        worked: bool | None = None,
    ) -> None:
        super().__init__(*args)
        self.retry_after, self.status, self.worked = retry_after, status, worked
        self.usage: tuple[int | None, ...] | None = None if usage is None else tuple(usage)


class BackendNotFound(BackendError, LookupError):
    """No backend of that name is installed."""


class MissingBackendExtra(BackendNotFound, MissingExtra):
    """A library that a backend needs is missing; ``extra`` is the extra that installs it."""

    def __init__(self, *args: object, extra: str = "") -> None:
        super().__init__(*args)
        self.extra = extra


class ModelNotFound(BackendError, LookupError):
    """The backend has no such model."""


class Unsupported(BackendError, TypeError):
    """The backend cannot do what was requested."""


class PromptTooLong(BackendError, ValueError):
    """The prompt does not fit in the model's context."""


class BackendRefused(BackendError, ValueError):
    """The backend does not take this request, and will not take it later: a 400, 413 or 422."""


class AuthenticationFailed(BackendError, PermissionError):
    """The key is missing, wrong, or may not do this: a 401 or 403. It is never shown."""


class BackendBusy(BackendError):
    """The backend has no room at present: a 429, or a 503 that says when to retry."""

    retriable = True


class BackendTimeout(BackendError, TimeoutError):
    """A deadline passed before the answer was complete.

    ``deadline`` is ``connect``, ``first token``, ``between tokens`` or ``total``. After the last
    one, no time is left to retry.
    """

    def __init__(
        self,
        *args: object,
        deadline: str = "total",
        retry_after: float | None = None,
        status: int | None = None,
        usage: Iterable[int | None] | None = None,
        worked: bool | None = None,
    ) -> None:
        super().__init__(*args, retry_after=retry_after, status=status, usage=usage, worked=worked)
        self.deadline = deadline
        self.retriable = deadline != "total"


class BackendUnavailable(BackendError, ConnectionError):
    """The backend cannot be reached, broke the connection off, died, or failed inside (a 5xx)."""

    retriable = True


class MalformedResponse(BackendError):
    """The answer breaks the backend's own protocol: HTML, bad JSON, no end, no sample."""

    retriable = True


UNWORKED = (
    BackendBusy,
    BackendRefused,
    AuthenticationFailed,
    ModelNotFound,
    BackendNotFound,
    Unsupported,
    PromptTooLong,
)
"""Failures of requests that no model has worked on, so that they cost nothing.

An error may say otherwise by ``worked`` or ``usage``; ``appl.backend.price.used_by`` decides.
"""


class ControlError(ApplError):
    """``appl ctl`` cannot reach a live run, or the run refuses the request.

    ``kind`` is one word for programs: ``no-run``, ``ambiguous``, ``unknown-call``, ``not-yours``, …
    """

    def __init__(self, message: str = "", kind: str = "refused") -> None:
        super().__init__(message)
        self.kind = kind


class TraceError(ApplError):
    """A recorded run cannot be read, written or replayed; the subclasses say why."""


class NotATrace(TraceError):
    """The file is not a trace."""


class TraceCorrupt(TraceError):
    """A damaged block is followed by good ones."""


class NoSuchQuestion(TraceError, LookupError):
    """A recorded run has no open question at an address."""


class TraceLocked(TraceError):
    """Another process holds this trace open for writing."""


class TraceTooNew(TraceError):
    """The trace was written by a newer format than this version reads."""


class UntrustedTrace(TraceError):
    """The run is not one of the user's own, and may come from anybody."""


class TraceWriteError(TraceError, OSError):
    """Recording failed; no further call is started."""


class SecretInRecord(TraceError):
    """The record was masked because it held a secret, so it cannot be replayed."""


class DivergenceError(TraceError):
    """The program asks for something that the trace does not answer."""


class UnusedRecords(DivergenceError):
    """The run ended without asking for everything that was recorded."""


class ProgramChanged(DivergenceError):
    """Files of the program have changed since it was recorded."""


class InDoubtEffect(TraceError):
    """A tool with effects had begun when the run broke off; it does not run again by itself.

    ``tool``, ``arguments`` and ``address`` identify the call: run it again, or give its result.
    """

    def __init__(
        self, *args: object, tool: str = "", arguments: str = "", address: str = ""
    ) -> None:
        super().__init__(*args)
        self.tool, self.arguments, self.address = tool, arguments, address


class InDoubtBatch(TraceError):
    """A batch was being sent when the run broke off; it is not sent once more by itself.

    ``key`` identifies it: send it again, or say which batch at the provider it is.
    """

    def __init__(self, *args: object, key: str = "") -> None:
        super().__init__(*args)
        self.key = key


class ReplayStuck(DivergenceError):
    """Every program waits and no recorded answer can be released."""


def nearest(word: str, words: Iterable[str], cutoff: float = 0.5) -> str:
    """``; did you mean 'x'?`` for the known word closest to *word*, or an empty string.

    *cutoff* is the required similarity, from 0 to 1.
    """
    import difflib  # only a mistake needs it

    matches = difflib.get_close_matches(word, list(words), n=1, cutoff=cutoff)
    return f"; did you mean {matches[0]!r}?" if matches else ""
