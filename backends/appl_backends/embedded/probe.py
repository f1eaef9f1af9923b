"""Log-probabilities by token id: of chosen tokens, of the likeliest, and of those asked for.

Invariant: an entry speaks of the model's own distribution, before temperature and constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from appl_backends.embedded.model import F32
from appl_backends.embedded.sampler import best, log_softmax

Scored = tuple[float, int]


@dataclass(frozen=True, slots=True)
class TokenProbe:
    """The wanted entries: of the prompt after position *start*, and of every answer.

    A *start* behind the prompt's last position wants none of the prompt. Each entry also has the
    *top* likeliest tokens, and those of *tokens*.
    """

    start: int
    top: int = 0
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token with its natural log-probability, and (log-probability, token) of others."""

    logprob: float
    token: int
    top: tuple[Scored, ...]
    asked: tuple[Scored, ...]


def entry(logits: F32, token: int, probe: TokenProbe) -> TokenEntry:
    """The entry of *token* in *logits*, with the other tokens that *probe* wants."""
    logprobs = log_softmax(logits)
    top = tuple((value, other) for other, value in best(logprobs, probe.top))
    return TokenEntry(float(logprobs[token]), token, top, _of(logprobs, probe.tokens))


def _of(logprobs: F32, tokens: Sequence[int]) -> tuple[Scored, ...]:
    return tuple((float(logprobs[token]), token) for token in tokens)
