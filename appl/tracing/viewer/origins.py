"""The origins of a prompt's pieces: source lines, and calls whose answers stand in it.

Invariant: pieces lie within their message, in order, and do not overlap; what was not recorded is
claimed only of text that is the answer of a call that the prompt was made of.
"""

from __future__ import annotations

from dataclasses import dataclass

from appl.tracing.reading.spans import Span, spans_in
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
    answers = {text: made for edge in call.edges for text, made in _answers(trace, edge)}
    if len(answers) * sum([link.size for link in links]) > _MOST:
        answers = {}
    longest = sorted(answers, key=len, reverse=True)
    found: list[Origin] = []
    for number, link in enumerate(links):
        told = link.spans
        spans = [span for span in spans_in(told) if span.where] if told else []
        if spans:
            found += [_of_span(number, span, trace) for span in spans]
        elif answers:
            found += _within(number, link.message.content, answers, longest)
    return found


def _of_span(number: int, span: Span, trace: Trace) -> Origin:
    where = f"{span.file}:{span.line}" if span.file else ""
    made = trace.by_address.get(span.call or "")
    return Origin(number, span.start, span.end, span.call or "", made.where if made else where)


def _answers(trace: Trace, address: str) -> list[tuple[str, RecordedCall]]:
    made = trace.by_address.get(address)
    if made is None or made.response is None:
        return []
    samples = made.response.samples
    texts = {text for sample in samples for text in (sample.text, sample.text.strip())}
    return [(text, made) for text in texts if text]


def _within(
    number: int, text: str, answers: dict[str, RecordedCall], longest: list[str]
) -> list[Origin]:
    """The places of answers in a text: the longest first, each at the first free place."""
    whole = answers.get(text)
    if whole is not None:
        return [Origin(number, 0, len(text), whole.address, whole.where)]
    taken: list[Origin] = []
    done: set[str] = set()
    for answer in longest:
        if answer not in text:
            continue
        made = answers[answer]
        if made.address in done:
            continue
        start = _free(text, answer, taken)
        if start >= 0:
            done.add(made.address)
            taken.append(Origin(number, start, start + len(answer), made.address, made.where))
    return sorted(taken, key=lambda origin: origin.start)


def _free(text: str, answer: str, taken: list[Origin]) -> int:
    start = text.find(answer)
    while start >= 0:
        end = start + len(answer)
        inside = next((t for t in taken if start < t.end and t.start < end), None)
        if inside is None:
            return start
        start = text.find(answer, inside.end)
    return -1
