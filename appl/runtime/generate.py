"""``gen`` and ``select``: a call is issued at once, and its future returned.

Invariant: nothing here waits, but for sequential runs; an impossible option is refused before any
call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from appl.backend import Sampling
from appl.errors import InvalidOption, Unsupported
from appl.prompt import Message, Messages, Node, Prompt, as_message
from appl.runtime import choice
from appl.runtime.call import Call
from appl.runtime.context import Conversation, PromptRecords
from appl.runtime.fiber import hub_here, wait
from appl.runtime.frame import Frame
from appl.runtime.future import Generation, finished
from appl.runtime.models import named
from appl.runtime.options import check_number, require, sampling_of, stops
from appl.runtime.pending import Proxy
from appl.runtime.resolve import taking_futures
from appl.runtime.run import Run, here

Said = Conversation | PromptRecords | Iterable[Message | dict[str, Any]] | str

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
    logprobs: int | None = None,
    timeout: float | None = None,
    priority: int = 0,
    **backend_options: Any,
) -> Generation:
    """Ask a model to continue the prompt; returns the future of its answer at once.

    Without *messages* the prompt is that of the running function. *choices* makes it pick one of
    the strings. Options that the backend declares may follow; others are an error.
    """
    fields = {
        "max_tokens": max_tokens, "stop": stops(stop) if stop is not None else (),
        "temperature": temperature, "top_p": top_p, "seed": seed, "logprobs": logprobs,
        "regex": regex, "grammar": grammar,
    }  # fmt: skip
    asked = _Asked(model, messages, fields, backend_options, n, timeout, priority)
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
    sampling = sampling_of(run.profile, fields, asked.extra)
    if choices is not None:
        if n != 1:
            raise Unsupported(f"a choice is made once: gen(choices=..., n={n}) is not there yet")
        choices = choice.checked(choices)
        sampling = choice.sampling_for(run.profile, sampling, choices, normalize, method)
    call = _call(frame, kind, asked.messages, asked.model, sampling)
    call.n, call.timeout, call.priority = n, asked.timeout, asked.priority
    if choices is not None:
        return choice.choose(frame, call, tuple(choices))
    return issue(frame, call)


def issue(frame: Frame, call: Call) -> Generation:
    """Hand *call* to the scheduler; a sequential run waits for it here."""
    frame.add(call)
    run = frame.run
    run.submit(call)
    if run.sequential:
        wait(call)
    return Generation(call)


def _call(
    frame: Frame, kind: str, messages: Said | None, model: str | None, sampling: Sampling
) -> Call:
    node: Node | None = frame.prompt.tip
    given: Messages | None = None
    if messages is not None:
        node, given = _given(messages)
    home = hub_here()
    return Call(frame, home, kind, node, given, model or "", sampling, _source())


def _complete(frame: Frame, asked: _Asked) -> str | None:
    """The model that is asked, after its default options have filled in what was left open."""
    model = frame.run.models.resolve(named(finished(asked.model)) or frame.model)
    for name, value in model.options.items():
        if name not in asked.fields:
            asked.extra.setdefault(name, value)
        elif asked.fields[name] in (None, ()):
            asked.fields[name] = stops(value) if name == "stop" else value
    return model.name


def _given(messages: Said) -> tuple[Node | None, Messages | None]:
    """Explicit messages: as they are if all is there, else as a prompt with pending parts."""
    if isinstance(messages, Generation):
        return _pending_prompt([{"role": "user", "content": messages}]), None
    messages = finished(messages)
    if isinstance(messages, str):
        return None, Messages.of([Message("user", str.__str__(messages))])
    if isinstance(messages, PromptRecords):
        prompt = Prompt()
        for part in messages.nodes():
            prompt.append(part.role, part.part, sep=part.sep, lead=part.lead, starts=part.starts)
        return prompt.tip, None
    every = _listed(messages)
    if any(isinstance(_content(message), Proxy) for message in every):
        return _pending_prompt(every), None
    return None, Messages.of(as_message(message) for message in every)


def _listed(messages: Any) -> list[Any]:
    if isinstance(messages, Conversation):
        return messages.all()
    if isinstance(messages, Message | dict):
        return [messages]
    if not isinstance(messages, Iterable):
        raise InvalidOption(f"gen(messages=...) takes text or a list, got {messages!r:.80}")
    return [finished(message) for message in messages]


def _content(message: Message | dict[str, Any]) -> Any:
    return message.get("content") if isinstance(message, dict) else getattr(message, "content", "")


def _pending_prompt(every: Iterable[Message | dict[str, Any]]) -> Node | None:
    prompt = Prompt()
    for message in every:
        content = _content(message)
        if isinstance(content, Proxy):
            role = message.get("role") if isinstance(message, dict) else message.role
            role = as_message({"role": finished(role), "content": ""}).role
            prompt.append(role, content._pending)
            content._pending.keep("")
        else:
            plain = as_message(message)
            prompt.append(plain.role, plain.content)
    return prompt.tip


def _check_constraints(run: Run, regex: str | None, grammar: str | None) -> None:
    if regex is not None:
        require(run.profile, "regex", "regex")
    if grammar is not None:
        require(run.profile, "grammar", "grammar")


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
