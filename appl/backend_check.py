"""The check of backends' answers where they enter: each field must have its type and size.

Invariant: an answer that passes can be counted, priced and recorded. Nothing here changes a value.
"""

from __future__ import annotations

import math
from typing import Any

from appl.backend import Chunk, Response, Sample, TokenLogprob, Usage
from appl.errors import MalformedResponse
from appl.prompt.message import ToolCall

MOST = (1 << 63) - 1
"""The largest number of tokens and the largest cost: the largest signed 64-bit integer."""

TEXT = 16 << 20
"""The largest number of characters in one text of an answer."""


class WrongField(ValueError):
    """A field of an answer has a wrong type or size."""


def text_in(value: object, name: str) -> str:
    """Return *value* if it is a text. Raises ``WrongField``, as all of these do."""
    if type(value) is not str or len(value) > TEXT:
        raise _wrong_text(value, name)
    return value


def _wrong_text(value: object, name: str) -> WrongField:
    if type(value) is not str:
        return WrongField(f"{name} must be a text, got {type(value).__name__}")
    return WrongField(f"{name} has more than {TEXT} characters")


def count_in(value: object, name: str) -> int | None:
    """Return *value* if it is absent or a whole number of at most 64 bits."""
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= MOST:
        raise _wrong_count(value, name)
    return value


def texts_in(of: str = "", /, **values: object) -> None:
    """Check that all *values* are texts, in one loop: a call for each costs more."""
    for name, value in values.items():
        if type(value) is not str or len(value) > TEXT:
            raise _wrong_text(value, name + of)


def counts_in(*values: object) -> None:
    """Check the counts of tokens that a ``Usage`` has, those of them that are there."""
    for name, value in zip(_COUNTS, values, strict=True):
        if value is not None and (type(value) is not int or not 0 <= value <= MOST):
            raise _wrong_count(value, name)


def _wrong_count(value: object, name: str) -> WrongField:
    if type(value) is not int:
        return WrongField(f"{name} must be a whole number, got {type(value).__name__}")
    return WrongField(f"{name} must be from 0 to {MOST}, got {'less' if value < 0 else 'more'}")


def number_in(value: Any, name: str) -> float:
    """Return *value* if it is a number that can be a log-probability."""
    if type(value) not in (float, int):
        raise WrongField(f"{name} must be a number, got {type(value).__name__}")
    try:
        found = float(value)
    except OverflowError:
        raise WrongField(f"{name} is too large a number") from None
    if math.isnan(found) or found == math.inf:
        raise WrongField(f"{name} must be a number, got {found}")
    return found


def check_response(response: object, who: str) -> None:
    """Raise ``MalformedResponse`` unless *response* is a valid answer; *who* gave it.

    Every backend's answers pass here, including those of backends that users write.
    """
    try:
        _response(response)
    except WrongField as error:
        raise MalformedResponse(f"{who} gave an answer that is none: {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        kind = type(error).__name__
        raise MalformedResponse(
            f"{who} gave an answer that is none: its form is another ({kind})"
        ) from None


def check_chunk(chunk: object) -> None:
    """Raise ``MalformedResponse`` unless *chunk* is a valid piece of a streamed answer."""
    if type(chunk) is not Chunk or type(chunk.text) is not str or type(chunk.sample) is not int:
        raise MalformedResponse(f"the backend streamed what is no text: {type(chunk).__name__}")


def _response(response: object) -> None:
    if not isinstance(response, Response):
        raise WrongField(f"it must be a Response, got {type(response).__name__}")
    samples = response.samples
    if not isinstance(samples, tuple) or not samples:
        raise WrongField("it has no samples")
    for sample in samples:
        _sample(sample)
    texts_in(model=response.model)
    usage = response.usage
    if not isinstance(usage, Usage):
        raise WrongField(f"usage must be a Usage, got {type(usage).__name__}")
    counts_in(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    if response.cost is not None:
        count_in(response.cost, "cost")
    if type(response.reused) is not int:
        raise WrongField("reused must be a whole number")
    for score in response.scores or ():
        number_in(score, "scores")
    if response.choice_method is not None:
        text_in(response.choice_method, "choice_method")


def _sample(sample: object) -> None:
    if not isinstance(sample, Sample):
        raise WrongField(f"a sample must be a Sample, got {type(sample).__name__}")
    texts_in(text=sample.text, finish_reason=sample.finish_reason)
    if sample.reasoning is not None:
        text_in(sample.reasoning, "reasoning")
    for call in sample.tool_calls:
        _tool_call(call)
    for token in sample.logprobs or ():
        _logprob(token)


def _tool_call(call: object) -> None:
    if not isinstance(call, ToolCall):
        raise WrongField(f"a tool call must be a ToolCall, got {type(call).__name__}")
    texts_in(" of a tool call", id=call.id, name=call.name, arguments=call.arguments)


def _logprob(token: object) -> None:
    if not isinstance(token, TokenLogprob):
        raise WrongField(f"a log-probability must be a TokenLogprob, got {type(token).__name__}")
    text_in(token.token, "a token")
    number_in(token.logprob, "a log-probability")
    for text, value in token.top:
        text_in(text, "a token")
        number_in(value, "a log-probability")


_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
