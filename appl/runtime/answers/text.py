"""``Text``: an answer as a real ``str`` that still knows how it came about.

Invariant: it is equal to, hashes and pickles as its characters.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from appl.backend import Response, TokenLogprob, Usage
from appl.base import fallback
from appl.errors import RunError
from appl.runtime.answers.answer import Answer, CallFilter, ToolRunner

if TYPE_CHECKING:
    from appl.prompt import ToolMessage
    from appl.runtime.answers.stream import TextStream

_tools_hint_shown = False
"""True once the user was told why an answer is empty: once in a process."""


class Text(Answer):
    """The text of an answer. ``usage`` and ``cost`` are those of the whole call."""

    __slots__ = ("_number", "_objects", "_response", "_tools")
    _number: int
    _objects: tuple[object, ...] | None
    _response: Response
    _tools: ToolRunner | None

    @classmethod
    def of(
        cls,
        address: str,
        response: Response,
        number: int = 0,
        *,
        objects: tuple[object, ...] | None = None,
        tools: ToolRunner | None = None,
    ) -> Text:
        """Sample *number* of the *response* to the call at *address*.

        *objects* are what the samples of a typed answer give, *tools* those that the model could
        call.
        """
        sample = response.samples[number]
        text = cls(sample.text)
        text._address, text._response, text._sample = address, response, sample
        text._number, text._objects, text._tools = number, objects, tools
        return text

    def __str__(self) -> str:
        global _tools_hint_shown
        calls = self._sample.tool_calls
        if not self and calls and self._tools is not None and not _tools_hint_shown:
            _tools_hint_shown = True
            line = (
                f"appl: {self._address}: this answer is empty, as the model calls the tool "
                f"{calls[0].name!r} and nobody has run it; write gen_with_tools(tools=[…]) in "
                "place of gen(tools=[…]), or run it with answer.run_tool_calls()"
            )
            print(line, file=sys.stderr)
        return self

    # a program may mean the future that stood here before ordinary code got the finished text

    def __await__(self) -> Generator[object, None, object]:
        return self
        yield

    def result(self, timeout: float | None = None) -> Any:
        """The text itself: it is finished."""
        return self

    def done(self) -> bool:
        """True: it is finished."""
        return True

    def cancel(self) -> None:
        """Nothing: it is finished."""

    @property
    def usage(self) -> Usage:
        """Tokens of the call; a field is ``None`` when the backend does not say."""
        return self._response.usage

    @property
    def cost(self) -> int | None:
        """The cost of the call, in millionths of the model's currency unit."""
        return self._response.cost

    @property
    def finish_reason(self) -> str:
        """Why the answer ended: ``stop``, ``length``, or a backend's own word."""
        return self._sample.finish_reason

    @property
    def prompt_logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """The prompt's tokens but the first, with their log-probabilities, where asked for."""
        return self._response.prompt_logprobs

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """The generated tokens with their log-probabilities, where they were asked for."""
        return self._sample.logprobs

    def run_tool_calls(
        self,
        filter: CallFilter | None = None,
        *,
        parallel: bool | None = None,
        timeout: float | None = None,
        **older: object,
    ) -> list[ToolMessage]:
        """Run the tools that the model called: see ``Generation.run_tool_calls``."""
        if self._tools is None:
            raise RunError("this was asked without tools: write gen(tools=[...])")
        if older:
            filter = fallback.names().filter_of(self, filter, older)
        return self._tools.run(self.tool_calls, filter, parallel=parallel, timeout=timeout)

    @property
    def text_stream(self) -> TextStream[str]:
        """The answer, which is complete, as one piece: see ``Generation.text_stream``."""
        from appl.runtime.answers.stream import TextStream  # few answers are read as they come

        return TextStream(self)

    @property
    def reasoning_stream(self) -> TextStream[str]:
        """The reasoning, which is complete, as one piece."""
        from appl.runtime.answers.stream import TextStream

        return TextStream(self, "reasoning")

    @property
    def reasoning(self) -> str | None:
        """The reasoning before the answer, where the backend tells it apart."""
        return self._sample.reasoning

    @property
    def samples(self) -> tuple[Text, ...]:
        """All samples that were asked for with ``n=``; this one is the first."""
        count = len(self._response.samples)
        objects, tools = self._objects, self._tools
        return tuple(
            Text.of(self._address, self._response, i, objects=objects, tools=tools)
            for i in range(count)
        )

    @property
    def response_obj(self) -> Any:
        """The object of a typed answer, validated; ``None`` when no type was asked for."""
        return self._objects[self._number] if self._objects is not None else None

    @property
    def choice_method(self) -> str | None:
        """The method of a choice: ``logprob``, ``constrained`` or ``asked``."""
        return self._response.choice_method

    @property
    def scores(self) -> tuple[float, ...] | None:
        """The log-probabilities of the choices, in their order."""
        return self._response.scores

    if not TYPE_CHECKING:  # a misspelled name is an error of type checkers

        def __getattr__(self, name: str) -> Any:
            value = fallback.names().attribute(self, self, name)
            if value is fallback.MISSING:
                untyped = self.response_obj is None
                hint = "; for an answer with attributes, write gen(response_format=…)" * untyped
                raise AttributeError(f"an answer has no attribute {name!r}{hint}")
            return value

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str.__str__(self),)
