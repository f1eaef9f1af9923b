"""The checks of answers where they enter: a server's JSON, and each field of a backend's answer.

Invariant: what passes has its type and size, so that it can be counted, priced and recorded.
Nothing here changes a value.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import Any

from appl.backend import Chunk, Response, Sample, TokenLogprob, Usage
from appl.errors import MalformedResponse
from appl.prompt.message import ToolCall

MOST = (1 << 63) - 1
"""The largest number of tokens and the largest cost: the largest signed 64-bit integer."""

TEXT = 16 << 20
"""The largest number of characters in one text of an answer."""


ANSWER_BYTES = 16 << 20
"""The largest number of bytes of one answer, and of one event of a stream."""

PARTS = 1_000_000
"""The largest number of brackets and commas of one JSON text, which determine its memory."""

LEVELS = 100
"""The deepest nesting of a server's JSON."""


class WrongField(ValueError):
    """A field of an answer has a wrong type or size."""


def text_in(value: object, name: str) -> str:
    """Return *value* if it is a text. Raises ``WrongField``, as all of these do."""
    if type(value) is not str:
        raise WrongField(f"{name} must be a text, got {type(value).__name__}")
    if len(value) > TEXT:
        raise WrongField(f"{name} has more than {TEXT} characters")
    return value


def count_of(value: object) -> int | None:
    """*value* as a count of at most 64 bits; ``None``, for unknown, if it makes no sense as one."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST else None


def _counts(names: tuple[str, ...], *values: object) -> None:
    """Check the counts that are there: whole numbers of at most 64 bits."""
    for name, value in zip(names, values, strict=True):
        if value is None or (type(value) is int and 0 <= value <= MOST):
            continue
        if type(value) is not int:
            raise WrongField(f"{name} must be a whole number, got {type(value).__name__}")
        raise WrongField(f"{name} must be from 0 to {MOST}, got {'less' if value < 0 else 'more'}")


def number_in(value: Any, name: str) -> float:
    """Return *value* if it is a number that can be a log-probability."""
    if type(value) not in (float, int):
        raise WrongField(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise WrongField(f"{name} is too large a number") from None
    if math.isnan(number) or number == math.inf:
        raise WrongField(f"{name} must be a number, got {number}")
    return number


def read_json(body: bytes | str) -> Any:
    """The JSON value in *body*. Raises ``ValueError`` if it is none, too deep or too large.

    A whole number of more digits than Python reads is infinite, as ``1e999`` is: an answer is not
    lost because its count of tokens makes no sense.
    """
    marks: Any = "[{," if isinstance(body, str) else (b"[", b"{", b",")
    levels = body.count(marks[0]) + body.count(marks[1])
    if len(body) > ANSWER_BYTES or (len(body) > PARTS and levels + body.count(marks[2]) > PARTS):
        raise ValueError(f"JSON of more than {ANSWER_BYTES >> 20} MiB or {PARTS} parts")
    plain = False
    try:
        # To find out how bytes are encoded takes as long as to read a short answer.
        if not isinstance(body, str) and body[:1] in _OPENING and body[1:2] != b"\0":
            body = body.decode("utf-8", "surrogatepass")
        if isinstance(body, str) and body[:1] in ("{", "["):
            value, end = _decoder.raw_decode(body)
            plain = end == len(body)
        if not plain:  # spaces follow, or what is no JSON
            value = json.loads(body)
    except (ValueError, RecursionError) as error:
        # Python's limit on the digits of a number is no JSONDecodeError.
        value = _NOTHING
        if type(error) is ValueError:
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(body, parse_int=_whole)
    if value is _NOTHING:  # raised here, as the errors above would keep the text
        raise ValueError("no JSON, or JSON that is nested too deeply")
    if levels > LEVELS and is_deep(value):
        raise ValueError(f"JSON that is nested more than {LEVELS} levels deep")
    return value


def _whole(digits: str) -> float:
    """The number of so many *digits*, perhaps more than Python reads."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


_NOTHING: Any = object()
_OPENING = (b"{", b"[")
_decoder = json.JSONDecoder()


def is_deep(value: Any) -> bool:
    """True if the JSON *value* has more than ``LEVELS`` levels; works without recursion."""
    level = [value]
    for _ in range(LEVELS):
        inner = [value.values() if isinstance(value, dict) else value for value in level]
        level = [value for many in inner for value in many if isinstance(value, dict | list)]
        if not level:
            return False
    return True


