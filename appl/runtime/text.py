"""``Text``: an answer as a real ``str`` that still knows how it came about.

Invariant: it is equal to, hashes and pickles as its characters.
"""

from __future__ import annotations

from typing import Any

from appl.backend import Response, Sample, TokenLogprob, Usage
from appl.prompt import AIMessage, ToolCall


class Text(str):
    """The text of an answer. ``usage`` and ``cost`` are those of the whole call."""

    __slots__ = ("_response", "_sample")
    _response: Response
    _sample: Sample

    @classmethod
    def of(cls, response: Response, number: int) -> Text:
        """Sample *number* of *response*."""
        sample = response.samples[number]
        text = cls(sample.text)
        text._response, text._sample = response, sample
        return text

    def __str__(self) -> str:
        return self

    @property
    def usage(self) -> Usage:
        """Tokens of the call; a field is ``None`` when the backend does not say."""
        return self._response.usage

    @property
    def cost(self) -> int | None:
        """What the call cost, in millionths of the model's currency unit."""
        return self._response.cost

    @property
    def finish_reason(self) -> str:
        """Why the answer ended: ``stop``, ``length``, or a backend's own word."""
        return self._sample.finish_reason

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """The generated tokens with their log-probabilities, where they were asked for."""
        return self._sample.logprobs

    @property
    def message(self) -> AIMessage:
        """The answer as a message."""
        return AIMessage(str.__str__(self), tool_calls=self._sample.tool_calls)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model wants to be called; none when it just answers."""
        return self._sample.tool_calls

    @property
    def reasoning(self) -> str | None:
        """What the model thought before it answered, where the backend tells it apart."""
        return self._sample.reasoning

    @property
    def samples(self) -> tuple[Text, ...]:
        """All samples that were asked for with ``n=``; this one is the first."""
        return tuple(Text.of(self._response, i) for i in range(len(self._response.samples)))

    @property
    def choice_method(self) -> str | None:
        """How a choice was made: ``logprob``, ``constrained`` or ``asked``."""
        return self._response.choice_method

    @property
    def scores(self) -> tuple[float, ...] | None:
        """The log-probabilities of the choices, in their order."""
        return self._response.scores

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)
