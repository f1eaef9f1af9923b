"""Judges what an edited run reused of a record: no answer of another question, none given twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from appl.tracing import RecordedCall, Trace


@dataclass
class Verdict:
    """What the oracle found over all edits."""

    runs: int = 0
    calls: int = 0
    ceiling: int = 0
    reused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    edits: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        share = self.reused / max(self.ceiling, 1)
        return (
            f"{self.runs} edited programs, {self.calls} calls answered: {self.reused} of {self.ceiling} that could "
            f"be reused were ({share:.2%}: {kinds}); {len(self.wrong)} faults"
        )


def question(call: RecordedCall) -> tuple[bytes, int, int]:
    return call.content, call.n, call.sample


def answered(trace: Trace) -> list[RecordedCall]:
    return [call for call in trace.calls if call.outcome == "answered" and call.started is not None]


def judge(name: str, before: Trace, after: Trace, verdict: Verdict) -> None:
    """No record was given to a call of another content, or twice; and how much was reused."""
    olds, news = answered(before), answered(after)
    given = Counter(call.of for call in news if call.source is not None)
    verdict.wrong += [
        f"{name}: {at} was given {count} times" for at, count in given.items() if count > 1
    ]
    for call in news:
        if call.source is None:
            continue
        verdict.kinds[call.source] += 1
        old = before.by_address.get(call.of or "")
        if old is None or question(old) != question(call):
            verdict.wrong.append(f"{name}: {call.address} was given the answer of {call.of}")
        elif (
            old.response is None
            or call.response is None
            or call.response.samples != old.response.samples
        ):
            verdict.wrong.append(f"{name}: {call.address} has not the answer of {call.of}")
    have, want = Counter(map(question, olds)), Counter(map(question, news))
    verdict.calls += len(news)
    verdict.ceiling += sum((have & want).values())
    verdict.reused += sum(given.values())
