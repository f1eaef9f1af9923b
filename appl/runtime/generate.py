"""``gen`` and ``select``: a call is issued at once, and its future returned.

Invariant: nothing here waits, but for sequential runs; an impossible option is refused before any
call.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from appl.backend import Sampling
from appl.errors import InvalidOption, Unsupported
from appl.prompt import Messages, Node
from appl.runtime import choice
from appl.runtime.call import Call
from appl.runtime.demand import schema_for
from appl.runtime.explicit import Said, said_to
from appl.runtime.fiber import hub_here, wait
from appl.runtime.frame import Frame
from appl.runtime.future import Generation, finished
from appl.runtime.media import check_media
from appl.runtime.models import named
from appl.runtime.older import of_gen
from appl.runtime.options import check_number, require, sampling_of, stops
from appl.runtime.output import typed_answer
from appl.runtime.relay import relayed
from appl.runtime.resolve import taking_futures
from appl.runtime.run import Run, here
from appl.runtime.series import Series
from appl.runtime.shape import Shape, shape_of
from appl.runtime.stream import open_stream
from appl.runtime.toolbox import Toolbox

_PACKAGE = __name__.rpartition(".")[0].rpartition(".")[0]


@taking_futures
def gen(
    model: str | None = None,
    *,
    messages: Said | None = None,
    max_tokens: int | None = None,
    stop: str | Sequence[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    n: int = 1,
    choices: Sequence[str] | None = None,
    normalize: str | None = None,
    method: str | None = None,
    regex: str | None = None,
    grammar: str | None = None,
    tools: Any = None,
    tool_choice: Any = None,
    response_format: Any = None,
    max_asks: int | None = None,
    stream: bool = False,
    max_relay_rounds: int = 0,
    logprobs: int | None = None,
    timeout: float | None = None,
    priority: int = 0,
    cache: str | PathLike[str] | None = None,
    **backend_options: Any,
) -> Generation:
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
    }  # fmt: skip
    asked = _Asked(model, messages, fields, backend_options, n, timeout, priority, bool(stream))
    asked.cache = cache
    if max_relay_rounds:
        check_number("max_relay_rounds", max_relay_rounds, 0, whole=True)
        asked.rounds = max_relay_rounds
    if response_format is not None:
        asked.shape = shape_of(finished(response_format))
        asked.max_asks = max_asks
    if tools is not None or tool_choice is not None:
        asked.offer(Toolbox.of(tools), tool_choice)
    return _generate("gen", asked, choices, normalize, method)


@taking_futures
def select(
    options: Sequence[str],
    model: str | None = None,
    *,
    messages: Said | None = None,
    method: str | None = None,
    normalize: str | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    priority: int = 0,
    **backend_options: Any,
) -> Generation:
    """Have a model pick one of *options*, given the prompt.

    By log-probability where the backend can (only so with ``method="logprob"``; *normalize* is
    ``"token"`` or nothing), by constrained decoding where it cannot, else by asking for a number.
    """
    fields = {
        "max_tokens": None, "stop": (), "temperature": temperature, "top_p": None, "seed": seed,
        "logprobs": None, "regex": None, "grammar": None,
    }  # fmt: skip
    asked = _Asked(model, messages, fields, backend_options, 1, timeout, priority)
    return _generate("select", asked, options, normalize, method)


@dataclass(slots=True)
class _Asked:
    """The arguments of a call."""

    model: str | None
    messages: Said | None
    fields: dict[str, Any]
    extra: dict[str, Any]
    n: int
    timeout: float | None
    priority: int
    stream: bool = False
    rounds: int = 0
    shape: Shape | None = None
    max_asks: int | None = None
    tools: Toolbox | None = None
    cache: str | PathLike[str] | None = None

    def offer(self, tools: Toolbox, choice: Any) -> None:
        """Let the model call one of *tools*."""
        if not len(tools) and finished(choice) is not None:
            raise InvalidOption("gen(tool_choice=...) needs tools: write gen(tools=[...]) with it")
        if len(tools):
            self.tools = tools
            self.fields["tools"], self.fields["tool_choice"] = tools.texts, tools.choice(choice)


def _generate(
    kind: str,
    asked: _Asked,
    choices: Sequence[str] | None,
    normalize: str | None,
    method: str | None,
) -> Generation:
    frame = here(lambda: repr(asked.messages))
    run = frame.run
    run.check_open()
    fields, n = asked.fields, asked.n
    asked.model = _complete(frame, asked)
    run.complete_fields(fields)
    if fields["regex"] is not None or fields["grammar"] is not None:
        _check_constraints(run, fields["regex"], fields["grammar"])
    if n != 1 or asked.timeout is not None or asked.priority != 0:
        check_number("n", n, 1, whole=True)
        check_number("timeout", asked.timeout, 0)
        check_number("priority", asked.priority, None)
    if asked.tools is not None:
        require(run.profile, "tools", "tools")
        if choices is not None:
            raise InvalidOption("gen(choices=..., tools=...): a choice is made without tools")
    if asked.shape is not None:
        _check_typed(asked, choices)
        fields["schema"] = schema_for(asked.shape, run.profile)
    sampling = sampling_of(run.profile, fields, asked.extra)
    if choices is not None:
        if n != 1:
            raise Unsupported(f"a choice is made once: gen(choices=..., n={n}) is not there yet")
        choices = choice.checked(choices)
        sampling = choice.sampling_for(run.profile, sampling, choices, normalize, method)
    cache = run.cache(finished(asked.cache)) if asked.cache is not None else None
    call = _call(frame, kind, asked.messages, asked.model, sampling)
    call.n, call.timeout, call.priority = n, asked.timeout, asked.priority
    call.cache = cache
    call.tools = asked.tools
    answer: Call | Series = call
    if asked.rounds:
        answer = relayed(call, asked.rounds)
    partial = None
    if choices is not None:
        answer = choice.choose(call, tuple(choices))
    elif asked.shape is not None:
        answer = typed = typed_answer(answer, asked.shape, run.profile, asked.max_asks)
        partial = typed.partial
    if (asked.stream or run.streams) and choices is None:
        open_stream(answer, partial)
    return issue(frame, answer)


def issue(frame: Frame, answer: Call | Series) -> Generation:
    """Hand *answer* to the scheduler; a sequential run waits for it here."""
    frame.add(answer)
    run = frame.run
    answer.begin()
    run.submit(answer.call)
    if run.sequential:
        wait(answer)
    return Generation(answer)


def _call(
    frame: Frame, kind: str, messages: Said | None, model: str | None, sampling: Sampling
) -> Call:
    node: Node | None = frame.prompt.tip
    given: Messages | None = None
    if messages is not None:
        node, given = said_to(messages)
    check_media(frame.run.profile, node or given)
    home = hub_here()
    return Call(frame, home, kind, node, given, model or "", sampling, _source())


def _complete(frame: Frame, asked: _Asked) -> str | None:
    """The model that is asked, after its default options have filled in what was left open."""
    if asked.extra:
        words = of_gen(asked.extra)
        asked.model, asked.messages = (
            words.get("model", asked.model),
            words.get("messages", asked.messages),
        )
    model = frame.run.models.resolve(named(finished(asked.model)) or frame.model)
    for name, value in model.options.items():
        if name not in asked.fields:
            asked.extra.setdefault(name, value)
        elif asked.fields[name] in (None, ()):
            asked.fields[name] = stops(value) if name == "stop" else value
    return model.name


def _check_constraints(run: Run, regex: str | None, grammar: str | None) -> None:
    if regex is not None:
        require(run.profile, "regex", "regex")
    if grammar is not None:
        require(run.profile, "grammar", "grammar")


def _check_typed(asked: _Asked, choices: Sequence[str] | None) -> None:
    check_number("max_asks", asked.max_asks, 1, whole=True)
    others = {
        "choices": choices,
        "regex": asked.fields["regex"],
        "grammar": asked.fields["grammar"],
    }
    for name, value in others.items():
        if value is not None:
            raise InvalidOption(
                f"gen(response_format=..., {name}=...): only one of them can say what the answer "
                "looks like; leave out the other"
            )


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
