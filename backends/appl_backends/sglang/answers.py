"""Reads answers of the native interface as samples.

Invariant: an answer is its text. A count, an id, a score or an end that makes no sense is unknown,
and refuses no text that is there; an answer that says nothing, without a reason, is an error.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from appl.backend import Sample, TokenLogprob, Usage
from appl.backend.check import MOST, count_of, number_in, text_in
from appl.backend.http import error_of_payload, excerpt, is_error
from appl.errors import BackendUnavailable, MalformedResponse
from appl_backends.stops import first_stop

UNKNOWN = "unknown"
"""The finish reason of an answer that is there and does not say why it ended."""


def answers(found: Any, wanted: int, who: str, stop: Sequence[str] = ()) -> list[Mapping[str, Any]]:
    """The *wanted* answers in what the server sent, as :func:`read` gives them.

    They end before the first of the *stop* texts. Raises ``BackendError``.
    """
    listed = found if type(found) is list else [found]
    if len(listed) < wanted:
        raise MalformedResponse(f"{who} gave {len(listed)} answers where {wanted} were asked for")
    given = map(partial(read, who=who), listed)
    return [_stopped(each, stop) for each in given] if stop else list(given)


def _stopped(answer: Mapping[str, Any], stop: Sequence[str]) -> Mapping[str, Any]:
    """*answer* up to a stop text, which a server misses where it has more tokens than usual."""
    at = first_stop(answer["text"], stop)
    if at is None:
        return answer
    meta = {**answer["meta_info"], "finish_reason": {"type": "stop", "matched": ""}}
    return {**answer, "text": answer["text"][:at], "meta_info": meta}


def read(answer: Any, who: str) -> Mapping[str, Any]:
    """*answer* with everything in it that is read later in its type, or missing.

    Raises ``BackendError`` for one that is none, or was aborted.
    """
    if not isinstance(answer, dict) or "text" not in answer:
        raise _no_answer(answer, who)
    text, meta, ids = answer["text"], answer.get("meta_info"), answer.get("output_ids")
    if type(text) is not str:
        raise MalformedResponse(f"{who} gave an answer that is none: text must be a text")
    meta = meta if isinstance(meta, dict) else {}
    ended = meta.get("finish_reason")
    ended = ended if isinstance(ended, dict) and type(ended.get("type")) is str else {}
    kind = ended.get("type")
    if kind == "abort":
        _broken_off(ended, who)
    if kind is None and not text:
        raise MalformedResponse(f"{who} gave no text, and no reason for that: {_shown(answer)}")
    text_in(text, "text")
    if kind is not None and _are_right(ids, meta):
        return answer
    known = {name: count_of(meta.get(name)) for name in _COUNTS}
    lists = {name: meta[name] for name in _LISTS if isinstance(meta.get(name), list)}
    return {
        "text": text,
        "output_ids": ids_in(ids),
        "meta_info": {**known, **lists, "finish_reason": ended or {"type": UNKNOWN}},
    }


def check_goes_on(answer: Any, who: str) -> None:
    """Raise ``BackendError`` if the server broke *answer* off, or never began it."""
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    ended = meta.get("finish_reason") if isinstance(meta, dict) else None
    if isinstance(ended, dict) and ended.get("type") == "abort":
        _broken_off(ended, who)


def _broken_off(ended: Mapping[str, Any], who: str) -> NoReturn:
    if isinstance(ended.get("status_code"), int):
        raise error_of_payload({"error": ended}, who)
    said = excerpt(str(ended.get("message") or "it does not say why"))
    raise BackendUnavailable(f"{who} broke the answer off: {said}")


def ids_in(found: Any) -> list[int]:
    """*found* if it is a list of token ids; an empty one otherwise."""
    return found if _are_right(found, {}) else []


def _are_right(ids: Any, meta: Mapping[str, Any]) -> bool:
    """True if *ids* are tokens, and the counts and lists in *meta* are such."""
    if type(ids) is not list or not _INTEGERS.issuperset(map(type, ids)):
        return False
    if ids and not 0 <= min(ids) <= max(ids) <= MOST:
        return False
    for name in _COUNTS:
        value = meta.get(name)
        if value is not None and (type(value) is not int or not 0 <= value <= MOST):
            return False
    for name in _LISTS:
        value = meta.get(name)
        if value is not None and type(value) is not list:
            return False
    return True


_INTEGERS = frozenset({int})
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_LISTS = (
    "output_token_logprobs",
    "output_top_logprobs",
    "input_token_logprobs",
    "input_top_logprobs",
)


def _no_answer(answer: Any, who: str) -> Exception:
    if isinstance(answer, dict) and is_error(answer):
        return error_of_payload(answer, who)
    return MalformedResponse(f"{who} gave no answer: {_shown(answer)}")


def _shown(found: Any) -> str:
    return excerpt(json.dumps(found)) if found is not None else "nothing"


def sample(answer: Mapping[str, Any]) -> Sample:
    """The sample in an *answer* that was read."""
    meta = answer["meta_info"]
    logprobs = meta.get("output_token_logprobs")
    kind = meta["finish_reason"]["type"]
    if logprobs is None:
        return Sample(answer["text"], kind)
    return Sample(answer["text"], kind, _logprobs(logprobs, meta.get("output_top_logprobs")))


def prompt_tokens(answer: Mapping[str, Any], most: int, who: str) -> tuple[TokenLogprob, ...]:
    """The tokens of the prompt but the first, of each at *most* so many alternatives."""
    meta = answer["meta_info"]
    found, tops = meta.get("input_token_logprobs"), meta.get("input_top_logprobs")
    read = _logprobs(found[1:], tops[1:] if tops else None) if found else None
    if read is None:
        raise MalformedResponse(f"{who} gave no log-probabilities of the prompt: {_shown(found)}")
    return _cut(read, most)


def _cut(tokens: tuple[TokenLogprob, ...], most: int) -> tuple[TokenLogprob, ...]:
    return tuple([replace(each, top=each.top[:most]) for each in tokens])


def asked_for(sample: Sample, most: int | None) -> Sample:
    """*sample* with so many alternatives as it was asked with, or without log-probabilities."""
    if most is None or sample.logprobs is None:
        return replace(sample, logprobs=None)
    return replace(sample, logprobs=_cut(sample.logprobs, most))


def _logprobs(found: Sequence[Any], tops: Sequence[Any] | None) -> tuple[TokenLogprob, ...] | None:
    """The tokens with their log-probabilities, ``None`` if these cannot be read."""
    several = tops or [None] * len(found)
    with contextlib.suppress(TypeError, ValueError):
        return tuple(
            [
                TokenLogprob(
                    *_token(text, value), tuple(_token(t, _least(v)) for v, _, t in top or ())
                )
                for (value, _, text), top in zip(found, several, strict=False)
            ]
        )
    return None


def _least(value: Any) -> Any:
    """*value*, or what the server means by nothing: its JSON has no infinity."""
    return -math.inf if value is None else value


def _token(text: Any, value: Any) -> tuple[str, float]:
    return text_in(text or "", "a token"), number_in(value, "a log-probability")


def generated(answer: Mapping[str, Any]) -> tuple[list[int], bool]:
    """The ids of the answer's text, without the token that ended it; true if a stop string did.

    The tokens of such a string are among the ids.
    """
    ids: list[int] = answer["output_ids"]
    matched = answer["meta_info"]["finish_reason"].get("matched")
    if ids and ids[-1] == matched:
        ids = ids[:-1]
    return ids, isinstance(matched, str)


def usage(found: Sequence[Mapping[str, Any]]) -> Usage:
    """The tokens of several answers to one prompt."""
    if len(found) == 1:
        said = found[0]["meta_info"].get
        return Usage(said("prompt_tokens"), said("completion_tokens"), said("cached_tokens"))
    metas = [each["meta_info"] for each in found]
    made = [meta.get("completion_tokens") for meta in metas]
    cached = [meta.get("cached_tokens") for meta in metas]
    return Usage(
        metas[0].get("prompt_tokens"),
        None if None in made else sum(made),
        None if None in cached else min(cached),
    )


def scores(answer: Mapping[str, Any], skipped: int, who: str) -> list[float]:
    """The log-probabilities of the input's tokens, the first *skipped* of them left out."""
    found = answer["meta_info"].get("input_token_logprobs")
    try:
        listed = found[skipped:] if isinstance(found, list) else None
        return [number_in(entry[0], "a log-probability") for entry in listed]  # type: ignore[union-attr]
    except (TypeError, ValueError, LookupError):
        raise MalformedResponse(
            f"{who} gave no log-probabilities of the input: {_shown(found)}"
        ) from None
