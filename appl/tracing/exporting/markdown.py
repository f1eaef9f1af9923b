"""A run as a transcript in Markdown: what was asked and answered, call by call.

Invariant: recorded text stands in fences that it cannot close, so that nothing in it is markup;
what a prompt shares with an earlier call's is not repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from appl.prompt import Message, Messages
from appl.tracing.explaining import costs
from appl.tracing.reading.tooluse import ToolUse
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.recording.secret import Masker
from appl.tracing.text_diff import visible

_TICKS = re.compile(r"`+")


def lines(trace: Trace) -> Iterator[str]:
    """The lines of the transcript of *trace*."""
    return _Transcript(trace).lines()


class _Transcript:
    def __init__(self, trace: Trace) -> None:
        self._trace, self._masker = trace, Masker()
        self._said: dict[bytes, str] = {}

    def lines(self) -> Iterator[str]:
        trace = self._trace
        yield f"# Run {_code(trace.path.stem)}"
        yield ""
        yield from self._facts()
        every: list[RecordedCall | ToolUse] = [*trace.calls, *trace.tools.values()]
        for event in sorted(every, key=lambda event: event.position):
            yield ""
            yield f"## {_code(event.address)}"
            yield ""
            yield from self._call(event) if isinstance(event, RecordedCall) else self._tool(event)

    def _facts(self) -> Iterator[str]:
        trace, began = self._trace, self._trace.began()
        state = (trace.reason or "finished") if trace.state == "finished" else trace.state
        yield f"* program: {_code(str(trace.header.get('program') or '?'))}"
        yield f"* state: {_code(state)}"
        if began is not None:
            yield f"* began: {began:%Y-%m-%d %H:%M:%S} UTC, {trace.seconds():.1f} s"
        yield f"* calls: {len(trace.calls)}, tools: {len(trace.tools)}"
        yield f"* cost: {costs.of(trace).line()}"
        if trace.error is not None:
            yield f"* ended by: {_code(self._error(trace.error).removesuffix(': '))}"

    def _call(self, call: RecordedCall) -> Iterator[str]:
        facts = [f"model {_code(call.model)}" if call.model else "the default model"]
        if call.where:
            facts.append(f"asked at {_code(call.where)}")
        if call.started is not None and call.ended is not None:
            facts.append(f"{(call.ended - call.started) / 1e6:.2f} s")
        if call.source is not None:
            facts.append(f"answer {_code(call.source)}")
        yield ", ".join(facts) + "."
        yield from self._prompt(call)
        yield from self._answer(call)

    def _prompt(self, call: RecordedCall) -> Iterator[str]:
        fresh: list[Messages] = []
        link = call.messages
        while link is not None and link.digest not in self._said:
            fresh.append(link)
            link = link.parent
        if link is not None:
            yield ""
            yield f"*As in {_code(self._said[link.digest])}, and then:*"
        for message in reversed(fresh):
            yield from self._message(message.message)
            self._said[message.digest] = call.address

    def _message(self, message: Message) -> Iterator[str]:
        name = f" {_code(message.name)}" if message.name else ""
        yield ""
        yield f"**{message.role}**{name}"
        yield from self._fenced(message.shown)

    def _answer(self, call: RecordedCall) -> Iterator[str]:
        response = call.response
        if response is None:
            ending = self._error(call.error) if call.error is not None else "in flight"
            yield ""
            yield f"**{call.ended_as or 'in flight'}**: {_code(ending)}"
            return
        for sample in response.samples:
            if sample.reasoning:
                yield ""
                yield "**reasoning**"
                yield from self._fenced(sample.reasoning)
            yield ""
            yield f"**answer** ({_code(sample.finish_reason)})"
            shown = [sample.text, *map(str, sample.tool_calls)]
            yield from self._fenced("\n".join(text for text in shown if text))

    def _tool(self, used: ToolUse) -> Iterator[str]:
        yield f"Tool {_code(used.name)}, {_code(used.outcome or 'in flight')}."
        yield from self._fenced(used.arguments)
        if used.message is not None:
            yield from self._message(used.message)
        elif used.error is not None:
            yield ""
            yield _code(self._error(used.error))

    def _error(self, error: BaseException) -> str:
        return self._masker.text(f"{type(error).__name__}: {error}", [])

    def _fenced(self, text: str) -> Iterator[str]:
        text = self._masker.text(text, [])
        longest = max((len(run) for run in _TICKS.findall(text)), default=0)
        fence = "`" * max(3, longest + 1)
        yield ""
        yield f"{fence}text"
        for line in text.split("\n"):
            yield visible(line.replace("\t", "    "))
        yield fence


def _code(text: str) -> str:
    """*text* as a piece of code on one line."""
    shown = visible(" ".join(text.split())) or " "
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"