def check_response(response: object, server: str) -> None:
    """Raise ``MalformedResponse`` unless *response*, which *server* gave, is a valid answer.

    Every backend's answers pass here, including those of backends that users write.
    """
    if type(response) is Response and response.is_checked:
        return
    try:
        _check(response)
    except WrongField as error:
        raise MalformedResponse(f"{server} gave an answer that is none: {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        kind = type(error).__name__
        raise MalformedResponse(
            f"{server} gave an answer that is none: its form is another ({kind})"
        ) from None


def checked(response: Response) -> Response:
    """Return *response* if it is a valid answer. Raises ``WrongField``, or what its form causes.

    A backend whose answers hold nothing that can change, tuples and no lists, may call this to say
    in its own words what is wrong. ``check_response`` does not repeat it.
    """
    _check(response)
    object.__setattr__(response, "is_checked", True)
    return response


def _check(response: object) -> None:
    if not isinstance(response, Response):
        raise WrongField(f"it must be a Response, got {type(response).__name__}")
    samples = response.samples
    if not isinstance(samples, tuple) or not samples:
        raise WrongField("it has no samples")
    for sample in samples:
        if not isinstance(sample, Sample):
            raise WrongField(f"a sample must be a Sample, got {type(sample).__name__}")
        text_in(sample.text, "text")
        text_in(sample.finish_reason, "finish_reason")
        if sample.reasoning is not None:
            text_in(sample.reasoning, "reasoning")
        for call in sample.tool_calls:
            if not isinstance(call, ToolCall):
                raise WrongField(f"a tool call must be a ToolCall, got {type(call).__name__}")
            for name in ("id", "name", "arguments"):
                text_in(getattr(call, name), f"{name} of a tool call")
        for token in sample.logprobs or ():
            _logprob(token)
    text_in(response.model, "model")
    usage = response.usage
    if not isinstance(usage, Usage):
        raise WrongField(f"usage must be a Usage, got {type(usage).__name__}")
    _counts(_TOKENS, usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
    if usage.written_tokens is not None or usage.written_1h_tokens or usage.reasoning_tokens:
        _counts(_TOKENS, usage.written_tokens, usage.written_1h_tokens, usage.reasoning_tokens)
    if usage.tier:
        text_in(usage.tier, "tier")
    if response.cache_miss is not None:
        text_in(response.cache_miss, "cache_miss")
    if response.cost is not None:
        _counts(("cost",), response.cost)
    if type(response.reused) is not int:
        raise WrongField("reused must be a whole number")
    for token in response.prompt_logprobs or ():
        _logprob(token)
    for score in response.scores or ():
        number_in(score, "scores")
    if response.choice_method is not None:
        text_in(response.choice_method, "choice_method")
    if response.vectors is not None:
        _vectors(response.vectors)


def floats_of(numbers: object) -> bytes:
    """A list of numbers as little-endian 32-bit floats. Raises ``WrongField``."""
    if not isinstance(numbers, list) or not {*map(type, numbers)} <= {int, float}:
        raise WrongField("a vector must be a list of numbers")
    try:
        return struct.pack(f"<{len(numbers)}f", *numbers)
    except (OverflowError, struct.error):
        raise WrongField("a number of a vector is too large") from None


def _vectors(vectors: object) -> None:
    """Check that *vectors* are bytes of finite floats, all of one length."""
    if not isinstance(vectors, tuple) or not vectors:
        raise WrongField("it has no vectors")
    for vector in vectors:
        if type(vector) is not bytes or not vector or len(vector) % 4:
            raise WrongField("a vector must be bytes of 32-bit floats")
        if len(vector) != len(vectors[0]):
            raise WrongField("vectors must have one length")
        # The sum is finite if all numbers are: as doubles they are too small to overflow.
        if not math.isfinite(sum(struct.unpack(f"<{len(vector) // 4}f", vector))):
            raise WrongField("the numbers of a vector must be finite")


def check_chunk(chunk: object) -> None:
    """Raise ``MalformedResponse`` unless *chunk* is a valid piece of a streamed answer."""
    if type(chunk) is not Chunk or type(chunk.text) is not str or type(chunk.sample) is not int:
        raise MalformedResponse(f"the backend streamed what is no text: {type(chunk).__name__}")


def _logprob(token: object) -> None:
    if not isinstance(token, TokenLogprob):
        raise WrongField(f"a log-probability must be a TokenLogprob, got {type(token).__name__}")
    text_in(token.token, "a token")
    number_in(token.logprob, "a log-probability")
    for text, value in token.top:
        text_in(text, "a token")
        number_in(value, "a log-probability")


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
