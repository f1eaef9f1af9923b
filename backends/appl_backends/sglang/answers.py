"""Reads answers of the native interface as samples; half an answer is an error.

Invariant: a sample comes from an answer that says how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from appl.backend import Sample, TokenLogprob, Usage
from appl.backend_check import MOST, WrongField, counts_in, number_in, text_in
from appl.backend_http import error_of_payload, excerpt
from appl.errors import BackendUnavailable, MalformedResponse


def answers(found: Any, wanted: int, who: str) -> list[Mapping[str, Any]]:
    """The *wanted* answers in what the server sent, each complete. Raises ``BackendError``."""
    listed = found if type(found) is list else [found]
    if len(listed) < wanted:
        raise MalformedResponse(f"{who} gave {len(listed)} answers where {wanted} were asked for")
    for each in listed:
        check(each, who)
    return listed


def check(answer: Any, who: str) -> None:
    """Refuse an *answer* that is none, was aborted, or does not say how it ended.

    What is read of it later has its type.
    """
    try:
        meta = answer["meta_info"]
        ended = meta["finish_reason"]
        kind, text, ids = ended["type"], answer["text"], answer["output_ids"]
    except (KeyError, TypeError, IndexError):
        raise _no_answer(answer, who) from None
    if kind == "abort":
        if isinstance(ended.get("status_code"), int):
            raise error_of_payload({"error": ended}, who)
        said = excerpt(str(ended.get("message") or "it does not say why"))
        raise BackendUnavailable(f"{who} broke the answer off: {said}")
    try:
        if type(text) is not str or type(kind) is not str:
            text_in(text, "text")
            text_in(kind, "finish_reason")
        if type(ids) is not list or not _INTEGERS.issuperset(map(type, ids)):
            raise WrongField("output_ids must be a list of whole numbers")
        if ids and not 0 <= min(ids) <= max(ids) <= MOST:
            raise WrongField(f"a token id must be from 0 to {MOST}")
        value = meta.get
        counts_in(value("prompt_tokens"), value("completion_tokens"), value("cached_tokens"))
        for name in _LISTS:
            if (found := value(name)) and not isinstance(found, list):
                raise WrongField(f"{name} must be a list")
    except (WrongField, AttributeError, TypeError) as error:
        said = str(error) if isinstance(error, WrongField) else "its form is another"
        raise MalformedResponse(f"{who} gave an answer that is none: {said}") from None


_INTEGERS = frozenset({int})
_LISTS = ("output_token_logprobs", "output_top_logprobs")


def _no_answer(answer: Any, who: str) -> Exception:
    if isinstance(answer, Mapping) and "error" in answer:
        return error_of_payload(answer, who)
    missing = "an answer without a finish reason" if _is_half(answer) else "no answer"
    return MalformedResponse(f"{who} gave {missing}: {_shown(answer)}")


def _shown(found: Any) -> str:
    return excerpt(json.dumps(found)) if found is not None else "nothing"


def _is_half(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "text" in answer


def sample(answer: Mapping[str, Any]) -> Sample:
    """The sample in a complete *answer*. Raises ``MalformedResponse``."""
    meta = answer["meta_info"]
    logprobs = meta.get("output_token_logprobs")
    if logprobs is None:
        return Sample(answer["text"], meta["finish_reason"]["type"])
    try:
        said = _logprobs(logprobs, meta.get("output_top_logprobs"))
    except (TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, WrongField) else "their form is another"
        raise MalformedResponse(f"the log-probabilities of an answer are none: {reason}") from None
    return Sample(answer["text"], meta["finish_reason"]["type"], said)


def _logprobs(found: Sequence[Any], tops: Sequence[Any] | None) -> tuple[TokenLogprob, ...]:
    several = tops or [None] * len(found)
    return tuple(
        TokenLogprob(*_token(text, value), tuple(_token(t, v) for v, _, t in top or ()))
        for (value, _, text), top in zip(found, several, strict=False)
    )


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
        return Usage(said("prompt_tokens"), said("completion_tokens") or 0, said("cached_tokens"))
    metas = [each["meta_info"] for each in found]
    cached = [meta.get("cached_tokens") for meta in metas]
    return Usage(
        metas[0].get("prompt_tokens"),
        sum(meta.get("completion_tokens") or 0 for meta in metas),
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
