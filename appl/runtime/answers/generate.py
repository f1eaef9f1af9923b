"""``gen`` and ``select``: a call is issued at once, and its future returned.

Invariant: nothing here waits, but for sequential runs; an impossible option is refused before any
call.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from weakref import ref

from appl.backend import Sampling, check_media
from appl.errors import UnknownOption
from appl.runtime.answers.call import Call, CallIdentity
from appl.runtime.answers.gen_options import OPTION_NAMES, GenOptions, SelectOptions, with_options
from appl.runtime.answers.request_options import DEFAULTS, RequestOptions
from appl.runtime.concurrency.fiber import hub_here, wait
from appl.runtime.concurrency.future import Generation, TypedGeneration, finished
from appl.runtime.frame import Frame, here
from appl.runtime.future_takers import taking_futures

if TYPE_CHECKING:
    from appl.runtime.answers.multi_call import MultiCall

R = TypeVar("R")

_PACKAGE = __name__.partition(".")[0]
_PLAIN = frozenset({str, int, float, bool, type(None)})
_NOTHING = None, Sampling()
_MOST = 4096  # options that are kept
_PROGRAMS = frozenset({"appl.cli.questions"})
"""The programs in this package: their lines are shown as those of a user's program are."""


@overload
def gen(
    model: str | None = None, *, response_format: None = None, **options: Unpack[GenOptions]
) -> Generation: ...
@overload
def gen(
    model: str | None = None, *, response_format: type[R], **options: Unpack[GenOptions]
) -> TypedGeneration[R]: ...
@overload
def gen(
    model: str | None = None, *, response_format: object, **options: Unpack[GenOptions]
) -> TypedGeneration[Any]: ...


@taking_futures
@with_options(GenOptions, DEFAULTS)
def gen(model: str | None = None, *, response_format: object = None, **options: object) -> object:
    """Ask a model to continue the prompt; returns the future of its answer at once.

    The prompt is that of the running ``@ppl`` function::

        @ppl
        def answer(question: str) -> str:
            f"Answer briefly: {question}"
            return gen("openai/gpt-5-mini", max_tokens=100, temperature=0.2)

    Its options have the default ``None`` (the backend or the settings decide), unless it is named:

        model: ``BACKEND/MODEL``, a model of the run's backend, or a name of ``[models]``.
        response_format: Type of the answer: a pydantic model, a dataclass, a ``TypedDict``, an
            ``Enum``, ``Literal[...]``, ``int``, ``float``, ``bool``, ``list[...]`` and so on,
            ``"json"``, or a JSON schema. Python sees the object, prompts get its JSON.
    """
    return _generate("gen", model, response_format, options)


@taking_futures
@with_options(SelectOptions, DEFAULTS)
def select(
    options: Sequence[str], model: str | None = None, **settings: Unpack[SelectOptions]
) -> Generation:
    """Have a model pick one of *options*, given the prompt; returns the future of it at once.

    ``select(["yes", "no"])`` picks by log-probability where the backend can, by constrained
    decoding where it cannot, else by asking for a number. ``choice_method`` says how, ``scores``
    are the log-probabilities::

        @ppl
        def polite(text: str) -> bool:
            f"Is this polite? {text}"
            return select(["yes", "no"]) == "yes"

    Its options have the default ``None``, unless it is named:

        options: The texts, at least one, each once.
        model: ``BACKEND/MODEL``, a model of the run's backend, or a name of ``[models]``.
    """
    for name in settings:
        if name in OPTION_NAMES and name not in SelectOptions.__annotations__:
            raise UnknownOption(f"select() has no option {name!r}; gen(choices=...) has it")
    return _generate("select", model, None, {**settings, "choices": options})


def _generate(
    kind: str, model: str | None, response_format: object, options: dict[str, object]
) -> Generation[Any]:
    frame = here(repr, options.get("messages"))
    run = frame.run
    if run.closed or run.refusal:
        run.check_open()
    # Plain options mean the same wherever they are written, and are read once.
    requests, types = run.dispatch.requests, (type(model), *map(type, options.values()))
    plain = response_format is None and _PLAIN.issuperset(types)
    key = (frame.model, model, *options.items(), *types) if plain else None  # 1 is not 1.0 here
    request, sampling = requests.get(key, _NOTHING)
    if not isinstance(request, RequestOptions):
        request, sampling = entry = RequestOptions.of(frame, model, response_format, options)
        if plain and request.messages is None and len(requests) < _MOST:
            requests[key] = entry
    node, messages = frame.prompt.tip, None
    if request.messages is not None:
        from appl.runtime.prompts.explicit import (
            explicit_prompt,  # most calls send the prompt around them
        )

        node, messages = explicit_prompt(request.messages, run.recent)
    place = _source() or frame.call_place
    if node is None and messages is None:
        from appl.runtime.prompts.empty import check_empty

        check_empty(kind, frame, place, request.messages is not None)
    prompt = node or messages
    if prompt is not None and prompt.needs:
        check_media(run.dispatch.models.profile_of(request.model or ""), prompt)
    cache = run.dispatch.cache(finished(request.cache)) if request.cache is not None else None
    identity = CallIdentity(kind, frame.generations, *(place or (None, None)))
    frame.generations += 1
    # Where the prompt lives on after this frame, its root is what tells whether it goes on.
    holds = frame.root_of_prompt() if frame.shares else frame
    call = Call(
        frame.issue(kind), hub_here(), ref(holds), run, frame.account, identity, node, messages,
        request.model or "", sampling, request.n, request.timeout, request.priority, cache,
        request.toolbox, request.key,
    )  # fmt: skip
    answer: Call | MultiCall = call
    if not request.alone or run.reporter.streams or frame.streams:
        answer = _answer(frame, call, request)
    frame.add(answer)
    run.submit(call if answer is call else answer.begin())
    if run.services.sequential:
        wait(answer)
    return Generation(answer)


def _answer(frame: Frame, call: Call, request: RequestOptions) -> Call | MultiCall:
    """The answer that the program gets: that of *call*, or of a series that begins with it."""
    answer: Call | MultiCall = call
    if request.max_relay_rounds:
        from appl.runtime.answers.continuation import Continuation

        answer = Continuation(call, request.max_relay_rounds)
    if request.choices is not None:
        from appl.runtime.answers.choice import choose

        return choose(call, tuple(request.choices))
    partial = None
    if request.shape is not None:
        from appl.runtime.answers.output import TypedAnswer

        answer = typed = TypedAnswer(answer, request.shape, request.max_asks, request.check)
        partial = typed.partial
    if request.stream or frame.run.reporter.streams or frame.streams:
        from appl.runtime.answers.stream import Stream

        answer.stream_to(Stream(answer, frame.run.reporter, partial))
        answer.overlaps = request.stream
    return answer


def _source() -> tuple[str, int] | None:
    """The user's file and line: the innermost frame that is not of this package."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name in _PROGRAMS or (name != _PACKAGE and not name.startswith(_PACKAGE + ".")):
            return frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None
