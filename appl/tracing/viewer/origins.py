"""The origins of a prompt's pieces: source lines, and calls whose answers stand in it.

Invariant: pieces lie within their message, in order, and do not overlap; what was not recorded is
claimed only of text that is the answer of a call that the prompt was made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from appl.tracing.reading.spans import spans_in
from appl.tracing.reading.trace import RecordedCall, Trace

_MOST = 10**8
"""Characters that are looked through for answers, at most, in one call."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A piece of a message and where it comes from: a call's address, and a source line."""

    message: int
    start: int
    end: int
    address: str = ""
    where: str = ""


def origins(call: RecordedCall, trace: Trace) -> list[Origin]:
    """The pieces of the prompt of *call* whose origin is known, first message first.

    Where none was recorded, as for whole messages of the user, the text is searched for answers of
    calls that the prompt was made of.
    """
    if call.messages is None:
        return []
    links = call.messages.links()
    answers = {
        text: call_of_text for edge in call.edges for text, call_of_text in _answers(trace, edge)
    }
    if len(answers) * sum([link.size for link in links]) > _MOST:
        answers = {}
    longest = sorted(answers, key=len, reverse=True)
    pieces: list[Origin] = []
    for number, link in enumerate(links):
        prompt_spans = link.spans
        spans = [span for span in spans_in(prompt_spans) if span.where] if prompt_spans else []
        if spans:
            for span in spans:
                source = trace.by_address.get(span.call or "")
                where = f"{span.file}:{span.line}" if span.file else ""
                where = source.where if source else where
                pieces.append(Origin(number, span.start, span.end, span.call or "", where))
        elif answers:
            pieces += _within(number, link.message.content, answers, longest)
    return pieces


def _answers(trace: Trace, address: str) -> list[tuple[str, RecordedCall]]:
    call = trace.by_address.get(address)
    if call is None or call.response is None:
        return []
    samples = call.response.samples
    texts = {text for sample in samples for text in (sample.text, sample.text.strip())}
    return [(text, call) for text in texts if text]


def _within(
    number: int, text: str, answers: dict[str, RecordedCall], longest: list[str]
) -> list[Origin]:
    """The places of answers in a text: the longest first, each at the first free place."""
    whole = answers.get(text)
    if whole is not None:
        return [Origin(number, 0, len(text), whole.address, whole.where)]
    placed: list[Origin] = []
    done: set[str] = set()
    for answer in longest:
        if answer not in text:
            continue
        call = answers[answer]
        if call.address in done:
            continue
        start = _free(text, answer, placed)
        if start >= 0:
            done.add(call.address)
            placed.append(Origin(number, start, start + len(answer), call.address, call.where))
    return sorted(placed, key=lambda origin: origin.start)


def _free(text: str, answer: str, placed: list[Origin]) -> int:
    start = text.find(answer)
    while start >= 0:
        end = start + len(answer)
        inside = next((t for t in placed if start < t.end and t.start < end), None)
        if inside is None:
            return start
        start = text.find(answer, inside.end)
    return -1
