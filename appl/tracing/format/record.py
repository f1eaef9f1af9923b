"""Answers, errors, profiles and other values of records as plain data, and back.

``docs/trace-format.md`` describes their forms; ``table`` lists the records that hold them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from appl.backend import FEATURES, Profile, Response, Sample, TokenLogprob, Usage
from appl.prompt.message import ToolCall
from appl.tracing.format.codec import Big, Plain, plain, revive, shortened

if TYPE_CHECKING:
    from appl.prompt.provider_fields import ProviderFields

FORMAT = 1
PROVIDED = "$provided"
"""The key of a map of its own around who gave the fields of a provider, and these."""
_UNKNOWN_CLASSES = (None, None, None, "")
"""The counts of the billed classes of tokens beyond the first three, where nothing is known."""
ANSWERED, FAILED, CANCELLED = 0, 1, 2

T = TypeVar("T")
Read = Callable[[object], object]
"""Makes a value out of what stands in a record for it, such as a reference."""


def as_it_is(value: object) -> object:
    """*value*: where nothing stands for a long text."""
    return value


def response_data(response: Response, big: Big | None = None) -> tuple[Any, ...]:
    """A response as plain data; *big* may put a reference in place of a text or a vector."""
    used, samples = response.usage, list[tuple[Any, ...]]()
    for sample in response.samples:
        text, tokens, reasoning = sample.text, sample.logprobs, sample.reasoning
        fields: tuple[Any, ...] = (
            big(text) if big is not None else text,
            sample.finish_reason,
            tokens and _tokens(tokens),
        )
        if sample.tool_calls or reasoning is not None or sample.provider_fields is not None:
            passed = big or as_it_is
            thought = None if reasoning is None else passed(reasoning)
            fields = *fields, calls_data(sample.tool_calls, passed), thought
        if sample.provider_fields is not None:
            fields = *fields, provided_data(sample.provider_fields, big or as_it_is)
        samples.append(fields)
    data = (
        samples,
        (used.prompt_tokens, used.completion_tokens, used.cached_tokens),
        response.model,
        response.scores,
        response.choice_method,
        response.cost,
    )
    classes = used.written_tokens, used.written_1h_tokens, used.reasoning_tokens, used.tier
    if response.vectors is not None:
        vectors = [(big or as_it_is)(vector) for vector in response.vectors]
        none = response.prompt_logprobs and _tokens(response.prompt_logprobs)
        return *data, response.reused, response.shed, none, (*classes, response.cache_miss), vectors
    if classes != _UNKNOWN_CLASSES or response.cache_miss is not None:
        prompt = response.prompt_logprobs and _tokens(response.prompt_logprobs)
        return *data, response.reused, response.shed, prompt, (*classes, response.cache_miss)
    if response.prompt_logprobs is not None:
        return *data, response.reused, response.shed, _tokens(response.prompt_logprobs)
    if response.shed:
        return *data, response.reused, response.shed
    return (*data, response.reused) if response.reused else data


def provided_data(provided: ProviderFields, big: Big) -> dict[str, object]:
    """The fields of a provider as plain data; *big* may put a reference in place of a text."""
    return {PROVIDED: [provided.source, shortened(plain(json.loads(provided.fields)), big)]}


def provided_from(data: Any, big: Read) -> ProviderFields | None:
    """The fields that ``provided_data`` described. Raises ``ValueError``, ``TypeError``."""
    if data is None:
        return None
    source, fields = data[PROVIDED]
    fields_read = checked(dict, revive(fields, cast("Callable[[Any], str | bytes]", big)))
    from appl.prompt.provider_fields import ProviderFields  # few messages have any

    return ProviderFields.of(fields_read, checked(str, source))


def calls_data(calls: tuple[ToolCall, ...], big: Big) -> list[object]:
    """Tool calls as plain data; *big* may put a reference in place of long arguments."""
    return [(call.id, call.name, big(call.arguments)) for call in calls]


def calls_from(data: Any, big: Read) -> tuple[ToolCall, ...]:
    """The tool calls that ``calls_data`` described. Raises ``ValueError``, ``TypeError``."""
    return tuple(
        ToolCall(checked(str, id), checked(str, name), checked(str, big(arguments)))
        for id, name, arguments in data
    )


def _tokens(logprobs: tuple[TokenLogprob, ...]) -> list[object]:
    return [(t.token, t.logprob, t.top) for t in logprobs]


def response_from(data: Any, big: Read = as_it_is) -> Response:
    """The response that ``response_data`` described. Raises ``ValueError``, ``TypeError``."""
    samples, used, model, scores, method, cost = data[:6]
    reused, shed, prompt, classes, vectors = _padded(data[6:], 0, (), None, (), None)
    written, hour, reasoning, tier, miss = _padded(classes, *_UNKNOWN_CLASSES, None)
    return Response(
        samples=tuple(_sample(sample, big) for sample in samples),
        usage=Usage(
            *[optional(int, count) for count in (*used, written, hour, reasoning)], tier=word(tier)
        ),
        model=word(model),
        scores=None if scores is None else tuple(checked(float, score) for score in scores),
        choice_method=optional(str, method),
        cost=optional(int, cost),
        reused=checked(int, reused),
        shed=tuple(checked(str, name) for name in shed),
        prompt_logprobs=None if prompt is None else tuple(_token(*token) for token in prompt),
        cache_miss=optional(str, miss),
        vectors=None if vectors is None else tuple(checked(bytes, big(one)) for one in vectors),
    )


def _sample(data: Any, big: Read) -> Sample:
    text, reason, logprobs = data[:3]
    tokens = None if logprobs is None else tuple(_token(*token) for token in logprobs)
    calls, reasoning, provided = _padded(data[3:], (), None, None)
    return Sample(
        checked(str, big(text)),
        word(reason),
        tokens,
        calls_from(calls, big),
        None if reasoning is None else checked(str, big(reasoning)),
        provided_from(provided, big),
    )


def _padded(fields: Any, *usual: object) -> list[Any]:
    """The optional *fields* that are there, and the *usual* values of those after them."""
    return [*fields[: len(usual)], *usual[len(fields) :]]


def _token(token: object, logprob: object, top: Any) -> TokenLogprob:
    best = tuple((checked(str, text), checked(float, value)) for text, value in top)
    return TokenLogprob(checked(str, token), checked(float, logprob), best)


def checked(kind: type[T], value: Any) -> T:
    """*value*, when it is of *kind*; an ``int`` passes for a ``float``. Raises ``TypeError``."""
    actual = type(value)
    if actual is kind or (kind is float and actual is int):
        right: T = value
        return right
    raise TypeError(f"expected {kind.__name__}, found {actual.__name__}")


def word(value: object) -> str:
    """*value*, a text that many records have: it is kept once. Raises ``TypeError``."""
    return sys.intern(checked(str, value))


def optional(kind: type[T], value: object) -> T | None:
    """*value*, when it is ``None`` or of *kind*. Raises ``TypeError``."""
    return None if value is None else checked(kind, value)


def profile_data(profile: Profile) -> Plain:
    """A backend's profile as plain data, for the header of a trace."""
    return Plain(
        name=profile.name,
        features=sorted(profile.features),
        options=sorted(profile.options),
        models=list(profile.models),
        default_model=profile.default_model,
        **({} if profile.context is None else {"context": profile.context}),
    )


def profile_from(data: object) -> Profile:
    """The profile of ``profile_data``, without limits; one that allows all when there is none.

    What is read may be anything; features that it does not list are all allowed.
    """
    if not isinstance(data, dict):
        return Profile("replay", FEATURES)
    default = data.get("default_model")
    return Profile(
        name=str(data.get("name", "replay")),
        features=frozenset(map(str, data.get("features", FEATURES))),
        options=frozenset(map(str, data.get("options", ()))),
        models=tuple(map(str, data.get("models", ()))),
        default_model=None if default is None else str(default),
    )
