"""Checks that a trace is whole: checksums, references, digests, and what a replay of it can give.

Invariant: only reads. Everything that passes is as the writer wrote it, up to the end of the file
or to a last group that a crash cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from appl.errors import TraceError
from appl.prompt import Messages, digest_of
from appl.tracing.format.store import is_tape, regular_file
from appl.tracing.format.trace_scan import TraceScan
from appl.tracing.reading.trace import RecordedCall, Trace
from appl.tracing.recording.privacy import digest_shown

_SHOWN = 20


@dataclass(slots=True)
class Verdict:
    """The result of a check: what was checked, and what is wrong.

    ``digests`` counts contents that were computed again, ``masked`` calls whose content cannot be.
    ``state`` is that of the file, ``reason`` how a run that is over ended.
    ``replay`` is ``whole``, ``prefix`` (of a run that is running, crashed or stopped), or ``none``.
    ``torn`` is the size in bytes of a cut-off last group, which is no damage.
    """

    path: Path
    size: int = 0
    blocks: int = 0
    records: int = 0
    calls: int = 0
    digests: int = 0
    masked: int = 0
    torn: int = 0
    state: str = ""
    reason: str = ""
    replay: str = "none"
    wrong: list[str] = field(default_factory=list)
    against: Agreement | None = None

    @property
    def good(self) -> bool:
        """True if nothing is wrong."""
        return not self.wrong

    def as_data(self) -> dict[str, object]:
        """The verdict as JSON-ready data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        other = None if self.against is None else self.against.as_data()
        return {**data, "path": str(self.path), "against": other, "good": self.good}


@dataclass(slots=True)
class Agreement:
    """The agreement with another run.

    Of the ``calls`` at one address in both, ``contents`` counts those with the same content and
    ``answers`` those with the same answers. ``differs`` are the other addresses.
    """

    calls: int = 0
    contents: int = 0
    answers: int = 0
    differs: list[str] = field(default_factory=list)

    def as_data(self) -> dict[str, object]:
        """The agreement as JSON-ready data."""
        return {name: getattr(self, name) for name in self.__slots__}


def compare(path: Path, other: Path, home: Path | None = None) -> Agreement:
    """The agreement of the run *other* with the one at *path*, which may hold digests alone.

    Raises ``TraceError``.
    """
    one, two = Trace.open(path, home=home), Trace.open(other, home=home)
    agreement = Agreement()
    for address in {**one.by_address, **two.by_address}:
        calls = one.by_address.get(address), two.by_address.get(address)
        agreement.calls += 1
        contents = [None if call is None else call.content for call in calls]
        answers = [None if call is None else _texts(call) for call in calls]
        if one.key is not None and two.key is None:
            contents[1] = contents[1] and one.key.digest(contents[1])
            if answers[1] and not one.opened:  # which has digests in place of texts
                key = one.key
                answers[1] = tuple(digest_shown(key, text) if text else "" for text in answers[1])
        same = contents[0] == contents[1], answers[0] == answers[1]
        agreement.contents += same[0]
        agreement.answers += same[1]
        if not all(same):
            agreement.differs.append(address)
    return agreement


def _texts(call: RecordedCall) -> tuple[str, ...]:
    return tuple(sample.text for sample in call.response.samples) if call.response else ()


def verify(path: Path, home: Path | None = None) -> Verdict:
    """Check the trace at *path* from its first byte to its last; its content raises nothing.

    *home* is searched for the key of a private trace. Raises ``NotATrace`` for a file that
    cannot be read.
    """
    verdict = Verdict(path)
    with regular_file(path) as file:
        verdict.size = file.seek(0, 2)
        try:
            if is_tape(file):  # text, whose digests are computed as it is read
                _judge(Trace.open(path), verdict)
            else:
                scan = TraceScan(file, salvage=True)
                try:
                    trace = Trace(path).filled(scan, home, check=True)
                finally:
                    verdict.blocks, verdict.torn = scan.blocks, scan.torn
                if scan.damage:
                    verdict.wrong.append(scan.damage)
                if not trace.incarnations or not trace.header:
                    verdict.wrong.append("the file does not begin with a header and who wrote it")
                _judge(trace, verdict)
        except TraceError as error:
            verdict.wrong.append(str(error))
    return verdict


def _judge(trace: Trace, verdict: Verdict) -> None:
    verdict.records, verdict.calls = trace.records, len(trace.calls)
    verdict.state, verdict.reason = trace.state, trace.reason if trace.state == "finished" else ""
    problems: list[str] = []
    digests: dict[Messages, bytes] = {}
    for call in trace.every_call():
        if call.masked or trace.private:
            verdict.masked += 1
        elif call.started is not None:
            prompt_digest = b"" if call.messages is None else _digest(call.messages, digests)
            verdict.digests += 1
            if digest_of(prompt_digest, call.model, call.sampling) != call.content:
                problems.append(
                    f"{call.address}: its prompt or parameters are not what their digest says"
                )
    problems += _edges(trace)
    verdict.wrong += problems[:_SHOWN]
    if len(problems) > _SHOWN:
        verdict.wrong.append(f"and {len(problems) - _SHOWN} more")
    if any(call.lost for call in trace.calls) or any(t.lost for t in trace.tools.values()):
        return
    if verdict.good:
        ended = all(call.outcome is not None for call in trace.calls)
        over = trace.state == "finished" and trace.reason != "interrupted"
        verdict.replay = "whole" if over and ended else "prefix"


def _digest(chain: Messages, digests: dict[Messages, bytes]) -> bytes:
    """The digest of *chain*, computed anew from its texts."""
    todo: list[Messages] = []
    link: Messages | None = chain
    while link is not None and link not in digests:
        todo.append(link)
        link = link.parent
    digest = b"" if link is None else digests[link]
    for part in reversed(todo):
        message = part.message
        if part.parent is None:
            digest = digests[part] = Messages(None, message).digest
        else:
            digest = digests[part] = digest_of(digest, *message.fields())
    return digest


def _edges(trace: Trace) -> Iterator[str]:
    """Yields a complaint for each answer in a prompt that no recorded call gave."""
    for call in trace.calls:
        for edge in call.edges:
            if edge not in trace.by_address and edge not in trace.tools:
                yield f"{call.address}: it holds the answer of {edge}, which is not in the trace"
