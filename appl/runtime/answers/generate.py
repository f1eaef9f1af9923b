"""``gen`` and ``select``: a call is issued at once, and its future returned.

Invariant: nothing here waits, but for sequential runs; an impossible option is refused before any
call.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeVar, overload

from appl.backend import Sampling, check_media
from appl.prompt import Messages, Node
from appl.runtime.answers.asked import Asked
from appl.runtime.answers.call import Call
from appl.runtime.answers.choice import choose
from appl.runtime.answers.options import check_number, stop_ids, stops
from appl.runtime.answers.output import typed_answer
from appl.runtime.answers.relay import Relay
from appl.runtime.answers.series import Series
from appl.runtime.answers.stream import open_stream
from appl.runtime.concurrency.fiber import hub_here, wait
from appl.runtime.concurrency.future import Generation, finished
from appl.runtime.frame import Frame
from appl.runtime.prompts.explicit import Said, said_to
from appl.runtime.resolve import taking_futures
from appl.runtime.run import here
from appl.runtime.tools.toolbox import Toolbox, Tools

R = TypeVar("R")

_PACKAGE = __name__.partition(".")[0]


@overload
def gen(
    model: str | None = None, *, messages: Said | None = None, max_tokens: int | None = None,
    stop: str | Sequence[str] | None = None, stop_tokens: Sequence[int] = (),
    temperature: float | None = None, top_p: float | None = None, seed: int | None = None,
    n: int = 1,
    choices: Sequence[str] | None = None, normalize: str | None = None, method: str | None = None,
    regex: str | None = None, grammar: str | None = None, tools: Tools | None = None,
    tool_choice: Any = None, response_format: None = None, max_asks: int | None = None,
    stream: bool = False, max_relay_rounds: int = 0, logprobs: int | None = None,
    timeout: float | None = None, priority: int = 0, cache: str | PathLike[str] | None = None,
    **backend_options: Any,
) -> Generation: ...  # fmt: skip


@overload
def gen(
    model: str | None = None, *, messages: Said | None = None, max_tokens: int | None = None,
    stop: str | Sequence[str] | None = None, stop_tokens: Sequence[int] = (),
    temperature: float | None = None, top_p: float | None = None, seed: int | None = None,
    n: int = 1,
    choices: Sequence[str] | None = None, normalize: str | None = None, method: str | None = None,
    regex: str | None = None, grammar: str | None = None, tools: Tools | None = None,
    tool_choice: Any = None, response_format: type[R], max_asks: int | None = None,
    stream: bool = False, max_relay_rounds: int = 0, logprobs: int | None = None,
    timeout: float | None = None, priority: int = 0, cache: str | PathLike[str] | None = None,
    **backend_options: Any,
) -> Generation[R]: ...  # fmt: skip


@overload
def gen(
    model: str | None = None, *, messages: Said | None = None, max_tokens: int | None = None,
    stop: str | Sequence[str] | None = None, stop_tokens: Sequence[int] = (),
    temperature: float | None = None, top_p: float | None = None, seed: int | None = None,
    n: int = 1,
    choices: Sequence[str] | None = None, normalize: str | None = None, method: str | None = None,
    regex: str | None = None, grammar: str | None = None, tools: Tools | None = None,
    tool_choice: Any = None, response_format: Any, max_asks: int | None = None,
    stream: bool = False, max_relay_rounds: int = 0, logprobs: int | None = None,
    timeout: float | None = None, priority: int = 0, cache: str | PathLike[str] | None = None,
    **backend_options: Any,
) -> Generation[Any]: ...  # fmt: skip


@taking_futures
def gen(
    model: str | None = None, *, messages: Said | None = None, max_tokens: int | None = None,
    stop: str | Sequence[str] | None = None, stop_tokens: Sequence[int] = (),
    temperature: float | None = None, top_p: float | None = None, seed: int | None = None,
    n: int = 1,
    choices: Sequence[str] | None = None, normalize: str | None = None, method: str | None = None,
    regex: str | None = None, grammar: str | None = None, tools: Tools | None = None,
    tool_choice: Any = None, response_format: Any = None, max_asks: int | None = None,
    stream: bool = False, max_relay_rounds: int = 0, logprobs: int | None = None,
    timeout: float | None = None, priority: int = 0, cache: str | PathLike[str] | None = None,
    **backend_options: Any,
) -> Generation[Any]:  # fmt: skip
    """Ask a model to continue the prompt; returns the future of its answer at once.

    Without *messages* the prompt is that of the running function. *choices* makes it pick one of
    the strings. *response_format* makes the answer a typed one: a pydantic model, a dataclass, a
    TypedDict, an Enum, ``Literal[...]``, ``int``, ``float``, ``bool``, ``list[...]`` and so on,
    ``"json"``, or a JSON schema. The backend constrains the answer where it can; elsewhere the
    prompt asks for it. An answer that is not of the type is asked again with the error, *max_asks*
    (3) times in all, then ``OutputError`` is raised. What Python sees of a typed answer is its
    object, what prompts get is its JSON; ``response_obj`` is the object, too.
    *tools* are functions that the model may call: functions, ``Tool``, ``SchemaTool``, MCP servers,
    one or a list of them. Its answer then may have ``tool_calls``, which ``run_tool_calls`` runs.
    *tool_choice* is ``"auto"``, ``"none"``, ``"required"``, or the one tool that it has to call.
    With *stream* the answer can be read while it is made, as ``text_stream``. An answer that the
    token limit cuts is continued up to *max_relay_rounds* times, each with the same limit.
    With *n* several answers are asked for: ``samples`` are all of them. A *cache* gives the samples
    that it holds, by number, and keeps those that were missing: ``"run"`` for this run, or the path
    of a file, which several processes may share.
    Options that the backend declares may follow; others are an error.
    """
    fields = {
        "max_tokens": max_tokens, "stop": stops(stop) if stop is not None else (),
        "temperature": temperature, "top_p": top_p, "seed": seed, "logprobs": logprobs,
        "regex": regex, "grammar": grammar,
        "stop_tokens": stop_ids(stop_tokens) if stop_tokens != () else (),
    }  # fmt: skip
    asked = Asked(
        model, messages, fields, backend_options, n, timeout, priority, choices, normalize, method,
        stream, cache=cache,
    )  # fmt: skip
    if max_relay_rounds:
        check_number("max_relay_rounds", max_relay_rounds, 0, whole=True)
        asked.rounds = max_relay_rounds
    if response_format is not None or max_asks is not None:
        asked.shape_as(response_format, max_asks)
    if tools is not None or tool_choice is not None:
        asked.offer(Toolbox.of(tools), tool_choice)
    return _generate("gen", asked)


@taking_futures
def select(
    options: Sequence[str], model: str | None = None, *, messages: Said | None = None,
    method: str | None = None, normalize: str | None = None, temperature: float | None = None,
    seed: int | None = None, timeout: float | None = None, priority: int = 0,
    cache: str | PathLike[str] | None = None, **backend_options: Any,
) -> Generation:  # fmt: skip
    """Have a model pick one of *options*, given the prompt.

    By log-probability where the backend can (only so with ``method="logprob"``; *normalize* is
    ``"token"`` or nothing), by constrained decoding where it cannot, else by asking for a number.
    """
    fields = {
        "max_tokens": None, "stop": (), "temperature": temperature, "top_p": None, "seed": seed,
        "logprobs": None, "regex": None, "grammar": None,
    }  # fmt: skip
    asked = Asked(
        model, messages, fields, backend_options, 1, timeout, priority, options, normalize, method,
        cache=cache,
    )  # fmt: skip
    return _generate("select", asked)


def _generate(kind: str, asked: Asked) -> Generation[Any]:
    frame = here(lambda: repr(asked.messages))
    frame.run.check_open()
    call = _call(frame, kind, asked, asked.sampling(frame))
    return issue(frame, _answer(call, asked))


def _call(frame: Frame, kind: str, asked: Asked, sampling: Sampling) -> Call:
    node: Node | None = frame.prompt.tip
    given: Messages | None = None
    if asked.messages is not None:
        node, given = said_to(asked.messages, frame.run.recent)
    check_media(frame.run.models.profile_of(asked.model or ""), node or given)
    cache = frame.run.cache(finished(asked.cache)) if asked.cache is not None else None
    home = hub_here()
    call = Call(
        frame, home, kind, node, given, asked.model or "", sampling, _source() or frame.asked_at
    )
    call.n, call.timeout, call.priority = asked.n, asked.timeout, asked.priority
    call.cache, call.tools = cache, asked.tools
    return call


def _answer(call: Call, asked: Asked) -> Call | Series:
    """The answer that the program gets: that of *call*, or of a series that begins with it."""
    answer: Call | Series = Relay(call, asked.rounds) if asked.rounds else call
    if asked.choices is not None:
        return choose(call, tuple(asked.choices))
    partial = None
    if asked.shape is not None:
        answer = typed = typed_answer(answer, asked.shape, call.profile, asked.max_asks)
        partial = typed.partial
    if asked.stream or call.run.streams:
        open_stream(answer, partial)
    return answer


def issue(frame: Frame, answer: Call | Series) -> Generation[Any]:
    """Hand *answer* to the scheduler; a sequential run waits for it here."""
    frame.add(answer)
    run = frame.run
    answer.begin()
    run.submit(answer.call)
    if run.sequential:
        wait(answer)
    return Generation(answer)


def _source() -> tuple[str, int] | None:
    """The user's file and line: the innermost frame that is not of this package."""
    frame = sys._getframe(3)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != _PACKAGE and not name.startswith(_PACKAGE + "."):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None
