"""``Answer``: the text of an answer, with the address of its call and the tools that it calls.

Invariant: this knows neither promises nor streams, which both know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from appl.backend import Sample
from appl.prompt.message import ToolCall

if TYPE_CHECKING:
    from appl.prompt.message_input import AIMessage, ToolMessage
    from appl.prompt.provider_fields import ProviderFields

CallFilter = Callable[[ToolCall], bool]
"""True for those calls of tools that are to be run."""


class ToolRunner(Protocol):
    """Runs tools that a model has called."""

    def run(
        self,
        calls: Sequence[ToolCall],
        filter: CallFilter | None = None,
        *,
        parallel: bool | None = None,
        timeout: float | None = None,
    ) -> list[ToolMessage]:
        """Run *calls*, as ``run_tool_calls`` says; in a coroutine, something to await."""


class Answer(str):
    """The text of one sample of the answer to a call."""

    __slots__ = ("_address", "_sample")
    _address: str
    _sample: Sample

    @property
    def call_id(self) -> str:
        """The address of the call in its program."""
        return self._address

    @property
    def message(self) -> AIMessage:
        """The answer as a message, which is printed as its text."""
        from appl.prompt.message_input import AnswerMessage  # few programs need more than the text

        sample = self._sample
        return AnswerMessage(
            str.__str__(self), tool_calls=sample.tool_calls, provider_fields=sample.provider_fields
        )

    @property
    def provider_fields(self) -> ProviderFields | None:
        """The further fields of the answer, which its provider wants back; see ``message``."""
        return self._sample.provider_fields

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model wants to be called; none when it just answers."""
        return self._sample.tool_calls
